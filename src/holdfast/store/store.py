"""The store: decide and read in memory, commit in groups, publish what is durable.

The event loop is the only decider. A write call checks, takes the next revision, lets
``build`` make the bytes, enters the overlay and queues, all without awaiting; a writer
thread commits whatever is queued as one transaction. Only after COMMIT the future
completes, readers see the object and watchers get the event, in revision order.

Two views: ``get``, ``list``, ``list_at``, ``dependents`` and ``revision`` show what is
committed, which is all a client may ever see (a revision shown before it is durable could
be reused with other content after a crash). ``latest`` adds what is queued: decide on it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast.clock import Clock
from holdfast.store.indexing import index_object
from holdfast.store.records import Event, Index, Key, Stored
from holdfast.store.retention import Retention
from holdfast.store.watch import Subscription

Build = Callable[[int], bytes]
"""Make the bytes to store, given the revision to embed as ``metadata.resourceVersion``."""
Objects = list[Stored]


class Store:
    """Versioned objects and the watch log of one data directory."""

    cluster_uid: str

    @classmethod
    def open(
        cls,
        directory: Path,
        clock: Clock,
        *,
        index: Index = index_object,
        retention: Retention = Retention(),  # noqa: B008 - frozen
        fault: Callable[[sqlite3.Connection], None] | None = None,
    ) -> Store:
        """Open or create the store of a directory; call it inside the running loop.

        Raises StoreLocked when another process has the directory. ``fault`` is for tests:
        it runs in the writer thread inside each transaction, before COMMIT, and may raise.
        """
        raise NotImplementedError

    async def close(self) -> None:
        """Commit what is queued, end all subscriptions, release the directory."""
        raise NotImplementedError

    async def run(self) -> None:
        """Compact every five minutes of the clock, until cancelled."""
        raise NotImplementedError

    # Reading what is committed.

    @property
    def revision(self) -> int:
        """Give the newest committed revision: the resourceVersion of a list made now."""
        raise NotImplementedError

    @property
    def resources(self) -> list[tuple[str, str]]:
        """Name the (group, plural) of every resource that has objects."""
        raise NotImplementedError

    def get(self, key: Key) -> Stored | None:
        """Read one object as clients may see it."""
        raise NotImplementedError

    def list(
        self,
        group: str,
        plural: str,
        namespace: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> Objects:
        """List objects in key order, those that carry all the given label and field pairs.

        Any label, ``spec.nodeName`` and ``involvedObject.*`` are looked up in an index.
        """
        raise NotImplementedError

    def list_at(
        self, revision: int, group: str, plural: str, namespace: str | None = None
    ) -> Objects:
        """List objects as they were at a revision; raises Expired if history is gone."""
        raise NotImplementedError

    def dependents(self, uid: str) -> Objects:
        """List the objects, of any resource, that name this uid as an owner."""
        raise NotImplementedError

    # Deciding.

    def latest(self, key: Key) -> Stored | None:
        """Read one object including writes not committed yet: what a decision builds on."""
        raise NotImplementedError

    def create(self, key: Key, build: Build) -> asyncio.Future[Stored]:
        """Queue a new object; raises AlreadyExists. The future completes after COMMIT."""
        raise NotImplementedError

    def update(self, previous: Stored, build: Build) -> asyncio.Future[Stored]:
        """Queue the next version of ``previous``; raises Conflict or NotFound if it moved on."""
        raise NotImplementedError

    def delete(self, previous: Stored, build: Build) -> asyncio.Future[Stored]:
        """Queue the removal; ``build`` makes the final object that watchers are shown."""
        raise NotImplementedError

    # Following.

    def watch(
        self,
        group: str,
        plural: str,
        from_revision: int,
        accept: Callable[[Event], bool] | None = None,
    ) -> Subscription:
        """Follow a resource from after a revision; raises Expired if history is gone.

        ``accept`` filters before waking the reader: with it, thousands of subscribers
        that each care for few events are cheap. A revision newer than ``revision`` is the
        caller's to refuse.
        """
        raise NotImplementedError

    # Keeping house.

    async def compact(self, now: float | None = None) -> None:
        """Forget history older than the retention allows."""
        raise NotImplementedError

    async def backup(self, path: Path) -> None:
        """Write a consistent copy to a new file, mode 0600; writes wait meanwhile."""
        raise NotImplementedError


def restore(backup: Path, directory: Path) -> int:
    """Replace the store of a directory by a backup and return its new revision.

    The revision rises by a million and the history is emptied, so that every client is
    told Expired and lists again. Raises StoreLocked while a server runs there.
    """
    raise NotImplementedError

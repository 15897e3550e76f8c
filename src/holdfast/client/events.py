"""Tell users what happened, as core/v1 Events that ``kubectl describe`` shows.

Recording never waits and never fails: events are queued, repeats of one are counted instead of
written again, and what cannot be written after a few tries is dropped with a log line. The first
repeats are counted on the server at once, later ones once a minute: thousands of pods that fit
nowhere say the same again and again.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import zlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from holdfast.api import scheme
from holdfast.api.meta import Object, ObjectReference
from holdfast.api.resource import Resource
from holdfast.api.timestamps import rfc3339
from holdfast.client.backoff import Backoff
from holdfast.client.client import Client
from holdfast.client.workqueue import QueueClosed, WorkQueue
from holdfast.clock import Clock
from holdfast.errors import AlreadyExists, HoldfastError, NotFound, Retryable

TRIES = 5
WRITERS = 8
REMEMBERED = 4096
MOST_WAITING = 20_000
DRAIN_SECONDS = 5.0
FEW, REPEAT_SECONDS = 10, 60.0
"""After so many repeats their number is written no more often than that."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Entry:
    """One event and how often it happened; ``stored`` is the count the server knows."""

    body: dict[str, Any]
    count: int
    last: float
    stored: int = 0
    quiet_until: float = 0.0
    """When the next repeat may be counted on the server."""


class EventRecorder:
    """Write events for one component, several at a time, each in order.

    ``record`` may be called before ``start``; ``stop`` writes what is waiting, for a few seconds
    at most.
    """

    def __init__(
        self, client: Client, clock: Clock, *, component: str = "holdfast", instance: str = ""
    ) -> None:
        self._client = client
        self._clock = clock
        self._component = component
        self._instance = instance
        self._queue = WorkQueue(clock, backoff=Backoff(first=0.2, limit=5.0))
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._number = itertools.count(1)
        self._writers: list[asyncio.Task[None]] = []
        self._overfull = False

    def record(
        self,
        about: Object | ObjectReference,
        type_: str,
        reason: str,
        message: str,
        *,
        action: str = "",
        related: Object | ObjectReference | None = None,
        component: str = "",
    ) -> None:
        """Note that something happened to an object; ``type_`` is Normal or Warning."""
        subject = reference(about)
        source = component or self._component
        parts = (subject.kind, subject.namespace, subject.name, subject.uid, source, type_)
        key = "\0".join((*parts, reason, message))
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
            entry.count += 1
            entry.last = self._clock.now()
        elif self._has_room():
            what = {"type": type_, "reason": reason, "message": message}
            if action:
                what["action"] = action
            body = self._body(subject, source, what=what, related=related)
            self._entries[key] = _Entry(body, 1, self._clock.now())
            self._forget_oldest()
        else:
            return
        self._queue.add_after(key, entry.quiet_until - self._clock.now() if entry else 0.0)

    def start(self) -> None:
        """Begin writing in the background."""
        if not self._writers:
            self._writers = [asyncio.create_task(self._write_forever()) for _ in range(WRITERS)]

    async def stop(self, seconds: float = DRAIN_SECONDS) -> None:
        """Write what is waiting, give up after ``seconds``, and end."""
        self._queue.hurry()
        drained = asyncio.create_task(self._queue.drained())
        if self._writers:
            deadline = asyncio.create_task(self._clock.sleep(seconds))
            await asyncio.wait({drained, deadline}, return_when=asyncio.FIRST_COMPLETED)
            deadline.cancel()
        drained.cancel()
        left = len(self._queue)
        self._queue.shutdown()
        for writer in self._writers:
            writer.cancel()
        await asyncio.gather(*self._writers, drained, return_exceptions=True)
        self._writers = []
        if left:
            log.warning("%d events were not written before the end", left)

    async def _write_forever(self) -> None:
        while True:
            try:
                key = await self._queue.get()
            except QueueClosed:
                return
            try:
                await self._write(key)
            finally:
                self._queue.done(key)

    async def _write(self, key: str) -> None:
        entry = self._entries.get(key)
        if entry is None or entry.stored == entry.count:
            return
        try:
            await self._send(entry)
            self._queue.forget(key)
        except Retryable as failure:
            if self._queue.failures(key) + 1 < TRIES:
                self._queue.retry(key, failure.after)
            else:
                self._give_up(key, entry, failure)
        except HoldfastError as refused:
            self._give_up(key, entry, refused)

    def _give_up(self, key: str, entry: _Entry, failure: HoldfastError) -> None:
        self._queue.forget(key)
        if not entry.stored:
            self._entries.pop(key, None)
        about, reason = entry.body["involvedObject"], entry.body["reason"]
        log.warning(
            "event %s about %s %s dropped: %s", reason, about["kind"], about["name"], failure
        )

    async def _send(self, entry: _Entry) -> None:
        count = entry.count
        now = {"count": count, "lastTimestamp": rfc3339(entry.last)}
        meta = entry.body["metadata"]
        name, namespace = meta["name"], meta["namespace"]
        try:
            if entry.stored:
                await self._client.patch(scheme.EVENTS, name, now, namespace)
            else:
                await self._client.create(scheme.EVENTS, entry.body | now, namespace)
        except AlreadyExists:  # an earlier try was written after all
            await self._client.patch(scheme.EVENTS, name, now, namespace)
        except NotFound:
            if not entry.stored:
                raise  # it is the namespace that is gone
            # Events live an hour.
            await self._client.create(scheme.EVENTS, entry.body | now, namespace)
        if count >= FEW:
            entry.quiet_until = self._clock.now() + REPEAT_SECONDS
        entry.stored = count

    def _body(
        self,
        about: ObjectReference,
        source: str,
        *,
        what: dict[str, Any],
        related: Object | ObjectReference | None,
    ) -> dict[str, Any]:
        now = self._clock.now()
        # Two components may tell of one object in the same microsecond.
        teller = zlib.crc32(source.encode()) & 0xFFFF
        name = f"{about.name}.{int(now * 1e6):x}{teller:04x}{next(self._number):04x}"
        body: dict[str, Any] = {
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": name, "namespace": about.namespace or "default"},
            "involvedObject": _plain(about), **what,
            "source": {"component": source}, "reportingComponent": source,
            "reportingInstance": self._instance or source, "firstTimestamp": rfc3339(now),
        }  # fmt: skip
        if related is not None:
            body["related"] = _plain(reference(related))
        return body

    def _has_room(self) -> bool:
        if len(self._queue) < MOST_WAITING:
            self._overfull = False
            return True
        if not self._overfull:
            self._overfull = True
            log.warning("%d events wait to be written; dropping new ones", MOST_WAITING)
        return False

    def _forget_oldest(self) -> None:
        while len(self._entries) > REMEMBERED:
            oldest = next(iter(self._entries))
            if self._entries[oldest].stored != self._entries[oldest].count:
                return  # still to be written
            del self._entries[oldest]


_RESOURCE_OF: dict[type, Resource[Any]] = {
    value.type: value for value in vars(scheme).values() if isinstance(value, Resource)
}


def reference(about: Object | ObjectReference) -> ObjectReference:
    """Point at an object; lists leave its kind out, then the type tells it."""
    if isinstance(about, ObjectReference):
        return about
    resource = _RESOURCE_OF.get(type(about))
    return ObjectReference(
        api_version=about.api_version or (resource.api_version if resource else ""),
        kind=about.kind or (resource.kind if resource else ""),
        namespace=about.namespace,
        name=about.name,
        uid=about.uid,
        resource_version=about.metadata.resource_version,
    )


def _plain(about: ObjectReference) -> dict[str, str]:
    fields = {
        "kind": about.kind, "namespace": about.namespace, "name": about.name, "uid": about.uid,
        "apiVersion": about.api_version, "resourceVersion": about.resource_version,
        "fieldPath": about.field_path,
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value}

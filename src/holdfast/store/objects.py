"""The nouns of the store: keys, objects as stored, and what happened to them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from holdfast import errors


class ObjectKey(NamedTuple):
    """Name one object; ``namespace`` is empty for cluster-scoped resources."""

    group: str
    plural: str
    namespace: str
    name: str

    @property
    def path(self) -> str:
        """Give the place in list order, which is that of etcd keys (``a-b/x`` before ``a/x``).

        >>> ObjectKey("", "pods", "default", "web").path, ObjectKey("", "nodes", "", "n1").path
        ('default/web', 'n1')
        """
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def display_name(self) -> str:
        """Say the key as Kubernetes messages do.

        >>> ObjectKey("apps", "deployments", "default", "web").display_name
        'deployments.apps "web"'
        """
        qualified = f"{self.plural}.{self.group}" if self.group else self.plural
        return f'{qualified} "{self.name}"'

    @property
    def details(self) -> errors.Details:
        """Say which object an error about this key is about."""
        return errors.Details(name=self.name, group=self.group, kind=self.plural)


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """What the store knows about a value besides its bytes; the caller extracts it."""

    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    """What field selectors read, such as ``spec.nodeName``; an absent field reads as ``""``."""
    owners: tuple[str, ...] = ()
    """The uids in ``metadata.ownerReferences``."""
    metadata_mismatch: bool = False
    """Whether the metadata has another name, namespace or type of fields than it should."""


IndexFunc = Callable[[ObjectKey, bytes], IndexEntry]
"""Read what is indexed out of a value; called once per write and once per object at start."""


@dataclass(frozen=True, slots=True, eq=False)
class StoredObject:
    """One version of one object: the bytes with their resourceVersion, and what is indexed."""

    key: ObjectKey
    revision: int
    value: bytes
    index: IndexEntry
    from_disk: bool = False
    """Whether it was there when the store was opened: its writer may have been an older server."""

    @property
    def uid(self) -> str:
        """Name this incarnation of the key."""
        return self.index.uid


class EventType(IntEnum):
    """What an event did; ``name`` is the type of a watch event. The numbers are on disk."""

    ADDED = 1
    MODIFIED = 2
    DELETED = 3


@dataclass(frozen=True, slots=True, eq=False)
class StoreEvent:
    """One committed change, shared by all watchers.

    ``object`` is what the watcher is shown (for DELETED: the last state, carrying the
    revision of the deletion); ``previous`` is None only for ADDED.
    """

    change: EventType
    object: StoredObject
    previous: StoredObject | None
    time_ms: int
    """When it was decided, in milliseconds since the epoch."""
    encodings: dict[Hashable, bytes] = field(default_factory=dict)
    """The server's encodings of this event, each made once and shared by all watchers."""

    @property
    def revision(self) -> int:
        """Give the place of this event in the one order of everything."""
        return self.object.revision

    @property
    def key(self) -> ObjectKey:
        """Name the object concerned."""
        return self.object.key


@dataclass(frozen=True, slots=True)
class Retention:
    """How much history each resource keeps, so that watches resume and lists page."""

    seconds: float = 300.0
    """Events younger than this are kept; also how often compaction runs. As etcd in Kubernetes."""
    min_events: int = 1_000
    """The newest so many are kept whatever their age, so quiet resources need no relist."""
    max_events: int = 20_000
    """Never more than so many, whatever their age: history lives in memory."""
    max_lag: int = 10_000
    """A subscriber further behind than this is ended; half of ``max_events``, so it can resume."""
    max_bytes: int = 256 * 1024 * 1024
    """Never more than so many bytes of objects either: a thousand large ones are a gigabyte."""

"""The values of the store: object keys, stored objects, events, retention."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from holdfast.runtime import errors

MAX_VALUE = 1_572_864
"""The largest object in bytes: 1.5 MiB, the default request limit of etcd."""


class ObjectKey(NamedTuple):
    """The key of one object; ``namespace`` is empty for cluster-scoped resources."""

    group: str
    plural: str
    namespace: str
    name: str

    @property
    def path(self) -> str:
        """Return the sort key of lists; the order is that of etcd keys (``a-b/x`` before ``a/x``).

        >>> ObjectKey("", "pods", "default", "web").path, ObjectKey("", "nodes", "", "n1").path
        ('default/web', 'n1')
        """
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def display_name(self) -> str:
        """Return the object's name as Kubernetes messages write it.

        >>> ObjectKey("apps", "deployments", "default", "web").display_name
        'deployments.apps "web"'
        """
        qualified = f"{self.plural}.{self.group}" if self.group else self.plural
        return f'{qualified} "{self.name}"'

    @property
    def details(self) -> errors.Details:
        """Return the details of an error about this object."""
        return errors.Details(name=self.name, group=self.group, kind=self.plural)


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """The indexed fields of an object, extracted from its bytes by an ``IndexFunc``."""

    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    """Values for field selectors, such as ``spec.nodeName``; an absent field counts as ``""``."""
    owners: tuple[str, ...] = ()
    """The uids in ``metadata.ownerReferences``."""
    metadata_mismatch: bool = False
    """Whether name, namespace or uid in the metadata are missing, wrong, or of a wrong type."""


IndexFunc = Callable[[ObjectKey, bytes], IndexEntry]
"""Extract the indexed fields; called once per write, and once per object when a store opens."""


@dataclass(frozen=True, slots=True, eq=False)
class StoredObject:
    """One version of one object: its bytes, its resourceVersion and its indexed fields."""

    key: ObjectKey
    revision: int
    value: bytes
    index: IndexEntry
    from_disk: bool = False
    """Whether it was read when the store was opened: an older server may have written it."""

    @property
    def uid(self) -> str:
        """Return ``metadata.uid``."""
        return self.index.uid


class EventType(IntEnum):
    """The type of an event; ``name`` is that of the watch event. The numbers are stored on disk."""

    ADDED = 1
    MODIFIED = 2
    DELETED = 3


@dataclass(frozen=True, slots=True, eq=False)
class StoreEvent:
    """One change of an object, shared by all watchers.

    ``object`` is the object of the watch event (for DELETED the last state, with the revision of
    the deletion); ``previous`` is None only for ADDED.
    """

    change: EventType
    object: StoredObject
    previous: StoredObject | None
    time_ms: int
    """The time of the write, in milliseconds since the epoch."""
    encodings: dict[Hashable, bytes] = field(default_factory=dict)
    """Encoded watch events by response format; each is encoded once for all watchers."""

    @property
    def revision(self) -> int:
        """Return the revision of the event; all events of a store are ordered by it."""
        return self.object.revision

    @property
    def key(self) -> ObjectKey:
        """Return the key of the object."""
        return self.object.key


@dataclass(frozen=True, slots=True)
class Retention:
    """How many events of each resource are retained, for watches that resume and paged lists."""

    seconds: float = 300.0
    """Younger events are retained; also the period of compaction. 5 minutes as in Kubernetes."""
    min_events: int = 1_000
    """This many of the newest events are retained at any age, so that watches can resume."""
    max_events: int = 20_000
    """The most events that are retained, whatever their age: they are kept in memory."""
    max_lag: int = 10_000
    """The most events a subscription may lag behind; half of ``max_events``, so it can resume."""
    max_bytes: int = 256 * 1024 * 1024
    """The most bytes of objects in retained events: a thousand large objects are a gigabyte."""


def check_value_size(key: ObjectKey, value: bytes) -> None:
    """Raise TooLarge for an object over the limit."""
    if len(value) > MAX_VALUE:
        message = f"{key.display_name} is {len(value)} bytes long; the limit is {MAX_VALUE}"
        raise errors.TooLarge(message, key.details)

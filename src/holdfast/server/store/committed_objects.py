"""All committed objects in memory, in key order, with indexes for labels, fields and owners.

``load_objects`` and ``replay`` read them from disk; bytes that occur twice are shared.

An object is kept as its bytes, with an index entry that was read from them once. Clients get the
stored bytes, and selectors read the index entries.

``_index_pairs`` has one set of paths for each label value, and a selector reads only the smallest
of its sets: intersecting all of them would cost more than comparing the few objects that are left.
Only the fields that components select by are indexed (``spec.nodeName`` for the pods of a node, the
involved object of an event for ``kubectl describe``).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence

from holdfast.server.store.database import Database, LogRow
from holdfast.server.store.objects import IndexEntry, IndexFunc, ObjectKey, StoredObject, StoreEvent

INDEXED_FIELDS = frozenset(
    {
        "spec.nodeName",
        "spec.claimRef",
        "involvedObject.kind",
        "involvedObject.name",
        "involvedObject.uid",
    }
)

IndexPair = tuple[str, str, str]
NONE: Mapping[str, str] = {}


class ResourceTable:
    """The objects of one resource, by path, indexed by label and field."""

    def __init__(self) -> None:
        self.objects: dict[str, StoredObject] = {}
        self._paths: list[str] = []
        self._paths_by_pair: dict[IndexPair, set[str]] = {}

    def put(self, path: str, stored: StoredObject) -> None:
        """Add or replace an object."""
        before = self.objects.get(path)
        self.objects[path] = stored
        if before is None:
            insort(self._paths, path)
            self._add_to_index(path, _index_pairs(stored.index))
        elif _index_changed(before.index, stored.index):
            self._remove_from_index(path, _index_pairs(before.index))
            self._add_to_index(path, _index_pairs(stored.index))

    def remove(self, path: str) -> None:
        """Remove an object."""
        before = self.objects.pop(path)
        del self._paths[bisect_left(self._paths, path)]
        self._remove_from_index(path, _index_pairs(before.index))

    def select(
        self, namespace: str | None, labels: Mapping[str, str], fields: Mapping[str, str]
    ) -> list[StoredObject]:
        """List, in key order, the objects that have all the label and field values."""
        if not labels and not fields:
            return [self.objects[path] for path in self._paths_in_namespace(namespace)]
        candidates = (self.objects[path] for path in self._candidates(namespace, labels, fields))
        return [s for s in candidates if _matches(s, namespace, labels, fields)]

    def _paths_in_namespace(self, namespace: str | None) -> list[str]:
        if not namespace:
            return self._paths
        # "0" is the character after "/": this is the range of paths that start with "namespace/".
        low = bisect_left(self._paths, f"{namespace}/")
        return self._paths[low : bisect_left(self._paths, f"{namespace}0")]

    def _candidates(
        self, namespace: str | None, labels: Mapping[str, str], fields: Mapping[str, str]
    ) -> list[str]:
        pairs = _index_pairs(IndexEntry(labels=labels, fields=fields))
        if not pairs:
            return self._paths_in_namespace(namespace)
        paths_per_pair: list[set[str]] = [self._paths_by_pair.get(pair, set()) for pair in pairs]
        paths_per_pair.sort(key=len)
        return sorted(paths_per_pair[0])

    def _add_to_index(self, path: str, pairs: Iterable[IndexPair]) -> None:
        for pair in pairs:
            self._paths_by_pair.setdefault(pair, set()).add(path)

    def _remove_from_index(self, path: str, pairs: Iterable[IndexPair]) -> None:
        for pair in pairs:
            paths = self._paths_by_pair[pair]
            paths.discard(path)
            if not paths:
                del self._paths_by_pair[pair]


class CommittedObjects:
    """The objects of all resources, and the dependents of each owner."""

    def __init__(self) -> None:
        self._tables: dict[tuple[str, str], ResourceTable] = {}
        self._owned: dict[str, set[ObjectKey]] = {}

    @property
    def resources(self) -> list[tuple[str, str]]:
        """Return the (group, plural) of the resources that have objects."""
        return [resource for resource, table in self._tables.items() if table.objects]

    def get(self, key: ObjectKey) -> StoredObject | None:
        """Return an object, or None."""
        table = self._tables.get((key.group, key.plural))
        return table.objects.get(key.path) if table else None

    def put(self, stored: StoredObject) -> None:
        """Add or replace an object."""
        key = stored.key
        table = self._tables.setdefault((key.group, key.plural), ResourceTable())
        path = key.path
        self._remove_owners(table.objects.get(path), keep=stored.index.owners)
        table.put(path, stored)
        for uid in stored.index.owners:
            self._owned.setdefault(uid, set()).add(key)

    def remove(self, key: ObjectKey) -> None:
        """Remove an object."""
        table, path = self._tables[key.group, key.plural], key.path
        self._remove_owners(table.objects[path])
        table.remove(path)

    def select(
        self,
        group: str,
        plural: str,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> list[StoredObject]:
        """List, in key order, the objects that have all the label and field values."""
        table = self._tables.get((group, plural))
        return table.select(namespace, labels or NONE, fields or NONE) if table else []

    def dependents(self, uid: str) -> list[StoredObject]:
        """List the objects with this uid in their owner references, in key order."""
        objects = (self.get(key) for key in sorted(self._owned.get(uid, ())))
        return [stored for stored in objects if stored is not None]

    def _remove_owners(self, stored: StoredObject | None, keep: tuple[str, ...] = ()) -> None:
        for uid in stored.index.owners if stored else ():
            if uid in keep:
                continue
            assert stored is not None
            keys = self._owned.get(uid, set())
            keys.discard(stored.key)
            if not keys:
                self._owned.pop(uid, None)


def objects_before(
    objects: Iterable[StoredObject], events: Sequence[StoreEvent]
) -> list[StoredObject]:
    """Return the objects as they were before the events, given the objects after them."""
    earlier = {stored.key.path: stored for stored in objects}
    for event in reversed(events):
        if event.previous is None:
            del earlier[event.key.path]
        else:
            earlier[event.key.path] = event.previous
    return [earlier[path] for path in sorted(earlier)]


def _index_pairs(indexed: IndexEntry) -> list[IndexPair]:
    pairs = [("label", name, value) for name, value in indexed.labels.items()]
    for name, value in indexed.fields.items():
        # An absent field counts as "" and is not in the index, so "" cannot be looked up.
        if value and name in INDEXED_FIELDS:
            pairs.append(("field", name, value))
    return pairs


def _index_changed(one: IndexEntry, other: IndexEntry) -> bool:
    return one.labels != other.labels or one.fields != other.fields


def _matches(
    stored: StoredObject,
    namespace: str | None,
    labels: Mapping[str, str],
    fields: Mapping[str, str],
) -> bool:
    if namespace and stored.key.namespace != namespace:
        return False
    has = stored.index
    if any(has.labels.get(name) != value for name, value in labels.items()):
        return False
    return all(has.fields.get(name, "") == value for name, value in fields.items())


def load_objects(database: Database, index: IndexFunc) -> CommittedObjects:
    """Read every object of a database."""
    objects = CommittedObjects()
    for key, revision, value in database.objects():
        objects.put(StoredObject(key, revision, value, index(key, value), from_disk=True))
    return objects


def replay(
    rows: Iterable[LogRow], objects: CommittedObjects, index: IndexFunc
) -> Iterator[StoreEvent]:
    """Convert log rows to events.

    The newest version of an object is the one in ``objects``, and the previous version of a row is
    mostly the object of an earlier row: each is parsed and kept in memory once.
    """
    seen: dict[ObjectKey, StoredObject] = {}
    for row in rows:
        before = _version(row.key, row.previous_revision, row.previous, seen.get(row.key), index)
        known = objects.get(row.key)
        now = _version(row.key, row.revision, row.value, known, index)
        assert now is not None
        seen[row.key] = now
        yield StoreEvent(row.change, now, before, row.time_ms)


def _version(
    key: ObjectKey,
    revision: int | None,
    value: bytes | None,
    known: StoredObject | None,
    index: IndexFunc,
) -> StoredObject | None:
    if revision is None or value is None:
        return None
    if known is not None and known.revision == revision:
        return known
    return StoredObject(key, revision, value, index(key, value), from_disk=True)

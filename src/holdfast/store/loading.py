"""From what lies on disk to what is held in memory, sharing the bytes that occur twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.store.database import Database, LogRow
from holdfast.store.records import Event, Index, Key, Stored
from holdfast.store.state import State


def load_state(database: Database, index: Index) -> State:
    """Read every object."""
    state = State()
    for key, revision, value in database.objects():
        state.put(Stored(key, revision, value, index(key, value), from_disk=True))
    return state


def replay(rows: Iterable[LogRow], state: State, index: Index) -> Iterator[Event]:
    """Turn log rows into events.

    The newest version of an object is the one in ``state``, and the previous version of a
    row is mostly the object of an earlier one: each is parsed and held once.
    """
    seen: dict[Key, Stored] = {}
    for row in rows:
        before = _version(row.key, row.previous_revision, row.previous, seen.get(row.key), index)
        known = state.get(row.key)
        now = _version(row.key, row.revision, row.value, known, index)
        assert now is not None
        seen[row.key] = now
        yield Event(row.change, now, before, row.stamp)


def _version(
    key: Key, revision: int | None, value: bytes | None, known: Stored | None, index: Index
) -> Stored | None:
    if revision is None or value is None:
        return None
    if known is not None and known.revision == revision:
        return known
    return Stored(key, revision, value, index(key, value), from_disk=True)

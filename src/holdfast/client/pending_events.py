"""Events that are to be written, by the object they are about."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.api.meta import ObjectReference
from holdfast.client.workqueue import WorkQueue
from holdfast.clock import Clock

EventKey = tuple[str, str, str, str, str]
"""Object, component, type, reason and message: what repeats of an event have in common."""


@dataclass(slots=True, eq=False)
class EventEntry:
    """One event and how often it happened; ``stored`` is the count the server knows."""

    key: EventKey
    regarding: ObjectReference
    name: str
    body: bytes
    count: int
    last: float
    stored: int = 0
    pending: bool = False
    due: float = 0.0
    """When it may be written, by the monotonic clock."""
    failures: int = 0

    @property
    def subject(self) -> str:
        """The object it is about."""
        return self.key[0]

    @property
    def namespace(self) -> str:
        """The namespace it lives in."""
        return self.regarding.namespace or "default"


class PendingEvents:
    """Events in the order they were recorded, for each object separately.

    ``queue`` holds the objects with pending events. A worker takes an object from it and writes the
    event that ``next_due`` returns, so the events about one object are written one after another.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[str, list[EventEntry]] = {}
        self._count = 0
        self.queue = WorkQueue(clock)
        self.finished_count = 0
        """Events that were written or given up so far."""

    def __len__(self) -> int:
        return self._count

    def add(self, entry: EventEntry) -> None:
        """Let an event be written when it is due, unless it is pending already."""
        if not entry.pending:
            entry.pending = True
            self._count += 1
            self._entries.setdefault(entry.subject, []).append(entry)
            self.queue.add_after(entry.subject, entry.due - self._clock.monotonic())

    def remove(self, entry: EventEntry) -> None:
        """Forget an event that was written or given up; the next one of its object follows."""
        entry.pending, entry.failures = False, 0
        self._count -= 1
        self.finished_count += 1
        entries = self._entries[entry.subject]
        entries.remove(entry)
        if entries:
            self.queue.add(entry.subject)
        else:
            del self._entries[entry.subject]

    def retry(self, entry: EventEntry, seconds: float) -> None:
        """Let an event that could not be written be tried again later."""
        entry.due = self._clock.monotonic() + seconds
        self.queue.add(entry.subject)

    def make_all_due(self) -> None:
        """Make everything due now."""
        for entries in self._entries.values():
            for entry in entries:
                entry.due = 0.0
        self.queue.release_delayed()

    def next_due(self, subject: str) -> EventEntry | None:
        """The next event about an object that is due, else None: then it is queued until it is.

        Events wait for an earlier one that is to be tried again, but not for the count of one
        that is stored.
        """
        now, wait = self._clock.monotonic(), float("inf")
        for entry in self._entries.get(subject, ()):
            if entry.due <= now:
                return entry
            wait = min(wait, entry.due - now)
            if not entry.stored:
                break
        if wait < float("inf"):
            self.queue.add_after(subject, wait)
        return None

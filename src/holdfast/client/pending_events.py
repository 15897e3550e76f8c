"""The queue of events to write, ordered for each object."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.api.meta import ObjectReference
from holdfast.client.workqueue import WorkQueue
from holdfast.clock import Clock

EventKey = tuple[str, str, str, str, str]
"""Object, component, type, reason and message; events with the same key are one repeated event."""


@dataclass(slots=True, eq=False)
class EventEntry:
    """One event and its number of occurrences; ``stored`` is the count on the server."""

    key: EventKey
    regarding: ObjectReference
    name: str
    body: bytes
    count: int
    last: float
    stored: int = 0
    pending: bool = False
    due: float = 0.0
    """When it may be written (monotonic clock)."""
    failures: int = 0

    @property
    def subject(self) -> str:
        """The object that the event is about."""
        return self.key[0]

    @property
    def namespace(self) -> str:
        """The namespace of the event."""
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
        """How many events were written or dropped so far."""

    def __len__(self) -> int:
        return self._count

    def add(self, entry: EventEntry) -> None:
        """Add an event, to be written when it is due, unless it is already pending."""
        if not entry.pending:
            entry.pending = True
            self._count += 1
            self._entries.setdefault(entry.subject, []).append(entry)
            self.queue.add_after(entry.subject, entry.due - self._clock.monotonic())

    def remove(self, entry: EventEntry) -> None:
        """Remove an event that was written or dropped and queue the next one of its object."""
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
        """Retry an event that could not be written after ``seconds``."""
        entry.due = self._clock.monotonic() + seconds
        self.queue.add(entry.subject)

    def make_all_due(self) -> None:
        """Make all events due now."""
        for entries in self._entries.values():
            for entry in entries:
                entry.due = 0.0
        self.queue.release_delayed()

    def next_due(self, subject: str) -> EventEntry | None:
        """Return the next due event about an object, or None and queue the object for later.

        An event waits for an earlier one whose creation is retried, but not for a count update.
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

"""Pods that are being tried, and what happened meanwhile.

An event that comes while a pod is tried may be the one that helps it, and the attempt may have
looked before it. So events are remembered from the oldest attempt on, once for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.framework.events import ClusterEvent
from holdfast.scheduler.queued_pods import QueuedPod

POPPED = "PodPopped"
"""Under this name metrics count the attempts themselves."""


@dataclass(slots=True)
class InFlight:
    """Attempts under way, each with the number of the first event it may not have seen."""

    _attempts: dict[str, tuple[int, QueuedPod]] = field(default_factory=dict)
    _events: list[ClusterEvent] = field(default_factory=list)
    _first: int = 0

    def begin(self, pod: QueuedPod) -> None:
        """Remember events for a pod from now on."""
        self._attempts[pod.uid] = (self._first + len(self._events), pod)

    def get(self, uid: str) -> QueuedPod | None:
        """The pod of that uid, if it is being tried."""
        found = self._attempts.get(uid)
        return None if found is None else found[1]

    def note(self, events: Iterable[ClusterEvent]) -> None:
        """Remember events, if anybody is being tried."""
        if self._attempts:
            self._events.extend(events)

    def since(self, uid: str) -> list[ClusterEvent]:
        """What happened since a pod's attempt began."""
        start, _ = self._attempts.get(uid, (0, None))
        return self._events[max(0, start - self._first) :]

    def end(self, uid: str) -> None:
        """End an attempt; events that nobody else waits for are forgotten."""
        if self._attempts.pop(uid, None) is None:
            return
        # Who was popped first is first, and has the oldest start.
        first = next(iter(self._attempts.values()), None)
        oldest = self._first + len(self._events) if first is None else first[0]
        if drop := oldest - self._first:
            del self._events[:drop]
            self._first = oldest

    def counts(self) -> Counter[str]:
        """How many events are remembered, and how many attempts there are."""
        events = Counter(event.label for event in self._events)
        events[POPPED] = len(self._attempts)
        return events

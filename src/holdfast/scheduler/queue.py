"""Which pod is next, and when a failed one gets its next try.

::

            add                        pop
    ──────────────►  active  ──────────────────►  in flight ──► done
                     ▲    ▲                        │      │
       backoff over  │    │ event from a pending   │      │ rejected: no event since the pop
                     │    │ plugin's hint          │      ▼ could help
                  backoff ◄───────────────── unschedulable   (gated pods wait here too)
                     ▲          event          ▲
                     └── an event since the ───┘
                         pop may help, or the attempt itself failed

Backoff is 1, 2, 4, 8, 10, 10 … seconds by number of rejections, or by number of errors when the
last attempt failed by error. Expiries are floored to whole seconds, as upstream does.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import count

from holdfast.columns.pod_facts import PodFacts
from holdfast.framework.plugin import ClusterEvent

LONGEST_WAIT = 300.0
"""Seconds after which an unschedulable pod is tried again even if no event came."""


Blamed = tuple[str, frozenset[str]]
"""A scheduler name and the plugins that keep a pod waiting: whose hints count."""


class Worth(Enum):
    """What an event means for a pod that was rejected."""

    NOTHING = 0
    AFTER_BACKOFF = 1
    AT_ONCE = 2


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod on its way to a node, and how often it was turned away."""

    facts: PodFacts
    since: float
    order: int = 0
    attempts: int = 0
    rejections: int = 0
    errors: int = 0
    rejectors: frozenset[str] = frozenset()
    pending_on: frozenset[str] = frozenset()
    gate: str = ""
    first_tried: float | None = None
    place: str = ""
    parked_under: Blamed | None = None

    @property
    def uid(self) -> str:
        """The pod's identity."""
        return self.facts.uid


Judge = Callable[[QueuedPod, ClusterEvent], Worth]
Gatekeeper = Callable[[PodFacts], str]
Concerns = Callable[[Blamed, ClusterEvent], bool]


@dataclass(slots=True)
class SchedulingQueue:
    """Pods waiting for a node. Knows no clock: every call that needs the time is given it.

    ``judge`` says what an event is worth for a rejected pod (the rejectors' hints);
    ``gatekeeper`` names the plugin that keeps a pod out of the queue, or "". ``concerns`` tells
    whether an event can matter at all to pods that wait for certain plugins, so that most events
    are not weighed for ten thousand pods one by one.
    """

    judge: Judge
    gatekeeper: Gatekeeper = lambda _facts: ""
    concerns: Concerns = lambda _blamed, _event: True
    initial_backoff: float = 1.0
    longest_backoff: float = 10.0
    on_ready: Callable[[], None] = lambda: None
    _known: dict[str, QueuedPod] = field(default_factory=dict)
    _parked: dict[Blamed, dict[str, QueuedPod]] = field(default_factory=dict)
    """The unschedulable and the gated ones, by whom they wait for, then by uid."""
    _active: list[tuple[int, float, int, QueuedPod]] = field(default_factory=list)
    _backoff: list[tuple[float, int, float, int, QueuedPod]] = field(default_factory=list)
    _in_flight: dict[str, int] = field(default_factory=dict)
    _recent: list[ClusterEvent] = field(default_factory=list)
    _recent_start: int = 0
    _tick: Iterator[int] = field(default_factory=count)

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, uid: str) -> bool:
        return uid in self._known

    def count(self, place: str) -> int:
        """How many pods wait in ``active``, ``backoff``, ``unschedulable`` or ``gated``."""
        return sum(1 for pod in self._known.values() if pod.place == place)

    def places(self) -> dict[str, list[str]]:
        """Name every waiting pod by place, for the debug dump."""
        dump: dict[str, list[str]] = {}
        for pod in self._known.values():
            dump.setdefault(pod.place, []).append(pod.facts.key)
        return dump

    def add(self, facts: PodFacts, now: float) -> None:
        """Take in a pod that has no node; a known one is replaced by its newer version."""
        if facts.uid in self._known:
            self.update(facts, now)
            return
        pod = QueuedPod(facts, since=now)
        self._known[facts.uid] = pod
        self._enter(pod)

    def update(self, facts: PodFacts, now: float, event: ClusterEvent | None = None) -> None:
        """Replace a waiting pod by its newer version; the change may make it worth a try."""
        pod = self._known.get(facts.uid)
        if pod is None:
            if facts.uid not in self._in_flight:
                self.add(facts, now)
            elif event is not None:
                self._recent.append(event)
            return
        pod.facts = facts
        if pod.place == "gated":
            self._enter(pod)
        elif pod.place == "active":
            self._push_active(pod)
        elif pod.place == "unschedulable" and event is not None:
            self._weigh(pod, event, now)

    def delete(self, uid: str) -> None:
        """Forget a pod, wherever it waits; an attempt in flight finishes by itself."""
        if pod := self._known.pop(uid, None):
            self._move(pod, "")

    def pop(self, now: float) -> QueuedPod | None:
        """Take the next pod to try: highest priority, then longest waiting.

        With nothing active the next one in backoff is taken early, unless its last attempt ended
        in an error: an error is given its time to pass.
        """
        pod = self._pop_active() or self._pop_early()
        if pod is None:
            return None
        del self._known[pod.uid]
        self._move(pod, "in flight")
        pod.attempts += 1
        if pod.first_tried is None:
            pod.first_tried = now
        self._in_flight[pod.uid] = self._recent_start + len(self._recent)
        return pod

    def done(self, uid: str) -> None:
        """End the attempt for good: events are no longer remembered on its behalf."""
        if self._in_flight.pop(uid, None) is not None:
            self._prune()

    def reject(
        self, pod: QueuedPod, rejectors: Collection[str], pending_on: Iterable[str], now: float
    ) -> None:
        """Put back a pod that fits nowhere; rejectors are the plugins whose hints count.

        With nobody to blame (no nodes at all) there is no hint to wait for: it counts as an error
        and is simply tried again.
        """
        if not rejectors:
            self.fail(pod, now)
            return
        pod.rejections += 1
        pod.errors = 0
        self._put_back(pod, frozenset(rejectors), frozenset(pending_on), now)

    def fail(self, pod: QueuedPod, now: float) -> None:
        """Put back a pod whose attempt ended in an error: it is tried again after backoff."""
        pod.errors += 1
        self._put_back(pod, frozenset(), frozenset(), now)

    def notify(self, event: ClusterEvent, now: float) -> None:
        """Something happened: give every rejected pod it may help another try."""
        concerned = [blamed for blamed in self._parked if self.concerns(blamed, event)]
        for pod in [pod for blamed in concerned for pod in self._parked[blamed].values()]:
            if pod.place == "gated":
                self._enter(pod)
            else:
                self._weigh(pod, event, now)
        if self._in_flight:
            self._recent.append(event)

    def activate(self, uids: Iterable[str]) -> None:
        """Try these at once, whatever they were waiting for."""
        for uid in uids:
            if (pod := self._known.get(uid)) and pod.place in ("unschedulable", "backoff"):
                self._enter(pod)

    def flush(self, now: float) -> None:
        """Move pods whose backoff is over, and those nobody thought of for five minutes."""
        while self._backoff and self._backoff[0][0] < math.floor(now):
            *_, order, pod = heapq.heappop(self._backoff)
            if pod.place == "backoff" and pod.order == order:
                self._push_active(pod)
        for pod in [pod for parked in self._parked.values() for pod in parked.values()]:
            if pod.place == "unschedulable" and now - pod.since > LONGEST_WAIT:
                self._to_backoff(pod, now)

    def backoff_expiry(self, pod: QueuedPod) -> float:
        """When the pod's backoff is over; it still waits during that very second."""
        tries = pod.errors or pod.rejections
        if tries == 0:
            return -math.inf
        wait = min(self.initial_backoff * 2.0 ** (tries - 1), self.longest_backoff)
        return math.floor(pod.since + wait)

    def _move(self, pod: QueuedPod, place: str) -> None:
        pod.place = place
        if pod.parked_under is not None:
            parked = self._parked[pod.parked_under]
            del parked[pod.uid]
            if not parked:
                del self._parked[pod.parked_under]
            pod.parked_under = None
        if place in ("unschedulable", "gated"):
            blamed = pod.rejectors if place == "unschedulable" else frozenset({pod.gate})
            pod.parked_under = (pod.facts.scheduler_name, blamed)
            self._parked.setdefault(pod.parked_under, {})[pod.uid] = pod

    def _put_back(
        self, pod: QueuedPod, rejectors: frozenset[str], pending_on: frozenset[str], now: float
    ) -> None:
        since_pop = self._recent[max(0, self._in_flight.get(pod.uid, 0) - self._recent_start) :]
        self.done(pod.uid)
        pod.since = now
        pod.rejectors, pod.pending_on = rejectors, pending_on
        self._known[pod.uid] = pod
        if not rejectors:
            self._to_backoff(pod, now)
            return
        self._move(pod, "unschedulable")
        for event in since_pop:
            self._weigh(pod, event, now)
            if pod.place != "unschedulable":
                return

    def _weigh(self, pod: QueuedPod, event: ClusterEvent, now: float) -> None:
        worth = self.judge(pod, event)
        if worth is Worth.AT_ONCE:
            self._enter(pod)
        elif worth is Worth.AFTER_BACKOFF:
            self._to_backoff(pod, now)

    def _to_backoff(self, pod: QueuedPod, now: float) -> None:
        expiry = self.backoff_expiry(pod)
        if expiry < math.floor(now):
            self._enter(pod)
            return
        if gate := self.gatekeeper(pod.facts):
            pod.gate = gate
            self._move(pod, "gated")
            return
        self._move(pod, "backoff")
        pod.order = next(self._tick)
        entry = (expiry, -pod.facts.priority, pod.since, pod.order, pod)
        heapq.heappush(self._backoff, entry)
        self.on_ready()

    def _enter(self, pod: QueuedPod) -> None:
        if gate := self.gatekeeper(pod.facts):
            pod.gate = gate
            self._move(pod, "gated")
            return
        pod.gate = ""
        self._push_active(pod)

    def _push_active(self, pod: QueuedPod) -> None:
        self._move(pod, "active")
        pod.order = next(self._tick)
        heapq.heappush(self._active, (-pod.facts.priority, pod.since, pod.order, pod))
        self.on_ready()

    def _pop_active(self) -> QueuedPod | None:
        while self._active:
            *_, order, pod = heapq.heappop(self._active)
            # A pod re-queued or deleted since left a stale entry behind.
            if pod.place == "active" and pod.order == order:
                return pod
        return None

    def _pop_early(self) -> QueuedPod | None:
        spared: list[tuple[float, int, float, int, QueuedPod]] = []
        found = None
        while self._backoff and found is None:
            entry = heapq.heappop(self._backoff)
            *_, order, pod = entry
            if pod.place != "backoff" or pod.order != order:
                continue
            if pod.errors:
                spared.append(entry)
            else:
                found = pod
        for entry in spared:
            heapq.heappush(self._backoff, entry)
        return found

    def _prune(self) -> None:
        oldest = min(self._in_flight.values(), default=self._recent_start + len(self._recent))
        if drop := oldest - self._recent_start:
            del self._recent[:drop]
            self._recent_start = oldest

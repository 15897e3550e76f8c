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
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from holdfast.columns.pod_info import PodInfo
from holdfast.framework.events import WILDCARD, ClusterEvent
from holdfast.scheduler.queued_pods import (
    Alike,
    BackoffQueue,
    InFlight,
    Mark,
    Parking,
    QueuedPod,
    Worth,
)

LONGEST_WAIT = 300.0
"""Seconds after which an unschedulable pod is tried again even if no event came."""
SWEEP_SECONDS = 30.0
"""How often to look for such pods."""
ADDED, FAILED = "UnschedulablePodAdd", "ScheduleAttemptFailure"
ACTIVATED, TIMED_OUT = "ForceActivate", "UnschedulableTimeout"
BACKOFF_OVER, TAKEN_EARLY = "BackoffComplete", "PopFromBackoffQ"
"""Why a pod enters a place, as metrics tell it."""

Judge = Callable[[QueuedPod, ClusterEvent], Worth]
Gatekeeper = Callable[[PodInfo], str]
Hearers = Callable[[ClusterEvent], Collection[str] | None]


def _anybody(_pod: QueuedPod) -> bool:
    return True


@dataclass(slots=True)
class SchedulingQueue:
    """Pods waiting for a node. Knows no clock: every call that needs the time is given it.

    The time is seconds that never go backwards, not the time of day.

    ``judge`` says what an event is worth for a rejected pod (the rejectors' hints);
    ``gatekeeper`` names the plugin that keeps a pod out of the queue, or "". ``hearers`` names the
    plugins that want to hear of an event: none, and it is no news; None, and every pod is looked
    at. ``alike`` tells which pods one judgement serves, as long as ``mark`` stays the same.
    ``on_move`` hears (place, why).
    """

    judge: Judge
    gatekeeper: Gatekeeper = lambda _pod_info: ""
    hearers: Hearers = lambda _event: None
    alike: Alike = lambda pod: pod.uid
    mark: Mark = lambda: None
    initial_backoff: float = 1.0
    longest_backoff: float = 10.0
    on_ready: Callable[[], None] = lambda: None
    on_move: Callable[[str, str], None] = lambda _place, _why: None
    _known: dict[str, QueuedPod] = field(default_factory=dict, init=False)
    _parked: Parking = field(init=False)
    _active: list[tuple[int, float, int, QueuedPod]] = field(default_factory=list, init=False)
    _backoff: BackoffQueue = field(init=False)
    _in_flight: InFlight = field(default_factory=InFlight, init=False)
    _sweep_at: float = field(default=0.0, init=False)
    _tick: Iterator[int] = field(default_factory=count, init=False)

    def __post_init__(self) -> None:
        self._parked = Parking(self.alike, self.mark)
        self._backoff = BackoffQueue(self.initial_backoff, self.longest_backoff)

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, uid: str) -> bool:
        return uid in self._known

    def counts(self) -> Counter[str]:
        """How many pods wait in ``active``, ``backoff``, ``unschedulable`` and ``gated``."""
        return Counter(pod.place for pod in self._known.values())

    def blamed(self) -> Counter[tuple[str, str]]:
        """How many waiting pods each plugin rejected, by plugin and profile."""
        return Counter(
            (plugin, pod.pod_info.scheduler_name)
            for pod in self._known.values()
            for plugin in pod.rejectors
        )

    def events_in_flight(self) -> Counter[str]:
        """How many events are remembered for pods being tried, and how many such pods there are."""
        return self._in_flight.counts()

    def places(self) -> dict[str, list[str]]:
        """Name every waiting pod by place, for the debug dump."""
        dump: dict[str, list[str]] = {}
        for pod in self._known.values():
            dump.setdefault(pod.place, []).append(pod.pod_info.key)
        return dump

    def add(self, pod_info: PodInfo, now: float) -> None:
        """Take in a pod that has no node; a known one is replaced by its newer version."""
        if pod_info.uid in self._known:
            self.update(pod_info, now)
            return
        pod = QueuedPod(pod_info, since=now)
        self._known[pod_info.uid] = pod
        self._enter(pod, ADDED, now)

    def update(self, pod_info: PodInfo, now: float, events: Sequence[ClusterEvent] = ()) -> None:
        """Replace a waiting pod by its newer version; what changed may make it worth a try."""
        pod = self._known.get(pod_info.uid)
        if pod is None:
            if self._in_flight.get(pod_info.uid) is None:
                self.add(pod_info, now)
            else:
                self.renew(pod_info)
                self._in_flight.note(events)
            return
        pod.pod_info = pod_info
        if pod.place == "active":
            self._push_active(pod)
        elif pod.uid in self._parked:
            self._parked.put(pod)
            self._weigh(pod, events, now)

    def renew(self, pod_info: PodInfo) -> None:
        """Note the newest version of a pod in flight: should it come back, it comes as this."""
        if pod := self._in_flight.get(pod_info.uid):
            pod.pod_info = pod_info

    def delete(self, uid: str) -> None:
        """Forget a pod, wherever it waits; one in flight ends its attempt and is not put back."""
        if pod := self._known.pop(uid, None):
            self._move(pod, "")
        elif pod := self._in_flight.get(uid):
            pod.gone = True

    def pop(self, now: float) -> QueuedPod | None:
        """Take the next pod to try: highest priority, then longest waiting.

        With nothing active the next one in backoff is taken early, unless its last attempt ended
        in an error.
        """
        pod = self._pop_active()
        if pod is None:
            pod = self._backoff.take_early()
            if pod is None:
                return None
            self.on_move("active", TAKEN_EARLY)
        del self._known[pod.uid]
        self._move(pod, "in flight")
        pod.attempts += 1
        if pod.entered is None:
            pod.entered = now
        self._in_flight.begin(pod)
        return pod

    def done(self, uid: str) -> None:
        """End the attempt for good: events are no longer remembered on its behalf."""
        self._in_flight.end(uid)

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

    def notify(
        self, event: ClusterEvent, now: float, only: Callable[[QueuedPod], bool] = _anybody
    ) -> None:
        """Something happened: give every rejected pod it may help another try.

        ``only`` leaves out pods that the event cannot concern.
        """
        hearers = self.hearers(event)
        if hearers is not None and not hearers:
            return
        for alike in self._parked.concerned(hearers):
            # A view, and nobody may be left in it meanwhile.
            first = next(iter(alike), None)
            if first is None or (worth := self._worth(first, event)) is Worth.NOTHING:
                continue
            for pod in list(alike):
                if only(pod):
                    self._requeue(pod, worth, event.label, now)
        self._in_flight.note((event,))

    def activate(self, uids: Iterable[str]) -> None:
        """Try these at once, whatever they were waiting for, unless they are gated."""
        for uid in uids:
            pod = self._known.get(uid)
            if pod is not None and pod.place not in ("active", ""):
                self._enter(pod, ACTIVATED)
            elif pod := self._in_flight.get(uid):
                self._in_flight.note((ClusterEvent(WILDCARD, ACTIVATED, new=pod.pod_info.pod),))

    def reopen(self, uid: str, why: str, now: float) -> None:
        """Look again whether a pod's gate is still closed."""
        pod = self._known.get(uid)
        if pod is not None and pod.gate:
            self._to_backoff(pod, why, now)

    def flush(self, now: float) -> None:
        """Move pods whose backoff is over, and those nobody thought of for five minutes."""
        for pod in self._backoff.take_over(now):
            self._push_active(pod)
            self.on_move("active", BACKOFF_OVER)
        if now >= self._sweep_at:
            self._sweep_at = now + SWEEP_SECONDS
            self._sweep(now)

    def _sweep(self, now: float) -> None:
        for pod in self._parked:
            if pod.place == "unschedulable" and now - pod.since > LONGEST_WAIT:
                pod.flushed = True
                self._to_backoff(pod, TIMED_OUT, now)

    def _move(self, pod: QueuedPod, place: str) -> None:
        pod.place = place
        if place in ("unschedulable", "gated"):
            self._parked.put(pod)
        else:
            self._parked.take(pod.uid)

    def _put_back(
        self, pod: QueuedPod, rejectors: frozenset[str], pending_on: frozenset[str], now: float
    ) -> None:
        since_pop = self._in_flight.since(pod.uid)
        self.done(pod.uid)
        if pod.gone:
            return
        pod.since, pod.gate, pod.flushed = now, "", False
        pod.rejectors, pod.pending_on = rejectors, pending_on
        self._known[pod.uid] = pod
        if not rejectors:
            self._to_backoff(pod, FAILED, now)
            return
        self._move(pod, "unschedulable")
        self._weigh(pod, since_pop, now, FAILED)
        if pod.place == "unschedulable":
            self.on_move("unschedulable", FAILED)

    def _weigh(
        self, pod: QueuedPod, events: Iterable[ClusterEvent], now: float, why: str = ""
    ) -> None:
        """Move a parked pod if one of the events may help it."""
        for event in events:
            hearers = self.hearers(event)
            if pod.gate and hearers is not None and pod.gate not in hearers:
                continue
            worth = self._worth(pod, event)
            if worth is not Worth.NOTHING:
                self._requeue(pod, worth, why or event.label, now)
            if pod.uid not in self._parked:
                return

    def _worth(self, pod: QueuedPod, event: ClusterEvent) -> Worth:
        if event.resource != WILDCARD:
            return self.judge(pod, event)
        meant = event.new is None or event.new is pod.pod_info.pod or event.new.uid == pod.uid
        return Worth.AFTER_BACKOFF if meant else Worth.NOTHING

    def _requeue(self, pod: QueuedPod, worth: Worth, why: str, now: float) -> None:
        if worth is Worth.AT_ONCE:
            self._enter(pod, why, now)
        else:
            self._to_backoff(pod, why, now)

    def _to_backoff(self, pod: QueuedPod, why: str, now: float) -> None:
        if self._backoff.over(pod, now):
            self._enter(pod, why, now)
        elif not self._gated(pod, why):
            self._move(pod, "backoff")
            pod.order = next(self._tick)
            self._backoff.put(pod)
            self.on_move("backoff", why)
            self.on_ready()

    def _enter(self, pod: QueuedPod, why: str, now: float | None = None) -> None:
        if not self._gated(pod, why):
            if pod.entered is None:
                pod.entered = now
            self._push_active(pod)
            self.on_move("active", why)

    def _gated(self, pod: QueuedPod, why: str) -> bool:
        """Ask the gatekeeper; a pod it keeps out is parked under its name."""
        pod.gate = self.gatekeeper(pod.pod_info)
        if not pod.gate:
            return False
        pod.rejectors |= {pod.gate}
        if pod.uid not in self._parked:
            self.on_move("unschedulable", why)
        self._move(pod, "gated")
        return True

    def _push_active(self, pod: QueuedPod) -> None:
        self._move(pod, "active")
        pod.order = next(self._tick)
        heapq.heappush(self._active, (-pod.pod_info.priority, pod.since, pod.order, pod))
        self.on_ready()

    def _pop_active(self) -> QueuedPod | None:
        while self._active:
            *_, order, pod = heapq.heappop(self._active)
            # A pod re-queued or deleted since left a stale entry behind.
            if pod.place == "active" and pod.order == order:
                return pod
        return None

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
    InFlightPods,
    Mark,
    QueuedPodInfo,
    QueueingStrategy,
    UnschedulablePods,
)

MAX_UNSCHEDULABLE_SECONDS = 300.0
"""Seconds after which an unschedulable pod is tried again even if no event came."""
UNSCHEDULABLE_FLUSH_SECONDS = 30.0
"""How often to look for such pods."""
ADDED, FAILED = "UnschedulablePodAdd", "ScheduleAttemptFailure"
ACTIVATED, TIMED_OUT = "ForceActivate", "UnschedulableTimeout"
BACKOFF_OVER, TAKEN_EARLY = "BackoffComplete", "PopFromBackoffQ"
"""Why a pod enters a place, as metrics tell it."""

Judge = Callable[[QueuedPodInfo, ClusterEvent], QueueingStrategy]
Gatekeeper = Callable[[PodInfo], str]
Hearers = Callable[[ClusterEvent], Collection[str] | None]


def _anybody(_pod: QueuedPodInfo) -> bool:
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

    queueing_strategy: Judge
    gating_plugin: Gatekeeper = lambda _pod_info: ""
    interested_plugins: Hearers = lambda _event: None
    equivalence_key: Alike = lambda pod: pod.uid
    mark: Mark = lambda: None
    initial_backoff: float = 1.0
    longest_backoff: float = 10.0
    on_ready: Callable[[], None] = lambda: None
    on_move: Callable[[str, str], None] = lambda _queue_name, _why: None
    _known: dict[str, QueuedPodInfo] = field(default_factory=dict, init=False)
    _parked: UnschedulablePods = field(init=False)
    _active: list[tuple[int, float, int, QueuedPodInfo]] = field(default_factory=list, init=False)
    _backoff: BackoffQueue = field(init=False)
    _in_flight: InFlightPods = field(default_factory=InFlightPods, init=False)
    _sweep_at: float = field(default=0.0, init=False)
    _tick: Iterator[int] = field(default_factory=count, init=False)

    def __post_init__(self) -> None:
        self._parked = UnschedulablePods(self.equivalence_key, self.mark)
        self._backoff = BackoffQueue(self.initial_backoff, self.longest_backoff)

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, uid: str) -> bool:
        return uid in self._known

    def counts(self) -> Counter[str]:
        """How many pods wait in ``active``, ``backoff``, ``unschedulable`` and ``gated``."""
        return Counter(pod.queue_name for pod in self._known.values())

    def unschedulable_by_plugin(self) -> Counter[tuple[str, str]]:
        """How many waiting pods each plugin rejected, by plugin and profile."""
        return Counter(
            (plugin, pod.pod_info.scheduler_name)
            for pod in self._known.values()
            for plugin in pod.unschedulable_plugins
        )

    def in_flight_events(self) -> Counter[str]:
        """How many events are remembered for pods being tried, and how many such pods there are."""
        return self._in_flight.counts()

    def pods_by_queue(self) -> dict[str, list[str]]:
        """Name every waiting pod by place, for the debug dump."""
        dump: dict[str, list[str]] = {}
        for pod in self._known.values():
            dump.setdefault(pod.queue_name, []).append(pod.pod_info.key)
        return dump

    def add(self, pod_info: PodInfo, now: float) -> None:
        """Take in a pod that has no node; a known one is replaced by its newer version."""
        if pod_info.uid in self._known:
            self.update(pod_info, now)
            return
        pod = QueuedPodInfo(pod_info, since=now)
        self._known[pod_info.uid] = pod
        self._enter(pod, ADDED, now)

    def update(self, pod_info: PodInfo, now: float, events: Sequence[ClusterEvent] = ()) -> None:
        """Replace a waiting pod by its newer version; what changed may make it worth a try."""
        pod = self._known.get(pod_info.uid)
        if pod is None:
            if self._in_flight.get(pod_info.uid) is None:
                self.add(pod_info, now)
            else:
                self.update_in_flight(pod_info)
                self._in_flight.note(events)
            return
        pod.pod_info = pod_info
        if pod.queue_name == "active":
            self._push_active(pod)
        elif pod.uid in self._parked:
            self._parked.add(pod)
            self._weigh(pod, events, now)

    def update_in_flight(self, pod_info: PodInfo) -> None:
        """Note the newest version of a pod in flight: should it come back, it comes as this."""
        if pod := self._in_flight.get(pod_info.uid):
            pod.pod_info = pod_info

    def delete(self, uid: str) -> None:
        """Forget a pod, wherever it waits; one in flight ends its attempt and is not put back."""
        if pod := self._known.pop(uid, None):
            self._move(pod, "")
        elif pod := self._in_flight.get(uid):
            pod.removed = True

    def pop(self, now: float) -> QueuedPodInfo | None:
        """Take the next pod to try: highest priority, then longest waiting.

        With nothing active the next one in backoff is taken early, unless its last attempt ended
        in an error.
        """
        pod = self._pop_active()
        if pod is None:
            pod = self._backoff.pop_early()
            if pod is None:
                return None
            self.on_move("active", TAKEN_EARLY)
        del self._known[pod.uid]
        self._move(pod, "in flight")
        pod.attempts += 1
        if pod.initial_attempt_time is None:
            pod.initial_attempt_time = now
        self._in_flight.begin(pod)
        return pod

    def done(self, uid: str) -> None:
        """End the attempt for good: events are no longer remembered on its behalf."""
        self._in_flight.end(uid)

    def requeue_unschedulable(
        self,
        pod: QueuedPodInfo,
        unschedulable_plugins: Collection[str],
        pending_plugins: Iterable[str],
        now: float,
    ) -> None:
        """Put back a pod that fits nowhere; rejectors are the plugins whose hints count.

        With nobody to blame (no nodes at all) there is no hint to wait for: it counts as an error
        and is simply tried again.
        """
        if not unschedulable_plugins:
            self.requeue_after_error(pod, now)
            return
        pod.rejections += 1
        pod.errors = 0
        self._put_back(pod, frozenset(unschedulable_plugins), frozenset(pending_plugins), now)

    def requeue_after_error(self, pod: QueuedPodInfo, now: float) -> None:
        """Put back a pod whose attempt ended in an error: it is tried again after backoff."""
        pod.errors += 1
        self._put_back(pod, frozenset(), frozenset(), now)

    def requeue_for_event(
        self, event: ClusterEvent, now: float, only: Callable[[QueuedPodInfo], bool] = _anybody
    ) -> None:
        """Something happened: give every rejected pod it may help another try.

        ``only`` leaves out pods that the event cannot concern.
        """
        interested_plugins = self.interested_plugins(event)
        if interested_plugins is not None and not interested_plugins:
            return
        for equivalence_key in self._parked.concerned(interested_plugins):
            # A view, and nobody may be left in it meanwhile.
            first = next(iter(equivalence_key), None)
            if first is None or (worth := self._worth(first, event)) is QueueingStrategy.SKIP:
                continue
            for pod in list(equivalence_key):
                if only(pod):
                    self._requeue(pod, worth, event.label, now)
        self._in_flight.note((event,))

    def activate(self, uids: Iterable[str]) -> None:
        """Try these at once, whatever they were waiting for, unless they are gated."""
        for uid in uids:
            pod = self._known.get(uid)
            if pod is not None and pod.queue_name not in ("active", ""):
                self._enter(pod, ACTIVATED)
            elif pod := self._in_flight.get(uid):
                self._in_flight.note((ClusterEvent(WILDCARD, ACTIVATED, new=pod.pod_info.pod),))

    def recheck_gate(self, uid: str, why: str, now: float) -> None:
        """Look again whether a pod's gate is still closed."""
        pod = self._known.get(uid)
        if pod is not None and pod.gating_plugin:
            self._to_backoff(pod, why, now)

    def flush(self, now: float) -> None:
        """Move pods whose backoff is over, and those nobody thought of for five minutes."""
        for pod in self._backoff.pop_completed(now):
            self._push_active(pod)
            self.on_move("active", BACKOFF_OVER)
        if now >= self._sweep_at:
            self._sweep_at = now + UNSCHEDULABLE_FLUSH_SECONDS
            self._sweep(now)

    def _sweep(self, now: float) -> None:
        for pod in self._parked:
            if pod.queue_name == "unschedulable" and now - pod.since > MAX_UNSCHEDULABLE_SECONDS:
                pod.flushed = True
                self._to_backoff(pod, TIMED_OUT, now)

    def _move(self, pod: QueuedPodInfo, queue_name: str) -> None:
        pod.queue_name = queue_name
        if queue_name in ("unschedulable", "gated"):
            self._parked.add(pod)
        else:
            self._parked.delete(pod.uid)

    def _put_back(
        self,
        pod: QueuedPodInfo,
        unschedulable_plugins: frozenset[str],
        pending_plugins: frozenset[str],
        now: float,
    ) -> None:
        since_pop = self._in_flight.since(pod.uid)
        self.done(pod.uid)
        if pod.removed:
            return
        pod.since, pod.gating_plugin, pod.flushed = now, "", False
        pod.unschedulable_plugins, pod.pending_plugins = unschedulable_plugins, pending_plugins
        self._known[pod.uid] = pod
        if not unschedulable_plugins:
            self._to_backoff(pod, FAILED, now)
            return
        self._move(pod, "unschedulable")
        self._weigh(pod, since_pop, now, FAILED)
        if pod.queue_name == "unschedulable":
            self.on_move("unschedulable", FAILED)

    def _weigh(
        self, pod: QueuedPodInfo, events: Iterable[ClusterEvent], now: float, why: str = ""
    ) -> None:
        """Move a parked pod if one of the events may help it."""
        for event in events:
            interested_plugins = self.interested_plugins(event)
            if (
                pod.gating_plugin
                and interested_plugins is not None
                and pod.gating_plugin not in interested_plugins
            ):
                continue
            worth = self._worth(pod, event)
            if worth is not QueueingStrategy.SKIP:
                self._requeue(pod, worth, why or event.label, now)
            if pod.uid not in self._parked:
                return

    def _worth(self, pod: QueuedPodInfo, event: ClusterEvent) -> QueueingStrategy:
        if event.resource != WILDCARD:
            return self.queueing_strategy(pod, event)
        meant = event.new is None or event.new is pod.pod_info.pod or event.new.uid == pod.uid
        return QueueingStrategy.AFTER_BACKOFF if meant else QueueingStrategy.SKIP

    def _requeue(self, pod: QueuedPodInfo, worth: QueueingStrategy, why: str, now: float) -> None:
        if worth is QueueingStrategy.IMMEDIATELY:
            self._enter(pod, why, now)
        else:
            self._to_backoff(pod, why, now)

    def _to_backoff(self, pod: QueuedPodInfo, why: str, now: float) -> None:
        if self._backoff.is_complete(pod, now):
            self._enter(pod, why, now)
        elif not self._gated(pod, why):
            self._move(pod, "backoff")
            pod.order = next(self._tick)
            self._backoff.add(pod)
            self.on_move("backoff", why)
            self.on_ready()

    def _enter(self, pod: QueuedPodInfo, why: str, now: float | None = None) -> None:
        if not self._gated(pod, why):
            if pod.initial_attempt_time is None:
                pod.initial_attempt_time = now
            self._push_active(pod)
            self.on_move("active", why)

    def _gated(self, pod: QueuedPodInfo, why: str) -> bool:
        """Ask the gatekeeper; a pod it keeps out is parked under its name."""
        pod.gating_plugin = self.gating_plugin(pod.pod_info)
        if not pod.gating_plugin:
            return False
        pod.unschedulable_plugins |= {pod.gating_plugin}
        if pod.uid not in self._parked:
            self.on_move("unschedulable", why)
        self._move(pod, "gated")
        return True

    def _push_active(self, pod: QueuedPodInfo) -> None:
        self._move(pod, "active")
        pod.order = next(self._tick)
        heapq.heappush(self._active, (-pod.pod_info.priority, pod.since, pod.order, pod))
        self.on_ready()

    def _pop_active(self) -> QueuedPodInfo | None:
        while self._active:
            *_, order, pod = heapq.heappop(self._active)
            # A pod re-queued or deleted since left a stale entry behind.
            if pod.queue_name == "active" and pod.order == order:
                return pod
        return None

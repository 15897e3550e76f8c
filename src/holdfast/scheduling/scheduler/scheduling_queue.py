"""The scheduling queue: which pod is tried next, and when a rejected pod is tried again.

::

            add                        pop
    ──────────────►  active  ──────────────────►  in flight ──► done
                     ▲    ▲                             │
       backoff over  │    │ hint of a pending plugin    │ rejected
                     │    │                             ▼
                  backoff ◄───────────────── unschedulable   (gated pods are here too)
                            hint, retry time
                            or timeout

An in-flight pod whose attempt ended in an error, or that an event since the pop may help, moves to
backoff at once.

The cost of an event limits how many pods may wait. With 10,000 rejected pods, asking the hints of
each took 33 ms for every bound pod and over 400 ms for a node condition. So plugins name the events
that may help (``events_to_register``), pods are indexed by the plugins that rejected them, and
equal pods share one hint (``UnschedulablePods``).

Heaps are never searched: an entry stays where it is when its pod moves, and is recognized as stale
when it is popped.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from holdfast.scheduling.framework.events import WILDCARD, ClusterEvent, QueueingStrategy
from holdfast.scheduling.scheduler.queued_pods import (
    BackoffQueue,
    InFlightPods,
    QueuedPodInfo,
    QueueingRules,
    RetryTimes,
    UnschedulablePods,
)
from holdfast.state.columns.pod_info import PodInfo

MAX_UNSCHEDULABLE_SECONDS = 300.0
"""Seconds after which an unschedulable pod is tried again even without an event."""
UNSCHEDULABLE_FLUSH_SECONDS = 30.0
"""How often the queue looks for such pods."""
ADDED, FAILED = "UnschedulablePodAdd", "ScheduleAttemptFailure"
ACTIVATED, TIMED_OUT = "ForceActivate", "UnschedulableTimeout"
BACKOFF_COMPLETE, POPPED_EARLY = "BackoffComplete", "PopFromBackoffQ"
"""Why a pod enters a queue, as upstream's metrics label it."""
RETRY_TIME = "RetryTime"
"""The same for a pod whose plugins gave a time; upstream has nothing like it."""


def _any_pod(_pod: QueuedPodInfo) -> bool:
    return True


@dataclass(slots=True)
class SchedulingQueue:
    """Pods without a node. Every call that needs the time takes it as monotonic seconds.

    ``on_move`` is called with the name of the queue a pod enters and the reason; ``on_gated`` is
    called with a pod that a PreEnqueue plugin rejects.
    """

    rules: QueueingRules
    initial_backoff: float = 1.0
    maximum_backoff: float = 10.0
    on_ready: Callable[[], None] = lambda: None
    on_move: Callable[[str, str], None] = lambda _queue_name, _why: None
    on_gated: Callable[[QueuedPodInfo], None] = lambda _pod: None
    _pods: dict[str, QueuedPodInfo] = field(default_factory=dict, init=False)
    _unschedulable: UnschedulablePods = field(init=False)
    _active: list[tuple[int, float, int, QueuedPodInfo]] = field(default_factory=list, init=False)
    _backoff: BackoffQueue = field(init=False)
    _in_flight: InFlightPods = field(default_factory=InFlightPods, init=False)
    _retry_times: RetryTimes = field(default_factory=RetryTimes, init=False)
    _next_flush: float = field(default=0.0, init=False)
    _next_order: Iterator[int] = field(default_factory=count, init=False)

    def __post_init__(self) -> None:
        self._unschedulable = UnschedulablePods(self.rules)
        self._backoff = BackoffQueue(self.initial_backoff, self.maximum_backoff)

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def counts(self) -> Counter[str]:
        """Count pods in ``active``, ``backoff``, ``unschedulable`` and ``gated``."""
        return Counter(pod.queue_name for pod in self._pods.values())

    def unschedulable_by_plugin(self) -> Counter[tuple[str, str]]:
        """Count rejected pods by plugin and profile."""
        return Counter(
            (plugin, pod.pod_info.scheduler_name)
            for pod in self._pods.values()
            for plugin in pod.unschedulable_plugins
        )

    def in_flight_events(self) -> Counter[str]:
        """Count the events stored for in-flight pods, by label, and the pods themselves."""
        return self._in_flight.counts()

    def pods_by_queue(self) -> dict[str, list[str]]:
        """Return the keys of all pods by queue name, for the cache dump."""
        dump: dict[str, list[str]] = {}
        for pod in self._pods.values():
            dump.setdefault(pod.queue_name, []).append(pod.pod_info.key)
        return dump

    def add(self, pod_info: PodInfo, now: float) -> None:
        """Add a pod without a node, or update it if the queue has it already."""
        if pod_info.uid in self._pods:
            self.update(pod_info, now)
            return
        pod = QueuedPodInfo(pod_info, since=now)
        self._pods[pod_info.uid] = pod
        self._move_to_active(pod, ADDED, now)

    def update(self, pod_info: PodInfo, now: float, events: Sequence[ClusterEvent] = ()) -> None:
        """Replace a pod by its newer version and requeue it if one of the ``events`` may help."""
        pod = self._pods.get(pod_info.uid)
        if pod is None:
            if self._in_flight.get(pod_info.uid) is None:
                self.add(pod_info, now)
            else:
                self.update_in_flight(pod_info)
                self._in_flight.add_events(events)
            return
        pod.pod_info = pod_info
        if pod.queue_name == "active":
            self._push_active(pod)
        elif pod.uid in self._unschedulable:
            self._unschedulable.add(pod)
            self._requeue_if_helped(pod, events, now)

    def is_in_flight(self, uid: str) -> bool:
        """Tell whether an attempt for the pod runs."""
        return self._in_flight.get(uid) is not None

    def update_in_flight(self, pod_info: PodInfo) -> None:
        """Store the newest version of an in-flight pod: it is requeued as this version."""
        if pod := self._in_flight.get(pod_info.uid):
            pod.pod_info = pod_info

    def delete(self, uid: str) -> None:
        """Remove a pod; one that is in flight is not requeued after its attempt."""
        if pod := self._pods.pop(uid, None):
            self._move(pod, "")
        elif pod := self._in_flight.get(uid):
            pod.removed = True

    def pop(self, now: float) -> QueuedPodInfo | None:
        """Pop the next pod: highest priority first, then the longest waiting.

        If activeQ is empty, the next pod of backoffQ is popped early, unless its last attempt
        ended in an error.
        """
        pod = self._pop_active()
        if pod is None:
            pod = self._backoff.pop_early()
            if pod is None:
                return None
            self.on_move("active", POPPED_EARLY)
        del self._pods[pod.uid]
        self._move(pod, "in flight")
        pod.attempts += 1
        if pod.initial_attempt_time is None:
            pod.initial_attempt_time = now
        self._in_flight.add(pod)
        return pod

    def postpone(self, pod: QueuedPodInfo) -> None:
        """Store no events for a popped pod until ``resume``: its attempt evaluates nothing yet.

        Thousands of such pods may wait for steps before their cycles, and each would store the
        events of all that time.
        """
        self._in_flight.postpone(pod)

    def resume(self, pod: QueuedPodInfo) -> None:
        """Begin the attempt of a postponed pod: events are stored for it from now on."""
        self._in_flight.add(pod)

    def done(self, uid: str) -> None:
        """End an attempt without requeueing the pod: events are no longer stored for it."""
        self._in_flight.remove(uid)

    def requeue_unschedulable(
        self,
        pod: QueuedPodInfo,
        unschedulable_plugins: Collection[str],
        pending_plugins: Iterable[str],
        now: float,
        *,
        retry_at: float | None = None,
        in_pre_bind: bool = False,
    ) -> None:
        """Requeue a pod that fits no node; the hints of ``unschedulable_plugins`` move it again.

        At ``retry_at``, in seconds since the epoch, it is moved without a hint. A pod that was
        rejected ``in_pre_bind`` is never popped before its backoff has ended: its own writes are
        events, too, and would requeue it at once (decision 0025). If ``unschedulable_plugins`` is
        empty (there are no nodes), no hint could move the pod: it is requeued as after an error.
        """
        if not unschedulable_plugins:
            self.requeue_after_error(pod, now)
            return
        if in_pre_bind:
            pod.errors += 1
        else:
            pod.rejections += 1
            pod.errors = 0
        pod.rejected_in_pre_bind = in_pre_bind
        self._requeue_attempted(
            pod, frozenset(unschedulable_plugins), frozenset(pending_plugins), now, retry_at
        )

    def requeue_after_error(self, pod: QueuedPodInfo, now: float) -> None:
        """Requeue a pod whose attempt ended in an error: it is tried again after backoff."""
        pod.errors += 1
        pod.rejected_in_pre_bind = False
        self._requeue_attempted(pod, frozenset(), frozenset(), now)

    @property
    def awaits_events(self) -> bool:
        """Whether any pod waits for an event, or may wait for one after its attempt."""
        return len(self._unschedulable) > 0 or self._in_flight.stores_events

    def requeue_for_event(
        self, event: ClusterEvent, now: float, only: Callable[[QueuedPodInfo], bool] = _any_pod
    ) -> None:
        """Move every rejected pod that the event may help to activeQ or backoffQ.

        Pods for which ``only`` is false are skipped.
        """
        interested_plugins = self.rules.interested_plugins(event)
        if interested_plugins is not None and not interested_plugins:
            return
        if len(self._unschedulable):
            self._move_rejected(event, interested_plugins, now, only)
        self._in_flight.add_events((event,))

    def _move_rejected(
        self,
        event: ClusterEvent,
        plugins: Collection[str] | None,
        now: float,
        only: Callable[[QueuedPodInfo], bool],
    ) -> None:
        """Move the pods that these plugins rejected and the event may help; None: all plugins."""
        for group in self._unschedulable.groups_rejected_by(plugins, self.rules.event_keys(event)):
            # The group is a view: requeueing another group may have emptied it.
            first = next(iter(group), None)
            if (
                first is None
                or (strategy := self._strategy_for(first, event)) is QueueingStrategy.SKIP
            ):
                continue
            for pod in list(group):
                if only(pod):
                    self._move_by_strategy(pod, strategy, event.label, now)

    def activate(self, uids: Iterable[str]) -> None:
        """Move these pods to activeQ at once unless they are gated."""
        for uid in uids:
            pod = self._pods.get(uid)
            if pod is not None and pod.queue_name not in ("active", ""):
                self._move_to_active(pod, ACTIVATED)
            elif pod := self._in_flight.get(uid):
                self._in_flight.add_events(
                    (ClusterEvent(WILDCARD, ACTIVATED, new=pod.pod_info.pod),)
                )

    def recheck_gate(self, uid: str, why: str, now: float) -> None:
        """Run the PreEnqueue plugins of a gated pod again."""
        pod = self._pods.get(uid)
        if pod is not None and pod.gating_plugin:
            self._move_to_backoff_or_active(pod, why, now)

    @property
    def next_retry(self) -> float | None:
        """When the next pod is to be moved without an event; seconds since the epoch."""
        return self._retry_times.next

    def flush(self, now: float, time_of_day: float = -math.inf) -> None:
        """Move pods whose backoff has ended, and pods unschedulable for more than five minutes.

        Also pods whose ``retry_at`` has come at ``time_of_day``, in seconds since the epoch.
        """
        for pod in self._backoff.pop_completed(now):
            self._push_active(pod)
            self.on_move("active", BACKOFF_COMPLETE)
        for pod in self._retry_times.pop_due(time_of_day):
            self._move_to_backoff_or_active(pod, RETRY_TIME, now)
        if now >= self._next_flush:
            self._next_flush = now + UNSCHEDULABLE_FLUSH_SECONDS
            self._flush_unschedulable(now)

    def _flush_unschedulable(self, now: float) -> None:
        for pod in self._unschedulable:
            if pod.queue_name == "unschedulable" and now - pod.since > MAX_UNSCHEDULABLE_SECONDS:
                pod.flushed = True
                self._move_to_backoff_or_active(pod, TIMED_OUT, now)

    def _move(self, pod: QueuedPodInfo, queue_name: str) -> None:
        pod.queue_name = queue_name
        if queue_name in ("unschedulable", "gated"):
            self._unschedulable.add(pod)
        else:
            self._unschedulable.delete(pod.uid)

    def _requeue_attempted(
        self,
        pod: QueuedPodInfo,
        unschedulable_plugins: frozenset[str],
        pending_plugins: frozenset[str],
        now: float,
        retry_at: float | None = None,
    ) -> None:
        since_pop = self._in_flight.events_since_pop(pod.uid)
        self.done(pod.uid)
        if pod.removed:
            return
        pod.since, pod.gating_plugin, pod.flushed = now, "", False
        pod.unschedulable_plugins, pod.pending_plugins = unschedulable_plugins, pending_plugins
        pod.retry_at = retry_at
        self._pods[pod.uid] = pod
        if not unschedulable_plugins:
            self._move_to_backoff_or_active(pod, FAILED, now)
            return
        self._move(pod, "unschedulable")
        self._requeue_if_helped(pod, since_pop, now, FAILED)
        if pod.queue_name == "unschedulable":
            self._retry_times.add(pod)
            self.on_move("unschedulable", FAILED)

    def _requeue_if_helped(
        self, pod: QueuedPodInfo, events: Iterable[ClusterEvent], now: float, why: str = ""
    ) -> None:
        """Requeue an unschedulable pod if one of the events may help it."""
        for event in events:
            interested_plugins = self.rules.interested_plugins(event)
            if (
                pod.gating_plugin
                and interested_plugins is not None
                and pod.gating_plugin not in interested_plugins
            ):
                continue
            strategy = self._strategy_for(pod, event)
            if strategy is not QueueingStrategy.SKIP:
                self._move_by_strategy(pod, strategy, why or event.label, now)
            if pod.uid not in self._unschedulable:
                return

    def _strategy_for(self, pod: QueuedPodInfo, event: ClusterEvent) -> QueueingStrategy:
        if event.resource != WILDCARD:
            return self.rules.queueing_strategy(pod, event)
        concerns_pod = (
            event.new is None or event.new is pod.pod_info.pod or event.new.uid == pod.uid
        )
        return QueueingStrategy.AFTER_BACKOFF if concerns_pod else QueueingStrategy.SKIP

    def _move_by_strategy(
        self, pod: QueuedPodInfo, strategy: QueueingStrategy, why: str, now: float
    ) -> None:
        if strategy is QueueingStrategy.IMMEDIATELY:
            self._move_to_active(pod, why, now)
        else:
            self._move_to_backoff_or_active(pod, why, now)

    def _move_to_backoff_or_active(self, pod: QueuedPodInfo, why: str, now: float) -> None:
        if self._backoff.is_complete(pod, now):
            self._move_to_active(pod, why, now)
        elif not self._gate_if_rejected(pod, why):
            self._move(pod, "backoff")
            pod.order = next(self._next_order)
            self._backoff.add(pod)
            self.on_move("backoff", why)
            self.on_ready()

    def _move_to_active(self, pod: QueuedPodInfo, why: str, now: float | None = None) -> None:
        if not self._gate_if_rejected(pod, why):
            if pod.initial_attempt_time is None:
                pod.initial_attempt_time = now
            self._push_active(pod)
            self.on_move("active", why)

    def _gate_if_rejected(self, pod: QueuedPodInfo, why: str) -> bool:
        """Run the PreEnqueue plugins; if one rejects the pod, gate it and return True."""
        pod.gating_plugin = self.rules.gating_plugin(pod.pod_info)
        if not pod.gating_plugin:
            return False
        pod.unschedulable_plugins |= {pod.gating_plugin}
        if pod.uid not in self._unschedulable:
            self.on_move("unschedulable", why)
        self._move(pod, "gated")
        self.on_gated(pod)
        return True

    def _push_active(self, pod: QueuedPodInfo) -> None:
        self._move(pod, "active")
        pod.order = next(self._next_order)
        heapq.heappush(self._active, (-pod.pod_info.priority, pod.since, pod.order, pod))
        self.on_ready()

    def _pop_active(self) -> QueuedPodInfo | None:
        while self._active:
            *_, order, pod = heapq.heappop(self._active)
            # The entry is stale if the pod was requeued or deleted since. The name of the queue is
            # not enough: a pod that came back may have an entry that is due earlier.
            if pod.queue_name == "active" and pod.order == order:
                return pod
        return None

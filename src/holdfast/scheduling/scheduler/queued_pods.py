"""The parts of the scheduling queue: pod infos, backoffQ, retry times, unschedulable and in-flight
pods.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from holdfast.scheduling.framework.events import ClusterEvent, QueueingStrategy
from holdfast.state.columns.pod_info import PodInfo


class QueuedPodInfo(msgspec.Struct, eq=False):
    """A pod without a node, with the state of its earlier scheduling attempts.

    ``unschedulable_plugins`` rejected it in its last attempt: their queueing hints decide when it
    is tried again. A hint of one of ``pending_plugins`` skips backoff. ``gating_plugin`` is the
    PreEnqueue plugin that keeps it out of activeQ, or "".
    """

    pod_info: PodInfo
    since: float
    order: int = 0
    attempts: int = 0
    rejections: int = 0
    errors: int = 0
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    gating_plugin: str = ""
    initial_attempt_time: float | None = None
    """When the pod first entered activeQ; monotonic seconds, None before that."""
    queue_name: str = ""
    rejected_in_pre_bind: bool = False
    """Whether its last attempt ended there: it fits, so what other pods free does not help it."""
    removed: bool = False
    """Whether it was deleted, or was assigned to a node, while it was in flight."""
    flushed: bool = False
    """Whether it last left the unschedulable pods by timeout, not because of an event."""
    retry_at: float | None = None
    """When it leaves the unschedulable pods without an event; seconds since the epoch."""
    newest_retry: float | None = None
    """The time of its newest entry in the retry times, while that is there."""

    @property
    def uid(self) -> str:
        """Return the pod's uid."""
        return self.pod_info.uid


HeapEntry = tuple[float, int, float, int, QueuedPodInfo]


@dataclass(slots=True)
class BackoffQueue:
    """Pods in backoff: two heaps ordered by expiry, then by queue order.

    A pod waits 1, 2, 4, 8, 10, 10 … seconds by its number of rejections, or by its number of errors
    if the last attempt ended in an error. Expiries are rounded down to whole seconds, and a pod
    waits through the second in which it expires, as upstream does.

    Pods whose last attempt ended in an error are in a separate heap and are never popped early. A
    heap entry whose pod has left backoffQ since is stale and is skipped. Times are monotonic: with
    times of day, setting the clock back made backoff longer.
    """

    initial: float
    maximum: float
    _after_rejection: list[HeapEntry] = field(default_factory=list)
    _after_error: list[HeapEntry] = field(default_factory=list)

    def expiry(self, pod: QueuedPodInfo) -> float:
        """Return when the pod's backoff ends, in whole seconds; -inf without a failed attempt."""
        tries = pod.errors or pod.rejections
        if tries == 0:
            return -math.inf
        # Beyond 2^30 every wait is the maximum, and 2^1024 is no float.
        wait = min(self.initial * 2.0 ** min(tries - 1, 30), self.maximum)
        return math.floor(pod.since + wait)

    def is_complete(self, pod: QueuedPodInfo, now: float) -> bool:
        """Tell whether the pod's backoff has ended."""
        return self.expiry(pod) < math.floor(now)

    def add(self, pod: QueuedPodInfo) -> None:
        """Add a pod whose ``order`` is set."""
        heap = self._after_error if pod.errors else self._after_rejection
        entry = (self.expiry(pod), -pod.pod_info.priority, pod.since, pod.order, pod)
        heapq.heappush(heap, entry)

    def pop_completed(self, now: float) -> Iterator[QueuedPodInfo]:
        """Pop every pod whose backoff has ended."""
        for heap in (self._after_rejection, self._after_error):
            while heap and heap[0][0] < math.floor(now):
                entry = heapq.heappop(heap)
                if _is_current(entry):
                    yield entry[-1]

    def pop_early(self) -> QueuedPodInfo | None:
        """Pop the next pod before its backoff ends; None if all pods wait after an error."""
        while self._after_rejection:
            entry = heapq.heappop(self._after_rejection)
            if _is_current(entry):
                return entry[-1]
        return None


def _is_current(entry: HeapEntry) -> bool:
    pod = entry[-1]
    return pod.queue_name == "backoff" and pod.order == entry[3]


MIN_RETRIES_TO_CLEAN = 1000
"""Fewer entries in the retry times are left alone."""


@dataclass(slots=True)
class RetryTimes:
    """The unschedulable pods that are tried again at a time, in a heap by that time.

    Times are seconds since the epoch. An entry is stale, and is skipped, if its pod has left the
    unschedulable pods or has another ``retry_at`` by now. If most entries are stale, these are
    removed: with a time-out of days they would keep pods that are gone.
    """

    _heap: list[tuple[float, int, QueuedPodInfo]] = field(default_factory=list)
    _added: int = 0
    _clean_at: int = MIN_RETRIES_TO_CLEAN

    def add(self, pod: QueuedPodInfo) -> None:
        """Add a pod, if it has a time that was not added yet."""
        if pod.retry_at is not None and pod.newest_retry != pod.retry_at:
            if len(self._heap) >= self._clean_at:
                self._remove_stale()
            self._added += 1
            pod.newest_retry = pod.retry_at
            heapq.heappush(self._heap, (pod.retry_at, self._added, pod))

    @property
    def next(self) -> float | None:
        """The earliest time; None if no pod has one."""
        while self._heap and not self._is_current(self._heap[0]):
            self._pop()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, time: float) -> Iterator[QueuedPodInfo]:
        """Pop every pod whose time has come."""
        while (due := self.next) is not None and due <= time:
            yield self._pop()

    def _pop(self) -> QueuedPodInfo:
        time, _, pod = heapq.heappop(self._heap)
        if pod.newest_retry == time:
            pod.newest_retry = None
        return pod

    def _remove_stale(self) -> None:
        current = []
        for entry in self._heap:
            if self._is_current(entry):
                current.append(entry)
            elif entry[2].newest_retry == entry[0]:
                entry[2].newest_retry = None
        heapq.heapify(current)
        self._heap = current
        self._clean_at = max(MIN_RETRIES_TO_CLEAN, 2 * len(current))

    @staticmethod
    def _is_current(entry: tuple[float, int, QueuedPodInfo]) -> bool:
        time, _, pod = entry
        return pod.queue_name == "unschedulable" and pod.retry_at == time


EventKeys = Mapping[str, Collection[Hashable]]
"""The keys of an event by plugin; a plugin that is not here is called for every pod."""


class QueueingRules:
    """The rules by which the queue requeues pods. By these defaults every event helps every pod."""

    def queueing_strategy(self, queued: QueuedPodInfo, event: ClusterEvent) -> QueueingStrategy:
        """Return what to do with a rejected pod after an event."""
        return QueueingStrategy.AFTER_BACKOFF

    def gating_plugin(self, pod_info: PodInfo) -> str:
        """Return the name of the PreEnqueue plugin that keeps a pod out of activeQ, or ""."""
        return ""

    def interested_plugins(self, event: ClusterEvent) -> Collection[str] | None:
        """Return the names of the plugins that registered for an event; None: check every pod."""
        return None

    def equivalence_key(self, queued: QueuedPodInfo) -> Hashable:
        """Return a key; pods with equal keys have the same strategy for each event."""
        return queued.uid

    def equivalence_epoch(self) -> Hashable:
        """Return a value that changes when equivalence keys may have changed."""
        return None

    def pod_keys(self, queued: QueuedPodInfo, plugin: str) -> Collection[Hashable]:
        """Return the keys by which a plugin, by its name, finds a pod that an event concerns."""
        return ()

    def event_keys(self, event: ClusterEvent) -> EventKeys:
        """Return the keys of the pods that an event concerns."""
        return {}


PodsByKey = dict[Hashable, dict[str, QueuedPodInfo]]


class UnschedulablePods:
    """Pods that wait for an event: rejected and gated ones.

    They are indexed by the plugins that rejected or gate them, so that an event is checked only for
    pods it may help. Pods with equal equivalence keys are in one group, so that a queueing hint
    runs once for all of them. A plugin that has keys for pods and events is called only for pods
    that have a key of the event.
    """

    def __init__(self, rules: QueueingRules) -> None:
        self._rules = rules
        self._by_key: dict[tuple[str, Hashable], dict[str, None]] = {}
        """Uids by plugin and key."""
        self._keys_of: dict[str, list[tuple[str, Hashable]]] = {}
        self._grouped_at = rules.equivalence_epoch()
        self._pods: dict[str, QueuedPodInfo] = {}
        self._groups: dict[str, PodsByKey] = {}
        self._group_of: dict[str, tuple[Hashable, Collection[str]]] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return iter(list(self._pods.values()))

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def add(self, pod: QueuedPodInfo) -> None:
        """Add a pod, or move it to the right groups after it changed."""
        self.delete(pod.uid)
        group = (
            pod.gating_plugin,
            pod.unschedulable_plugins,
            pod.pending_plugins,
            self._rules.equivalence_key(pod),
        )
        # A gated pod is requeued only by events that its gating plugin registered for.
        plugins = {pod.gating_plugin} if pod.gating_plugin else pod.unschedulable_plugins
        self._pods[pod.uid] = pod
        self._group_of[pod.uid] = (group, plugins)
        for plugin in plugins:
            self._groups.setdefault(plugin, {}).setdefault(group, {})[pod.uid] = pod
            for key in self._rules.pod_keys(pod, plugin):
                self._by_key.setdefault((plugin, key), {})[pod.uid] = None
                self._keys_of.setdefault(pod.uid, []).append((plugin, key))

    def delete(self, uid: str) -> None:
        """Remove a pod; do nothing if it is not here."""
        if self._pods.pop(uid, None) is None:
            return
        group, plugins = self._group_of.pop(uid)
        for plugin in plugins:
            groups = self._groups[plugin]
            del groups[group][uid]
            if not groups[group]:
                del groups[group]
        for place in self._keys_of.pop(uid, ()):
            # A pod may have a key twice.
            if (uids := self._by_key.get(place)) is not None:
                uids.pop(uid, None)
                if not uids:
                    del self._by_key[place]

    def groups_rejected_by(
        self, plugins: Collection[str] | None, event_keys: EventKeys
    ) -> list[Collection[QueuedPodInfo]]:
        """Return the groups of pods that one of the plugins rejected; None: every pod singly.

        For a plugin in ``event_keys``, only pods with one of its keys are returned.

        The groups are views, not copies: an event that helps no pod must not cost more when more
        pods wait.
        """
        if not self._pods:
            return []
        if self._grouped_at != self._rules.equivalence_epoch():
            # A selector reads more labels now, so an event may help only some pods of a group.
            self._grouped_at = self._rules.equivalence_epoch()
            for pod in self:
                self.add(pod)
        if plugins is None:
            return [[pod] for pod in self._pods.values()]
        groups = {
            group: pods
            for name in plugins
            for group, pods in self._groups_of(name, event_keys.get(name)).items()
        }
        return [pods.values() for pods in groups.values()]

    def _groups_of(self, plugin: str, keys: Collection[Hashable] | None) -> PodsByKey:
        groups = self._groups.get(plugin, {})
        if keys is None or not groups:
            return groups
        uids = [uid for key in keys for uid in self._by_key.get((plugin, key), ())]
        return {group: groups[group] for group in (self._group_of[uid][0] for uid in uids)}


POPPED = "PodPopped"
"""Label under which the metrics count in-flight pods among the in-flight events."""


@dataclass(slots=True)
class InFlightPods:
    """Pods being scheduled, and the events that occurred since the oldest of them was popped.

    An event during an attempt may make the pod schedulable after the attempt has evaluated the
    cluster. Events are stored once for all pods; each pod has the number of its first event.
    Pods whose attempt has yet to evaluate anything are postponed: they need no events. The oldest
    pod decides how many events are stored, and in its binding cycle it may wait minutes for a
    volume. So a pod leaves when that cycle begins, unless it may end pending (decision 0025).
    """

    _pods: dict[str, tuple[int, QueuedPodInfo]] = field(default_factory=dict)
    _postponed: dict[str, QueuedPodInfo] = field(default_factory=dict)
    _events: list[ClusterEvent] = field(default_factory=list)
    _first: int = 0

    def add(self, pod: QueuedPodInfo) -> None:
        """Add a popped pod: events are stored for it from now on."""
        self._postponed.pop(pod.uid, None)
        self._pods[pod.uid] = (self._first + len(self._events), pod)

    def get(self, uid: str) -> QueuedPodInfo | None:
        """Return the in-flight pod of that uid, or None."""
        in_flight = self._pods.get(uid)
        return self._postponed.get(uid) if in_flight is None else in_flight[1]

    def postpone(self, pod: QueuedPodInfo) -> None:
        """Store no events for a pod until ``add`` is called again."""
        self.remove(pod.uid)
        self._postponed[pod.uid] = pod

    @property
    def stores_events(self) -> bool:
        """Whether any pod needs the events that occur now."""
        return bool(self._pods)

    def add_events(self, events: Iterable[ClusterEvent]) -> None:
        """Store events if any pod is in flight."""
        if self._pods:
            self._events.extend(events)

    def events_since_pop(self, uid: str) -> list[ClusterEvent]:
        """Return the events since the pod was popped."""
        start, _ = self._pods.get(uid, (0, None))
        return self._events[max(0, start - self._first) :]

    def remove(self, uid: str) -> None:
        """Remove a pod, and the events that no other in-flight pod needs."""
        self._postponed.pop(uid, None)
        if self._pods.pop(uid, None) is None:
            return
        # Pods are in the order they were popped: the first has the oldest events.
        first = next(iter(self._pods.values()), None)
        oldest = self._first + len(self._events) if first is None else first[0]
        if drop := oldest - self._first:
            del self._events[:drop]
            self._first = oldest

    def counts(self) -> Counter[str]:
        """Count the stored events by label, and the in-flight pods."""
        events = Counter(event.label for event in self._events)
        events[POPPED] = len(self._pods) + len(self._postponed)
        return events

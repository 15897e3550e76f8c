"""Pods on their way to a node, and where the scheduling queue keeps those it will not try now."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from holdfast.columns.pod_info import PodInfo
from holdfast.framework.events import ClusterEvent


class QueueingStrategy(Enum):
    """What an event means for a pod that was rejected."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


@dataclass(slots=True, eq=False)
class QueuedPodInfo:
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
    """When it first stood in line to be tried."""
    queue_name: str = ""
    removed: bool = False
    """Whether it was deleted, or found a node, while it was in flight."""
    flushed: bool = False
    """Whether it was last moved because nobody thought of it for too long."""

    @property
    def uid(self) -> str:
        """The pod's identity."""
        return self.pod_info.uid


HeapEntry = tuple[float, int, float, int, QueuedPodInfo]


@dataclass(slots=True)
class BackoffQueue:
    """Pods that wait a little before their next try: two heaps by expiry, then by queue order.

    The wait is 1, 2, 4, 8, 10, 10 … seconds by number of rejections, or by number of errors when
    the last attempt failed by error. Expiries are floored to whole seconds, and a pod waits through
    the second it expires in, as upstream does.

    Pods whose last attempt ended in an error wait apart: they are never taken early, an error is
    given its time to pass. An entry whose pod has moved on since is stale and is skipped.
    """

    initial: float
    maximum: float
    _rejected: list[HeapEntry] = field(default_factory=list)
    _failed: list[HeapEntry] = field(default_factory=list)

    def expiry(self, pod: QueuedPodInfo) -> float:
        """When the pod's backoff is over; it still waits during that very second."""
        tries = pod.errors or pod.rejections
        if tries == 0:
            return -math.inf
        # Beyond 2^30 every wait is the longest one, and floats run out at 2^1024.
        wait = min(self.initial * 2.0 ** min(tries - 1, 30), self.maximum)
        return math.floor(pod.since + wait)

    def is_complete(self, pod: QueuedPodInfo, now: float) -> bool:
        """Tell whether the pod need not wait any more."""
        return self.expiry(pod) < math.floor(now)

    def add(self, pod: QueuedPodInfo) -> None:
        """Let a pod wait; its order must be set."""
        heap = self._failed if pod.errors else self._rejected
        entry = (self.expiry(pod), -pod.pod_info.priority, pod.since, pod.order, pod)
        heapq.heappush(heap, entry)

    def pop_completed(self, now: float) -> Iterator[QueuedPodInfo]:
        """Take the pods whose backoff is over."""
        for heap in (self._rejected, self._failed):
            while heap and heap[0][0] < math.floor(now):
                entry = heapq.heappop(heap)
                if _waits(entry):
                    yield entry[-1]

    def pop_early(self) -> QueuedPodInfo | None:
        """Take the next pod before its time, unless its last attempt ended in an error."""
        while self._rejected:
            entry = heapq.heappop(self._rejected)
            if _waits(entry):
                return entry[-1]
        return None


def _waits(entry: HeapEntry) -> bool:
    pod = entry[-1]
    return pod.queue_name == "backoff" and pod.order == entry[3]


Alike = Callable[[QueuedPodInfo], Hashable]
"""Equal for pods that the same events help."""
Mark = Callable[[], Hashable]
"""Answers something else when pods that were alike may be so no longer."""
File = dict[Hashable, dict[str, QueuedPodInfo]]


class UnschedulablePods:
    """Pods that wait for something to happen: the unschedulable and the gated.

    They are filed under the plugins that keep them there, so that an event looks only at those it
    may help; and pods that nobody can tell apart are filed together, so that a hint is asked once
    for all of them.
    """

    def __init__(self, equivalence_key: Alike, mark: Mark = lambda: None) -> None:
        self._equivalence_key = equivalence_key
        self._mark = mark
        self._marked = mark()
        self._pods: dict[str, QueuedPodInfo] = {}
        self._files: dict[str, File] = {}
        self._filed: dict[str, tuple[Hashable, Collection[str]]] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return iter(list(self._pods.values()))

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def add(self, pod: QueuedPodInfo) -> None:
        """Park a pod, or file it anew because it changed."""
        self.delete(pod.uid)
        group = (
            pod.gating_plugin,
            pod.unschedulable_plugins,
            pod.pending_plugins,
            self._equivalence_key(pod),
        )
        # A gated pod hears only of what its gate wants to hear of.
        plugins = {pod.gating_plugin} if pod.gating_plugin else pod.unschedulable_plugins
        self._pods[pod.uid] = pod
        self._filed[pod.uid] = (group, plugins)
        for plugin in plugins:
            self._files.setdefault(plugin, {}).setdefault(group, {})[pod.uid] = pod

    def delete(self, uid: str) -> None:
        """Let a pod go; one that is not here is fine."""
        if self._pods.pop(uid, None) is None:
            return
        group, plugins = self._filed.pop(uid)
        for plugin in plugins:
            file = self._files[plugin]
            del file[group][uid]
            if not file[group]:
                del file[group]

    def concerned(self, plugins: Collection[str] | None) -> list[Collection[QueuedPodInfo]]:
        """Pods kept here by one of the plugins, alike ones together; None takes all, singly.

        These are no copies: an event that helps nobody shall not cost more the more pods wait.
        """
        if not self._pods:
            return []
        if self._marked != self._mark():
            self._marked = self._mark()
            for pod in self:
                self.add(pod)
        if plugins is None:
            return [[pod] for pod in self._pods.values()]
        groups = {group: pods for name in plugins for group, pods in self._file(name).items()}
        return [pods.values() for pods in groups.values()]

    def _file(self, plugin: str) -> File:
        return self._files.get(plugin, {})


POPPED = "PodPopped"
"""Under this name metrics count the attempts themselves."""


@dataclass(slots=True)
class InFlightPods:
    """Attempts under way, each with the number of the first event it may not have seen.

    An event that comes while a pod is tried may be the one that helps it, and the attempt may have
    looked before it. So events are remembered from the oldest attempt on, once for all.
    """

    _attempts: dict[str, tuple[int, QueuedPodInfo]] = field(default_factory=dict)
    _events: list[ClusterEvent] = field(default_factory=list)
    _first: int = 0

    def begin(self, pod: QueuedPodInfo) -> None:
        """Remember events for a pod from now on."""
        self._attempts[pod.uid] = (self._first + len(self._events), pod)

    def get(self, uid: str) -> QueuedPodInfo | None:
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

"""Pods that a PreEnqueue plugin keeps out of activeQ: their condition says why after 5 seconds.

As in KEP-5501: most such pods wait for a moment only, for the claim that is made from their
template. They get no condition, which would cost a write each. What the others wait for is looked
at again from time to time: first a template was missing, now a quota refuses the claim.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.columns.pod_info import PodInfo
from holdfast.framework.plugin import Reject
from holdfast.scheduler.queued_pods import QueuedPodInfo

FIRST_WAIT, LONGEST_WAIT = 5.0, 300.0
"""Seconds until a pod is reported; each further wait is twice as long as the one before."""
REPORTED_BY_SERVER = frozenset({"SchedulingGates"})
"""Plugins whose rejections the API server writes to the pod when it is created."""


@dataclass(slots=True)
class UnreadyPods:
    """Reports gated pods. Times are monotonic seconds.

    ``rejection_of`` runs the PreEnqueue plugins; ``report`` gets a pod and why it is not ready.
    """

    now: Callable[[], float]
    rejection_of: Callable[[PodInfo], tuple[str, Reject] | None]
    report: Callable[[PodInfo, str], object]
    _due: list[tuple[float, str, float]] = field(default_factory=list)
    """A heap of times with the uid of the pod and the seconds it waits for then."""
    _pods: dict[str, QueuedPodInfo] = field(default_factory=dict)
    """The pods in the heap, by uid."""

    def add(self, pod: QueuedPodInfo) -> None:
        """Add a pod that was just gated; one that is gated once more keeps its time."""
        if pod.uid not in self._pods:
            heapq.heappush(self._due, (self.now() + FIRST_WAIT, pod.uid, FIRST_WAIT))
        self._pods[pod.uid] = pod

    def flush(self) -> None:
        """Report the pods that are due and still gated."""
        now = self.now()
        while self._due and self._due[0][0] <= now:
            _, uid, waited = heapq.heappop(self._due)
            pod = self._pods.pop(uid)
            found = self.rejection_of(pod.pod_info) if pod.queue_name == "gated" else None
            if found is None or found[0] in REPORTED_BY_SERVER:
                continue
            self.report(pod.pod_info, ", ".join(found[1].reasons))
            again = min(2 * waited, LONGEST_WAIT)
            self._pods[uid] = pod
            heapq.heappush(self._due, (now + again, uid, again))

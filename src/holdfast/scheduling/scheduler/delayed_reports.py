"""Reports on objects for which no scheduling attempt is made, after they have waited for a while.

They are pods that a PreEnqueue plugin keeps out of activeQ, and objects that no profile schedules.
Most of them wait for a moment only, so a report at once would be a needless write.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from holdfast.api.pod import Pod
from holdfast.api.reservation import PENDING, Reservation
from holdfast.api.reservation_status import SCHEDULED
from holdfast.scheduling.framework.plugin import Reject
from holdfast.scheduling.scheduler.queued_pods import QueuedPodInfo
from holdfast.state.columns.pod_info import PodInfo

UNCLAIMED_SECONDS = 60.0
"""How long an object that no profile schedules waits for another scheduler."""
UNCLAIMED_REASON = "UnknownSchedulerName"
FIRST_WAIT, LONGEST_WAIT = 5.0, 300.0
"""Seconds until a pod is reported; each further wait is twice as long as the one before."""
REPORTED_BY_SERVER = frozenset({"SchedulingGates"})
"""Plugins whose rejections the API server writes to the pod when it is created."""


@dataclass(slots=True)
class UnreadyPods:
    """Reports why a PreEnqueue plugin keeps pods out of activeQ. Times are monotonic seconds.

    As in KEP-5501: most such pods wait for a moment only, for the claim that is made from their
    template, and get no condition. The reason why the others wait is read again from time to time:
    it may have been a missing template at first, and a quota that refuses the claim now.

    ``rejection_of`` runs the PreEnqueue plugins; ``report`` gets a pod and why it is not ready.
    """

    now: Callable[[], float]
    rejection_of: Callable[[PodInfo], tuple[str, Reject] | None]
    report: Callable[[PodInfo, str], object]
    _due: list[tuple[float, str, float]] = field(default_factory=list)
    """A heap of (time of the report, uid of the pod, seconds that the pod waits until then)."""
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
            plugin_and_rejection = (
                self.rejection_of(pod.pod_info) if pod.queue_name == "gated" else None
            )
            if plugin_and_rejection is None or plugin_and_rejection[0] in REPORTED_BY_SERVER:
                continue
            self.report(pod.pod_info, ", ".join(plugin_and_rejection[1].reasons))
            again = min(2 * waited, LONGEST_WAIT)
            self._pods[uid] = pod
            heapq.heappush(self._due, (now + again, uid, again))


@dataclass(slots=True)
class UnclaimedObjects:
    """Reports objects whose schedulerName is that of no profile, once. Times are monotonic seconds.

    They may belong to another scheduler, so only those on which none has reported get an event:
    without it such an object would wait without any report.

    ``newest`` returns the newest version of an object, None if it is gone; ``record`` writes an
    event, given the object, its reason and its message.
    """

    profiles: Collection[str]
    newest: Callable[[Pod | Reservation], Pod | Reservation | None]
    record: Callable[[Pod | Reservation, str, str], None]
    _waiting: deque[tuple[float, Pod | Reservation]] = field(default_factory=deque)

    def add(self, obj: Pod | Reservation, now: float) -> None:
        """Add a new object that no profile schedules."""
        self._waiting.append((now + UNCLAIMED_SECONDS, obj))

    def flush(self, now: float) -> None:
        """Report the objects that have waited for a minute."""
        while self._waiting and self._waiting[0][0] <= now:
            _, obj = self._waiting.popleft()
            newest = self.newest(obj)
            if newest is not None and newest.uid == obj.uid and _is_unclaimed(newest):
                self.record(newest, UNCLAIMED_REASON, self._message(newest))

    def _message(self, obj: Pod | Reservation) -> str:
        if isinstance(obj, Pod):
            path, name = "spec.schedulerName", obj.spec.scheduler_name or "default-scheduler"
        else:
            path, name = "spec.template.spec.schedulerName", obj.scheduler_name
        profiles = ", ".join(self.profiles)
        return (
            f"no scheduler has reported on this object for {UNCLAIMED_SECONDS:.0f} s: "
            f"{path} is {name}, and Holdfast has the profiles {profiles}"
        )


def _is_unclaimed(obj: Pod | Reservation) -> bool:
    """Return whether no scheduler has taken or judged an object that waits for one."""
    if obj.metadata.deletion_timestamp is not None:
        return False
    if isinstance(obj, Pod):
        return not (obj.condition("PodScheduled") or obj.finished or obj.spec.node_name)
    return obj.phase == PENDING and not obj.status.node_name and obj.condition(SCHEDULED) is None

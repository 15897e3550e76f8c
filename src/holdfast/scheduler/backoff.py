"""Pods that wait a little before their next try.

The wait is 1, 2, 4, 8, 10, 10 … seconds by number of rejections, or by number of errors when the
last attempt failed by error. Expiries are floored to whole seconds, and a pod waits through the
second it expires in, as upstream does.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.scheduler.queued_pods import QueuedPod

Entry = tuple[float, int, float, int, QueuedPod]


@dataclass(slots=True)
class Backoff:
    """Two heaps by expiry, then by the order of the queue.

    Pods whose last attempt ended in an error wait apart: they are never taken early, an error is
    given its time to pass. An entry whose pod has moved on since is stale and is skipped.
    """

    initial: float
    longest: float
    _rejected: list[Entry] = field(default_factory=list)
    _failed: list[Entry] = field(default_factory=list)

    def expiry(self, pod: QueuedPod) -> float:
        """When the pod's backoff is over; it still waits during that very second."""
        tries = pod.errors or pod.rejections
        if tries == 0:
            return -math.inf
        # Beyond 2^30 every wait is the longest one, and floats run out at 2^1024.
        wait = min(self.initial * 2.0 ** min(tries - 1, 30), self.longest)
        return math.floor(pod.since + wait)

    def over(self, pod: QueuedPod, now: float) -> bool:
        """Tell whether the pod need not wait any more."""
        return self.expiry(pod) < math.floor(now)

    def put(self, pod: QueuedPod) -> None:
        """Let a pod wait; its order must be set."""
        heap = self._failed if pod.errors else self._rejected
        entry = (self.expiry(pod), -pod.facts.priority, pod.since, pod.order, pod)
        heapq.heappush(heap, entry)

    def take_over(self, now: float) -> Iterator[QueuedPod]:
        """Take the pods whose backoff is over."""
        for heap in (self._rejected, self._failed):
            while heap and heap[0][0] < math.floor(now):
                entry = heapq.heappop(heap)
                if _waits(entry):
                    yield entry[-1]

    def take_early(self) -> QueuedPod | None:
        """Take the next pod before its time, unless its last attempt ended in an error."""
        while self._rejected:
            entry = heapq.heappop(self._rejected)
            if _waits(entry):
                return entry[-1]
        return None


def _waits(entry: Entry) -> bool:
    pod = entry[-1]
    return pod.place == "backoff" and pod.order == entry[3]

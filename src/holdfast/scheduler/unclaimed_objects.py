"""Pods and reservations whose schedulerName is that of no profile: an event after a minute.

They may belong to another scheduler. So the event is only for those on which none has reported:
without it such an object would wait without a word.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from holdfast.api.pod import Pod
from holdfast.api.reservation import PENDING, Reservation
from holdfast.api.reservation_status import SCHEDULED

WAIT_SECONDS = 60.0
REASON = "UnknownSchedulerName"


@dataclass(slots=True)
class UnclaimedObjects:
    """Reports each object once. Times are monotonic seconds.

    ``newest`` returns the newest version of an object, None if it is gone; ``record`` writes an
    event, given the object, its reason and its message.
    """

    profiles: Collection[str]
    newest: Callable[[Pod | Reservation], Pod | Reservation | None]
    record: Callable[[Pod | Reservation, str, str], None]
    _waiting: deque[tuple[float, Pod | Reservation]] = field(default_factory=deque)

    def add(self, obj: Pod | Reservation, now: float) -> None:
        """Add a new object that no profile schedules."""
        self._waiting.append((now + WAIT_SECONDS, obj))

    def flush(self, now: float) -> None:
        """Report the objects that have waited for a minute."""
        while self._waiting and self._waiting[0][0] <= now:
            _, obj = self._waiting.popleft()
            found = self.newest(obj)
            if found is not None and found.uid == obj.uid and _is_unclaimed(found):
                self.record(found, REASON, self._message(found))

    def _message(self, obj: Pod | Reservation) -> str:
        if isinstance(obj, Pod):
            path, name = "spec.schedulerName", obj.spec.scheduler_name or "default-scheduler"
        else:
            path, name = "spec.template.spec.schedulerName", obj.scheduler_name
        profiles = ", ".join(self.profiles)
        return (
            f"no scheduler has reported on this object for {WAIT_SECONDS:.0f} s: {path} is {name}, "
            f"and Holdfast has the profiles {profiles}"
        )


def _is_unclaimed(obj: Pod | Reservation) -> bool:
    """Return whether no scheduler has taken or judged an object that waits for one."""
    if obj.metadata.deletion_timestamp is not None:
        return False
    if isinstance(obj, Pod):
        return not (obj.condition("PodScheduled") or obj.finished or obj.spec.node_name)
    return obj.phase == PENDING and not obj.status.node_name and obj.condition(SCHEDULED) is None

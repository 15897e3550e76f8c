"""Events of the cluster, as queueing hints receive them."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from holdfast.columns.pod_info import PodInfo

WILDCARD = "*"
POD_RESOURCES = ("AssignedPod", "UnschedulablePod", "Pod")


class QueueingStrategy(Enum):
    """What the queue does with a rejected pod after an event; SKIP is false."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2

    def __bool__(self) -> bool:
        return self is not QueueingStrategy.SKIP


class ClusterEvent(msgspec.Struct, frozen=True):
    """A change of the cluster: a resource, an action, and the object before and after.

    The resource is a kind; for pods it is ``AssignedPod`` or ``UnschedulablePod`` (without a node).
    Actions are ``Add``, ``Delete``, ``Update``, or the part that changed: ``UpdateNodeTaint``,
    ``UpdatePodLabel`` and so on. The resource ``*`` is no change, only a request to try again.
    """

    resource: str
    action: str
    old: Any = None
    new: Any = None

    @property
    def is_pod_event(self) -> bool:
        """Whether the object is a pod, with or without a node."""
        return self.resource in POD_RESOURCES

    @property
    def is_reservation_event(self) -> bool:
        """Whether the object is a reservation; its owners are tried again for any such event."""
        return self.resource == "Reservation"

    def is_for_pod(self, pod: PodInfo) -> bool:
        """Return whether the object is this pod."""
        return self.is_pod_event and self.new is not None and self.new.uid == pod.pod.uid

    @property
    def label(self) -> str:
        """The name of the event in metrics.

        >>> ClusterEvent("AssignedPod", "Delete").label, ClusterEvent("*", "ForceActivate").label
        ('AssignedPodDelete', 'ForceActivate')
        """
        return self.action if self.resource == WILDCARD else f"{self.resource}{self.action}"

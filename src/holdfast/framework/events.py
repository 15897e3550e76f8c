"""What happens in a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.columns.pod_info import PodInfo

WILDCARD = "*"
POD_RESOURCES = ("AssignedPod", "UnschedulablePod", "Pod")


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """Something happened: which resource, which action.

    Pods are told apart by whether they stand on a node: ``AssignedPod``, ``UnschedulablePod``.
    Other resources go by their kind. Actions are ``Add``, ``Delete``, ``Update``, or what changed:
    ``UpdateNodeTaint``, ``UpdatePodLabel`` and so on. The resource ``*`` stands for no news at
    all, only for somebody's wish to try again.
    """

    resource: str
    action: str
    old: Any = None
    new: Any = None

    @property
    def is_pod_event(self) -> bool:
        """Whether it is about a pod, standing or waiting."""
        return self.resource in POD_RESOURCES

    @property
    def is_reservation_event(self) -> bool:
        """Whether it is about room held for owners: it concerns them, whatever rejected them."""
        return self.resource == "Reservation"

    def is_for_pod(self, pod: PodInfo) -> bool:
        """Whether it is about this very pod."""
        return self.is_pod_event and self.new is not None and self.new.uid == pod.pod.uid

    @property
    def label(self) -> str:
        """The name metrics give it.

        >>> ClusterEvent("AssignedPod", "Delete").label, ClusterEvent("*", "ForceActivate").label
        ('AssignedPodDelete', 'ForceActivate')
        """
        return self.action if self.resource == WILDCARD else f"{self.resource}{self.action}"

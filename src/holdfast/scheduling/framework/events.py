"""Events of the cluster, as queueing hints receive them."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from holdfast.state.columns.pod_info import PodInfo


class EventResource(StrEnum):
    """The subject of an event: a kind, in upstream's words. A plugin registers for some of them."""

    POD = "Pod"
    """To register for pods with and without a node; events have one of the next two."""
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULABLE_POD = "UnschedulablePod"
    NODE = "Node"
    NAMESPACE = "Namespace"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    STORAGE_CLASS = "StorageClass"
    CSI_NODE = "CSINode"
    CSI_DRIVER = "CSIDriver"
    CSI_STORAGE_CAPACITY = "CSIStorageCapacity"
    VOLUME_ATTACHMENT = "VolumeAttachment"
    RESOURCE_CLAIM = "ResourceClaim"
    RESOURCE_SLICE = "ResourceSlice"
    DEVICE_CLASS = "DeviceClass"
    RESOURCE_QUOTA = "ResourceQuota"
    POD_DISRUPTION_BUDGET = "PodDisruptionBudget"
    SERVICE = "Service"
    REPLICATION_CONTROLLER = "ReplicationController"
    REPLICA_SET = "ReplicaSet"
    STATEFUL_SET = "StatefulSet"
    RESERVATION = "Reservation"
    RESOURCE_POLICY = "ResourcePolicy"
    DEVICE = "Device"
    """Koordinator's object with the shared devices of a node."""
    NODE_RESOURCE_TOPOLOGY = "NodeResourceTopology"
    CLASSIC_RESOURCE_CLASS = "ClassicResourceClass"
    CLASSIC_RESOURCE_CLAIM = "ClassicResourceClaim"
    POD_SCHEDULING = "PodScheduling"
    WILDCARD = "*"
    """No change, only a request to try again."""


class ActionType(StrEnum):
    """The change of an event's object, in upstream's words."""

    ADD = "Add"
    DELETE = "Delete"
    UPDATE = "Update"
    """To register for every update; for pods and nodes also one that has no name below."""
    UPDATE_NODE_ALLOCATABLE = "UpdateNodeAllocatable"
    UPDATE_NODE_LABEL = "UpdateNodeLabel"
    UPDATE_NODE_TAINT = "UpdateNodeTaint"
    UPDATE_NODE_CONDITION = "UpdateNodeCondition"
    UPDATE_NODE_ANNOTATION = "UpdateNodeAnnotation"
    UPDATE_NODE_DECLARED_FEATURE = "UpdateNodeDeclaredFeature"
    UPDATE_POD_LABEL = "UpdatePodLabel"
    UPDATE_POD_SCALE_DOWN = "UpdatePodScaleDown"
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = "UpdatePodSchedulingGatesEliminated"
    UPDATE_POD_TOLERATION = "UpdatePodToleration"
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = "UpdatePodGeneratedResourceClaim"
    UPDATE_POD_TERMINATING = "UpdatePodTerminating"
    FORCE_ACTIVATE = "ForceActivate"


WILDCARD = EventResource.WILDCARD
POD_RESOURCES = (EventResource.ASSIGNED_POD, EventResource.UNSCHEDULABLE_POD, EventResource.POD)


class QueueingStrategy(Enum):
    """The action of the queue on a rejected pod after an event; SKIP is false."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2

    def __bool__(self) -> bool:
        return self is not QueueingStrategy.SKIP


class ClusterEvent(msgspec.Struct, frozen=True):
    """A change of the cluster: a resource, an action, and the object before and after.

    ``resource`` is an EventResource, and ``action`` is an ActionType.
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
        return self.resource == EventResource.RESERVATION

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

"""The API object that a scheduling attempt is about: a Pod, or the Reservation of a reserve pod.

The scheduler places a reserve pod as it places any pod, but reads and writes the Reservation.
"""

from __future__ import annotations

from typing import Any

from holdfast.api.meta import ObjectReference
from holdfast.api.pod import Pod
from holdfast.api.reservation import PENDING, Reservation
from holdfast.api.resource import Resource
from holdfast.api.scheme import PODS, RESERVATIONS
from holdfast.client.client import Client
from holdfast.scheduling.framework.world import World
from holdfast.state.columns.pod_info import PodInfo

ScheduledObject = Pod | Reservation


def resource_of(pod_info: PodInfo) -> Resource[Any]:
    """Return the resource of the object: pods or reservations."""
    return RESERVATIONS if pod_info.is_reserve_pod else PODS


def namespace_of(pod_info: PodInfo) -> str:
    """Return the namespace of the object, "" for a reservation."""
    return "" if pod_info.is_reserve_pod else pod_info.namespace


def name_of(pod_info: PodInfo) -> str:
    """Return "namespace/name" of a pod and the name of a reservation, for messages."""
    return pod_info.name if pod_info.is_reserve_pod else pod_info.key


def reference_to(pod_info: PodInfo) -> ObjectReference:
    """Return a reference to the version that was scheduled, for events."""
    resource = resource_of(pod_info)
    return ObjectReference(
        api_version=resource.api_version, kind=resource.kind, namespace=namespace_of(pod_info),
        name=pod_info.name, uid=pod_info.uid,
        resource_version=pod_info.pod.metadata.resource_version,
    )  # fmt: skip


async def read_newest(client: Client, pod_info: PodInfo) -> ScheduledObject | None:
    """Read the stored object; None if an object with another uid has its name."""
    obj: ScheduledObject = await client.get(
        resource_of(pod_info), pod_info.name, namespace_of(pod_info)
    )
    return obj if obj.uid == pod_info.pod.uid else None


def node_of(obj: ScheduledObject) -> str:
    """Return the node of the object, or ""."""
    return obj.status.node_name if isinstance(obj, Reservation) else obj.spec.node_name


def wants_node(obj: ScheduledObject) -> bool:
    """Tell whether the object is still to be scheduled."""
    over = obj.phase != PENDING if isinstance(obj, Reservation) else obj.finished
    return not (over or node_of(obj))


def pod_info_of(world: World, obj: ScheduledObject) -> PodInfo:
    """Return the pod info of the object, that of the reserve pod for a reservation."""
    return world.reserve_pod_info(obj) if isinstance(obj, Reservation) else world.pod_info(obj)

"""The API object behind what is scheduled: a Pod, or the Reservation that a pod stands in for.

A reservation looks for its node as a pod does. What is read and written about it is its own.
"""

from __future__ import annotations

from typing import Any

from holdfast.api.meta import ObjectReference
from holdfast.api.pod import Pod
from holdfast.api.reservation import PENDING, Reservation
from holdfast.api.resource import Resource
from holdfast.api.scheme import PODS, RESERVATIONS
from holdfast.client.client import Client
from holdfast.columns.pod_info import PodInfo
from holdfast.framework.world import World

ScheduledObject = Pod | Reservation


def resource_of(pod_info: PodInfo) -> Resource[Any]:
    """What sort of object it is."""
    return RESERVATIONS if pod_info.is_reserve_pod else PODS


def namespace_of(pod_info: PodInfo) -> str:
    """Its namespace; reservations have none."""
    return "" if pod_info.is_reserve_pod else pod_info.namespace


def name_of(pod_info: PodInfo) -> str:
    """Its name in messages, with the namespace if it has one."""
    return pod_info.name if pod_info.is_reserve_pod else pod_info.key


def reference_to(pod_info: PodInfo) -> ObjectReference:
    """A reference to the version that was seen, for events."""
    resource = resource_of(pod_info)
    return ObjectReference(
        api_version=resource.api_version, kind=resource.kind, namespace=namespace_of(pod_info),
        name=pod_info.name, uid=pod_info.uid,
        resource_version=pod_info.pod.metadata.resource_version,
    )  # fmt: skip


async def read_newest(client: Client, pod_info: PodInfo) -> ScheduledObject | None:
    """Read the object as it is stored now; None if another one has its name."""
    found: ScheduledObject = await client.get(
        resource_of(pod_info), pod_info.name, namespace_of(pod_info)
    )
    return found if found.uid == pod_info.pod.uid else None


def node_of(found: ScheduledObject) -> str:
    """The node it is on, or ""."""
    return found.status.node_name if isinstance(found, Reservation) else found.spec.node_name


def wants_node(found: ScheduledObject) -> bool:
    """Tell whether it still looks for a node."""
    over = found.phase != PENDING if isinstance(found, Reservation) else found.finished
    return not (over or node_of(found))


def pod_info_of(world: World, found: ScheduledObject) -> PodInfo:
    """Digest it for the queue."""
    return (
        world.reserve_pod_info(found) if isinstance(found, Reservation) else world.pod_info(found)
    )

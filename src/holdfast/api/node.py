"""Nodes and Leases."""

from __future__ import annotations

from holdfast.api.meta import Condition, Object, Struct
from holdfast.api.pod import ResourceAmounts


class Taint(Struct, frozen=True):
    """A taint: repels pods that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(Struct, frozen=True):
    """The spec of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = ""


class ContainerImage(Struct, frozen=True):
    """An image that is present on the node."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(Struct, frozen=True):
    """Capacity, conditions and images of a node."""

    capacity: ResourceAmounts = {}
    allocatable: ResourceAmounts = {}
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(Object, frozen=True):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class LeaseSpec(Struct, frozen=True):
    """Holder, times and duration of a lease."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Object, frozen=True):
    """A node's heartbeat, or the lock of a leader election."""

    spec: LeaseSpec = LeaseSpec()

"""Nodes, and the Lease by which a node says that it lives."""

from __future__ import annotations

from holdfast.api.meta import Condition, Object, Struct
from holdfast.api.pod import ResourceAmounts


class Taint(Struct, frozen=True):
    """Keep away pods that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(Struct, frozen=True):
    """What an administrator says about the node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = ""


class ContainerImage(Struct, frozen=True):
    """An image that is on the node already."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(Struct, frozen=True):
    """What the node has and how it is doing."""

    capacity: ResourceAmounts = {}
    allocatable: ResourceAmounts = {}
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(Object, frozen=True):
    """A machine that runs pods."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class LeaseSpec(Struct, frozen=True):
    """Who holds the lease, since when and for how long."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Object, frozen=True):
    """A node's heartbeat, or a leader's claim."""

    spec: LeaseSpec = LeaseSpec()

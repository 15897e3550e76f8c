"""Pods, nodes and claims as an agent reads them: with the addresses it gives out."""

from __future__ import annotations

import msgspec

from holdfast.api.meta import Struct
from holdfast.api.node import Node, NodeStatus
from holdfast.api.pod import Pod, PodStatus
from holdfast.api.resource import Resource
from holdfast.api.scheme import NODES, PODS


class NodeAddress(Struct, frozen=True):
    """One way to reach a node."""

    type: str = ""
    address: str = ""


class AgentNodeStatus(NodeStatus, frozen=True):
    """A node's status with its addresses."""

    addresses: tuple[NodeAddress, ...] = ()


class AgentNode(Node, frozen=True):
    """A node as its agent sees it."""

    status: AgentNodeStatus = AgentNodeStatus()

    @property
    def internal_ip(self) -> str:
        """The address its pods report as their host's, "" while it has none."""
        return next((a.address for a in self.status.addresses if a.type == "InternalIP"), "")


class AgentPodStatus(PodStatus, frozen=True):
    """A pod's status with its address."""

    pod_ip: str = msgspec.field(default="", name="podIP")


class AgentPod(Pod, frozen=True):
    """A pod as its agent sees it."""

    status: AgentPodStatus = AgentPodStatus()


AGENT_NODES = Resource(
    NODES.group, NODES.version, NODES.plural, NODES.kind, AgentNode, namespaced=False,
    subresources=NODES.subresources,
)  # fmt: skip
AGENT_PODS = Resource(
    PODS.group, PODS.version, PODS.plural, PODS.kind, AgentPod, subresources=PODS.subresources
)

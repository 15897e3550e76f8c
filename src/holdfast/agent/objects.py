"""Pods and nodes as the agent reads them: with addresses."""

from __future__ import annotations

import msgspec

from holdfast.api.meta import Struct
from holdfast.api.node import Node, NodeStatus
from holdfast.api.pod import Pod, PodStatus
from holdfast.api.resource import Resource
from holdfast.api.scheme import NODES, PODS


class NodeAddress(Struct, frozen=True):
    """One address of a node."""

    type: str = ""
    address: str = ""


class AgentNodeStatus(NodeStatus, frozen=True):
    """A node's status with its addresses."""

    addresses: tuple[NodeAddress, ...] = ()


class AgentNode(Node, frozen=True):
    """A node with its addresses."""

    status: AgentNodeStatus = AgentNodeStatus()

    @property
    def internal_ip(self) -> str:
        """The InternalIP address, which its pods report as hostIP; "" if there is none."""
        return next((a.address for a in self.status.addresses if a.type == "InternalIP"), "")


class AgentPodStatus(PodStatus, frozen=True):
    """A pod's status with its address."""

    pod_ip: str = msgspec.field(default="", name="podIP")


class AgentPod(Pod, frozen=True):
    """A pod with its address."""

    status: AgentPodStatus = AgentPodStatus()


AGENT_NODES = Resource(
    NODES.group, NODES.version, NODES.plural, NODES.kind, AgentNode, namespaced=False,
    subresources=NODES.subresources,
)  # fmt: skip
AGENT_PODS = Resource(
    PODS.group, PODS.version, PODS.plural, PODS.kind, AgentPod, subresources=PODS.subresources
)

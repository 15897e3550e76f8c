"""The addresses of nodes and pods: objects with them, and the pool that allocates them."""

from __future__ import annotations

import heapq
from ipaddress import IPv4Address, IPv4Network

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


class AddressPool:
    """Addresses of a network by owner; the lowest released address is allocated first."""

    def __init__(self, network: str) -> None:
        self._network = IPv4Network(network)
        self._first = int(self._network.network_address) + 1
        self._last = int(self._network.broadcast_address) - 1
        self._next = self._first
        self._free: list[int] = []
        self._address_of: dict[str, str] = {}
        self._taken: set[int] = set()

    def allocate(self, owner: str, known: str = "") -> str:
        """Return the owner's address; ``known`` is the address in its status, if it has one.

        A client may have written any text as ``known``; it is kept even if it is not an address.
        """
        if owner in self._address_of:
            return self._address_of[owner]
        address = known or str(IPv4Address(self._lowest()))
        self._address_of[owner] = address
        if (number := _number(address)) is not None:
            self._taken.add(number)
        return address

    def release(self, owner: str) -> None:
        """Release the address of a deleted owner."""
        number = _number(self._address_of.pop(owner, ""))
        if number is None:
            return
        self._taken.discard(number)
        if self._first <= number < self._next:
            heapq.heappush(self._free, number)

    def _lowest(self) -> int:
        while self._free:
            number = heapq.heappop(self._free)
            if number not in self._taken:
                return number
        while self._next in self._taken:
            self._next += 1
        assert self._next <= self._last, f"all addresses of {self._network} are allocated"
        self._next += 1
        return self._next - 1


def _number(address: str) -> int | None:
    try:
        return int(IPv4Address(address))
    except ValueError:
        return None

"""The state of a node's CPUs and NUMA nodes as a value: equal states give equal results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from holdfast.api.resource_names import CPU
from holdfast.state.numa.node_policies import NodePolicies, amplify
from holdfast.state.numa.numa_amounts import AmountsByNumaNode
from holdfast.state.numa.policy_names import NUMA_NODE_LEVEL, PCPU_LEVEL
from holdfast.state.numa.resource_status import NumaAllocation, NumaAmounts, ordered
from holdfast.state.numa.topology import NO_TOPOLOGY, NodeTopology
from holdfast.state.numa.topology_hints import UNUSED, NodeUse


@dataclass(frozen=True, slots=True, eq=False)
class NumaShape:
    """The resources and policies of a node, without its pods. Equal ones are usually one object."""

    topology: NodeTopology
    policies: NodePolicies
    available: int
    """CPUs that pods may be bound to."""
    zones: AmountsByNumaNode
    """Amounts of the NUMA nodes, amplified."""

    @property
    def concerns_all_pods(self) -> bool:
        """Whether it matters to pods that ask for nothing: it binds or aligns or amplifies."""
        policies = self.policies
        return bool(policies.bind or policies.numa) or policies.ratio != 1.0


@lru_cache(maxsize=4096)
def node_shape(topology: NodeTopology, policies: NodePolicies) -> NumaShape:
    """Return the shape of a node."""
    ratios = {} if policies.zones_amplified else dict(policies.ratios)
    zones = {
        zone.node: {name: amplify(amount, ratios.get(name, 1.0)) for name, amount in zone.amounts}
        for zone in topology.zones
    }
    return NumaShape(topology, policies, topology.cpu.all & ~topology.unavailable, zones)


NO_SHAPE = node_shape(NO_TOPOLOGY, NodePolicies())


class NodeState(NamedTuple):
    """Everything about a node that affects the choice of CPUs and NUMA nodes for a pod.

    ``held`` are CPUs of pods and of reservations, ``used`` are amounts of NUMA nodes of both.
    ``core_exclusive`` and ``node_exclusive`` are CPUs held with these exclusive policies.
    """

    shape: NumaShape = NO_SHAPE
    held: int = 0
    used: NumaAmounts = ()
    core_exclusive: int = 0
    node_exclusive: int = 0
    use: NodeUse = UNUSED

    @property
    def free(self) -> int:
        """The CPUs that are free."""
        return self.shape.available & ~self.held

    def held_exclusively(self, policy: str) -> int:
        """Return the CPUs held with the same exclusive policy."""
        if policy == PCPU_LEVEL:
            return self.core_exclusive
        return self.node_exclusive if policy == NUMA_NODE_LEVEL else 0


class NumaOffer(NamedTuple):
    """The part of a reservation that a pod may use: CPUs and amounts that no owner has.

    With ``only_cpus`` the pod is bound to no other CPUs; with ``all_cpus`` it is bound to each of
    them at least. It uses no other amounts of the resources in ``only_amounts``.
    """

    cpus: int = 0
    amounts: NumaAmounts = ()
    only_cpus: bool = False
    only_amounts: frozenset[str] = frozenset()
    all_cpus: bool = False


NO_OFFER = NumaOffer()


class PodHolding(NamedTuple):
    """The allocation of a pod, and the uid of the reservation it comes from, or ""."""

    allocation: NumaAllocation
    reservation: str = ""


class ReservationHolding(NamedTuple):
    """The allocation of a reservation, and the resources that are Restricted to it."""

    allocation: NumaAllocation
    restricted: frozenset[str] = frozenset()


def state_of(
    shape: NumaShape,
    pods: Collection[PodHolding],
    reservations: Mapping[str, ReservationHolding],
) -> NodeState:
    """Return the state of a node with these pods and active reservations."""
    if not pods and not reservations:
        return NodeState(shape)
    held = core = node = single = spanning = 0
    used: dict[int, dict[str, int]] = {}
    for allocation in _holders(pods, reservations):
        held |= allocation.cpus
        if allocation.exclusive_policy == PCPU_LEVEL:
            core |= allocation.cpus
        elif allocation.exclusive_policy == NUMA_NODE_LEVEL:
            node |= allocation.cpus
        if allocation.amounts:
            mask = 0
            for numa_node, amounts in allocation.amounts:
                mask |= 1 << numa_node
                of_node, has = used.setdefault(numa_node, {}), shape.zones.get(numa_node, {})
                for name, amount in amounts:
                    if name in has:  # users may write any names, and states are remembered
                        of_node[name] = of_node.get(name, 0) + amount
            if len(allocation.amounts) == 1:
                single |= mask
            else:
                spanning |= mask
    return NodeState(shape, held, ordered(used), core, node, NodeUse(single, spanning))


def _holders(
    pods: Collection[PodHolding], reservations: Mapping[str, ReservationHolding]
) -> Iterable[NumaAllocation]:
    """Return what pods have, and the parts of reservations that no owner has."""
    for holding in pods:
        yield holding.allocation
    for uid, reserved in reservations.items():
        yield remaining(uid, reserved, pods)


def remaining(
    uid: str, reserved: ReservationHolding, pods: Collection[PodHolding]
) -> NumaAllocation:
    """Return what is left of a reservation: CPUs that no pod has, amounts that no owner has."""
    cpus = reserved.allocation.cpus
    amounts = {node: dict(of) for node, of in reserved.allocation.amounts}
    for holding in pods:
        cpus &= ~holding.allocation.cpus
        if amounts and holding.reservation == uid:
            for node, of in holding.allocation.amounts:
                mine = amounts.get(node, {})
                for name, amount in of:
                    if name in mine:
                        mine[name] = max(0, mine[name] - amount)
    return NumaAllocation(cpus, ordered(amounts), reserved.allocation.exclusive_policy)


def offer_of(
    shape: NumaShape, uid: str, reserved: ReservationHolding, pods: Collection[PodHolding]
) -> NumaOffer:
    """Return what a pod may use of a reservation."""
    left = remaining(uid, reserved, pods)
    only_cpus = CPU in reserved.restricted and reserved.allocation.cpus != 0
    only_amounts = reserved.restricted if reserved.allocation.amounts else frozenset[str]()
    return NumaOffer(left.cpus & shape.available, left.amounts, only_cpus, only_amounts)

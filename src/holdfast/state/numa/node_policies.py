"""Read how a node's CPUs and NUMA nodes are to be used, from its labels or its topology."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.api.annotations import parse_annotation
from holdfast.api.koordinator_names import (
    AMPLIFICATION_RATIO,
    CPU_BIND_POLICY,
    NUMA_ALLOCATE_STRATEGY,
    NUMA_TOPOLOGY_POLICY,
)
from holdfast.api.quantity import MAX_INT64
from holdfast.api.resource_names import CPU
from holdfast.runtime.errors import BadRequest
from holdfast.state.numa.policy_names import (
    FULL_PCPUS,
    FULL_PCPUS_ONLY,
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    NUMA_POLICIES,
    SPREAD_BY_PCPUS,
)
from holdfast.state.numa.topology import NodeTopology

POLICY_MISMATCH = "node(s) NUMA Topology policy not match"
BAD_RATIO = "node(s) invalid CPU amplification ratio"


@dataclass(frozen=True, slots=True)
class NodePolicies:
    """The policies of one node.

    ``ratio`` is the amplification of cpu (1 for none), ``None`` if the annotation is malformed.
    ``ratios`` are those of all resources; ``zones_amplified`` tells whether zones have them
    applied.
    """

    bind: str = ""
    """FullPCPUs or SpreadByPCPUs if every pod with cpu is bound; empty otherwise."""
    numa: str = ""
    strategy: str = ""
    """MostAllocated or LeastAllocated; empty for the default of the arguments."""
    ratio: float | None = 1.0
    ratios: tuple[tuple[str, float], ...] = ()
    zones_amplified: bool = False


def read_node(
    labels: Mapping[str, str], annotations: Mapping[str, str], topology: NodeTopology
) -> NodePolicies:
    """Read the policies of a Node with this topology."""
    bind = {FULL_PCPUS_ONLY: FULL_PCPUS, SPREAD_BY_PCPUS: SPREAD_BY_PCPUS}.get(
        labels.get(CPU_BIND_POLICY, ""), ""
    )
    named = labels.get(NUMA_TOPOLOGY_POLICY, "")
    strategy = labels.get(NUMA_ALLOCATE_STRATEGY, "")
    ratios = topology.ratios
    ratio: float | None
    try:
        if ratios is None:
            by_resource = parse_annotation(annotations, AMPLIFICATION_RATIO, dict[str, float])
            ratios = tuple(sorted((by_resource or {}).items()))
        ratio = max(dict(ratios).get(CPU, 1.0), 1.0)
    except BadRequest:
        ratios, ratio = (), None
    return NodePolicies(
        bind=FULL_PCPUS if topology.full_pcpus_only else bind,
        numa=named if named in NUMA_POLICIES else topology.policy,
        strategy=_STRATEGIES.get(strategy, ""),
        ratio=ratio,
        ratios=ratios,
        zones_amplified=topology.ratios is not None,
    )


_STRATEGIES = {
    MOST_ALLOCATED: MOST_ALLOCATED,
    LEAST_ALLOCATED: LEAST_ALLOCATED,
    "DistributeEvenly": LEAST_ALLOCATED,
}


def merge_numa_policies(node: str, pod: str) -> str | None:
    """Return the NUMA policy for a pod on a node, None if the two have different ones."""
    if node and pod and node != pod:
        return None
    return pod or node


def amplify(amount: int, ratio: float) -> int:
    """Return an amount times a ratio above 1, rounded up and capped to int64.

    >>> amplify(1000, 1.5), amplify(1000, 0.5), amplify(2**62, 1e300) == 2**63 - 1
    (1500, 1000, True)
    """
    if ratio <= 1:
        return amount
    amplified = amount * ratio
    return math.ceil(amplified) if amplified < MAX_INT64 else MAX_INT64

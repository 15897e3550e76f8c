"""Amounts of NUMA nodes: dividing a request over them, and their score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.api.resource_names import CPU, MEMORY, is_scalar
from holdfast.state.numa.policy_names import LEAST_ALLOCATED

AmountsByNumaNode = Mapping[int, Mapping[str, int]]
"""Amounts by NUMA node and resource name: cpu in millicores, others in units."""


class Strategy(NamedTuple):
    """LeastAllocated or MostAllocated, and the weights of the resources that are scored."""

    type: str = LEAST_ALLOCATED
    weights: tuple[tuple[str, int], ...] = ((CPU, 1), (MEMORY, 1))


LEAST = Strategy()


def split_amounts(
    requested: Mapping[str, int],
    available: AmountsByNumaNode,
    nodes: Sequence[int],
    *,
    cpu_step: int = 1,
) -> tuple[dict[int, dict[str, int]], list[str]]:
    """Divide a request evenly over NUMA nodes; also return the resources that are short.

    The NUMA node with the least comes first, so that the others can make up for it. Cpu is divided
    in steps of ``cpu_step`` millicores. Resources that no NUMA node lists are left out.

    >>> split_amounts({"cpu": 5000}, {0: {"cpu": 2000}, 1: {"cpu": 8000}}, [0, 1], cpu_step=1000)
    ({0: {'cpu': 2000}, 1: {'cpu': 3000}}, [])
    """
    split: dict[int, dict[str, int]] = {}
    short: list[str] = []
    for name, amount in requested.items():
        if not any(name in of for of in available.values()):
            continue
        step = cpu_step if name == CPU else 1
        has = {node: available[node].get(name, 0) for node in nodes}
        rest = amount
        for i, node in enumerate(sorted(nodes, key=lambda node: (has[node], node))):
            even = rest // step // (len(nodes) - i) * step
            part = min(even, has[node])
            if part:
                split.setdefault(node, {})[name] = part
                rest -= part
        if rest:
            short.append(name)
    return split, short


def score_amounts(
    strategy: Strategy,
    requested: Mapping[str, int],
    capacity: Mapping[str, int],
    pod: Mapping[str, int],
) -> int:
    """Return the score 0..100 of a node or of NUMA nodes with the pod's request added.

    Extended resources count only if the pod requests them.
    """
    total = weights = 0
    for name, weight in strategy.weights:
        have, asked = capacity.get(name, 0), pod.get(name, 0)
        if not have or (not asked and is_scalar(name)):
            continue
        used = requested.get(name, 0) + asked
        if strategy.type == LEAST_ALLOCATED:
            total += weight * (max(0, have - used) * 100 // have)
        else:
            total += weight * (min(used, have) * 100 // have)
        weights += weight
    return total // weights if weights else 0


def sum_amounts(amounts: AmountsByNumaNode, nodes: Sequence[int]) -> dict[str, int]:
    """Return the sum over NUMA nodes by resource."""
    sums: dict[str, int] = {}
    for node in nodes:
        for name, amount in amounts.get(node, {}).items():
            sums[name] = sums.get(name, 0) + amount
    return sums

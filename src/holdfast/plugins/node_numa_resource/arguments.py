"""NodeNUMAResourceArgs as in Koordinator: the default bind policy and how nodes are scored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.api.field_errors import invalid, not_supported
from holdfast.framework.arguments import Arguments, PluginArgs
from holdfast.numa.policies import BIND_POLICIES, FULL_PCPUS, LEAST_ALLOCATED, MOST_ALLOCATED

_STRATEGIES = (LEAST_ALLOCATED, MOST_ALLOCATED)


class WeightedResource(msgspec.Struct, frozen=True, rename="camel"):
    """A resource that is scored, and its weight."""

    name: str = ""
    weight: int = 1


class ScoringStrategy(msgspec.Struct, frozen=True, rename="camel"):
    """Whether free or used nodes are preferred, and by which resources."""

    type: str = LEAST_ALLOCATED
    resources: tuple[WeightedResource, ...] = (WeightedResource("cpu"), WeightedResource("memory"))

    @property
    def weights(self) -> tuple[tuple[str, int], ...]:
        """The weights by resource name."""
        return tuple((each.name, each.weight) for each in self.resources)


class NodeNUMAResourceArgs(PluginArgs, frozen=True):
    """The arguments of the plugin.

    ``default_bind_policy``: how CPUs of LSE and LSR pods are bound that do not say it; "" leaves
    them unbound. ``numa_scoring_strategy.type`` also decides which NUMA node is filled first.
    """

    default_bind_policy: str = msgspec.field(default=FULL_PCPUS, name="defaultCPUBindPolicy")
    scoring_strategy: ScoringStrategy = ScoringStrategy()
    numa_scoring_strategy: ScoringStrategy = ScoringStrategy()


def read_args(given: Mapping[str, Any]) -> NodeNUMAResourceArgs:
    """Read the arguments; BadConfiguration lists every wrong field."""
    wrong = Arguments("NodeNUMAResource")
    args = wrong.read(NodeNUMAResourceArgs, given)
    if args.default_bind_policy not in ("", *BIND_POLICIES):
        message = "must specified CPU bind policy FullPCPUs or SpreadByPCPUs"
        wrong.append(invalid("defaultCPUBindPolicy", args.default_bind_policy, message))
    _check(args.scoring_strategy, "scoringStrategy", wrong)
    _check(args.numa_scoring_strategy, "numaScoringStrategy", wrong)
    wrong.refuse_if_wrong()
    return args


def _check(strategy: ScoringStrategy, path: str, wrong: Arguments) -> None:
    if strategy.type not in _STRATEGIES:
        wrong.append(not_supported(f"{path}.type", strategy.type, _STRATEGIES))
    wrong.check_weights(strategy.weights, path)

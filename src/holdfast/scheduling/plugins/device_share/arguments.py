"""DeviceShareArgs: how devices and nodes are scored, and which GPUs cannot be shared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.api.field_errors import not_supported, required
from holdfast.scheduling.framework.arguments import Arguments, PluginArgs
from holdfast.state.device_share.scoring import ScoringStrategy
from holdfast.state.numa.policy_names import LEAST_ALLOCATED, MOST_ALLOCATED

_STRATEGIES = (LEAST_ALLOCATED, MOST_ALLOCATED)
_STRATEGY = "scoringStrategy"


class _Resource(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    weight: int = 1


class _Strategy(msgspec.Struct, frozen=True, rename="camel"):
    type: str = LEAST_ALLOCATED
    resources: tuple[_Resource, ...] = ()


class _Model(msgspec.Struct, frozen=True, rename="camel"):
    vendor: str = ""
    model: str = ""


class _Templates(msgspec.Struct, frozen=True, rename="camel"):
    config_map_namespace: str = ""
    config_map_name: str = ""
    matched_resources: tuple[str, ...] = ()


class _Given(PluginArgs, frozen=True):
    allocator: str = ""
    scoring_strategy: _Strategy | None = None
    disable_device_numa_topology_alignment: bool = msgspec.field(
        default=False, name="disableDeviceNUMATopologyAlignment"
    )
    gpu_shared_resource_templates_config: _Templates | None = msgspec.field(
        default=None, name="gpuSharedResourceTemplatesConfig"
    )
    gpu_share_unsupported_models: tuple[_Model, ...] = msgspec.field(
        default=(), name="gpuShareUnsupportedModels"
    )


@dataclass(frozen=True, slots=True)
class DeviceShareArgs:
    """The arguments, read and checked; ``unsupported`` are (vendor, model) of GPUs."""

    strategy: ScoringStrategy
    aligns: bool = True
    unsupported: frozenset[tuple[str, str]] = frozenset()


def read_args(given: Mapping[str, Any]) -> DeviceShareArgs:
    """Read the arguments; raise BadConfiguration that names every wrong field."""
    wrong = Arguments("DeviceShare")
    args = wrong.read(_Given, given)
    strategy = _read_strategy(args.scoring_strategy, wrong)
    for i, model in enumerate(args.gpu_share_unsupported_models):
        if not model.model:
            wrong.append(required(f"gpuShareUnsupportedModels[{i}].model", ""))
    wrong.refuse_if_wrong()
    return DeviceShareArgs(
        strategy,
        not args.disable_device_numa_topology_alignment,
        frozenset((m.vendor, m.model) for m in args.gpu_share_unsupported_models),
    )


def _read_strategy(given: _Strategy | None, wrong: Arguments) -> ScoringStrategy:
    if given is None:
        return ScoringStrategy()
    if given.type not in _STRATEGIES:
        wrong.append(not_supported(f"{_STRATEGY}.type", given.type, _STRATEGIES))
    weights = tuple((one.name, one.weight) for one in given.resources)
    wrong.check_weights(weights, _STRATEGY)
    return ScoringStrategy(given.type, weights) if weights else ScoringStrategy(given.type)

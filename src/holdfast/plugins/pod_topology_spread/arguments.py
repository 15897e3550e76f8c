"""PodTopologySpreadArgs: the constraints of pods that have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.api.field_errors import duplicate, forbidden, invalid, not_supported, required
from holdfast.api.names import label_key
from holdfast.api.pod import TopologySpreadConstraint
from holdfast.framework.arguments import Arguments, PluginArgs
from holdfast.plugins.pod_topology_spread.constraints import HARD, SOFT, Defaults

SYSTEM, LIST = "System", "List"


class _Args(PluginArgs, frozen=True):
    defaulting_type: str = ""
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()


def read_args(plugin: str, args: Mapping[str, Any]) -> Defaults:
    """Read the default constraints; raise an error that names every wrong field."""
    wrong = Arguments(plugin)
    given = wrong.read(_Args, args)
    defaulting = given.defaulting_type or SYSTEM
    if defaulting not in (SYSTEM, LIST):
        wrong.append(not_supported("defaultingType", defaulting, (SYSTEM, LIST)))
    elif defaulting == SYSTEM and given.default_constraints:
        message = "when .defaultConstraints are not empty"
        wrong.append(invalid("defaultingType", SYSTEM, message))
    seen: set[tuple[str, str]] = set()
    for i, constraint in enumerate(given.default_constraints):
        path = f"defaultConstraints[{i}]"
        _check(constraint, path, wrong)
        key = (constraint.topology_key, constraint.when_unsatisfiable)
        if key in seen:
            wrong.append(duplicate(path, f"{{{', '.join(key)}}}"))
        seen.add(key)
    wrong.refuse_if_wrong()
    return Defaults() if defaulting == SYSTEM else Defaults(given.default_constraints, system=False)


def _check(constraint: TopologySpreadConstraint, path: str, wrong: Arguments) -> None:
    if constraint.max_skew <= 0:
        wrong.append(invalid(f"{path}.maxSkew", constraint.max_skew, "not in valid range (0, inf)"))
    if not constraint.topology_key:
        wrong.append(required(f"{path}.topologyKey", "can not be empty"))
    else:
        at = f"{path}.topologyKey"
        wrong.extend(
            invalid(at, constraint.topology_key, message)
            for message in label_key(constraint.topology_key)
        )
    action = constraint.when_unsatisfiable
    if not action:
        wrong.append(required(f"{path}.whenUnsatisfiable", "can not be empty"))
    elif action not in (HARD, SOFT):
        wrong.append(not_supported(f"{path}.whenUnsatisfiable", action, (HARD, SOFT)))
    if constraint.label_selector is not None:
        message = "constraint must not define a selector, as they deduced for each pod"
        wrong.append(forbidden(f"{path}.labelSelector", message))

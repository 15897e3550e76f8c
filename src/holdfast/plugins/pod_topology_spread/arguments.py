"""Arguments of the plugin: which constraints apply to pods that have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.api.pod import TopologySpreadConstraint
from holdfast.framework.arguments import Arguments
from holdfast.plugins.pod_topology_spread.constraints import HARD, SOFT, Defaults

SYSTEM, LIST = "System", "List"


def read_args(plugin: str, args: Mapping[str, Any]) -> Defaults:
    """Read the defaults, or refuse them naming every wrong field."""
    read = Arguments(plugin, args, ("defaultingType", "defaultConstraints"))
    given = read.get("defaultConstraints", ())
    kind = read.get("defaultingType", SYSTEM)
    if kind not in (SYSTEM, LIST):
        read.wrong(
            "defaultingType", f"supported values: {LIST}, {SYSTEM}", "FieldValueNotSupported"
        )
    elif kind == SYSTEM and given:
        words = "when .defaultConstraints are not empty"
        read.wrong("defaultingType", f"Invalid value: {SYSTEM}: {words}")
    constraints = _constraints(read, given)
    read.refuse_if_wrong()
    return Defaults() if kind == SYSTEM else Defaults(constraints, system=False)


def _constraints(read: Arguments, given: Any) -> tuple[TopologySpreadConstraint, ...]:
    try:
        found = msgspec.convert(given, tuple[TopologySpreadConstraint, ...])
    except msgspec.ValidationError as wrong:
        read.wrong("defaultConstraints", str(wrong))
        return ()
    seen: set[tuple[str, str]] = set()
    for i, one in enumerate(found):
        at = f"defaultConstraints[{i}]"
        if one.max_skew <= 0:
            read.wrong(f"{at}.maxSkew", "not in valid range (0, inf)")
        if not one.topology_key:
            read.wrong(f"{at}.topologyKey", "can not be empty", "FieldValueRequired")
        if one.when_unsatisfiable not in (HARD, SOFT):
            words = f"supported values: {HARD}, {SOFT}"
            read.wrong(f"{at}.whenUnsatisfiable", words, "FieldValueNotSupported")
        if one.label_selector is not None:
            words = "constraint must not define a selector, as they deduced for each pod"
            read.wrong(f"{at}.labelSelector", words, "FieldValueForbidden")
        if (one.topology_key, one.when_unsatisfiable) in seen:
            words = "duplicate {topologyKey, whenUnsatisfiable}"
            read.wrong(at, words, "FieldValueDuplicate")
        seen.add((one.topology_key, one.when_unsatisfiable))
    return found

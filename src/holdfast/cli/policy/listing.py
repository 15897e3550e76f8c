"""``holdfast policy list``: units, caps and headroom of every resource policy."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.api import scheme
from holdfast.api.labels import Selector
from holdfast.cli.connection import connect, list_all
from holdfast.cli.policy.reading import Compiled, compile_all
from holdfast.cli.table import format_table, in_one_unit, join_names, print_json
from holdfast.state.resource_policies.policy_usage import (
    PolicyUsage,
    UnitUsage,
    headroom_text,
    usage_text,
)

HEAD = ("NAMESPACE", "NAME", "SELECTS", "STRATEGY", "PODS", "HEADROOM")
READ = (scheme.NODES, scheme.PODS, scheme.RESOURCE_POLICIES)


def run(namespace: str, kubeconfig: Path | None, output: str) -> None:
    """Print the policies of a namespace, or of all if it is ""."""
    every = asyncio.run(_read(kubeconfig))
    policies = [one for one in every if namespace in ("", one.object.namespace)]
    if output == "json":
        print_json([as_data(one) for one in policies])
    elif policies:
        print(as_text(policies))
    elif every:
        print(f"there are no resource policies in namespace {namespace}; {len(every)} in others")
    else:
        print("there are no resource policies; docs/resource-policies.md says how to write one")


async def _read(kubeconfig: Path | None) -> list[Compiled]:
    async with connect(kubeconfig, "holdfast-policy") as (client, _endpoint):
        return compile_all(await list_all(client, READ))


def as_text(policies: Sequence[Compiled]) -> str:
    """Format a table of policies, and below it their problems."""
    rows = [_row(one) for one in policies]
    troubles = [f"{one.object.key}: {words}" for one in policies for words in problems(one)]
    return "\n".join([format_table(HEAD, rows), *troubles])


def as_data(compiled: Compiled) -> dict[str, Any]:
    """Return a policy as JSON data."""
    obj, usage = compiled.object, compiled.usage
    data: dict[str, Any] = {
        "namespace": obj.namespace,
        "name": obj.name,
        "strategy": obj.spec.strategy,
        "units": [],
        "outside": None,
        "pending": None,
        "headroom": None,
    }
    if usage is not None:
        data |= {
            "units": [_unit_data(unit) for unit in usage.units],
            "outside": len(usage.outside),
            "pending": len(usage.pending),
            "headroom": usage.headroom,
        }
    return data | {"problems": problems(compiled)}


def problems(compiled: Compiled) -> list[str]:
    """Describe what is wrong with a policy, or prevents its pods from running."""
    if compiled.usage is None:
        return [f"it has no effect, because it is invalid: {compiled.error}"]
    usage = compiled.usage
    stored = [
        f"it is used, but a server that checks it refuses it: {c}" for c in usage.policy.problems
    ]
    return [*stored, *_conflicts(compiled), *_caps(usage), *_units(usage), *_pending(usage)]


def _row(compiled: Compiled) -> tuple[str, ...]:
    obj, usage = compiled.object, compiled.usage
    head = (obj.namespace, obj.name)
    if usage is None:
        return (*head, "-", obj.spec.strategy, "-", "-")
    return (
        *head,
        selector_text(usage.policy.selector),
        obj.spec.strategy,
        _usage(usage),
        headroom_text(usage),
    )


def _usage(usage: PolicyUsage) -> str:
    return usage_text(usage) + (f", no unit {len(usage.outside)}" if usage.outside else "")


def _conflicts(compiled: Compiled) -> Iterable[str]:
    for other, pods in compiled.conflicts.items():
        yield (
            f"policy {other} selects {join_names([pod.name for pod in pods])} too: a pod that two "
            "policies select is not scheduled"
        )


def _caps(usage: PolicyUsage) -> Iterable[str]:
    for unit in usage.units:
        if unit.over_cap:
            full = unit.fullest
            count = "" if unit.unit.max_count is None else f"{len(full.pods)}/{unit.unit.max_count}"
            parts = [count, *resources_text(full.resources, unit.unit.max_resources)]
            yield (
                f"unit {unit.unit.name} is over its cap ({', '.join(filter(None, parts))}): no pod "
                "is deleted for that, and none is added until it is below"
            )


def _units(usage: PolicyUsage) -> Iterable[str]:
    for unit in usage.units:
        if not unit.nodes:
            yield f"unit {unit.unit.name} has no node ({selector_text(unit.unit.selector)})"
    if shared := usage.overlapping_nodes:
        yield f"more than one unit has {join_names(shared)}: a pod there counts in each of them"


def _pending(usage: PolicyUsage) -> Iterable[str]:
    waiting = [pod.name for pod in usage.pending]
    if waiting:
        why = f"`holdfast policy why {usage.policy.key}` explains it"
        yield f"pending: {join_names(waiting)}; {why}"


def _unit_data(usage: UnitUsage) -> dict[str, Any]:
    """Return a unit as JSON data; cpu is in millicores, other resources in whole units."""
    unit = usage.unit
    return {
        "name": unit.name,
        "priority": unit.priority,
        "nodes": list(usage.nodes),
        "pods": len(usage.pods),
        "maxCount": unit.max_count,
        "headroom": usage.headroom,
        "resources": dict(usage.group(()).resources),
        "maxResources": dict(unit.max_resources),
        "groups": [
            {
                "labels": dict(group.group),
                "pods": len(group.pods),
                "resources": dict(group.resources),
                "headroom": unit.places_left(len(group.pods)),
            }
            for group in usage.groups
        ],
        "overCap": usage.over_cap,
    }


def selector_text(selector: Selector) -> str:
    """Write a selector as kubectl does; an empty one selects all."""
    return str(selector) or "all"


def resources_text(resources: Mapping[str, int], caps: Mapping[str, int]) -> list[str]:
    """Write what pods request next to each cap of maxResources.

    >>> resources_text({"cpu": 2500, "memory": 0}, {"memory": 2**30, "cpu": 3000})
    ['cpu 2.5/3', 'memory 0/1Gi']
    """
    texts = []
    for resource, cap in sorted(caps.items()):
        used, most = in_one_unit(resource, [resources[resource], cap])
        texts.append(f"{resource} {used}/{most}")
    return texts

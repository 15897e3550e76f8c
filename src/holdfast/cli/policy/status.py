"""``holdfast policy status``: nodes, pods, caps and conditions of one resource policy."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from holdfast.api.deletion_cost import DELETION_COST, MANAGED_DELETION_COST
from holdfast.api.pod import Pod
from holdfast.api.resource_policy import ResourcePolicy
from holdfast.cli.connection import connect, list_all
from holdfast.cli.policy.listing import READ, as_data, problems, resources_text, selector_text
from holdfast.cli.policy.reading import Compiled, compile_one, require_usage, split_name
from holdfast.cli.table import format_table, print_json
from holdfast.state.resource_policies.policies import MatchLabelGroup
from holdfast.state.resource_policies.policy_usage import (
    GroupUsage,
    PolicyUsage,
    UnitUsage,
    headroom_text,
)

HEAD = ("UNIT", "PRIORITY", "NODES", "PODS", "CAP", "FREE", "RESOURCES")
POD_HEAD = ("UNIT", "NODE", "POD", "DELETION COST")
NO_UNIT = "no unit"


def run(
    name: str, namespace: str, kubeconfig: Path | None, output: str, *, with_pods: bool
) -> None:
    """Print one policy."""
    compiled = asyncio.run(_read(*split_name(name, namespace), kubeconfig))
    if output == "json":
        data = as_data(compiled) | {"conditions": conditions(compiled.object)}
        if with_pods and compiled.usage is not None:
            data |= {"podsOfUnits": pods_data(compiled.usage)}
        print_json(data)
    else:
        print(as_text(compiled, with_pods=with_pods))


async def _read(namespace: str, name: str, kubeconfig: Path | None) -> Compiled:
    async with connect(kubeconfig, "holdfast-policy") as (client, endpoint):
        return compile_one(await list_all(client, READ), namespace, name, endpoint.url)


def as_text(compiled: Compiled, *, with_pods: bool = False) -> str:
    """Format the units of a policy, its conditions, its problems and, if asked for, its pods."""
    usage = require_usage(compiled)
    parts = [f"{_headline(usage)}\n{format_table(HEAD, _rows(usage))}"]
    if with_pods:
        parts.append(format_table(POD_HEAD, map(_pod_row, pods_data(usage))))
    parts.append("\n".join([_conditions(compiled.object), *problems(compiled)]))
    return "\n\n".join(parts)


def conditions(policy: ResourcePolicy) -> list[dict[str, str]]:
    """Return the conditions that the controller wrote."""
    return [
        {"type": c.type, "status": c.status, "reason": c.reason, "message": c.message}
        for c in policy.status.conditions
    ]


def pods_data(usage: PolicyUsage) -> list[dict[str, Any]]:
    """Return the pods of every unit, then those in no unit, then those without a node."""
    rows = [_pod(unit.unit.name, pod) for unit in usage.units for pod in unit.pods]
    rows += [_pod(None, pod) for pod in (*usage.outside, *usage.pending)]
    return rows


def _conditions(policy: ResourcePolicy) -> str:
    """Write the conditions in one line; problems are described from the objects themselves."""
    written = [f"{c['type']}={c['status']}" for c in conditions(policy)]
    if not written:
        return "no conditions yet: `holdfast scheduler` or `holdfast controllers` writes them"
    behind = policy.status.observed_generation < policy.metadata.generation
    note = " (written before the last change of the policy)" if behind else ""
    return f"conditions: {', '.join(written)}{note}"


def _headline(usage: PolicyUsage) -> str:
    spec = usage.policy.object.spec
    parts = [
        f"{usage.policy.key}: selects {selector_text(usage.policy.selector)}",
        f"strategy {spec.strategy}",
        f"headroom {headroom_text(usage)}",
        f"{len(usage.pending)} pending",
    ]
    if spec.match_label_keys:
        parts.append(f"caps for each {', '.join(spec.match_label_keys)}")
    return ", ".join(parts)


def _rows(usage: PolicyUsage) -> Iterable[tuple[str, ...]]:
    for unit in sorted(usage.units, key=lambda usage: -usage.unit.priority):
        head = (unit.unit.name, str(unit.unit.priority), str(len(unit.nodes)))
        if usage.policy.object.spec.match_label_keys and unit.groups:
            yield (*head, str(len(unit.pods)), "", "", "")
            for group in unit.groups:
                yield (f"  {_group_text(group.group)}", "", "", *_counts(unit, group))
        else:
            yield (*head, *_counts(unit, unit.group(())))
    if usage.outside_nodes or usage.outside:
        cap = "closed" if usage.policy.strict else "-"
        yield (NO_UNIT, "-", str(len(usage.outside_nodes)), str(len(usage.outside)), cap, "-", "-")


def _counts(unit: UnitUsage, group: GroupUsage) -> tuple[str, str, str, str]:
    most, free = unit.unit.max_count, unit.unit.places_left(len(group.pods))
    return (
        str(len(group.pods)),
        "-" if most is None else str(most),
        "-" if free is None else str(free),
        ", ".join(resources_text(group.resources, unit.unit.max_resources)) or "-",
    )


def _pod(unit: str | None, pod: Pod) -> dict[str, Any]:
    annotations = pod.metadata.annotations
    cost = annotations.get(DELETION_COST)
    return {
        "unit": unit,
        "node": pod.spec.node_name or None,
        "pod": pod.name,
        "terminating": pod.terminating,
        "deletionCost": cost,
        "manualCost": cost is not None and cost != annotations.get(MANAGED_DELETION_COST),
    }


def _pod_row(row: dict[str, Any]) -> tuple[str, ...]:
    unit = row["unit"] or (NO_UNIT if row["node"] else "-")
    name = f"{row['pod']} (terminating)" if row["terminating"] else row["pod"]
    cost = f"{row['deletionCost'] or '-'}{' (manual)' if row['manualCost'] else ''}"
    return (unit, row["node"] or "pending", name, cost)


def _group_text(group: MatchLabelGroup) -> str:
    """Write the label values that distinguish a group."""
    return ",".join(f"{key}={value}" for key, value in group) or "all"

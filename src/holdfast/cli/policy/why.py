"""``holdfast policy why``: where the next pod of a policy is placed, unit by unit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from holdfast.api.decode import JsonObject
from holdfast.api.meta import Object
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.cli.connection import connect, list_all
from holdfast.cli.device_explanation_text import device_lines
from holdfast.cli.explanation_text import (
    before_decision,
    notes,
    preemption_lines,
    rejected_nodes,
)
from holdfast.cli.numa_explanation_text import numa_and_device_lines
from holdfast.cli.policy.listing import resources_text
from holdfast.cli.policy.next_pod import NextPod, pod_named, pod_of_workload, usual_next_pod
from holdfast.cli.policy.reading import compile_one, require_usage, split_name
from holdfast.cli.scheduler_configuration import SchedulerSetup
from holdfast.cli.snapshot import snapshot_from_objects
from holdfast.cli.table import join_names, print_json
from holdfast.cli.workloads import read_pod_maker
from holdfast.cli.world_building import DEFAULT_GATES
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.scheduling.configuration.reading import Configuration
from holdfast.state.resource_policies.policies import MatchLabelGroup, Policy, counts_for
from holdfast.state.resource_policies.policy_usage import (
    PolicyUsage,
    UnitUsage,
    count_text,
    usage_of,
)


def run(
    name: str,
    namespace: str,
    pod: str,
    target: str,
    kubeconfig: Path | None,
    config: Path | None,
    gates: str,
    output: str,
) -> None:
    """Print where the next pod of a policy is placed, and why not elsewhere."""
    where = split_name(name, namespace)
    now = SystemClock().now()
    answer = asyncio.run(_explain(*where, pod, target, kubeconfig, config, gates, now))
    if output == "json":
        print_json(answer)
    else:
        print("\n".join(answer["lines"]))


async def _explain(
    namespace: str,
    name: str,
    pod: str,
    target: str,
    kubeconfig: Path | None,
    config: Path | None,
    gates: str,
    now: float,
) -> JsonObject:
    async with connect(kubeconfig, "holdfast-policy") as (client, endpoint):
        setup = SchedulerSetup(client, endpoint.url, kubeconfig)
        configuration, features = await setup.read(config, gates)
        objects = await list_all(client)
        policy = require_usage(compile_one(objects, namespace, name, endpoint.url)).policy
        if pod:
            chosen = pod_named(policy, objects, pod)
        elif target:
            maker = await read_pod_maker(client, target, namespace)
            chosen = pod_of_workload(policy, maker, target, now)
        else:
            chosen = usual_next_pod(policy, objects, now)
    return explain(policy, chosen, objects, configuration, now, features)


def explain(
    policy: Policy,
    next_pod: NextPod,
    objects: Sequence[Object],
    configuration: Configuration,
    now: float,
    gates: FeatureGates = DEFAULT_GATES,
) -> JsonObject:
    """Schedule the pod and return the result, unit by unit, and as lines of text."""
    pod = next_pod.pod
    others = [obj for obj in objects if not (isinstance(obj, Pod) and obj.key == pod.key)]
    decision = snapshot_from_objects([*others, pod], pod.key, gates).explain(
        configuration.profiles, now, preempt=True, extenders=configuration.extenders
    ) | {"nodeName": pod.spec.node_name or None}
    usage = usage_of(
        policy,
        [obj for obj in others if isinstance(obj, Node)],
        [obj for obj in others if isinstance(obj, Pod)],
    )
    units = [*_units(usage, pod, decision), *_outside(usage, decision)]
    answer: JsonObject = {
        "policy": policy.key,
        "pod": pod.key,
        "exists": next_pod.exists,
        "basis": next_pod.description,
        "schedulable": decision["schedulable"],
        "message": decision["message"],
        "best": decision["best"],
        "units": units,
        "preemption": decision["preemption"],
        "decision": decision,
    }
    return answer | {"lines": _lines(answer, policy)}


def _units(usage: PolicyUsage, pod: Pod, decision: JsonObject) -> Iterable[JsonObject]:
    """Return the units, highest priority first, with the decision about their nodes."""
    key = usage.policy.group_key(pod.metadata.labels)
    for unit in sorted(usage.units, key=lambda usage: -usage.unit.priority):
        group = unit.group(key)
        yield {
            "unit": unit.unit.name,
            "priority": unit.unit.priority,
            "pods": len(group.pods),
            "maxCount": unit.unit.max_count,
            "resources": dict(group.resources),
            "maxResources": dict(unit.unit.max_resources),
            "nominated": _nominated(usage, unit, key),
            **_of_nodes(unit.nodes, decision),
        }


def _outside(usage: PolicyUsage, decision: JsonObject) -> Iterable[JsonObject]:
    """Return the nodes that are in no unit, in the same shape, if there are any."""
    if usage.outside_nodes:
        yield {
            "unit": None,
            "priority": None,
            "pods": len(usage.outside),
            "maxCount": None,
            "resources": {},
            "maxResources": {},
            "nominated": [],
            **_of_nodes(usage.outside_nodes, decision),
        }


def _nominated(usage: PolicyUsage, unit: UnitUsage, key: MatchLabelGroup) -> list[str]:
    """Return the pending pods of the group that are nominated to nodes of the unit."""
    return [
        pod.name
        for pod in usage.pending
        if pod.status.nominated_node_name in unit.nodes
        and counts_for(usage.policy.group_key(pod.metadata.labels), key)
    ]


def _of_nodes(names: Sequence[str], decision: JsonObject) -> JsonObject:
    by_name: Mapping[str, JsonObject] = {node["name"]: node for node in decision["nodes"]}
    nodes = [by_name[name] for name in names if name in by_name]
    return {
        "nodes": list(names),
        "feasible": [node["name"] for node in nodes if node["feasible"]],
        "best": [node["name"] for node in nodes if node["name"] in decision["best"]],
        "rejected": [node for node in nodes if not node["feasible"]],
    }


def _lines(answer: JsonObject, policy: Policy) -> list[str]:
    decision = answer["decision"]
    lines = [*before_decision(decision), f"{answer['policy']}: {_headline(answer)}"]
    placed = False
    for unit in answer["units"]:
        lines.append(f"  {_title(unit, policy)}")
        if not decision["preFilter"]:  # otherwise one reason applies to all nodes
            lines += _node_lines(unit, placed=placed)
        placed = placed or bool(unit["best"])
    lines += device_lines(decision) + numa_and_device_lines(decision)
    return [*lines, *preemption_lines(answer["preemption"]), *notes(decision)]


def _headline(answer: JsonObject) -> str:
    head = answer["basis"]
    if answer["decision"].get("error"):
        return f"{head} cannot be decided: {answer['decision']['error']}"
    preemption = answer["preemption"] or {}
    if preemption.get("nominatedNode") and any(unit["feasible"] for unit in answer["units"]):
        return f"{head} would be nominated to {preemption['nominatedNode']}: {answer['message']}"
    if not answer["schedulable"]:
        nodes = answer["decision"]["nodes"]
        if answer["decision"]["preFilter"] or not nodes:
            return f"{head} fits on no node: {answer['message']}"
        return f"{head} fits on none of {len(nodes)} nodes"  # the reasons follow, unit by unit
    units = [unit["unit"] for unit in answer["units"] if unit["best"]]
    named = [f"unit {name}" if name else "no unit" for name in units]
    return f"{head} would be placed on {join_names(answer['best'])} ({', '.join(named)})"


def _title(unit: JsonObject, policy: Policy) -> str:
    if unit["unit"] is None:
        return f"no unit, strategy {policy.object.spec.strategy}, {_pods(str(unit['pods']))}"
    parts = [
        f"unit {unit['unit']}",
        f"priority {unit['priority']}",
        _pods(count_text(unit["pods"], unit["maxCount"])),
        *resources_text(unit["resources"], unit["maxResources"]),
    ]
    if unit["nominated"]:
        parts.append(f"nominated: {join_names(unit['nominated'])}")
    return ", ".join(parts)


def _pods(count: str) -> str:
    return f"{count} pod" if count == "1" else f"{count} pods"


def _node_lines(unit: JsonObject, *, placed: bool) -> list[str]:
    """Format the nodes of a unit; ``placed``: a unit of higher priority gets the pod."""
    if not unit["nodes"]:
        return ["         the unit has no node"]
    lines = []
    if unit["best"]:
        lines.append(_counted("chosen", unit["best"]))
        others = [name for name in unit["feasible"] if name not in unit["best"]]
        if others:
            lines.append(_counted("feasible, with a lower score", others))
    elif unit["feasible"]:
        why = "a higher priority has a node" if placed else "a higher priority is preempted"
        words = f"feasible, not needed: {why}"
        lines.append(_counted(words, unit["feasible"]))
    return lines + [f"  {line}" for line in rejected_nodes(unit["rejected"])]


def _counted(words: str, names: Sequence[str]) -> str:
    return f"    {len(names):>5}  {words}: {join_names(names)}"

"""Format an explanation of a decision as text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from holdfast.cli.device_explanation_text import device_lines
from holdfast.cli.numa_explanation_text import numa_and_device_lines
from holdfast.cli.pod_progress import claim_lines, class_lines, progress_lines, start_lines
from holdfast.cli.table import MAX_NAMES, join_names
from holdfast.state.resource_policies.policy_usage import count_text


def format_explanation(answer: dict[str, Any]) -> str:
    """Format the message, the nodes rejected for each reason, and the best nodes with scores."""
    lines = [*before_decision(answer), f"{answer['pod']}: {_headline(answer)}"]
    lines += class_lines(answer)
    lines += _policies(answer.get("resourcePolicies") or ())
    lines += rejected_nodes(answer.get("nodes") or ())
    lines += device_lines(answer)
    lines += claim_lines(answer)
    lines += numa_and_device_lines(answer)
    lines += _best(answer)
    lines += preemption_lines(answer.get("preemption"))
    return "\n".join([*lines, *notes(answer)]) + "\n"


def notes(answer: dict[str, Any]) -> list[str]:
    """Format when a pod is tried again, and which extenders were not called."""
    lines = [
        f"  it is tried again at {time}, without waiting for a change of the cluster"
        for time in [answer.get("retryAt")]
        if time
    ]
    return lines + [
        f"  the extender at {url} was not called: it may reject nodes or prefer others"
        for url in answer.get("extendersNotAsked") or ()
    ]


def before_decision(answer: dict[str, Any]) -> list[str]:
    """Format what does not depend on the decision: the pod's node, or why it has none."""
    return [*start_lines(answer), *current_node(answer), *progress_lines(answer)]


def current_node(answer: dict[str, Any]) -> list[str]:
    """Describe the node of a pod that is already bound, and whether it is still feasible."""
    name = answer.get("nodeName")
    if not name:
        return []
    node = next((n for n in answer["nodes"] if n["name"] == name), None)
    if answer.get("preEnqueue") or answer.get("error"):
        return [f"{answer['pod']} is on {name}; if it were scheduled now:"]
    if node is None:
        now = "which no longer exists"
    elif not node["feasible"]:
        now = f"which is not feasible now ({', '.join(node['reasons'])})"
    elif name in answer["best"]:
        now = "which is still among the best"
    else:
        now = f"which is still feasible, with score {node['total']}"
    return [f"{answer['pod']} is on {name}, {now}; if it were scheduled now:"]


def _headline(answer: dict[str, Any]) -> str:
    if answer.get("error"):
        return f"scheduling fails: {answer['error']}"
    if answer.get("schedulable"):
        return f"fits on {join_names(answer['best'])}"
    message, failure = str(answer.get("message", "")), answer.get("claimFailure")
    return f"{message}: {failure}" if failure and answer.get("preEnqueue") else message


def _policies(policies: Iterable[dict[str, Any]]) -> list[str]:
    """Format the resource policies that select the pod, with the pods and cap of each unit."""
    lines = []
    for policy in policies:
        counts = [
            f"{unit['name']} {count_text(unit['pods'], unit['maxCount'])}"
            for unit in policy["units"]
        ]
        lines.append(f"  ResourcePolicy {policy['policy']}: pods in {', '.join(counts)}")
    return lines


def rejected_nodes(nodes: Iterable[dict[str, Any]]) -> list[str]:
    """Format the rejected nodes; nodes with the same reason share a line."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for node in nodes:
        if not node["feasible"]:
            for reason in node["reasons"] or [node["code"]]:
                groups[(node["plugin"] or "", reason)].append(node["name"])
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return [
        f"  {len(names):>5}  {reason}{f'  [{plugin}]' if plugin else ''}: {join_names(names)}"
        for (plugin, reason), names in ordered
    ]


def _best(answer: dict[str, Any]) -> list[str]:
    best = set(answer.get("best") or ())
    lines = []
    for node in answer.get("nodes") or ():
        if node["name"] in best:
            scores = "  ".join(
                f"{plugin} {score['weighted']}"
                for plugin, score in node["scores"].items()
                if score["weighted"]
            )
            lines.append(f"  best: {node['name']}, score {node['total']}: {scores}")
    return lines[:MAX_NAMES]


def preemption_lines(preemption: dict[str, Any] | None) -> list[str]:
    """Format the result of preemption, a dry run."""
    if not preemption:
        return []
    if not preemption.get("nominatedNode"):
        return [f"  {preemption['message']}"] if preemption.get("message") else []
    node, victims = preemption["nominatedNode"], ", ".join(preemption["victims"])
    if not victims:
        return [f"  {node} becomes feasible when the pods that terminate are gone"]
    return [f"  preemption would make {node} feasible by evicting {victims}"]

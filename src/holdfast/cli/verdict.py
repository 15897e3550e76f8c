"""Put an explanation into words for people."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

MOST_NAMES = 8


def as_text(answer: dict[str, Any]) -> str:
    """Write the message, then per reason the nodes, then the best with their scores."""
    lines = [*_standing(answer), f"{answer['pod']}: {_headline(answer)}"]
    lines += _reasons(answer.get("nodes") or ())
    lines += _best(answer)
    lines += _preemption(answer.get("preemption"))
    lines += [
        f"  the extender at {url} was not asked: it may refuse nodes, and prefer others"
        for url in answer.get("extendersNotAsked") or ()
    ]
    return "\n".join(lines) + "\n"


def _standing(answer: dict[str, Any]) -> list[str]:
    """Say where a pod is already, and what its node would say to it now."""
    name = answer.get("nodeName")
    if not name:
        return []
    node = next((n for n in answer["nodes"] if n["name"] == name), None)
    if node is None:
        now = "which is not known any more"
    elif not node["feasible"]:
        now = f"which would not do now ({', '.join(node['reasons'])})"
    elif name in answer["best"]:
        now = "which is still as good as any"
    else:
        now = f"which would still do, with {node['total']} points"
    return [f"{answer['pod']} is on {name}, {now}; were it placed anew:"]


def _headline(answer: dict[str, Any]) -> str:
    if answer.get("error"):
        return f"the attempt fails: {answer['error']}"
    if answer.get("schedulable"):
        return f"fits on {_names(answer['best'])}"
    return str(answer.get("message", ""))


def _reasons(nodes: Any) -> list[str]:
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for node in nodes:
        if not node["feasible"]:
            for reason in node["reasons"] or [node["code"]]:
                groups[(node["plugin"] or "", reason)].append(node["name"])
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return [
        f"  {len(names):>5}  {reason}{f'  [{plugin}]' if plugin else ''}: {_names(names)}"
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
            lines.append(f"  best: {node['name']}, {node['total']} points: {scores}")
    return lines[:MOST_NAMES]


def _preemption(found: dict[str, Any] | None) -> list[str]:
    if not found:
        return []
    if not found.get("nominatedNode"):
        return [f"  {found['message']}"] if found.get("message") else []
    victims = ", ".join(found["victims"])
    return [f"  preemption would help on {found['nominatedNode']}, evicting {victims}"]


def _names(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:MOST_NAMES])
    more = len(names) - MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown

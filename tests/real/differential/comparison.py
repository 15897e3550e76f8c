"""List the differences between the answers of kube-scheduler and Holdfast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from real.differential.allocations import plain

Answer = dict[str, Any]
REFUSED = "a server would refuse the snapshot"


def differences(theirs: Answer, ours: Answer) -> list[str]:
    """Return a line for each difference."""
    if theirs.get("invalid"):
        return [f"{REFUSED}: {theirs['invalid']}"]
    return list(_differences(theirs, ours))


def _differences(theirs: Answer, ours: Answer) -> Iterator[str]:
    errors, error = theirs.get("errors") or [], ours.get("error")
    if errors or error:
        # kube-scheduler reports any one of several nodes' errors.
        if error not in errors:
            yield _line("error", errors, error)
        return
    for field in ("schedulable", "message", "preEnqueue", "preFilter"):
        if theirs.get(field) != ours.get(field):
            yield _line(field, theirs.get(field), ours.get(field))
    yield from _nodes(theirs, ours)
    if theirs["best"] != ours["best"]:
        yield _line("best", theirs["best"], ours["best"])
    chosen = theirs.get("chosen")
    if chosen and chosen not in ours["best"]:
        yield _line("best", chosen, ours["best"])
    yield from _preemption(theirs["preemption"], ours["preemption"])


def _nodes(theirs: Answer, ours: Answer) -> Iterator[str]:
    their_nodes = {node["name"]: node for node in theirs["nodes"]}
    our_nodes = {node["name"]: node for node in ours["nodes"]}
    if their_nodes.keys() != our_nodes.keys():
        yield _line("nodes", sorted(their_nodes), sorted(our_nodes))
        return
    for name in sorted(their_nodes):
        one, other = their_nodes[name], our_nodes[name]
        for field in ("feasible", "plugin", "code", "reasons", "total"):
            if field == "reasons" and one["code"] == "Error":
                continue  # not reported: the pod is placed on its nominated node
            if field == "plugin" and theirs["preFilter"] is not None:
                continue  # compared above, for all nodes together
            if _sorted(one[field]) != _sorted(other[field]):
                yield _line(f"{name}.{field}", one[field], other[field])
        yield from _devices(name, one, other)
        scores = {plugin: score["weighted"] for plugin, score in other["scores"].items()}
        for plugin in sorted(one["scores"].keys() | scores.keys()):
            if one["scores"].get(plugin, 0) != scores.get(plugin, 0):
                said = one["scores"].get(plugin), scores.get(plugin)
                yield _line(f"{name}.scores.{plugin}", *said)


def _devices(name: str, one: Answer, other: Answer) -> Iterator[str]:
    """Compare what the pod's claims, and its extended resources, would get on a node."""
    if (one.get("devices") or []) != (other.get("devices") or []):
        yield _line(f"{name}.devices", one.get("devices"), other.get("devices"))
    theirs = {claim: plain(found) for claim, found in (one.get("allocations") or {}).items()}
    ours = other.get("allocations") or {}
    for claim in sorted(theirs.keys() | ours.keys()):
        if theirs.get(claim) != ours.get(claim):
            yield _line(f"{name}.allocations.{claim}", theirs.get(claim), ours.get(claim))


def _preemption(theirs: Answer | None, ours: Answer | None) -> Iterator[str]:
    if theirs is None or ours is None:
        if theirs is not ours:
            yield _line("preemption", theirs, ours)
        return
    for field in ("message",):
        if theirs[field] != ours[field]:
            yield _line(f"preemption.{field}", theirs[field], ours[field])
    one = {c["node"]: (c["victims"], c["pdbViolations"]) for c in theirs["candidates"]}
    other = {c["node"]: (c["victims"], c["pdbViolations"]) for c in ours["candidates"]}
    for name in sorted(one.keys() | other.keys()):
        if one.get(name) != other.get(name):
            yield _line(f"preemption.candidates.{name}", one.get(name), other.get(name))
    if bool(theirs["nominatedNode"]) != bool(ours["nominatedNode"]):
        said = theirs["nominatedNode"], ours["nominatedNode"]
        yield _line("preemption.nominatedNode", *said)
    elif theirs["nominatedNode"] and theirs["tied"] != ours["tied"]:
        yield _line("preemption.tied", theirs["tied"], ours["tied"])


def _sorted(value: Any) -> Any:
    """Sort lists: kube-scheduler reports insufficient extended resources in no order."""
    return sorted(value) if isinstance(value, list) else value


def _line(field: str, theirs: Any, ours: Any) -> str:
    return f"{field}: kube-scheduler {theirs!r}, holdfast {ours!r}"

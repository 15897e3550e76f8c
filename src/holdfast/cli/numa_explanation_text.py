"""Format the CPUs, NUMA nodes and shared devices that a pod lacks, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.api.decode import JsonObject
from holdfast.cli.devices.shared_devices import amounts_text
from holdfast.cli.table import MAX_NAMES, counted, in_one_unit

NUMA, DEVICES = "NodeNUMAResource", "DeviceShare"
_ADVICE = {
    "the requested CPUs must be integer": "request whole CPUs, or take the label "
    "koordinator.sh/qosClass: LSR or LSE from the pod",
    "node(s) invalid CPU Topology": "koordlet has to publish a NodeResourceTopology with the "
    "annotation node.koordinator.sh/cpu-topology; a simulated node does with --node-shape numa=N",
    "node(s) missing NUMA resources": "the NodeResourceTopology of the node has to list zones",
    "node(s) requested cpus not multiple cpus per core": "request whole cores, or only prefer "
    "FullPCPUs",
    "node(s) cpu bind policy conflicts with pod's required cpu bind policy": "the label "
    "node.koordinator.sh/cpu-bind-policy of the node decides; leave requiredCPUBindPolicy out",
    "node(s) NUMA Topology policy not match": "pod and node name different NUMA policies; leave "
    "numaTopologyPolicy out of the pod",
    "Insufficient amplified cpu": "CPUs of bound pods cost as many times more as the annotation "
    "node.koordinator.sh/resource-amplification-ratio says",
}


def numa_and_device_lines(answer: JsonObject) -> list[str]:
    """Format the part of an explanation about CPUs, NUMA nodes and shared devices."""
    if answer.get("schedulable"):
        return []
    details = answer.get("details") or {}
    lines = [*_cpu_lines(details.get(NUMA)), *_device_lines(details.get(DEVICES))]
    reasons = dict.fromkeys(_reasons(answer))
    return lines + [f"  to do: {_ADVICE[reason]}" for reason in reasons if reason in _ADVICE]


def _reasons(answer: JsonObject) -> Iterable[str]:
    """Return the reasons of PreFilter and of the rejected nodes."""
    yield from (answer.get("preFilter") or {}).get("reasons", ())
    for node in answer.get("nodes") or ():
        yield from node["reasons"]


def _cpu_lines(details: JsonObject | None) -> Iterable[str]:
    if not details:
        return
    closest = details["closest"]
    shown = [one for one in details["reservations"] if one["reasons"]][:MAX_NAMES]
    if closest is None and not shown:
        return
    yield f"  it needs {_needed_cpus(details, (closest or details)['numaPolicy'])}"
    if closest is not None:
        yield f"    closest: {_closest(closest)}"
    for one in shown:
        amounts = [
            f"NUMA node {node}: {_listed(of)}" for node, of in one["numaNodes"].items() if of
        ]
        left = "; ".join([f"CPUs {one['cpus']}"] * bool(one["cpus"]) + amounts) or "no CPUs"
        reason = ", ".join(one["reasons"])
        yield f"    reservation {one['reservation']} on {one['node']} has {left} left: {reason}"
    if closest is not None:
        yield f"    to do: `holdfast cpus {closest['node']}` shows what holds each CPU"


def _needed_cpus(details: JsonObject, numa_policy: str | None) -> str:
    """Write the CPUs and the amounts of NUMA nodes that the pod needs."""
    cpus, aligned = details["cpus"], f", aligned by {numa_policy}" if numa_policy else ""
    if not cpus:
        return f"{_listed(details['requests'])}{aligned}"
    where = {"FullPCPUs": "on whole cores", "SpreadByPCPUs": "on different cores"}
    strength = "" if details["required"] else " if possible"
    policy = where.get(details["bindPolicy"], "")
    return f"{counted(cpus, 'exclusive CPU')}, {policy}{strength}{aligned}"


def _closest(closest: JsonObject) -> str:
    """Write what is free on the closest node, and the holders of the rest."""
    if closest["numaPolicy"]:
        of_nodes = [
            f"NUMA node {one['node']} has {_listed(one['available'])}"
            for one in closest["numaNodes"]
        ]
        return f"{closest['node']} ({closest['numaPolicy']}): {'; '.join(of_nodes)} left"
    free, usable = closest["free"], closest["usable"]
    which = f" ({closest['freeCPUs']})" if free else ""
    words = f"{closest['node']} has {counted(free, 'free CPU')}{which}"
    if closest["required"] and usable < free:
        words += f", {usable} of them as {closest['bindPolicy']} needs them"
    held = [f"{one['cpus']} by reservation {one['reservation']}" for one in closest["reserved"]]
    held = held[:MAX_NAMES]
    held += [f"{closest['heldByPods']} by pods"] if closest["heldByPods"] else []
    if closest["unavailable"]:
        held.append(f"{closest['unavailable']} by the kubelet and the system")
    return f"{words}; held: {', '.join(held)}" if held else words


def _listed(amounts: JsonObject) -> str:
    """Write amounts by resource: cpu in millicores, others in units."""
    return ", ".join(f"{name} {in_one_unit(name, [amounts[name]])[0]}" for name in sorted(amounts))


def _device_lines(details: JsonObject | None) -> Iterable[str]:
    if not details or not details["requests"]:
        return
    closest = details["closest"]
    shown = [one for one in details["reservations"] if one["reasons"]][:MAX_NAMES]
    if closest is None and not shown:
        return
    needs = [
        f"{counted(one['count'], one['type'] + ' device')} with {_needed(one['amounts'])} each"
        if one["count"] > 1
        else f"1 {one['type']} device with {_needed(one['amounts'])}"
        for one in details["requests"]
    ]
    yield f"  it needs {', and '.join(needs)}"
    if closest is not None:
        number = ", ".join(
            f"{one['fitting']} of {one['devices']} {one['type']}" for one in closest["types"]
        )
        yield f"    closest: {closest['node']}, where {number} devices have that much left"
        yield from (f"      {_device(one)}" for one in closest["devices"][:MAX_NAMES])
    for one in shown:
        left = ", ".join(_device(device) for device in one["devices"]) or "it has nothing left"
        reason = ", ".join(one["reasons"])
        yield f"    reservation {one['reservation']} on {one['node']}: {left}: {reason}"
    if closest is not None:
        yield f"    to do: `holdfast devices --node {closest['node']}` shows what holds them"


def _needed(amounts: JsonObject) -> str:
    """Write amounts; those that the pod does not request may be zero."""
    named = {name: amount for name, amount in amounts.items() if amount}
    return amounts_text(amounts) if len(named) != 1 else _one(*next(iter(named.items())))


def _one(name: str, amount: int) -> str:
    if name.endswith("gpu-memory"):
        return f"{in_one_unit('memory', [amount])[0]} memory"
    return f"{amount}% memory" if name.endswith("gpu-memory-ratio") else f"{amount}%"


def _device(device: JsonObject) -> str:
    words = f"{device['type']} {device['minor']} has {amounts_text(device['left'])} left"
    kept = [
        f"reservation {one['reservation']} keeps {amounts_text(one['amounts'])}"
        for one in device.get("reserved", ())
    ]
    return f"{words}; {', '.join(kept)}" if kept else words

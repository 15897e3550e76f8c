"""The debug pages of Koordinator's plugins: CPUs, NUMA nodes and shared devices with their pods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.scheduling.framework.world import World
from holdfast.state.device_share.allocation_annotation import amount_texts
from holdfast.state.device_share.allocations import DeviceUse
from holdfast.state.device_share.node_devices import NodeDeviceState
from holdfast.state.device_share.requests import RESOURCES, DeviceAmounts
from holdfast.state.numa.cpu_set import format_cpu_list, members_of
from holdfast.state.numa.node_state import PodHolding
from holdfast.state.numa.pod_request import NO_REQUEST
from holdfast.state.numa.resource_status import (
    NumaAllocation,
    amount_fields,
    ordered,
    status_fields,
)
from holdfast.state.numa.trial import Situation, available_amounts

Detail = Iterable[tuple[str, int, DeviceAmounts]]
"""Amounts by type of device and minor."""


def device_summaries(world: World) -> dict[str, dict[str, Any]]:
    """Return the pages of all nodes with devices, by the name of the node."""
    pages = ((node, device_summary(world, node)) for node in sorted(world.device_share.nodes()))
    return {node: page for node, page in pages if page is not None}


def device_summary(world: World, node: str) -> dict[str, Any] | None:
    """Return the page of a node, None if it has no devices.

    The fields are Koordinator's. What no owner uses of a reservation is listed as used, under the
    reservation's name.
    """
    ledger = world.device_share
    if node not in ledger.nodes():
        return None
    state = ledger.state(ledger.signature_of(node))
    page: dict[str, Any] = {"allocateSet": {}}
    for name, detail in (
        ("Total", _total(state)),
        ("Free", _free(state)),
        ("Used", list(state.used.amounts)),
    ):
        page[f"device{name}"] = _sums(detail)
        page[f"device{name}Detail"] = _by_type(detail)
    for holder, use in _users(world, node):
        for kind, by_minor in _by_type(use.amounts).items():
            page["allocateSet"].setdefault(kind, {})[holder] = by_minor
    return page


def _total(state: NodeDeviceState) -> Detail:
    return [
        (kind, device.minor, device.total)
        for kind, devices in state.inventory.devices.items()
        for device in devices
    ]


def _free(state: NodeDeviceState) -> Detail:
    return [
        (kind, minor, amounts)
        for kind in state.inventory.devices
        for minor, amounts in state.free(kind).items()
    ]


def _users(world: World, node: str) -> Iterable[tuple[str, DeviceUse]]:
    holders = world.device_share.holders_on(node)
    for uid, holder in holders.pods.items():
        pod_and_row = world.nodes.pod(uid)
        yield uid if pod_and_row is None else pod_and_row[0].key, holder.use
    for uid in holders.reservations:
        yield world.reservations.name_of(uid), holders.remaining(uid)


def _by_type(detail: Detail) -> dict[str, dict[str, dict[str, str]]]:
    by_type: dict[str, dict[str, dict[str, str]]] = {}
    for kind, minor, amounts in detail:
        by_type.setdefault(kind, {})[str(minor)] = amount_texts(kind, amounts)
    return by_type


def _sums(detail: Detail) -> dict[str, str]:
    sums: dict[str, list[int]] = {}
    for kind, _, amounts in detail:
        before = sums.setdefault(kind, [0] * len(RESOURCES[kind]))
        sums[kind] = [a + b for a, b in zip(before, amounts, strict=True)]
    return {
        name: text
        for kind, total in sums.items()
        for name, text in amount_texts(kind, tuple(total)).items()
    }


INVALID_TOPOLOGY = "invalid topology, please check the NodeResourceTopology object"


def numa_node(world: World, node: str) -> dict[str, Any] | str | None:
    """Return the page of a node; a text if it has no topology, None if there is no such node.

    The fields are Koordinator's, and ``reservation`` (the uid) for a pod that was allocated from
    one. What no owner uses of a reservation is listed like a pod.
    """
    row = world.nodes.row_of.get(node)
    if row is None:
        return None
    ledger = world.numa
    state, holdings = ledger.state(ledger.signature(row)), ledger.holdings(row)
    topology, policies = state.shape.topology, state.shape.policies
    cpu = topology.cpu
    if holdings is None or not cpu.valid:
        return INVALID_TOPOLOGY
    places = {each.id: each for each in cpu.cpus}
    return {
        "name": node,
        "cpuTopology": {
            "numCPUs": len(cpu.cpus), "numCores": len(cpu.cores),
            "numNodes": len(cpu.nodes), "numSockets": len(cpu.sockets),
        },
        "reservedCPUs": format_cpu_list(topology.unavailable & cpu.all),
        "maxRefCount": 1,
        "numaTopologyPolicy": policies.numa,
        "numaNodeResources": amount_fields(ordered(state.shape.zones)),
        "amplificationRatios": dict(policies.ratios),
        "remainingNUMANodeResources": amount_fields(
            ordered(available_amounts(Situation(NO_REQUEST, state)))
        ),
        "allocatedNUMANodeResources": amount_fields(state.used),
        "availableCPUs": format_cpu_list(state.free),
        "allocatedCPUs": {
            str(id_): {
                "cpuID": id_, "coreID": places[id_].core, "nodeID": places[id_].node,
                "socketID": places[id_].socket, "refCount": 1,
            }
            for id_ in members_of(state.held & cpu.all)
        },
        "allocatedPods": [
            *(_pod(world, uid, holding) for uid, holding in holdings.pods.items()),
            *(_reservation(world, uid, holdings.left_of(uid)) for uid in holdings.reservations),
        ],
    }  # fmt: skip


def _pod(world: World, uid: str, holding: PodHolding) -> dict[str, Any]:
    pod_and_row = world.nodes.pod(uid)
    named = (
        {}
        if pod_and_row is None
        else {"namespace": pod_and_row[0].namespace, "name": pod_and_row[0].name}
    )
    source = {"reservation": holding.reservation} if holding.reservation else {}
    return {"uid": uid, **named, **_fields(holding.allocation), **source}


def _reservation(world: World, uid: str, left: NumaAllocation) -> dict[str, Any]:
    info = world.reservations.by_uid.get(uid)
    named = {} if info is None else {"name": info.reservation.name}
    return {"uid": uid, **named, **_fields(left)}


def _fields(allocation: NumaAllocation) -> dict[str, Any]:
    policy = allocation.exclusive_policy
    return {**status_fields(allocation), **({"cpuExclusivePolicy": policy} if policy else {})}

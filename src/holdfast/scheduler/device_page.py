"""The debug pages of Koordinator's DeviceShare: devices of nodes and the pods that use them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.device_share.allocation_annotation import amount_texts
from holdfast.device_share.allocations import DeviceUse
from holdfast.device_share.node_devices import NodeDevices
from holdfast.device_share.requests import RESOURCES, Amounts
from holdfast.framework.world import World

Detail = Iterable[tuple[str, int, Amounts]]
"""Amounts by type of device and minor."""


def device_summaries(world: World) -> dict[str, dict[str, Any]]:
    """Return the pages of all nodes with devices, by the name of the node."""
    found = ((node, device_summary(world, node)) for node in sorted(world.device_share.nodes()))
    return {node: page for node, page in found if page is not None}


def device_summary(world: World, node: str) -> dict[str, Any] | None:
    """Return the page of a node, None if it has no devices.

    Koordinator's fields. What of a reservation no owner has is listed as used, by its name.
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


def _total(state: NodeDevices) -> Detail:
    return [
        (kind, device.minor, device.total)
        for kind, devices in state.inventory.devices.items()
        for device in devices
    ]


def _free(state: NodeDevices) -> Detail:
    return [
        (kind, minor, amounts)
        for kind in state.inventory.devices
        for minor, amounts in state.free(kind).items()
    ]


def _users(world: World, node: str) -> Iterable[tuple[str, DeviceUse]]:
    holders = world.device_share.holders_on(node)
    for uid, holder in holders.pods.items():
        found = world.nodes.pod(uid)
        yield uid if found is None else found[0].key, holder.use
    for uid in holders.reservations:
        yield world.reservations.name_of(uid), holders.remaining(uid)


def _by_type(detail: Detail) -> dict[str, dict[str, dict[str, str]]]:
    found: dict[str, dict[str, dict[str, str]]] = {}
    for kind, minor, amounts in detail:
        found.setdefault(kind, {})[str(minor)] = amount_texts(kind, amounts)
    return found


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

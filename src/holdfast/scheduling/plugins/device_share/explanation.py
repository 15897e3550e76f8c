"""Explain which shared devices a pod lacks, and which node came closest.

Plain data in the shape that ``holdfast explain`` prints. Nodes of equal states are examined once.
"""

from __future__ import annotations

import numpy as np

from holdfast.api.decode import JsonObject
from holdfast.scheduling.framework.plugin import Rows
from holdfast.scheduling.plugins.device_share.row_searches import RowSearches
from holdfast.state.device_share.allocations import DeviceUse
from holdfast.state.device_share.candidates import UNRESTRICTED, DeviceRejection, find_candidates
from holdfast.state.device_share.ledger import NO_DEVICE
from holdfast.state.device_share.node_devices import NodeDeviceState
from holdfast.state.device_share.pod_devices import RequestedDevices
from holdfast.state.device_share.requests import RESOURCES, DeviceAmounts, SharedDeviceRequest

MAX_STATES = 1_000
"""At most this many different states of nodes are examined; that takes up to a second."""


def explain_rows(plan: RowSearches, rows: Rows) -> JsonObject:
    """Return what the pod needs, and what the closest of some rows and its reservations have."""
    ledger, asked = plan.ledger, plan.searches_for(frozenset()).asked
    if not isinstance(asked, RequestedDevices):
        return {"requests": [], "closest": None, "reservations": []}
    signatures, first = np.unique(ledger.signatures()[rows], return_index=True)
    candidates = [
        (*_closeness(ledger.state(signature), asked), -int(row))
        for signature, row in zip(
            signatures.tolist()[:MAX_STATES], rows[first].tolist(), strict=False
        )
        if signature != NO_DEVICE
    ]
    best = max(candidates, default=None)
    slots = [] if plan.match is None else plan.match.slots.tolist()
    return {
        "requests": [
            {"type": one.type, "count": one.count, "amounts": _amounts(one.type, one.amounts)}
            for one in asked.requests
        ],
        "closest": None if best is None else _node(plan, asked, -best[-1]),
        "reservations": [_reservation(plan, slot) for slot in slots],
    }


def _closeness(devices: NodeDeviceState, asked: RequestedDevices) -> tuple[float, int]:
    """Return the share of the needed devices that would fit, and how much is free."""
    parts, most = [], 0
    for request in asked.requests:
        parts.append(_fitting(devices, asked, request) / request.count)
        most += sum(amounts[-1] for amounts in devices.free(request.type).values())
    return min(1.0, *parts), most


def _fitting(
    devices: NodeDeviceState, asked: RequestedDevices, request: SharedDeviceRequest
) -> int:
    """Return how many devices of a type would each serve its part of the request."""
    candidates = find_candidates(devices, asked, request, UNRESTRICTED)
    return 0 if isinstance(candidates, DeviceRejection) else len(candidates.free)


def _node(plan: RowSearches, asked: RequestedDevices, row: int) -> JsonObject:
    """Return the devices of a row of the types that the pod needs, and what is left of each."""
    ledger, node = plan.ledger, plan.nodes.names[row]
    devices = ledger.state(ledger.signature(row))
    holders = ledger.holders_on(node)
    reserved = {uid: holders.remaining(uid) for uid in holders.reservations}
    return {
        "node": node,
        "types": [
            {
                "type": request.type,
                "devices": len(devices.inventory.devices.get(request.type, ())),
                "fitting": _fitting(devices, asked, request),
            }
            for request in asked.requests
        ],
        "devices": [
            {
                "type": request.type,
                "minor": minor,
                "left": _amounts(request.type, left),
                "reserved": _reserved(plan, reserved, request.type, minor),
            }
            for request in asked.requests
            for minor, left in devices.free(request.type).items()
        ],
    }


def _reserved(
    plan: RowSearches, remaining: dict[str, DeviceUse], kind: str, minor: int
) -> list[JsonObject]:
    """Return how much of a device reservations hold, without the use by their owners."""
    entries = []
    for uid, use in remaining.items():
        for _, _, amounts in use.within(frozenset(((kind, minor),))).amounts:
            name = plan.reservations.name_of(uid)
            entries.append({"reservation": name, "amounts": _amounts(kind, amounts)})
    return entries


def _reservation(plan: RowSearches, slot: int) -> JsonObject:
    """Return what a reservation that the pod may use has left, and why that is not enough."""
    info = plan.reservations.at(slot)
    _, remaining = plan.ledger.offer(info.uid, info.node)
    return {
        "reservation": info.reservation.name,
        "node": info.node,
        "devices": [
            {"type": kind, "minor": minor, "left": _amounts(kind, amounts)}
            for kind, minor, amounts in remaining.amounts
        ],
        "reasons": list(plan.reservation_reasons(slot)),
    }


def _amounts(kind: str, amounts: DeviceAmounts) -> dict[str, int]:
    return dict(zip(RESOURCES[kind], amounts, strict=True))

"""Read reservations, and the allocations of pods, as amounts by resource id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.api import reservation_names as names
from holdfast.api.annotations import allocated_reservation, restricted_names
from holdfast.api.koordinator_names import GPU_SHARED
from holdfast.api.names import parse_integer
from holdfast.api.quantity import milli, units
from holdfast.api.reservation import Reservation
from holdfast.api.timestamps import seconds_of
from holdfast.api.validation.list_limits import RESERVATION_TREE, first_excess
from holdfast.runtime.errors import BadRequest
from holdfast.state.columns.amounts import MAX_AMOUNT
from holdfast.state.columns.interner import CPU, PODS, ResourceNames
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.reservations.gpu_names import reserved_device_names
from holdfast.state.reservations.reservation_annotations import (
    annotated_allocations,
    draws_within,
    inner_reserved,
)
from holdfast.state.reservations.reservation_info import AmountsByResource
from holdfast.state.reservations.reserve_pod import reserve_pod


class ReservationContent(NamedTuple):
    """The content of a reservation that concerns the resources it holds."""

    pod_info: PodInfo
    """The digest of its reserve pod."""
    reserved: AmountsByResource
    inner: AmountsByResource
    restricted: frozenset[int]
    order: int
    created: float
    device_names: frozenset[str]
    policy_conflicts: bool


def read_content(reservation: Reservation, node_table: NodeTable) -> ReservationContent:
    """Read a reservation that holds resources; raise BadRequest for a malformed one."""
    if excess := first_excess(RESERVATION_TREE, reservation):
        raise BadRequest(excess)
    ids = node_table.resources
    reserved = read_amounts(reservation.status.allocatable, ids)
    # It is a part of what is reserved, so it cannot be more.
    kept = read_amounts(inner_reserved(reservation), ids)
    inner = {r: min(amount, reserved[r]) for r, amount in kept.items() if r in reserved}
    # A number of devices is no amount: each owner of a share may have as many.
    amounts = {r for r in reserved if ids[r] != GPU_SHARED}
    chosen = {ids.id(name) for name in restricted_names(reservation)} & amounts
    pod_info = node_table.pod_info(reserve_pod(reservation), is_reserve_pod=True)
    return ReservationContent(
        pod_info, reserved, inner, frozenset(chosen or amounts), _order(reservation),
        _created(reservation), reserved_device_names(reserved, ids), reservation.policy_conflicts,
    )  # fmt: skip


def read_allocations(pod_info: PodInfo, ids: ResourceNames) -> dict[str, AmountsByResource]:
    """Return what a pod allocates, by the uid of the reservation.

    Together that is no more than the pod requests. Its pod slot counts in the reservation that it
    was allocated from.
    """
    allocated = allocated_reservation(pod_info.pod)
    several = annotated_allocations(pod_info.pod)
    if not several:
        return {allocated.uid: {**dict(pod_info.request), PODS: 1}} if allocated else {}
    allocations = draws_within(
        dict(pod_info.request),
        ((item.uid, read_amounts(item.resources, ids)) for item in several),
    )
    first = several[0].uid if allocated is None else allocated.uid
    allocations[first] = {**allocations.get(first, {}), PODS: 1}
    return dict(allocations)


def read_amounts(amounts: Mapping[str, str | int | float], ids: ResourceNames) -> dict[int, int]:
    """Read the amounts above zero; values are capped at MOST."""
    by_resource = {}
    for name, amount in amounts.items():
        resource = ids.id_requested(name)
        value = milli(amount) if resource == CPU else units(amount)
        if value > 0:
            by_resource[resource] = min(value, MAX_AMOUNT)
    return by_resource


def _created(reservation: Reservation) -> float:
    return seconds_of(reservation.metadata.creation_timestamp) or 0.0


def _order(reservation: Reservation) -> int:
    return parse_integer(reservation.metadata.labels.get(names.ORDER, "")) or 0

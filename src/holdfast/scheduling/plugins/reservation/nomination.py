"""Nominate a reservation for an owner, split its request, and write its annotations."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.api import reservation_names as names
from holdfast.scheduling.framework.plugin import NO_CHANGE, PodChange
from holdfast.scheduling.plugins.reservation.owner import OwnerRequest
from holdfast.scheduling.plugins.reservation.row_fit import RowFit, fit_row
from holdfast.scheduling.plugins.reservation.row_reasons import NO_MATCH, NONE_MEETS, none_matchable
from holdfast.state.columns.interner import CPU, PODS
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.reservations.reservation_info import ReservationInfo
from holdfast.state.reservations.reserved_resources import NOTHING_FREED, freed_capacity

TAKEN = "reservation has allocateOnce enabled and has already been allocated"
Allocations = dict[str, dict[int, int]]
Nominated = tuple[ReservationInfo | None, list[ReservationInfo]]
"""The nominated reservation, and others that the owner may allocate from, sorted."""


def nominate(owner: OwnerRequest, row: int, change: PodChange = NO_CHANGE) -> Nominated:
    """Nominate one of the reservations of a row, now or under a change."""
    freed = freed_capacity(owner.reservations, change) if change else NOTHING_FREED
    return choose(fit_row(owner, row, freed, change))


def choose(fit: RowFit | None) -> Nominated:
    """Nominate one of the reservations of a row.

    The lowest order label is first; without labels the highest score; then the oldest, then by
    name.
    """
    serving = fit.nominable if fit is not None else []
    if fit is None or not serving:
        return None, []

    def rank(info: ReservationInfo) -> tuple[int, float, float, str, str]:
        label, created, name, uid = info.nomination_order
        score = 0.0 if info.order else -fit.scores[info.slot]
        return (label, score, created, name, uid)

    chosen = min(serving, key=rank) if len(serving) > 1 else serving[0]
    if chosen.policy != "":
        return chosen, []
    beside = [info for info in fit.applying if info.policy == "" and info is not chosen]
    return chosen, sorted(beside, key=lambda info: info.nomination_order)


def why_none_nominated(owner: OwnerRequest, row: int) -> str:
    """Return why no reservation can be nominated on a row."""
    here = owner.on_row(row)
    if here is None:
        return NO_MATCH
    return TAKEN if none_matchable(owner, row) else NONE_MEETS


def split_request(
    pod: PodInfo,
    chosen: ReservationInfo,
    others: list[ReservationInfo],
    identified: frozenset[int] = frozenset(),
) -> Allocations:
    """Split the request over the reservations; the nominated one gets first and takes the rest.

    The nominated reservation gets the pod slot and all resources with an identity. A reservation
    may contribute only a host port.
    """
    request, ports = dict(pod.request), pod.host_ports
    if not others:
        return {chosen.uid: {**request, PODS: 1}}
    allocations: Allocations = {}
    for info in (chosen, *others):
        taken = {
            r: min(wanted, info.remaining(r))
            for r, wanted in request.items()
            if info is chosen or r not in identified
        }
        taken = {r: amount for r, amount in taken.items() if amount > 0}
        if taken or ports & info.pod_info.host_ports:
            allocations[info.uid] = taken
        request = {r: wanted - taken.get(r, 0) for r, wanted in request.items()}
        ports -= info.pod_info.host_ports
    rest = allocations.setdefault(chosen.uid, {})
    for resource, wanted in request.items():
        if wanted:
            rest[resource] = rest.get(resource, 0) + wanted
    rest[PODS] = 1
    return allocations


def allocation_annotations(
    owner: OwnerRequest,
    pod: PodInfo,
    chosen: ReservationInfo,
    allocations: Mapping[str, Mapping[int, int]],
) -> dict[str, str]:
    """Return annotations that name the nominated reservation, and the amounts if there are several.

    After a restart the cache is built from these annotations, so those the pod was created with
    (copied from another pod, for example) are overwritten.
    """
    allocated = {"name": chosen.reservation.name, "uid": chosen.uid}
    written = {names.ALLOCATED: msgspec.json.encode(allocated).decode()}
    if len(allocations) > 1 or names.DRAWS in pod.pod.metadata.annotations:
        listed = [
            {
                "name": owner.reservations.by_uid[uid].reservation.name,
                "uid": uid,
                "resources": {
                    owner.nodes.resources[r]: f"{a}m" if r == CPU else str(a)
                    for r, a in amounts.items()
                    if r != PODS
                },
            }
            for uid, amounts in allocations.items()
        ]
        written[names.DRAWS] = msgspec.json.encode(listed).decode()
    return written

"""Annotations with JSON values: decoding, and those about reservations that ledgers read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from holdfast.api.allocation_keys import ALLOCATION_ANNOTATIONS
from holdfast.api.decode import decode_object
from holdfast.api.meta import Struct
from holdfast.api.pod import Pod
from holdfast.api.reservation import Reservation
from holdfast.api.reservation_names import ALLOCATED, RESTRICTED_OPTIONS
from holdfast.runtime.errors import BadRequest

T = TypeVar("T")

OF_ALLOCATIONS = frozenset(
    (*ALLOCATION_ANNOTATIONS, "kubectl.kubernetes.io/last-applied-configuration")
)
"""Annotations about what a pod has on its node; a reservation made from the pod lacks them."""


class AllocatedReservation(Struct, frozen=True):
    """The reservation a pod was allocated from."""

    name: str = ""
    uid: str = ""


class _ResourceNames(Struct, frozen=True):
    resources: tuple[str, ...] | None = None


def allocated_reservation(pod: Pod) -> AllocatedReservation | None:
    """Return the reservation that the pod's annotation names, if any."""
    reservation: AllocatedReservation | None = decode_annotation(
        pod.metadata.annotations, ALLOCATED, AllocatedReservation
    )
    return reservation


def restricted_names(reservation: Reservation) -> tuple[str, ...]:
    """Return the resources a Restricted reservation limits; empty means all that it reserves."""
    resource_names: _ResourceNames | None = decode_annotation(
        reservation.metadata.annotations, RESTRICTED_OPTIONS, _ResourceNames
    )
    return (resource_names and resource_names.resources) or ()


def parse_annotation(annotations: Mapping[str, str], key: str, kind: type[T]) -> T | None:
    """Decode one annotation, None if it is absent; raise BadRequest that names a malformed one."""
    text = annotations.get(key)
    if text is None or text.strip() == "null":
        return None
    try:
        return decode_object(text.encode(), kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadRequest(f"annotation {key}: {error}") from None


def decode_annotation(annotations: Mapping[str, str], key: str, kind: Any) -> Any:
    """Decode one annotation; a malformed one counts as absent, as in Koordinator."""
    text = annotations.get(key)
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, RecursionError):
        return None

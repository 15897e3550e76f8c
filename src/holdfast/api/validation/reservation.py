"""Validation of Reservations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.api import durations, field_errors, names
from holdfast.api.quantity import AmountText
from holdfast.api.reservation import ControllerOwner, Reservation, ReservationOwner, ReservationSpec
from holdfast.api.reservation_names import (
    INNER_RESERVED,
    OWNER_NAMESPACES,
    RESIZE,
    RESTRICTED_OPTIONS,
)
from holdfast.api.timestamps import parse_rfc3339
from holdfast.api.validation.counting import find_excess
from holdfast.api.validation.list_limits import RESERVATION_TREE
from holdfast.api.validation.template import EFFECTS, check_amounts, check_selector, check_template
from holdfast.runtime.errors import BadRequest, Cause

POLICIES = ("", "Aligned", "Restricted")
MODES = ("Default", "Cluster")


class _Amounts(msgspec.Struct):
    resources: dict[str, AmountText] | None = None


class _Names(msgspec.Struct):
    resources: list[str] | None = None


_ANNOTATIONS: dict[str, type[Any]] = {
    RESIZE: _Amounts,
    INNER_RESERVED: _Amounts,
    RESTRICTED_OPTIONS: _Names,
}


def check_reservation(reservation: Reservation) -> Iterator[Cause]:
    """Yield every error because of which a Reservation cannot be scheduled or used."""
    beyond = find_excess(RESERVATION_TREE, reservation)
    excess = [field_errors.too_many(*entry) for entry in beyond]
    yield from excess
    if not excess:
        yield from _check_content(reservation)


def _check_content(reservation: Reservation) -> Iterator[Cause]:
    spec = reservation.spec
    if spec.template is None:
        yield field_errors.required("spec.template", "the reservation misses the template spec")
    else:
        at = "spec.template.spec"
        yield from check_template(spec.template.spec, at)
        if spec.template.spec.scheduling_gates:
            message = "gates of a reservation can never be removed; leave them out"
            yield field_errors.forbidden(f"{at}.schedulingGates", message)
    if not spec.owners:
        yield field_errors.required("spec.owners", "the reservation misses the owner spec")
    for i, owner in enumerate(spec.owners):
        yield from check_owner(owner, f"spec.owners[{i}]")
    yield from _lifetime(spec)
    yield from _policies(spec)
    for key, kind in _ANNOTATIONS.items():
        if text := reservation.metadata.annotations.get(key):
            yield from _annotation(text, kind, f"metadata.annotations[{key}]")


def check_owner(owner: ReservationOwner, path: str) -> Iterator[Cause]:
    """Yield what is wrong with one of the owners of a reservation."""
    if owner.object is None and owner.controller is None and owner.label_selector is None:
        yield field_errors.required(path, "one of object, controller and labelSelector")
    if owner.controller is not None and not _named(owner.controller):
        yield field_errors.required(f"{path}.controller", "name or uid is required")
    yield from check_selector(owner.label_selector, f"{path}.labelSelector")


def _named(controller: ControllerOwner) -> bool:
    return bool(controller.name or controller.uid)


def _lifetime(spec: ReservationSpec) -> Iterator[Cause]:
    if spec.ttl:
        try:
            if durations.parse(spec.ttl) < 0:
                message = "must not be negative; 0 means never"
                yield field_errors.invalid("spec.ttl", spec.ttl, message)
        except BadRequest as wrong:
            yield field_errors.invalid("spec.ttl", spec.ttl, wrong.message)
    if spec.expires:
        try:
            parse_rfc3339(spec.expires)
        except BadRequest as wrong:
            yield field_errors.invalid("spec.expires", spec.expires, wrong.message)


def _policies(spec: ReservationSpec) -> Iterator[Cause]:
    if spec.allocate_policy not in POLICIES:
        yield field_errors.not_supported("spec.allocatePolicy", spec.allocate_policy, POLICIES)
    chosen = spec.pre_allocation_policy
    if chosen is not None and chosen.mode not in MODES:
        yield field_errors.not_supported("spec.preAllocationPolicy.mode", chosen.mode, MODES)
    for i, taint in enumerate(spec.taints):
        if not taint.key:
            yield field_errors.required(f"spec.taints[{i}].key")
        if taint.effect not in EFFECTS:
            yield field_errors.not_supported(f"spec.taints[{i}].effect", taint.effect, EFFECTS)


def _annotation(text: str, kind: type[Any], path: str) -> Iterator[Cause]:
    try:
        value = msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, RecursionError) as wrong:
        yield field_errors.invalid(path, text, str(wrong))
        return
    if isinstance(value, _Amounts):
        yield from check_amounts(value.resources or {}, f"{path}.resources")


_AT = f"metadata.annotations[{OWNER_NAMESPACES}]"


def owner_namespaces(reservation: Reservation) -> frozenset[str] | None:
    """Return the namespaces to which the annotation limits the owners; None without it.

    Raise BadRequest if one of the names cannot be that of a namespace.
    """
    text = reservation.metadata.annotations.get(OWNER_NAMESPACES)
    if text is None:
        return None
    namespaces = frozenset([part.strip() for part in text.split(",")])
    wrong = next((name for name in sorted(namespaces) if names.dns_label(name)), None)
    if wrong is not None:
        raise BadRequest(f'{_AT}: "{wrong[:63]}" cannot be the name of a namespace')
    return namespaces

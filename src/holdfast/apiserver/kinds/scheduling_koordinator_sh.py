"""The custom kind of ``scheduling.koordinator.sh``: what its definition does not say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.api import scheme
from holdfast.api.decode import JsonObject, convert_object
from holdfast.api.reservation import Reservation
from holdfast.apiserver.descriptor import AdmissionPlugin, KindDescriptor
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.schema import field_validation
from holdfast.errors import BadRequest, Cause
from holdfast.validation.list_limits import RESERVATION_TREE
from holdfast.validation.reservation import check_reservation
from holdfast.validation.reservation_advice import advise

_TEMPLATE = "io.k8s.api.core.v1.PodTemplateSpec"


def check_reservation_write(new: JsonObject, old: JsonObject | None) -> Iterable[Cause]:
    """List what is wrong with a Reservation whose shape is right.

    What was let in once may have its status written for ever.
    """
    if old is not None and _content(old) == _content(new):
        return ()
    return check_content(new)


def _content(reservation: JsonObject) -> tuple[Any, Any]:
    return reservation.get("spec"), reservation["metadata"].get("annotations")


def check_content(reservation: JsonObject) -> Iterable[Cause]:
    """List what of a Reservation its schema does not judge: the template, the owners, and more."""
    template = (reservation.get("spec") or {}).get("template") or {}
    try:
        field_validation.prune_type(_TEMPLATE, template, "spec.template", [])
        judged = {part: value for part, value in reservation.items() if part != "status"}
        typed = convert_object(judged, Reservation)
    except BadRequest as wrong:
        return [Cause("spec.template", f"Invalid value: {wrong.message}", "FieldValueInvalid")]
    except msgspec.ValidationError as misfit:
        return [Cause("spec", f"Invalid value: {misfit}", "FieldValueInvalid")]
    return check_reservation(typed)


def warn_of_reservation(op: Operation, new: JsonObject, old: JsonObject | None) -> None:
    """Warn the client of what of a Reservation counts for nothing."""
    if old is None or not op.request_info.subresource:
        op.warnings.extend(reservation_warnings(new, old))


def reservation_warnings(new: JsonObject, old: JsonObject | None = None) -> list[str]:
    """List what of a Reservation that was let in counts for nothing, for warning headers.

    Its template is kept whole, so a misspelt field there is not refused as others are.
    """
    if old is not None and _says(old) == _says(new):
        return []
    written = _read(new)
    if written is None:
        return []
    template, unknown = new["spec"].get("template"), list[str]()
    if old is None or old["spec"].get("template") != template:
        field_validation.prune_type(_TEMPLATE, template, "spec.template", unknown)
    before = None if old is None else _read(old)
    return [*field_validation.field_warnings(unknown), *advise(written, before)]


def _read(obj: JsonObject) -> Reservation | None:
    """Read one, or None: whoever let it in may not have known us."""
    try:
        return convert_object(obj, Reservation)
    except (BadRequest, msgspec.ValidationError):
        return None


def _says(obj: JsonObject) -> tuple[Any, Any]:
    return obj.get("spec"), obj["metadata"].get("labels")


KINDS = (
    KindDescriptor(
        scheme.RESERVATIONS,
        list_limits=RESERVATION_TREE,
        checks=(check_reservation_write,),
        admission_plugins=(AdmissionPlugin(validate=warn_of_reservation),),
    ),
)

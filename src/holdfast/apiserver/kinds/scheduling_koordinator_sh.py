"""The custom kind of ``scheduling.koordinator.sh``: what its definition does not say."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.api import scheme
from holdfast.api.decode import JsonObject, convert_object
from holdfast.api.reservation import Reservation
from holdfast.apiserver.descriptor import Admitter, Served
from holdfast.apiserver.kinds.validation.scheduling import TEMPLATE, check_reservation_write
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.schema import strict
from holdfast.errors import BadRequest
from holdfast.validation.list_limits import RESERVATION_TREE
from holdfast.validation.reservation_advice import advise


def warn_of_reservation(op: Operation, new: JsonObject, old: JsonObject | None) -> None:
    """Warn the client of what of a Reservation counts for nothing."""
    if old is None or not op.call.subresource:
        op.warnings.extend(advice(new, old))


def advice(new: JsonObject, old: JsonObject | None = None) -> list[str]:
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
        strict.prune_type(TEMPLATE, template, "spec.template", unknown)
    before = None if old is None else _read(old)
    return [*strict.complaints(unknown), *advise(written, before)]


def _read(obj: JsonObject) -> Reservation | None:
    """Read one, or None: whoever let it in may not have known us."""
    try:
        return convert_object(obj, Reservation)
    except (BadRequest, msgspec.ValidationError):
        return None


def _says(obj: JsonObject) -> tuple[Any, Any]:
    return obj.get("spec"), obj["metadata"].get("labels")


KINDS = (
    Served(
        scheme.RESERVATIONS,
        lists=RESERVATION_TREE,
        checks=(check_reservation_write,),
        admitters=(Admitter(validate=warn_of_reservation),),
    ),
)

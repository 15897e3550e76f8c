"""The kinds of ``scheduling.koordinator.sh``: checks, rights and warnings beyond their CRDs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.api import scheme
from holdfast.api.decode import JsonMapping, JsonObject, convert_object
from holdfast.api.json_fields import map_at
from holdfast.api.reservation import Reservation
from holdfast.api.scheme import RESERVATIONS
from holdfast.api.validation.list_limits import RESERVATION_TREE
from holdfast.api.validation.reservation import check_reservation
from holdfast.api.validation.reservation_warnings import find_warnings
from holdfast.runtime.errors import BadRequest, Cause
from holdfast.server.descriptor import AdmissionPlugin, KindDescriptor
from holdfast.server.kinds.koordinator_checks import DEVICE_WARNINGS, JOB_WARNINGS
from holdfast.server.kinds.reservation_references import reference_warnings
from holdfast.server.operation import Operation
from holdfast.server.schema import field_validation
from holdfast.server.wire.request_info import RequestInfo

_TEMPLATE = "io.k8s.api.core.v1.PodTemplateSpec"
_TEMPLATE_REFUSAL = (
    "spec.reservationOptions.template: a job with a template needs the "
    'verb "create" on reservations.scheduling.koordinator.sh; without one the controller '
    "makes the reservation from the pod"
)
_CREATION = RequestInfo(
    "create", "", RESERVATIONS.group, RESERVATIONS.version, plural=RESERVATIONS.plural
)


def _check_migration_job(op: Operation, new: JsonObject, old: JsonObject | None) -> None:
    """Raise Forbidden for a new or changed template of a user that may not create reservations.

    The controller creates the reservations of jobs with its own rights. Without a template it makes
    them from the migrating pod, for the successor of that pod only.
    """
    template = _job_template(new)
    if template is None or (old is not None and template == _job_template(old)):
        return
    if not op.context.authorizer.allows(op.user, _CREATION):
        raise op.forbidden(_TEMPLATE_REFUSAL, new)


def _job_template(job: JsonMapping) -> Any:
    return map_at(map_at(job, "spec"), "reservationOptions").get("template")


def check_reservation_write(new: JsonObject, old: JsonObject | None) -> Iterable[Cause]:
    """Return what is wrong with a Reservation that is valid by its schema.

    A write that changes neither spec nor annotations is not checked.
    """
    if old is not None and _spec_and_annotations(old) == _spec_and_annotations(new):
        return ()
    return check_content(new)


def _spec_and_annotations(reservation: JsonObject) -> tuple[Any, Any]:
    return reservation.get("spec"), reservation["metadata"].get("annotations")


def check_content(reservation: JsonObject) -> Iterable[Cause]:
    """Return the problems that the schema does not cover: the template, the owners and others."""
    template = (reservation.get("spec") or {}).get("template") or {}
    try:
        field_validation.prune_type(_TEMPLATE, template, "spec.template", [])
        without_status = {part: value for part, value in reservation.items() if part != "status"}
        typed = convert_object(without_status, Reservation)
    except BadRequest as wrong:
        return [Cause("spec.template", f"Invalid value: {wrong.message}", "FieldValueInvalid")]
    except msgspec.ValidationError as wrong:
        return [Cause("spec", f"Invalid value: {wrong}", "FieldValueInvalid")]
    return check_reservation(typed)


def warn_of_reservation(op: Operation, new: JsonObject, old: JsonObject | None) -> None:
    """Warn the client of parts of a Reservation that have no effect."""
    if old is not None and op.request_info.subresource:
        return
    op.warnings.extend(reservation_warnings(new, old))
    if (reservation := _read(new)) is not None:
        before = None if old is None else _read(old)
        op.warnings.extend(reference_warnings(op, reservation, before))


def reservation_warnings(new: JsonObject, old: JsonObject | None = None) -> list[str]:
    """Return warnings about parts of a valid Reservation that have no effect.

    Unknown fields of its template are stored, so they are only warned of.
    """
    if old is not None and _warned_of(old) == _warned_of(new):
        return []
    new_reservation = _read(new)
    if new_reservation is None:
        return []
    template, unknown = new["spec"].get("template"), list[str]()
    if old is None or old["spec"].get("template") != template:
        field_validation.prune_type(_TEMPLATE, template, "spec.template", unknown)
    before = None if old is None else _read(old)
    return [*field_validation.field_warnings(unknown), *find_warnings(new_reservation, before)]


def _read(obj: JsonObject) -> Reservation | None:
    """Decode a Reservation; None if an older or other server stored an invalid one."""
    try:
        return convert_object(obj, Reservation)
    except (BadRequest, msgspec.ValidationError):
        return None


def _warned_of(obj: JsonObject) -> tuple[Any, Any, Any]:
    """Return the parts of a Reservation that warnings are about."""
    metadata = obj["metadata"]
    return obj.get("spec"), metadata.get("labels"), metadata.get("annotations")


KINDS = (
    KindDescriptor(
        scheme.RESERVATIONS,
        list_limits=RESERVATION_TREE,
        checks=(check_reservation_write,),
        admission_plugins=(AdmissionPlugin(validate=warn_of_reservation),),
    ),
    KindDescriptor(scheme.SHARED_DEVICES, admission_plugins=(DEVICE_WARNINGS,)),
    KindDescriptor(
        scheme.POD_MIGRATION_JOBS,
        admission_plugins=(AdmissionPlugin(mutate=_check_migration_job), JOB_WARNINGS),
    ),
)

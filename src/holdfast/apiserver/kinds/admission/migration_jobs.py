"""A PodMigrationJob with a template makes a reservation: its author must be allowed to create one.

The controller creates reservations of jobs as itself. Without a template it makes them from the pod
that migrates, for its successor only.
"""

from __future__ import annotations

from typing import Any

from holdfast.api.decode import JsonObject
from holdfast.api.json_fields import Raw, map_at
from holdfast.api.scheme import RESERVATIONS
from holdfast.apiserver.descriptor import AdmissionPlugin
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.wire.request_info import RequestInfo

REFUSAL = (
    "spec.reservationOptions.template: a job with a template needs the "
    'verb "create" on reservations.scheduling.koordinator.sh; without one the controller '
    "makes the reservation from the pod"
)
_CREATION = RequestInfo(
    "create", "", RESERVATIONS.group, RESERVATIONS.version, plural=RESERVATIONS.plural
)


def _check(op: Operation, new: JsonObject, old: JsonObject | None) -> None:
    """Raise Forbidden for a new or changed template of a user that may not create reservations."""
    template = _template(new)
    if template is None or (old is not None and template == _template(old)):
        return
    if not op.context.authorizer.allows(op.user, _CREATION):
        raise op.forbidden(REFUSAL, new)


def _template(job: Raw) -> Any:
    return map_at(map_at(job, "spec"), "reservationOptions").get("template")


MIGRATION_JOB = AdmissionPlugin(mutate=_check)

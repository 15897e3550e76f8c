"""Whether the template of a job reserves more than the job moves, or for other pods.

A job reserves room for the pod that replaces its own. What else is to be reserved needs a
reservation of its own, to which the job refers.
"""

from __future__ import annotations

import msgspec

from holdfast.api.decode import convert_object
from holdfast.api.meta import controller_of
from holdfast.api.pod import Pod
from holdfast.api.pod_migration_job import PodMigrationJob
from holdfast.api.requests import nanos_text, request_nanos
from holdfast.api.reservation import Reservation, ReservationOwner
from holdfast.api.resource_names import PODS
from holdfast.capacity.reserve_pod import reserve_pod
from holdfast.device_share.requests import amount_as
from holdfast.errors import BadRequest
from holdfast.migration.pod_filters import is_unscheduled

_AT = "spec.reservationOptions.template"
_ADVICE = "create such a reservation yourself and name it in spec.reservationOptions.reservationRef"


def find_template_excess(job: PodMigrationJob, pod: Pod) -> str:
    """Return why a job may not reserve what its template says, "" if it may.

    A template that cannot be read is reported when the reservation is created.
    """
    given = job.spec.reservation_options
    raw = given.template if given is not None else None
    if not raw:
        return ""
    try:
        template = convert_object({key: raw[key] for key in ("metadata", "spec") if raw.get(key)},
                                  Reservation)  # fmt: skip
        larger = _larger_resources(template, pod)
    except (BadRequest, msgspec.ValidationError, ValueError):
        return ""
    if larger:
        return f"{_AT}: more {larger} than Pod {pod.key} requests; leave it out, or {_ADVICE}"
    for i, owner in enumerate(template.spec.owners):
        if not _is_successor(owner, pod):
            at = f"{_AT}.spec.owners[{i}]"
            who = f"the pod that replaces Pod {pod.key}"
            return f"{at}: matches other pods than {who}; leave owners out, or {_ADVICE}"
    return ""


def _larger_resources(template: Reservation, pod: Pod) -> str:
    """Return the resources of which the template reserves more, with the amounts."""
    allowed = {PODS: 10**9, **request_nanos(pod)}
    wanted = request_nanos(reserve_pod(template))  # with the annotation that resizes it
    found = [
        f"{name} ({nanos_text(name, amount)})"
        for name, amount in sorted(wanted.items())
        if amount > amount_as(name, allowed)
    ]
    return ", ".join(found)


def _is_successor(owner: ReservationOwner, pod: Pod) -> bool:
    """Return whether an owner matches only pods that may replace a pod."""
    named, made = owner.object, owner.controller
    namespaces = {part.namespace for part in (named, made) if part is not None}
    if named is not None and named.name == pod.name and pod.namespace in namespaces:
        return True
    if is_unscheduled(pod):
        return named is not None and named.uid == pod.uid
    controller = controller_of(pod)
    if controller is None or made is None or pod.namespace not in namespaces:
        return False
    if made.uid:
        return made.uid == controller.uid
    return made.name == controller.name and made.kind in ("", controller.kind)

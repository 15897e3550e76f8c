"""The pod that stands for a reservation while it looks for its node."""

from __future__ import annotations

import msgspec

from holdfast.api.meta import ObjectMeta
from holdfast.api.pod import Pod, PodStatus
from holdfast.api.reservation import PodTemplate, Reservation
from holdfast.capacity import names

HIGHEST_PRIORITY = 2**31 - 1


def reserve_pod(reservation: Reservation) -> Pod:
    """Build the reserve pod: the template under the reservation's own identity.

    Name and uid are the reservation's; its labels and annotations win over the template's. A
    node name in the template is a wish to check, not a fact, so it moves to an annotation.
    """
    template = reservation.spec.template or PodTemplate()
    spec = template.spec
    annotations = {
        **template.metadata.annotations,
        **reservation.metadata.annotations,
        names.RESERVE_POD: "true",
        names.RESERVATION_NAME: reservation.name,
    }
    if spec.node_name:
        annotations[names.RESERVATION_NODE] = spec.node_name
    labels = {**template.metadata.labels, **reservation.metadata.labels}
    return Pod(
        api_version="v1",
        kind="Pod",
        metadata=ObjectMeta(
            name=reservation.name,
            namespace=template.metadata.namespace or "default",
            uid=reservation.uid,
            resource_version=reservation.metadata.resource_version,
            creation_timestamp=reservation.metadata.creation_timestamp,
            deletion_timestamp=reservation.metadata.deletion_timestamp,
            labels=labels,
            annotations=annotations,
        ),
        spec=msgspec.structs.replace(
            spec,
            node_name=reservation.status.node_name,
            scheduler_name=spec.scheduler_name or "default-scheduler",
            priority=_priority(reservation, spec.priority),
        ),
        status=PodStatus(phase="Pending"),
    )


def _priority(reservation: Reservation, given: int | None) -> int:
    if given is not None:
        return given
    try:
        return int(reservation.metadata.labels.get(names.PRIORITY, ""))
    except ValueError:
        return HIGHEST_PRIORITY

"""The reserve pod: the pod that is scheduled in place of a reservation."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.api import reservation_names as names
from holdfast.api.meta import ObjectMeta
from holdfast.api.names import parse_integer
from holdfast.api.pod import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from holdfast.api.quantity import AmountText
from holdfast.api.requests import request_nanos, round_up_nanos
from holdfast.api.reservation import PodTemplate, Reservation
from holdfast.state.reservations.reservation_annotations import resized_amounts

_OF_RESERVATIONS = frozenset(
    (
        names.RESIZE,
        names.INNER_RESERVED,
        names.RESTRICTED_OPTIONS,
        names.OWNER_NAMESPACES,
        names.RESERVATION_NODE,
    )
)
"""Annotations of reservations. In a template they have no effect: it may be made from a pod."""
LOWEST_PRIORITY, HIGHEST_PRIORITY = -(2**31), 2**31 - 1


def reserve_pod(reservation: Reservation) -> Pod:
    """Build the reserve pod from the template of a reservation.

    Name and uid are the reservation's; its labels and annotations override the template's, without
    those that only a reservation has. A node name in the template is a requirement to check, so it
    moves to an annotation.
    """
    template = reservation.spec.template or PodTemplate()
    asked = with_requests(template.spec)
    held = reservation.status.allocatable if reservation.active else {}
    spec = _resized(asked, {**resized_amounts(reservation), **held})
    annotations = {
        **{k: v for k, v in template.metadata.annotations.items() if k not in _OF_RESERVATIONS},
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
        status=PodStatus(phase="Pending", conditions=reservation.status.conditions),
    )


def with_requests(spec: PodSpec) -> PodSpec:
    """Set missing requests of containers to their limits, as the API server does for pods.

    It does not do so for templates, whose pods would then request more than is held.
    """

    def asking(container: Container) -> Container:
        given = container.resources
        if given.limits.keys() <= given.requests.keys():
            return container
        resources = msgspec.structs.replace(given, requests={**given.limits, **given.requests})
        return msgspec.structs.replace(container, resources=resources)

    return msgspec.structs.replace(
        spec,
        containers=tuple([asking(each) for each in spec.containers]),
        init_containers=tuple([asking(each) for each in spec.init_containers]),
    )


def _resized(spec: PodSpec, amounts: Mapping[str, AmountText]) -> PodSpec:
    """Request the amounts the reservation will hold, where they differ from the template's."""
    if not amounts:
        return spec
    asked = {
        name: f"{round_up_nanos(name, nanos)}m"
        if name == "cpu"
        else str(round_up_nanos(name, nanos))
        for name, nanos in request_nanos(Pod(spec=spec)).items()
    }
    single = Container(
        name="resized",
        resources=ResourceRequirements(requests={**asked, **amounts}),
        ports=tuple(port for container in spec.containers for port in container.ports),
    )
    return msgspec.structs.replace(
        spec, containers=(single,), init_containers=(), overhead={}, resources=None
    )


def _priority(reservation: Reservation, given: int | None) -> int:
    if given is not None:
        return given
    wanted = parse_integer(reservation.metadata.labels.get(names.PRIORITY, ""))
    if wanted is None or not LOWEST_PRIORITY <= wanted <= HIGHEST_PRIORITY:
        return HIGHEST_PRIORITY
    return wanted

"""Pods in operating mode Reservation: running pods that act as reservations themselves.

Such a pod has the owners of a reservation in an annotation. It is a real pod, so the node table
counts its request, and that of the owner that uses its resources. What both have in common counts
once: the reservation then holds a negative amount (``ReservationInfo.counted_in_pod``). It
allocates once: from the moment it names a current owner, no other pod may use it, also after that
owner is gone. Only pods of its namespace can be owners: a user who may create pods in one namespace
must not decide where pods of another run.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from holdfast.api.annotations import allocated_reservation, decode_annotation
from holdfast.api.field_errors import raise_if_any
from holdfast.api.koordinator_names import (
    OPERATING_MODE,
    RESERVATION_CURRENT_OWNER,
    RESERVATION_OWNERS,
)
from holdfast.api.meta import ObjectMeta, ObjectReference
from holdfast.api.pod import Pod
from holdfast.api.requests import nanos_text, request_nanos
from holdfast.api.reservation import (
    AVAILABLE,
    POD_KIND,
    UNREADY,
    PodTemplate,
    Reservation,
    ReservationOwner,
    ReservationSpec,
    ReservationStatus,
)
from holdfast.api.validation.list_limits import RESERVATION_TREE, first_excess
from holdfast.api.validation.reservation import check_owner
from holdfast.runtime.errors import BadRequest

ACTING_POLICY = "Aligned"
_AT = f"metadata.annotations[{RESERVATION_OWNERS}]"


def has_operating_mode(pod: Pod) -> bool:
    """Tell whether the label says that the pod acts as a reservation."""
    return pod.metadata.labels.get(OPERATING_MODE) == "Reservation"


def operating_reservation(pod: Pod, uid: str = "") -> Reservation | None:
    """Return the reservation that a pod with a node acts as.

    None for other pods, and for one whose owners are missing, malformed or in other namespaces: it
    is an ordinary pod. So is one that uses a reservation itself: what is reserved for it must not
    be lent to others.
    """
    if not has_operating_mode(pod) or not pod.spec.node_name or allocated_reservation(pod):
        return None
    try:
        owners = annotated_owners(pod)
    except BadRequest:
        return None
    if (owner := current_owner(pod)) is not None:
        owners = (ReservationOwner(object=owner),)
    owners = tuple(_in_namespace(owners, pod.namespace))
    if not owners:
        return None
    meta = pod.metadata
    template = ObjectMeta(
        namespace=meta.namespace, labels=meta.labels, annotations=meta.annotations
    )
    reservation = Reservation(
        api_version="v1",
        kind=POD_KIND,
        metadata=msgspec.structs.replace(meta, uid=uid or pod.uid),
        spec=ReservationSpec(
            template=PodTemplate(template, pod.spec), owners=owners, allocate_policy=ACTING_POLICY
        ),
        status=ReservationStatus(
            phase=AVAILABLE if _is_ready(pod) else UNREADY,
            node_name=pod.spec.node_name,
            allocatable={n: nanos_text(n, a) for n, a in request_nanos(pod).items() if a},
        ),
    )
    return None if first_excess(RESERVATION_TREE, reservation) else reservation


def owners_mistake(pod: Pod) -> str | None:
    """Return what is wrong with the owners of a pod that should act as a reservation.

    "" if nothing is; None for a pod that should not.
    """
    if not has_operating_mode(pod):
        return None
    try:
        annotated_owners(pod)
    except BadRequest as wrong:
        return str(wrong)
    return ""


def _in_namespace(
    owners: tuple[ReservationOwner, ...], namespace: str
) -> Iterator[ReservationOwner]:
    """Return the owners that can be in a namespace, each with its name."""
    for owner in owners:
        wanted = owner.object or ObjectReference()
        if wanted.namespace in ("", namespace):
            there = msgspec.structs.replace(wanted, namespace=namespace)
            yield msgspec.structs.replace(owner, object=there)


def annotated_owners(pod: Pod) -> tuple[ReservationOwner, ...]:
    """Read the owners of a pod that acts as a reservation; raise BadRequest if there are none."""
    text = pod.metadata.annotations.get(RESERVATION_OWNERS, "")
    if not text.strip():
        raise BadRequest(f"{_AT}: required")
    try:
        owners = msgspec.json.decode(text, type=tuple[ReservationOwner, ...] | None)
    except (msgspec.MsgspecError, RecursionError) as wrong:
        raise BadRequest(f"{_AT}: {wrong}") from wrong
    if not owners:
        raise BadRequest(f"{_AT}: required")
    if excess := first_excess(RESERVATION_TREE, Reservation(spec=ReservationSpec(owners=owners))):
        raise BadRequest(f"{_AT}: {excess}")
    for i, owner in enumerate(owners):
        raise_if_any(check_owner(owner, f"{_AT}[{i}]"))
    return owners


def current_owner(pod: Pod) -> ObjectReference | None:
    """Return the pod that uses the resources of a pod, or used them; None if there was none."""
    owner: ObjectReference | None = decode_annotation(
        pod.metadata.annotations, RESERVATION_CURRENT_OWNER, ObjectReference
    )
    return owner if owner is not None and (owner.uid or owner.name) else None


def _is_ready(pod: Pod) -> bool:
    conditions = pod.status.conditions
    return pod.status.phase == "Running" and any(
        c.type == "Ready" and c.status == "True" for c in conditions
    )

"""Warn of reservations, and of pods with reservation affinity, that other objects make useless.

A pod waits if no reservation matches its affinity, or if all that match have ended. A reservation
that keeps more inside than it reserves gives nothing to its owners.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from holdfast.api import scheme
from holdfast.api.decode import JsonObject, convert_object
from holdfast.api.koordinator_names import OPERATING_MODE
from holdfast.api.meta import Object
from holdfast.api.pod import Pod
from holdfast.api.requests import nanos, nanos_text, request_nanos
from holdfast.api.reservation import FINAL, Reservation
from holdfast.api.reservation_names import AFFINITY, INNER_RESERVED
from holdfast.runtime.errors import BadRequest, HoldfastError
from holdfast.server.operation import Operation
from holdfast.server.schema.stored_objects import decode
from holdfast.server.store import ObjectKey, StoredObject
from holdfast.state.reservations.reservation_annotations import (
    ReservationAffinity,
    affinity_of,
    inner_reserved,
    selects,
)
from holdfast.state.reservations.reserve_pod import reserve_pod

_RESERVATIONS = (scheme.RESERVATIONS.group, scheme.RESERVATIONS.plural)
_MOST_READ = 200
"""If more reservations than this may match, they are not read and there is no warning."""


def warn_of_affinity(op: Operation, new: JsonObject, old: JsonObject | None) -> None:
    """Warn if a new pod needs a reservation and none can serve it."""
    notes = new["metadata"].get("annotations")
    if old is not None or not notes or AFFINITY not in notes:
        return
    at = f"metadata.annotations[{AFFINITY}]"
    try:
        affinity = affinity_of(convert_object({"metadata": new["metadata"]}, Pod))
    except BadRequest as wrong:
        op.warnings.append(f"the pod cannot be scheduled: {wrong.message}")
        return
    except msgspec.ValidationError:
        return  # validation reports it
    if affinity is not None and (words := _unserved(op, affinity)):
        op.warnings.append(f"{at}: {words}")


def _unserved(op: Operation, affinity: ReservationAffinity) -> str:
    """Return why no reservation serves a pod with this affinity, or ""."""
    candidates = _candidates(op, affinity)
    if len(candidates) > _MOST_READ:
        return ""
    reservations = [one for one in map(_read, candidates) if one and _may_match(op, one, affinity)]
    if any(one.phase not in FINAL for one in reservations):
        return ""
    namespace, acts = op.request_info.namespace, {OPERATING_MODE: "Reservation"}
    if op.context.store.list("", "pods", namespace, labels=acts):
        return ""  # one of them may serve it
    if reservations:
        ended = ", ".join(f"{one.name} is {one.phase}" for one in reservations[:3])
        more = ", …" if len(reservations) > 3 else ""
        return f"the pod waits: reservation {ended}{more}, and serves no further pod"
    which = f'"{affinity.name}" does not exist' if affinity.name else "that matches does not exist"
    return f"the pod waits: a reservation {which}"


def _candidates(op: Operation, affinity: ReservationAffinity) -> Sequence[StoredObject]:
    store = op.context.store
    if affinity.name:
        stored = store.latest(ObjectKey(*_RESERVATIONS, "", affinity.name))
        return () if stored is None else (stored,)
    return store.list(*_RESERVATIONS)


def _may_match(op: Operation, reservation: Reservation, affinity: ReservationAffinity) -> bool:
    """Return whether a candidate matches the affinity, or may match it once it has a node."""
    if affinity.name:
        return True
    node = reservation.status.node_name
    if not node and reservation.phase not in FINAL:
        return True
    stored = op.context.store.latest(ObjectKey("", "nodes", "", node))
    labels = decode(stored)["metadata"].get("labels") or {} if stored else {}
    return selects(affinity, {**labels, **reservation.metadata.labels}, reservation.name)


def _read(stored: StoredObject) -> Reservation | None:
    try:
        return convert_object(decode(stored), Reservation)
    except (BadRequest, msgspec.ValidationError):
        return None


def reference_warnings(op: Operation, new: Reservation, old: Reservation | None) -> Iterator[str]:
    """Yield warnings of the template's namespace and of the amounts kept inside a reservation."""
    namespace = _namespace(new)
    if (
        namespace
        and (old is None or _namespace(old) != namespace)
        and op.context.store.latest(ObjectKey("", "namespaces", "", namespace)) is None
    ):
        yield f'spec.template.metadata.namespace: namespace "{namespace}" does not exist'
    if old is None or _kept(old) != _kept(new) or old.spec != new.spec:
        yield from _too_much_inside(new)


def _namespace(reservation: Reservation) -> str:
    template = reservation.spec.template
    return "" if template is None else template.metadata.namespace


def _kept(reservation: Object) -> str | None:
    return reservation.metadata.annotations.get(INNER_RESERVED)


def _too_much_inside(new: Reservation) -> Iterator[str]:
    try:
        reserved = request_nanos(reserve_pod(new))
        kept = {name: nanos(amount) for name, amount in inner_reserved(new).items()}
    except HoldfastError:
        return  # validation reports it
    for name, amount in kept.items():
        at, there = f"metadata.annotations[{INNER_RESERVED}]", reserved.get(name, 0)
        if amount and not there:
            yield f"{at}: {name} is not reserved, so that nothing of it is kept"
        elif amount and amount >= there:
            yield (
                f"{at}: {name} {nanos_text(name, amount)} inside a reservation of "
                f"{nanos_text(name, there)} leaves nothing for owners"
            )

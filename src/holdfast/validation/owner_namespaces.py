"""The namespaces of the owners of a reservation: the annotation that limits them, and warnings."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.api import names
from holdfast.api.reservation import Reservation, ReservationOwner
from holdfast.api.reservation_names import OWNER_NAMESPACES
from holdfast.errors import BadRequest

_AT = f"metadata.annotations[{OWNER_NAMESPACES}]"


def owner_namespaces(reservation: Reservation) -> frozenset[str] | None:
    """Return the namespaces to which the annotation limits the owners; None without it.

    Raise BadRequest if one of the names cannot be that of a namespace.
    """
    text = reservation.metadata.annotations.get(OWNER_NAMESPACES)
    if text is None:
        return None
    found = frozenset([part.strip() for part in text.split(",")])
    wrong = next((name for name in sorted(found) if names.dns_label(name)), None)
    if wrong is not None:
        raise BadRequest(f'{_AT}: "{wrong[:63]}" cannot be the name of a namespace')
    return found


def owner_warnings(new: Reservation, old: Reservation | None = None) -> Iterator[str]:
    """Yield a warning if pods of every namespace may use a reservation, or none may."""
    if old is not None and _owners(old) == _owners(new):
        return
    try:
        limited = owner_namespaces(new)
    except BadRequest as wrong:
        yield f"{wrong.message}: no pod is an owner; list namespaces separated by commas"
        return
    for i, owner in enumerate(new.spec.owners):
        if limited is None and not _names_namespace(owner):
            yield (
                f"spec.owners[{i}]: matches pods of every namespace; set object.namespace, or the "
                f"annotation {OWNER_NAMESPACES} (which koord-scheduler ignores)"
            )
            return


def _owners(reservation: Reservation) -> tuple[object, object]:
    return reservation.spec.owners, reservation.metadata.annotations.get(OWNER_NAMESPACES)


def _names_namespace(owner: ReservationOwner) -> bool:
    """Tell whether all pods that an owner matches are in one namespace.

    The uid of a pod is its own, but users write owner references, with any uid.
    """
    named, made = owner.object, owner.controller
    if named is not None and (named.namespace or named.uid):
        return True
    return made is not None and bool(made.namespace)

"""Warnings about Reservations that are valid but probably mistakes."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.api.group_scheduling import ignored_keys
from holdfast.api.names import parse_integer
from holdfast.api.pod import PodSpec
from holdfast.api.reservation import Reservation, ReservationOwner
from holdfast.api.reservation_names import ORDER, OWNER_NAMESPACES, PRIORITY, RESIZE
from holdfast.api.validation.reservation import owner_namespaces
from holdfast.runtime.errors import BadRequest

_MOST = 2**31
_AT = "spec.template.spec"
_NOT_OF_PODS = {"Deployment": "ReplicaSet", "CronJob": "Job"}
"""The kind that controls their pods, by kind."""


def find_warnings(new: Reservation, old: Reservation | None = None) -> Iterator[str]:
    """Yield a warning for each part of a new or changed Reservation that has no effect."""
    yield from _labels(new, old)
    yield from _policy(new, old)
    yield from _emptiness(new, old)
    yield from _owner_namespaces(new, old)
    yield from _controllers(new, old)
    yield from _groups(new, old)
    if old is not None and old.status.node_name and new.status.node_name:
        yield from _moves(new, old)


def _labels(new: Reservation, old: Reservation | None) -> Iterator[str]:
    before = {} if old is None else old.metadata.labels
    for key, most, counts in ((ORDER, 2**63, "no order"), (PRIORITY, _MOST, "no priority")):
        text = new.metadata.labels.get(key)
        if text is None or text == before.get(key):
            continue
        number = parse_integer(text)
        if number is None or not -most <= number < most:
            yield f'metadata.labels[{key}]: "{text}" is not a whole number and counts as {counts}'


def _policy(new: Reservation, old: Reservation | None) -> Iterator[str]:
    spec, before = new.spec, None if old is None else old.spec
    if before is not None and before == spec:
        return
    if spec.pre_allocation_policy is not None and not spec.pre_allocation:
        yield "spec.preAllocationPolicy: has no effect without spec.preAllocation: true"
    template = spec.template
    if template is None or not template.spec.priority_class_name:
        return
    if template.spec.priority is None and PRIORITY not in new.metadata.labels:
        yield (
            f"{_AT}.priorityClassName: has no effect: a reservation has the highest priority "
            f"unless {_AT}.priority or the label {PRIORITY} sets it"
        )


def _groups(new: Reservation, old: Reservation | None) -> Iterator[str]:
    """Warn about labels and annotations of gangs and elastic quotas."""
    before = set() if old is None else {*_ignored(old)}
    yield from (sentence for sentence in _ignored(new) if sentence not in before)


def _ignored(reservation: Reservation) -> list[str]:
    template = reservation.spec.template
    sentences = [f"metadata: {sentence}" for sentence in ignored_keys(reservation.metadata)]
    if template is not None:
        sentences += [
            f"spec.template.metadata: {sentence}" for sentence in ignored_keys(template.metadata)
        ]
    return sentences


def _controllers(new: Reservation, old: Reservation | None) -> Iterator[str]:
    """Warn about kinds that are never the controller of a pod."""
    if old is not None and old.spec.owners == new.spec.owners:
        return
    for i, owner in enumerate(new.spec.owners):
        between = _NOT_OF_PODS.get(owner.controller.kind) if owner.controller else None
        if owner.controller is not None and between is not None:
            yield (
                f"spec.owners[{i}].controller.kind: matches no pod: the controller of a "
                f"{owner.controller.kind}'s pods is its {between}; use labelSelector"
            )


def _emptiness(new: Reservation, old: Reservation | None) -> Iterator[str]:
    if old is not None or new.spec.template is None or RESIZE in new.metadata.annotations:
        return
    if not _asks(new.spec.template.spec):
        yield f"{_AT}.containers: requests nothing, so nothing is reserved; set resources.requests"


def _asks(spec: PodSpec) -> bool:
    """Tell whether a template requests anything; limits count as requests."""
    given = [each.resources for each in (*spec.containers, *spec.init_containers)]
    if spec.resources is not None:
        given.append(spec.resources)
    return bool(spec.overhead) or any(each.requests or each.limits for each in given)


def _moves(new: Reservation, old: Reservation) -> Iterator[str]:
    """Warn about fields that would move a reservation: it stays on its node."""
    if new.spec.template is None or old.spec.template is None:
        return
    now, was = new.spec.template.spec, old.spec.template.spec
    stays = f"the reservation stays on {new.status.node_name}; delete it and create another"
    for name, before, after in (
        ("nodeName", was.node_name, now.node_name),
        ("nodeSelector", was.node_selector, now.node_selector),
        ("tolerations", was.tolerations, now.tolerations),
    ):
        if before != after:
            yield f"{_AT}.{name}: {stays}"


def _owner_namespaces(new: Reservation, old: Reservation | None) -> Iterator[str]:
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

    A pod's uid is unique, but users write owner references with any uid.
    """
    named, made = owner.object, owner.controller
    if named is not None and (named.namespace or named.uid):
        return True
    return made is not None and bool(made.namespace)

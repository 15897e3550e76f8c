"""Decode the JSON annotations of reservations and of the pods that use them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from holdfast.api import reservation_names as names
from holdfast.api.annotations import decode_annotation
from holdfast.api.field_errors import raise_if_any, too_many
from holdfast.api.meta import Struct
from holdfast.api.node_selection import NodeTerm, compile_term
from holdfast.api.pod import NodeSelectorTerm, Pod, Toleration
from holdfast.api.quantity import AmountText, units
from holdfast.api.reservation import Reservation
from holdfast.runtime.errors import BadRequest

Name = TypeVar("Name", int, str)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_MAX_AFFINITIES = 128
MOST_REQUIREMENTS = 256
"""Requirements of one reservation affinity; each is compared with each reservation of the pod."""


class RequiredReservations(Struct, frozen=True):
    """Selector terms over reservation labels; one of them must match."""

    reservation_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class _WrittenAffinity(Struct, frozen=True):
    name: str = ""
    reservation_selector: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it
    required_during_scheduling_ignored_during_execution: RequiredReservations | None = None
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class ReservationAffinity:
    """The reservation affinity of a pod: the pod must use a reservation that matches it.

    Its terms are compiled; None means that there are none to match.
    """

    name: str = ""
    selector: Mapping[str, str] = field(default_factory=dict)
    terms: tuple[NodeTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    size: int = 0
    """How many requirements selector and terms have together."""


class AnnotatedAllocation(Struct, frozen=True):
    """The amounts a pod allocated from one reservation."""

    name: str = ""
    uid: str = ""
    resources: dict[str, AmountText] = {}  # noqa: RUF012 - msgspec copies it


class ResourceList(Struct, frozen=True):
    """Amounts by resource name; null means none."""

    resources: dict[str, AmountText] | None = None


class ExactMatch(Struct, frozen=True):
    """Resources that pod and reservation must have in equal amounts; null means none."""

    resource_names: tuple[str, ...] | None = None


def affinity_of(pod: Pod) -> ReservationAffinity | None:
    """Return the pod's reservation affinity; an empty one still requires a reservation."""
    text = pod.metadata.annotations.get(names.AFFINITY)
    if text is None:
        return None
    return _read_affinity(text)


@lru_cache(maxsize=_MAX_AFFINITIES)
def _read_affinity(text: str) -> ReservationAffinity:
    """Read and compile an affinity; pods of a workload have equal ones."""
    affinity = _decode_strictly(text, names.AFFINITY, _WrittenAffinity) or _WrittenAffinity()
    at = f"metadata.annotations[{names.AFFINITY}]"
    required = affinity.required_during_scheduling_ignored_during_execution
    written = required.reservation_selector_terms if required else ()
    size = len(affinity.reservation_selector) + sum(
        max(1, len(term.match_expressions) + len(term.match_fields)) for term in written
    )
    if size > MOST_REQUIREMENTS:
        raise_if_any([too_many(at, size, MOST_REQUIREMENTS)])
    terms = []
    for i, term in enumerate(written):
        terms.append(compile_term(term, f"{at}.{_REQUIRED}.reservationSelectorTerms[{i}]"))
        raise_if_any(terms[-1].mistakes)
    return ReservationAffinity(
        affinity.name, affinity.reservation_selector, tuple(terms) if required else None,
        affinity.tolerations, size,
    )  # fmt: skip


def selects(affinity: ReservationAffinity, labels: Mapping[str, str], name: str) -> bool:
    """Return whether an affinity selects a reservation; its own ``labels`` override its node's."""
    if any(labels.get(k) != v for k, v in affinity.selector.items()):
        return False
    return affinity.terms is None or any(term.matches(labels, name) for term in affinity.terms)


def exact_match_of(pod: Pod) -> tuple[str, ...]:
    """Return the resources that pod and reservation must have in equal amounts."""
    text = pod.metadata.annotations.get(names.EXACT_MATCH, "")
    exact_match: ExactMatch | None = _decode_strictly(text, names.EXACT_MATCH, ExactMatch)
    return (exact_match and exact_match.resource_names) or ()


def annotated_allocations(pod: Pod) -> tuple[AnnotatedAllocation, ...]:
    """Return what the pod allocated from each of several reservations, if it is annotated."""
    allocations: tuple[AnnotatedAllocation, ...] | None = decode_annotation(
        pod.metadata.annotations, names.DRAWS, tuple[AnnotatedAllocation, ...]
    )
    return (
        allocations
        if allocations and all(_readable(item.resources) for item in allocations)
        else ()
    )


def draws_within(
    request: Mapping[Name, int], draws: Iterable[tuple[str, Mapping[Name, int]]]
) -> dict[str, dict[Name, int]]:
    """Return draws by the uid of the reservation; together not more than the request.

    >>> draws_within({"cpu": 5}, [("a", {"cpu": 3}), ("b", {"cpu": 3, "memory": 1})])
    {'a': {'cpu': 3}, 'b': {'cpu': 2}}
    """
    left, by_uid = dict(request), dict[str, dict[Name, int]]()
    for uid, amounts in draws:
        drawn = by_uid.setdefault(uid, {})
        for name, amount in amounts.items():
            if taken := min(amount, left.get(name, 0)):
                drawn[name] = drawn.get(name, 0) + taken
                left[name] -= taken
    return by_uid


def inner_reserved(reservation: Reservation) -> Mapping[str, AmountText]:
    """Return the amounts inside the reservation that owners cannot allocate."""
    return _amounts(reservation, names.INNER_RESERVED)


def resized_amounts(reservation: Reservation | Pod) -> Mapping[str, AmountText]:
    """Return the amounts that replace the template's; the reserve pod has the annotation too."""
    return _amounts(reservation, names.RESIZE)


def _amounts(reservation: Reservation | Pod, key: str) -> Mapping[str, AmountText]:
    resource_list: ResourceList | None = decode_annotation(
        reservation.metadata.annotations, key, ResourceList
    )
    amounts = (resource_list and resource_list.resources) or {}
    return amounts if _readable(amounts) else {}


def _readable(amounts: Mapping[str, AmountText]) -> bool:
    """Tell whether every amount can be parsed: the API server does not validate annotations."""
    try:
        return all(units(amount) >= 0 for amount in amounts.values())
    except BadRequest:
        return False


def _decode_strictly(text: str, key: str, kind: Any) -> Any:
    """Decode an annotation of requirements; raise BadRequest if it is malformed."""
    if not text.strip():
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, RecursionError) as wrong:
        raise BadRequest(f"metadata.annotations[{key}]: {wrong}") from wrong

"""The request of owners to their reservations; owners with equal ones share it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from holdfast.scheduling.framework.reservation_options import ReservationOptions
from holdfast.state.columns.interner import PODS
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.ports import HostPort
from holdfast.state.columns.request_fit import RequestFit
from holdfast.state.device_share.requests import device_resources
from holdfast.state.reservations.matching import ReservationMatch
from holdfast.state.reservations.reservation_cache import ReservationCache

if TYPE_CHECKING:
    from holdfast.scheduling.plugins.reservation.row_fit import MatchedRow


@dataclass(slots=True, eq=False)
class OwnerRequest:
    """The request of owners in all resource names that count, and the reservations they match."""

    nodes: NodeTable
    reservations: ReservationCache
    match: ReservationMatch
    request: tuple[tuple[int, int], ...]
    requires_reservation: bool
    """The pod has a reservation affinity: it uses a reservation or stays pending."""
    named: bool = False
    """It asks for one reservation by name."""
    ports: frozenset[HostPort] = frozenset()
    device_backed: frozenset[int] = frozenset()
    """Resources that devices provide on nodes that do not have them; not counted there."""
    falls_back: bool = False
    """It may use unreserved resources where its reservations do not suffice."""
    ignored: frozenset[int] = frozenset()
    """Resources for which reservations are not considered; the node must have them."""
    needs: tuple[tuple[int, int], ...] = field(init=False)
    """A pod slot, the request, and what it amounts to in names that only reservations use."""
    node_needs: tuple[tuple[int, int], ...] = field(init=False)
    """A pod slot, and the request."""
    converted: dict[int, dict[int, int]] = field(init=False)
    """What the request amounts to in other names of a reservation, by slot."""
    spare: RequestFit = field(init=False)
    """Compares the needs with what is free."""
    compared: dict[int, int] = field(init=False)
    """The request without ignored resources."""
    ignores_reservations: bool = field(init=False)
    """It uses reserved resources without allocating from a reservation."""
    required: bool = field(init=False)
    """Every matchable reservation applies to it, whatever that reserves."""
    ordered: bool = field(init=False)
    """Some of its reservations have an order label: the lowest one beats any score."""
    options: ReservationOptions | None = None
    """The verdicts of other plugins about the matched reservations."""
    matched_rows: dict[int, MatchedRow] = field(init=False, default_factory=dict, repr=False)
    """The matched reservations of rows that were evaluated alone."""

    def __post_init__(self) -> None:
        self.node_needs = ((PODS, 1), *self.request)
        self.converted = self._converted()
        more = {r: a for amounts in self.converted.values() for r, a in amounts.items()}
        self.needs = (*self.node_needs, *more.items())
        self.spare = RequestFit.of(self.nodes.amounts, self.request, self.device_backed)
        self.compared = {r: amount for r, amount in self.request if r not in self.ignored}
        self.ignores_reservations = self.match.ignores_reservations
        self.required = self.requires_reservation or self.ignores_reservations
        self.ordered = bool(self.reservations.columns.order[self.match.slots].any())

    def _converted(self) -> dict[int, dict[int, int]]:
        names = self.nodes.resources
        if not device_resources([names[r] for r, _ in self.request]):
            return {}
        request = {r: amount for r, amount in self.request if r not in self.ignored}
        amounts_by_slot: dict[int, dict[int, int]] = {}
        known: dict[frozenset[str], dict[int, int]] = {}
        for slot in self.match.slots.tolist():
            info = self.reservations.at(slot)
            if info.device_names:
                if info.device_names not in known:
                    known[info.device_names] = self.reservations.converted(info, request)
                if amounts := known[info.device_names]:
                    amounts_by_slot[slot] = amounts
        return amounts_by_slot

    def compared_with(self, slot: int) -> dict[int, int]:
        """Return the request in the names of a reservation."""
        more = self.converted.get(slot)
        return self.compared if more is None else self.compared | more

    def converts(self, resource: int) -> NDArray[np.bool_]:
        """Tell in which matched reservations the request counts in another name."""
        slots = self.match.slots.tolist()
        return np.array([resource in self.converted.get(s, ()) for s in slots], np.bool_)

    def identified(self, row: int) -> frozenset[int]:
        """Return the resources of a row in which several reservations do not add up."""
        return frozenset() if self.options is None else self.options.identified(row)

    def on_row(self, row: int) -> Self | None:
        """Return the same for one row alone; None for a row without a matched reservation."""
        match = self.match
        slots = match.slots[match.span(row)]
        if not len(slots):
            return None
        only = replace(
            match, slots=slots, rows=np.array([row], np.intp), first=np.zeros(1, np.intp),
            at=np.zeros(len(slots), np.intp),
        )  # fmt: skip
        return replace(self, match=only)

"""What owners of the same offers with the same request have in common."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from holdfast.capacity.matching import OfferMatch
from holdfast.capacity.offers import Offers
from holdfast.columns.interner import PODS
from holdfast.columns.node_table import NodeTable
from holdfast.columns.ports import HostPort
from holdfast.columns.request_fit import RequestFit
from holdfast.framework.nominations import Nominations

if TYPE_CHECKING:
    from holdfast.plugins.reservation.kept import Kept
    from holdfast.plugins.reservation.one_row import Site


@dataclass(slots=True, eq=False)
class OwnerState:
    """What owners of the same offers with the same request have in common."""

    nodes: NodeTable
    offers: Offers
    match: OfferMatch
    request: tuple[tuple[int, int], ...]
    must: bool
    """The pod has a reservation affinity: it uses an offer or waits."""
    named: bool = False
    """It asks for one offer by its name."""
    ports: frozenset[HostPort] = frozenset()
    device_backed: frozenset[int] = frozenset()
    """Resources that devices serve on nodes which have none of their own: no room is needed."""
    nominations: Nominations | None = None
    falls_back: bool = False
    """It may do without an offer where those it shares something with do not suffice."""
    ignored: frozenset[int] = frozenset()
    """Resources in which no offer limits it or is told from another; the node must have them."""
    needs: tuple[tuple[int, int], ...] = field(init=False)
    """A pod slot, and the request."""
    spare: RequestFit = field(init=False)
    """What rows have to spare beside the needs."""
    compared: dict[int, int] = field(init=False)
    """What it asks for of the resources in which offers are told apart."""
    ignoring: bool = field(init=False)
    """It uses held room without taking any offer."""
    required: bool = field(init=False)
    """Every offer that can be had concerns it, whatever that reserves."""
    ordered: bool = field(init=False)
    """Some of its offers carry an order label: the lowest of all beats any score."""
    kept: Kept | None = field(default=None, repr=False)
    """What it found so far, row by row."""
    sites: dict[int, Site] = field(default_factory=dict, repr=False)
    """The matched offers of rows that were looked at alone."""

    def __post_init__(self) -> None:
        self.needs = ((PODS, 1), *self.request)
        self.spare = RequestFit.of(self.nodes.amounts, self.request, self.device_backed)
        self.compared = {r: amount for r, amount in self.request if r not in self.ignored}
        self.ignoring = self.match.ignoring
        self.required = self.must or self.ignoring
        self.ordered = bool(self.offers.columns.order[self.match.slots].any())

    def on_row(self, row: int) -> OwnerState | None:
        """The same, looking at one row alone; None for a row without a matched offer."""
        match = self.match
        slots = match.slots[match.span(row)]
        if not len(slots):
            return None
        only = replace(
            match, slots=slots, rows=np.array([row], np.intp), first=np.zeros(1, np.intp),
            at=np.zeros(len(slots), np.intp),
        )  # fmt: skip
        return replace(self, match=only, kept=None, sites={})

"""Tell whether an owner fits in what is free on a row plus what is left of its offers there.

For an offer c on a row, with ``free`` what nobody holds::

    Aligned, Restricted   request <= free + remaining(c)
    Default               request <= free + remaining of all matched Default offers of the row
    Restricted, besides   request <= remaining(c) for every restricted resource

All of it as columns over the matched offers, folded to rows. A row whose offers are all taken,
share no resource with the pod, or have nothing left of what it asks for, is judged as if there
were none; a Restricted offer that is too small still keeps the pod away. For a pod that ignores
reservations, what is left of all of them is as good as free.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.capacity.held_room import NOTHING, FreedCapacity
from holdfast.capacity.matching import OfferMatch
from holdfast.capacity.offers import Offers
from holdfast.columns.interner import PODS
from holdfast.columns.picture import Picture
from holdfast.columns.ports import HostPort
from holdfast.framework.nominations import Nominations

if TYPE_CHECKING:
    from holdfast.plugins.reservation.kept import Kept
    from holdfast.plugins.reservation.one_row import Site

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


class Room(NamedTuple):
    """What there is of one resource: per row, and per offer by position."""

    resource: int
    wanted: int
    free: Ints
    """Per row: what nobody holds."""
    helped: Ints
    """Per offer: what the pod could have, with its help."""
    left: Ints
    """Per offer: what is left of it."""
    limits: Bools
    """Per offer: the pod may have no more than what is left."""
    reserves: Bools
    """Per offer: it reserves the resource."""


@dataclass(frozen=True, slots=True)
class Fit:
    """What became of each matched offer (by position) and of each matched row."""

    shares: Bools
    """The offer can be had and has something left of what the pod asks for, or its policy keeps the
    pod away, or the pod must use one."""
    by_node: Bools
    """The node has the room, with the offer's help."""
    inside: Bools
    """The offer itself has the room its policy demands."""
    gives: Bools
    """The offer has something left of what the pod asks for."""
    passes: Bools
    """Per row: some offer serves, or none is to be had, none needed, and the pod fits without."""

    @property
    def serves(self) -> Bools:
        """Per offer: it can serve the pod."""
        found: Bools = self.shares & self.by_node & self.inside
        return found


@dataclass(slots=True, eq=False)
class OwnerState:
    """What owners of the same offers with the same request have in common."""

    nodes: Picture
    offers: Offers
    match: OfferMatch
    request: tuple[tuple[int, int], ...]
    must: bool
    """The pod has a reservation affinity: it uses an offer or waits."""
    named: bool = False
    """It asks for one offer by its name."""
    ports: frozenset[HostPort] = frozenset()
    backed: frozenset[int] = frozenset()
    """Resources that devices serve on nodes which have none of their own: no room is needed."""
    nominations: Nominations | None = None
    falls_back: bool = False
    """It may do without an offer where those it shares something with do not suffice."""
    ignored: frozenset[int] = frozenset()
    """Resources in which no offer limits it or is told from another; the node must have them."""
    needs: tuple[tuple[int, int], ...] = field(init=False)
    """A pod slot, and the request."""
    ordered: bool = field(init=False)
    """Some of its offers carry an order label: the lowest of all beats any score."""
    kept: Kept | None = field(default=None, repr=False)
    """What it found so far, row by row."""
    sites: dict[int, Site] = field(default_factory=dict, repr=False)
    """The matched offers of rows that were looked at alone."""

    def __post_init__(self) -> None:
        self.needs = ((PODS, 1), *self.request)
        self.ordered = bool(self.offers.columns.order[self.match.slots].any())

    @property
    def ignoring(self) -> bool:
        """Whether it uses held room without taking any offer."""
        return self.match.ignoring

    @property
    def compared(self) -> dict[int, int]:
        """What it asks for of the resources in which offers are told apart."""
        return {r: amount for r, amount in self.request if r not in self.ignored}

    def on_row(self, row: int) -> OwnerState | None:
        """The same, looking at one row alone; None for a row without a matched offer."""
        match = self.match
        here = int(np.searchsorted(match.rows, row))
        if here == len(match.rows) or match.rows[here] != row:
            return None
        begin = int(match.first[here])
        end = int(match.first[here + 1]) if here + 1 < len(match.rows) else len(match.slots)
        slots = match.slots[begin:end]
        only = replace(
            match, slots=slots, rows=match.rows[here : here + 1], first=np.zeros(1, np.intp),
            at=np.zeros(len(slots), np.intp),
        )  # fmt: skip
        return replace(self, match=only, kept=None, sites={})


def fit(state: OwnerState, back: FreedCapacity = NOTHING) -> Fit:
    """Work out, from the columns as they are now, which offers can serve the pod."""
    match = state.match
    slots = match.slots
    plain = np.ones(len(match.rows), np.bool_)
    by_node, inside = np.ones(len(slots), np.bool_), np.ones(len(slots), np.bool_)
    shares, gives = _wanted_anyhow(state), _has_ports(state)
    for room in rooms(state, back):
        plain &= room.free >= room.wanted
        by_node &= room.helped >= room.wanted
        inside &= ~room.limits | (room.left >= room.wanted)
        if room.resource != PODS and room.resource not in state.ignored:
            shares |= room.reserves
            gives |= room.reserves & (room.left > 0)
    shares &= _takable(state, back)
    if not (state.must or state.ignoring):
        shares &= gives | ~inside
    served = np.logical_or.reduceat(shares & by_node & inside, match.first)
    if state.must:
        return Fit(shares, by_node, inside, gives, served)
    alone = plain if state.falls_back else plain & ~np.logical_or.reduceat(shares, match.first)
    return Fit(shares, by_node, inside, gives, served | alone)


def nominable(state: OwnerState, found: Fit) -> Bools:
    """Per offer: it can be nominated. Of Default ones none that gives nothing, if another does."""
    match, serves = state.match, found.serves
    pools = state.offers.columns.default[match.slots]
    helped = np.logical_or.reduceat(serves & found.gives & pools, match.first)[match.at]
    named: Bools = serves & (found.gives | ~pools | ~helped)
    return named


def rooms(state: OwnerState, back: FreedCapacity = NOTHING) -> Iterator[Room]:
    """Look at the pod's slot and at each resource it asks for, as things are, or would be."""
    columns, slots = state.offers.columns, state.match.slots
    takable = _takable(state, back)
    pools = takable if state.ignoring else columns.default[slots] & takable
    nothing = np.zeros(len(slots), np.int64)
    for resource, wanted in state.needs:
        free = _room_for(state, resource, wanted, back)
        known = resource < len(columns.remaining)
        left = columns.remaining[resource, slots] if known else nothing
        left = left + back.to_offers(slots, resource)
        # A pod slot is one offer's: several have no more than one to give.
        pooling = pools if resource != PODS or state.ignoring else nothing.astype(np.bool_)
        yield Room(
            resource, wanted, free, free[state.match.at] + _help(state, left, pooling), left,
            _limits(state, resource), columns.reserved[resource, slots] > 0 if known else pooling,
        )  # fmt: skip


def _takable(state: OwnerState, back: FreedCapacity) -> Bools:
    """Offers that can be had, those among them that would be vacated."""
    slots = state.match.slots
    takable: Bools = state.offers.columns.matchable[slots]
    if back.vacated:
        takable |= np.isin(slots, list(back.vacated))
    return takable


def _help(state: OwnerState, left: Ints, pools: Bools) -> Ints:
    match = state.match
    pooled = np.add.reduceat(np.where(pools, left, 0), match.first)
    found: Ints = np.where(pools, pooled[match.at], left)
    return found


def _limits(state: OwnerState, resource: int) -> Bools:
    columns, slots = state.offers.columns, state.match.slots
    if state.ignoring or resource in state.ignored or resource >= len(columns.limits):
        return np.zeros(len(slots), np.bool_)
    limits: Bools = columns.limits[resource, slots]
    return limits


def _wanted_anyhow(state: OwnerState) -> Bools:
    """Offers that serve the pod even if they reserve nothing it asks for: it must, or ports."""
    slots = state.match.slots
    if state.must or state.ignoring:
        return np.ones(len(slots), np.bool_)
    return _has_ports(state)


def _has_ports(state: OwnerState) -> Bools:
    """Offers that hold some of the host ports the pod asks for."""
    columns, slots = state.offers.columns, state.match.slots
    if not state.ports:
        return np.zeros(len(slots), np.bool_)
    found: Bools = columns.laden[slots]
    for i in found.nonzero()[0]:
        found[i] = bool(state.ports & state.offers.at(int(slots[i])).facts.host_ports)
    return found


def _room_for(state: OwnerState, resource: int, wanted: int, back: FreedCapacity) -> Ints:
    """What nobody holds of a resource on the matched rows; enough, where devices serve it."""
    nodes, rows = state.nodes, state.match.rows
    free = _free_of(nodes, resource, rows)
    if resource in state.backed:
        own = resource < len(nodes.allocatable) and nodes.allocatable[resource, rows] > 0
        free = np.where(own, free, wanted)
    found: Ints = free + back.to_rows(rows, resource)
    return _unawaited(state, resource, found) if state.offers.waiting else found


def _unawaited(state: OwnerState, resource: int, free: Ints) -> Ints:
    """The same where offers wait for room that is not free: they take none from other offers."""
    rows = state.match.rows
    for node in state.offers.waiting:
        row = state.nodes.row_of.get(node, -1)
        at = int(rows.searchsorted(row))
        if at < len(rows) and rows[at] == row and free[at] < 0:
            free[at] = min(0, int(free[at]) + state.offers.waiting.held(node, resource))
    return free


def _free_of(nodes: Picture, resource: int, rows: NDArray[np.intp]) -> Ints:
    """What nobody holds of a resource on some rows; nothing, if no node ever had any."""
    if resource >= len(nodes.allocatable):
        return np.zeros(len(rows), np.int64)
    free: Ints = nodes.allocatable[resource, rows] - nodes.requested[resource, rows]
    return free

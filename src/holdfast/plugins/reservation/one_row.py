"""How an owner fares with the offers of one row, by the rule of ``owner_fit``, in plain integers.

Every owner placed has one row judged again. That takes 6 µs (24 with five offers there), and 85
through arrays, of the 100 that a decision takes (benchmarks/reservations.py, owners).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.capacity.held_room import NOTHING, FreedCapacity
from holdfast.capacity.offer import Offer, fullness
from holdfast.columns.cells import Cells
from holdfast.columns.interner import PODS
from holdfast.framework.plugin import Code
from holdfast.plugins.reservation.owner import OwnerState
from holdfast.plugins.reservation.owner_fit import Chance, passes, unawaited, weigh


class Terms(NamedTuple):
    """One matched offer of a row, and what never changes about it for the pod."""

    offer: Offer
    slot: int
    ports: bool
    pools: bool
    """What is left of it adds up with others."""
    limits: tuple[bool, ...]
    asked: tuple[bool, ...]
    left_at: tuple[Cells[int], ...]
    """Columns of what is left of offers, one for each need."""


class Site(NamedTuple):
    """The matched offers of a row, and where they begin among all matched ones."""

    begin: int
    terms: tuple[Terms, ...]


class OneRow(NamedTuple):
    """What becomes of each matched offer of a row, in the order of their slots, and of the row."""

    begin: int
    """Where the row's offers begin among all matched ones."""
    chances: list[tuple[Offer, Chance]]
    passes: bool
    scores: dict[int, int]
    """Of the offers that can serve the pod, by slot."""

    def code(self, *, must: bool) -> Code:
        """The verdict; where every offer is taken and one is needed, nothing can help."""
        if self.passes:
            return Code.PASS
        taken = must and not any([offer.matchable for offer, _ in self.chances])
        return Code.UNRESOLVABLE if taken else Code.UNSCHEDULABLE

    @property
    def sharing(self) -> list[Offer]:
        """The offers that have something for the pod."""
        return [offer for offer, chance in self.chances if chance.shares]

    @property
    def nominable(self) -> list[Offer]:
        """Those that can be nominated: of Default ones none that gives nothing, if another does."""
        serving = [(offer, chance.gives) for offer, chance in self.chances if chance.serves]
        if len(serving) > 1 and any([gives and offer.policy == "" for offer, gives in serving]):
            return [offer for offer, gives in serving if gives or offer.policy != ""]
        return [offer for offer, _ in serving]


def judge(state: OwnerState, row: int, back: FreedCapacity = NOTHING) -> OneRow | None:
    """Judge one row, as things are or would be; None for a row without a matched offer."""
    site = state.sites.get(row) or _look_up(state, row)
    if not site.terms:
        return None
    spare = state.spare.remaining_at(row)
    lefts = [[column[terms.slot] for column in terms.left_at] for terms in site.terms]
    if back is not NOTHING or state.offers.waiting:
        spare = _corrected(state, row, spare, back)
        lefts = [
            _regained(state, terms, left, back)
            for terms, left in zip(site.terms, lefts, strict=True)
        ]
    matchable_at, vacated = state.offers.columns.matchable_at, back.vacated
    takable = [matchable_at[terms.slot] or terms.slot in vacated for terms in site.terms]
    helps = lefts if len(lefts) == 1 else _pooled(state, site, lefts, takable)
    shared, chances, scores = False, [], {}
    for terms, left, help_, can in zip(site.terms, lefts, helps, takable, strict=True):
        chance = weigh(
            state, spare, help_, left,
            limits=terms.limits, asked=terms.asked, takable=can, ports=terms.ports,
        )  # fmt: skip
        chances.append((terms.offer, chance))
        if chance.shares:
            shared = True
        if chance.serves:
            scores[terms.slot] = offer_score(terms.offer, state.compared)
    passing = passes(state, bool(scores), shared, fits=min(spare) >= 0)
    return OneRow(site.begin, chances, bool(passing), scores)


def offer_score(offer: Offer, request: Mapping[int, int]) -> int:
    """Score one offer as ``offer_scores`` does, for a request of what offers are compared in."""
    used, total = offer.drawn.sums, 0
    for resource, reserved in offer.reserved.items():
        total += fullness(used.get(resource, 0) + request.get(resource, 0), reserved)
    return total // len(offer.reserved) if total else 0


def _look_up(state: OwnerState, row: int) -> Site:
    """Find the matched offers of a row; they are the same as long as the state is."""
    here = state.match.span(row)
    offers = [state.offers.at(slot) for slot in state.match.slots[here].tolist()]
    terms = tuple([_terms(state, offer) for offer in offers])
    found = state.sites[row] = Site(here.start, terms)
    return found


def _terms(state: OwnerState, offer: Offer) -> Terms:
    told_apart = [r for r, _ in state.request if r not in state.ignored]
    limited = () if state.ignoring else (PODS, *told_apart)
    columns = state.offers.columns.remaining_at
    nothing = [0] * (offer.slot + 1)
    return Terms(
        offer,
        offer.slot,
        ports=bool(state.ports & offer.pod_info.host_ports),
        pools=state.ignoring or offer.policy == "",
        limits=tuple([r in limited and offer.limits(r) for r, _ in state.needs]),
        asked=tuple([r in told_apart and offer.reserved.get(r, 0) > 0 for r, _ in state.needs]),
        left_at=tuple([columns[r] if r < len(columns) else nothing for r, _ in state.needs]),
    )


def _corrected(state: OwnerState, row: int, spare: list[int], back: FreedCapacity) -> list[int]:
    """What the row has to spare beside each need, were something given back to it."""
    gained, waiting = back.rows.get(row, {}), state.offers.waiting
    node = state.nodes.names[row]
    return [
        unawaited(s + gained.get(r, 0), wanted, waiting.held(node, r) if waiting else 0)
        for s, (r, wanted) in zip(spare, state.needs, strict=True)
    ]


def _regained(state: OwnerState, terms: Terms, left: list[int], back: FreedCapacity) -> list[int]:
    """What is left of an offer for each need, were something given back to it."""
    gained = back.slots.get(terms.slot, {})
    return [own + gained.get(r, 0) for own, (r, _) in zip(left, state.needs, strict=True)]


def _pooled(
    state: OwnerState, site: Site, lefts: list[list[int]], takable: list[bool]
) -> list[list[int]]:
    """What each offer gives for each need, with those it adds up with."""
    pools = [can and terms.pools for terms, can in zip(site.terms, takable, strict=True)]
    pooling = [left for left, pool in zip(lefts, pools, strict=True) if pool]
    sums = [sum(amounts) for amounts in zip(*pooling, strict=True)]
    # A pod slot is one offer's: several have no more than one to give.
    first = sums[:1] if state.ignoring else None
    return [
        [*(first or left[:1]), *sums[1:]] if pool else left
        for left, pool in zip(lefts, pools, strict=True)
    ]

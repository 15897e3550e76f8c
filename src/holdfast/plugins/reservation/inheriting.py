"""Where a reservation may go that inherits from running pods: one answer a row, kept in columns.

NodeResourcesFit leaves every row to this: where there is room, where pods would leave enough, and
where it can only wait.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from holdfast.capacity.held_room import given_back
from holdfast.capacity.offers import Offers
from holdfast.capacity.pre_allocation import (
    Heritable,
    Inheritance,
    Will,
    by_cluster,
    candidates,
    inherit,
    will_of,
)
from holdfast.columns.interner import PODS
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.request_fit import RequestFit, short_of
from holdfast.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ClusterEvent,
    Code,
    PodChange,
    PreFilterResult,
    RawScores,
    Reject,
    Verdicts,
)
from holdfast.framework.view import View
from holdfast.plugins.reservation.arguments import PreAllocation
from holdfast.plugins.reservation.reserve_pods import (
    NO_CLUSTER_MODE,
    ReserveState,
    filter_reserve_pod,
    inherits,
    prepare_reserve_pod,
)

NOBODY = "node(s) no pod match reservation with pre allocation required"
NONE_SUITABLE = "node(s) no pod(s) to meet the pre-allocation requirements"

UNSEEN = "node(s) had pods that are being bound"

NOTHING = Inheritance()
_COVERED = 51
_MOST_KEPT = 1024


class Seen(NamedTuple):
    """How things are on every row, as of some news."""

    pods_version: tuple[int, int]
    verdicts: Verdicts
    scores: RawScores
    candidates: dict[int, list[PodInfo]]
    heirs: dict[int, Inheritance]


@dataclass(slots=True, eq=False)
class InheritState:
    """One reservation that looks for room others still have.

    ``chosen`` is what was decided for the row it goes to.
    """

    nodes: NodeTable
    offers: Offers
    will: Will
    heritable: Heritable
    site: ReserveState
    chosen: Inheritance = NOTHING
    _seen: Seen | None = field(default=None, repr=False)

    def seen(self) -> Seen:
        """How things are now; worked out once until there is news."""
        if self._seen is None or self._seen.pods_version != self.nodes.pods_version:
            self._seen = _look(self)
        return self._seen

    def decide(self, row: int) -> Inheritance:
        """Keep what was seen of the row it goes to, when the decision was made."""
        assert self._seen is not None, "nobody looked at any row"
        score = int(self._seen.scores[row])
        waits = Inheritance(lacking=max(0, -score))
        self.chosen = self._seen.heirs.get(row, waits)
        return self.chosen

    def awaits_binding(self, row: int, but: str) -> bool:
        """Whether others are on their way to a row.

        Who decides when the room is free cannot see them yet, and would find it free too early.
        """
        there = self.nodes.pods_on(row)
        return any(uid != but and self.nodes.is_assumed(uid) for uid in there)

    def at(self, row: int, change: PodChange = NO_CHANGE) -> Inheritance:
        """What becomes of one row, as things are or would be."""
        more = given_back(self.offers, change).rows.get(row, {}) if change else {}
        free = {r: self.nodes.amounts.free_on(row, r) + more.get(r, 0) for r in self.will.wanted}
        there = self.seen().candidates.get(row, [])
        gone = {pod.uid for pod in change.removed.get(row, ())}
        return inherit(self.will, free, [pod for pod in there if pod.uid not in gone])

    def never(self, row: int) -> list[int]:
        """The resources of which the node has too little, whoever uses them."""
        has = self.nodes.amounts.allocatable_at
        return short_of(self.will.wanted, {r: has[r][row] for r in self.will.wanted})


def prepare_heir(
    pod: PodInfo, view: View, ways: PreAllocation
) -> ReserveState | InheritState | PreFilterResult | Reject:
    """Read the reservation behind a reserve pod, and how it chooses if it may inherit."""
    site = prepare_reserve_pod(pod, view)
    if isinstance(site, Reject) or not inherits(pod, view):
        return site
    reservation = site.offers.pending[pod.uid]
    if by_cluster(reservation) and not ways.enable_cluster_mode:
        return Reject(Code.UNRESOLVABLE, (NO_CLUSTER_MODE,))
    will = will_of(reservation, pod, prefers_none=ways.prefer_no_pre_allocated_pods)
    heritable = Heritable.to(reservation, ways.cluster_mode)
    view.nodes.add_selector_keys(heritable.label_keys)
    state = InheritState(view.nodes, site.offers, will, heritable, site)
    if not will.required:
        return state
    rows = np.array(sorted(state.seen().candidates), np.intp)
    return PreFilterResult(state, rows) if len(rows) else Reject(Code.UNRESOLVABLE, (NOBODY,))


def may_leave_it_room(pod: PodInfo, event: ClusterEvent, view: View, ways: PreAllocation) -> bool:
    """Tell whether a pod that came to a node may leave its room to a reserve pod that waits.

    Or whether that pod was waited for: until it was there nobody knew what room is left.
    """
    if not inherits(pod, view) or event.new is None:
        return False
    if view.world.offers.awaiting.get(pod.uid) == event.new.spec.node_name:
        return True
    reservation = view.world.offers.pending[pod.uid]
    kept = view.world.caches.setdefault(Heritable, {})
    known: Heritable | None = kept.get(reservation.uid)
    if known is None or known.reservation is not reservation:
        if len(kept) >= _MOST_KEPT:
            kept.clear()
        known = kept[reservation.uid] = Heritable.to(reservation, ways.cluster_mode)
    return known.includes(event.new)


def verdicts(state: InheritState, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
    """Answer for each row."""
    found: Verdicts = state.seen().verdicts[rows].copy()
    if change:
        for position, row in change.positions_in(rows):
            found[position] = _code(state, row, state.at(row, change))
    both: Verdicts = np.maximum(found, filter_reserve_pod(state.site, rows))
    return both


def reasons(state: InheritState, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
    """Say what is missing: by the node, or inside the reservation."""
    if elsewhere := state.site.verdict(row):
        return (elsewhere,)
    names, heir = state.nodes.resources, state.at(row, change)
    by_node = set(state.never(row)) if heir.lacking else heir.by_node
    words = [_short(names[r], " by node") for r in by_node]
    inside = [f"Reservation(s) {_short(names[r], '')}" for r in heir.inside]
    return (*sorted(words), *inside) or (NONE_SUITABLE,)


def scaled(raw: RawScores, low: float) -> RawScores:
    """Bring scores into 0..100: rows where it need not wait before all where it must."""
    if low >= 0:
        return raw
    covered = _COVERED + raw * (100 - _COVERED) // 100
    found: RawScores = np.where(raw >= 0, covered, (100 + raw) // 2)
    return found


def _look(state: InheritState) -> Seen:
    nodes, will = state.nodes, state.will
    every = slice(0, nodes.capacity)
    fit = RequestFit.of(nodes.amounts, tuple(will.reserved.items()), frozenset())
    lacking = np.zeros(nodes.capacity, np.int64)
    for need, spare in zip(fit.needs, fit.remaining(every), strict=True):
        missing = np.clip(-spare, 0, need.wanted)
        lacking = np.maximum(lacking, np.maximum(100 * missing // need.wanted, missing > 0))
    short, never = lacking > 0, ~fit.fits_if_empty(every) | (nodes.allocatable[PODS] == 0)
    found = np.where(short & never, Code.UNRESOLVABLE, Code.PASS).astype(np.int8)
    if will.required:
        found[:] = Code.UNSCHEDULABLE
    scores = np.where(short, -lacking, 100 if will.multiple else 0).astype(np.float64)
    there = candidates(state.heritable, will, nodes, state.offers)
    seen = Seen(nodes.pods_version, found, scores, there, {})
    state._seen = seen
    for row in there:
        heir = seen.heirs[row] = state.at(row)
        found[row] = _code(state, row, heir)
        scores[row] = heir.score(will)
    return seen


def _code(state: InheritState, row: int, heir: Inheritance) -> Code:
    if heir.refused:
        return Code.UNSCHEDULABLE
    if heir.lacking and state.never(row):
        return Code.UNRESOLVABLE
    return Code.PASS


def _short(resource: str, suffix: str) -> str:
    return "Too many pods" if resource == "pods" else f"Insufficient {resource}{suffix}"

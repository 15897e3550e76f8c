"""Explain why an owner fits in none of its reservations, in Koordinator's texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.api.node import Taint
from holdfast.api.node_selection import required_nodes
from holdfast.capacity.matching import (
    Refusal,
    RefusalReason,
    ReservationRequirements,
    ignores_reservations,
    refusal,
)
from holdfast.capacity.reservation_cache import ReservationCache
from holdfast.capacity.reserved_resources import NOTHING_FREED, FreedCapacity, freed_capacity
from holdfast.columns.interner import PODS
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.selection import required_selected
from holdfast.framework.plugin import NO_CHANGE, PodChange, Rows
from holdfast.framework.rejection import EXCLUDED, Rejection
from holdfast.plugins.reservation.owner import OwnerState
from holdfast.plugins.reservation.owner_fit import Bools, Ints, OwnerFit, fit_owner, matchable_slots

NO_MATCH = "node(s) no reservations match reservation affinity"
TOO_MANY = "Too many pods"
NONE_MEETS = "node(s) no reservation(s) to meet the requirements"
NAMED = "exactly matches the requested reservation name"
BY_NODE = "for node reason that"
TOTAL = "matched owner total"
EVENT = "FailedScheduling-Reservation"
OWNS_NONE = "no Available reservation has the pod among its owners"
_SUBJECT = "Reservation(s)"
_IN_ORDER = (
    RefusalReason.NAME,
    RefusalReason.AFFINITY,
    RefusalReason.UNSCHEDULABLE,
    RefusalReason.EXACT,
)


def none_matchable(state: OwnerState, row: int, freed: FreedCapacity = NOTHING_FREED) -> bool:
    """Tell whether no matched reservation on the row is matchable."""
    here = state.on_row(row)
    return here is None or not matchable_slots(here, freed).any()


def owner_reasons(state: OwnerState, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
    """Return what is short: once for the node, then for each reservation."""
    here = state.on_row(row)
    freed = freed_capacity(state.reservations, change) if change else NOTHING_FREED
    if here is None or (state.requires_reservation and none_matchable(state, row, freed)):
        return (NO_MATCH,)
    found = fit_owner(here, freed, change)
    # Reservations of other rows may reserve GPUs in other names.
    needs = range(len(here.needs))
    if state.ignores_reservations or not found.applies.any():
        suffix = "" if state.ignores_reservations else " by node"
        alone = [n for n in needs if _short_alone(here, found, n).any()]
        short = tuple(sorted(_short(here, n, suffix) for n in alone))
        return short + _excluded_without(here, found, row, change) or (NONE_MEETS,)
    tried = found.applies.nonzero()[0].tolist()
    by_node = {_short(here, n, " by node") for i in tried for n in needs if found.reach[n][i] < 0}
    inside = [_short_inside(here, found, n, i) for i in tried for n in needs if found.lacks[n][i]]
    excluded = [text for i in tried for text in _excluded(here, found, i, change)]
    beside = _excluded_without(here, found, row, change) if state.falls_back else ()
    return (*sorted(by_node), *inside, *excluded, *beside) or (NONE_MEETS,)


def reasons_of_matched_rows(state: OwnerState, rows: Rows) -> dict[int, tuple[str, ...]]:
    """Return the reasons of many rejected rows; the order inside a row may differ."""
    if state.named or state.options is not None:
        # The text has the figures of the one reservation with that name, or is another plugin's.
        return {row: owner_reasons(state, row) for row in rows.tolist()}
    found_reasons: dict[int, tuple[str, ...]] = dict.fromkeys(rows.tolist(), ())
    asked = np.isin(state.match.rows, rows)
    for text, counts in _counted_reasons(state):
        applies = asked & (counts > 0)
        for row, times in zip(
            state.match.rows[applies].tolist(), counts[applies].tolist(), strict=True
        ):
            found_reasons[row] += (text,) * times
    return {row: texts or (NONE_MEETS,) for row, texts in found_reasons.items()}


def count_reasons(state: OwnerState, rows: Rows) -> Mapping[str, int]:
    """Count the reasons of many rejected rows, without listing them."""
    if state.named or state.options is not None:
        return Counter(
            text for texts in reasons_of_matched_rows(state, rows).values() for text in texts
        )
    asked = np.isin(state.match.rows, rows)
    # A row without a matched reservation is one where none matches.
    found = Counter({NO_MATCH: len(rows) - int(np.count_nonzero(asked))})
    silent = asked.copy()
    for text, counts in _counted_reasons(state):
        found[text] += int(counts[asked].sum())
        silent &= counts == 0
    found[NONE_MEETS] += int(np.count_nonzero(silent))
    return found


def _counted_reasons(state: OwnerState) -> Iterator[tuple[str, Ints]]:
    """Yield every text, and how often it applies to each matched row."""
    match, found = state.match, fit_owner(state)
    matchable = state.reservations.columns.matchable[match.slots]
    open_ = np.logical_or.reduceat(matchable, match.first)
    closed = ~open_ if state.requires_reservation else np.zeros(len(match.rows), np.bool_)
    yield NO_MATCH, closed.astype(np.int64)
    any_applies = np.logical_or.reduceat(found.applies, match.first)
    alone = ~closed if state.ignores_reservations else ~any_applies & ~closed
    for n in range(len(state.needs)):
        short = alone & _short_alone(state, found, n)
        yield (
            _short(state, n, "" if state.ignores_reservations else " by node"),
            short.astype(np.int64),
        )
        if state.ignores_reservations:
            continue
        short_with_it = found.applies & (found.reach[n] < 0)
        lacking = ~closed & np.logical_or.reduceat(short_with_it, match.first)
        yield _short(state, n, " by node"), lacking.astype(np.int64)
        within = found.applies & found.lacks[n]
        counts = np.add.reduceat(within.astype(np.int64), match.first)
        yield f"Reservation(s) {_short(state, n, '')}", np.where(closed, 0, counts)


def _short_alone(state: OwnerState, found: OwnerFit, need: int) -> Bools:
    """Tell which matched rows are short for a pod that uses no reservation.

    A pod that ignores reservations may use what they hold as well.
    """
    short: Bools = found.spare[need] < 0
    if state.ignores_reservations:
        match = state.match
        helps = state.reservations.columns.matchable[match.slots] & (found.reach[need] >= 0)
        short &= ~np.logical_or.reduceat(helps, match.first)
    return short


def _short(state: OwnerState, need: int, suffix: str) -> str:
    resource = state.needs[need][0]
    return (
        TOO_MANY if resource == PODS else f"Insufficient {state.nodes.resources[resource]}{suffix}"
    )


def _short_inside(state: OwnerState, found: OwnerFit, need: int, i: int) -> str:
    texts = f"Reservation(s) {_short(state, need, '')}"
    if not state.named:
        return texts
    resource, wanted = state.needs[need]
    info = state.reservations.at(int(state.match.slots[i]))
    capacity = info.reserved.get(resource, 0) - info.inner.get(resource, 0)
    used = capacity - int(found.left[need][i])
    return f"{texts}, requested: {wanted}, used: {used}, capacity: {capacity}"


def _excluded(state: OwnerState, found: OwnerFit, i: int, change: PodChange) -> tuple[str, ...]:
    """Return why other plugins exclude a reservation, by its position in the match."""
    if state.options is None or not found.excluded[i]:
        return ()
    return state.options.reasons(int(state.match.slots[i]), change)


def _excluded_without(
    state: OwnerState, found: OwnerFit, row: int, change: PodChange
) -> tuple[str, ...]:
    """Return why other plugins exclude the only row if no reservation is used."""
    if state.options is None or state.requires_reservation or found.allowed_without[0]:
        return ()
    return state.options.reasons_without(row, change)


@dataclass(slots=True)
class NodeCounts:
    """The pod's reservations on one node: how many, and how many refuse it for which reason."""

    owned: int = 0
    named: int = 0
    refused: Counter[RefusalReason] | None = None
    taints: Counter[str] | None = None

    def add(self, why: Refusal | None, *, named: bool) -> None:
        """Count one more reservation."""
        self.owned += 1
        self.named += named
        if why is not None:
            self.refused = (self.refused or Counter()) + Counter({why.reason: 1})
            if why.taint is not None:
                self.taints = (self.taints or Counter()) + Counter({taint_text(why.taint): 1})

    def left(self, inside: int) -> int:
        """Return how many reservations neither refuse the pod nor are too small."""
        return self.owned - (self.refused.total() if self.refused else 0) - inside


def taint_text(taint: Taint) -> str:
    """Format a taint as Koordinator does."""
    return f"{{{taint.key}: {taint.value}}}"


def count_reservations(
    reservations: ReservationCache, pod: PodInfo, nodes: NodeTable
) -> dict[int, NodeCounts]:
    """Count the reservations the pod owns, by row, on nodes that its node affinity allows.

    Reservations that are not matchable do not count.
    """
    found: dict[int, NodeCounts] = {}
    groups = (
        []
        if pod.is_reserve_pod or ignores_reservations(pod)
        else reservations.index.owned_by(pod.pod)
    )
    if not groups:
        return found
    wishes, columns = ReservationRequirements.of(pod), reservations.columns
    slots = np.concatenate([group.slots for group in groups])
    slots = slots[columns.matchable[slots] & (columns.row[slots] >= 0)]
    slots = slots[required_selected(nodes, required_nodes(pod.pod), columns.row[slots])]
    # A pod without requirements need not be checked against reservations that accept any owner.
    welcome = columns.accepts_any_owner[slots] & (not wishes)
    rows, how_many = np.unique(columns.row[slots[welcome]], return_counts=True)
    for row, owned in zip(rows.tolist(), how_many.tolist(), strict=True):
        found[row] = NodeCounts(owned=owned)
    for slot in slots[~welcome].tolist():
        why = refusal(reservations, slot, pod, wishes)
        by_name = bool(wishes.name) and reservations.at(slot).reservation.name == wishes.name
        found.setdefault(int(columns.row[slot]), NodeCounts()).add(why, named=by_name)
    return found


def reasons_by_row(rejection: Rejection, rows: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """Return the filter reasons of some rows; none if a PreFilter plugin rejected the pod."""
    if rejection.pre_filter_reject is not None:
        return {}
    reasons: dict[int, tuple[str, ...]] = {}
    asked = [row for row in rows if rejection.plugin_of[row] != EXCLUDED]
    ours = []
    for row in asked:
        if row not in rejection.statuses and rejection.plugin_at(row) == "Reservation":
            ours.append(row)
        else:
            reasons[row] = rejection.reasons(row)
    if not ours:
        return reasons
    state = rejection.states["Reservation"]
    assert isinstance(state, OwnerState), "only owners are refused by reservations"
    return reasons | reasons_of_matched_rows(state, np.array(ours, np.intp))


def summary(
    counts: Mapping[int, NodeCounts],
    reasons: Mapping[int, Sequence[str]],
    *,
    requires_reservation: bool,
) -> list[str]:
    """Sum up over all nodes, the total last; alone only if a reservation is required."""
    refused: Counter[RefusalReason] = sum(
        (c.refused for c in counts.values() if c.refused), Counter()
    )
    taints: Counter[str] = sum((c.taints for c in counts.values() if c.taints), Counter())
    by_node: Counter[str] = Counter()
    for row, here in counts.items():
        others = [reason for reason in reasons.get(row, ()) if not reason.startswith(_SUBJECT)]
        if others:
            left = here.left(len(reasons[row]) - len(others))
            for reason in others if left > 0 else ():
                by_node[reason] += left
    texts = [(sum(c.named for c in counts.values()), NAMED)]
    texts += [(refused[reason], reason.value) for reason in _IN_ORDER]
    texts += [(n, f"{RefusalReason.TAINT.value} {taint}") for taint, n in sorted(taints.items())]
    texts += [(n, f"{BY_NODE} {reason}") for reason, n in sorted(by_node.items())]
    owned = sum(c.owned for c in counts.values())
    found = [f"{n} {_SUBJECT} {what}" for n, what in texts if n]
    return [*found, f"{owned} {_SUBJECT} {TOTAL}"] if owned or requires_reservation else []


def event_message(found: Sequence[str], histogram: Mapping[str, int]) -> str:
    """Format the summary as an event message, with the reasons of nodes in the middle."""
    *texts, last = found
    total = last.split(" ", 1)[0]
    inside = sorted(
        f"{n} {reason}" for reason, n in histogram.items() if reason.startswith(_SUBJECT)
    )
    first = [text for text in texts if text.endswith(NAMED)]
    nodes = [text for text in texts if f" {BY_NODE} " in text]
    own = [text for text in texts if text not in first and text not in nodes]
    details = [*first, *inside, *own, *nodes] or ([OWNS_NONE] if total == "0" else [])
    details_text = f": {', '.join(details)}" if details else ""
    return f"0/{total} reservations are available{details_text}."

"""Why an owner fits in none of its offers, in the reference's words: row by row, and over all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.api.node import Taint
from holdfast.api.node_selection import required_nodes
from holdfast.capacity.held_room import NOTHING, given_back
from holdfast.capacity.matching import Refusal, RefusalGround, ReservationWishes, ignores, refusal
from holdfast.capacity.offers import Offers
from holdfast.columns.interner import PODS
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.selection import required_selected
from holdfast.framework.plugin import NO_CHANGE, PodChange, Rows
from holdfast.framework.rejection import EXCLUDED, Rejection
from holdfast.plugins.reservation.owner import OwnerState
from holdfast.plugins.reservation.owner_fit import Bools, Fit, Ints, fit

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
    RefusalGround.NAME,
    RefusalGround.AFFINITY,
    RefusalGround.UNSCHEDULABLE,
    RefusalGround.EXACT,
)


def none_matchable(state: OwnerState, row: int) -> bool:
    """Whether every offer on the row that would do is taken."""
    here = state.on_row(row)
    return here is None or not state.offers.columns.matchable[here.match.slots].any()


def owner_reasons(state: OwnerState, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
    """Say what is missing: by the node, once; then inside each reservation."""
    here = state.on_row(row)
    if here is None or (state.must and none_matchable(state, row)):
        return (NO_MATCH,)
    found = fit(here, given_back(state.offers, change) if change else NOTHING)
    needs = range(len(state.needs))
    if state.ignoring or not found.shares.any():
        suffix = "" if state.ignoring else " by node"
        alone = [n for n in needs if _short_alone(here, found, n).any()]
        return tuple(sorted(_short(here, n, suffix) for n in alone)) or (NONE_MEETS,)
    tried = found.shares.nonzero()[0].tolist()
    by_node = {_short(here, n, " by node") for i in tried for n in needs if found.reach[n][i] < 0}
    inside = [_short_inside(here, found, n, i) for i in tried for n in needs if found.lacks[n][i]]
    return (*sorted(by_node), *inside) or (NONE_MEETS,)


def words_by_row(state: OwnerState, rows: Rows) -> dict[int, tuple[str, ...]]:
    """The same for many rows, all of them rejected; the order inside a row may differ."""
    if state.named:
        # Each offer has its own figures; there is one of that name.
        return {row: owner_reasons(state, row) for row in rows.tolist()}
    told: dict[int, tuple[str, ...]] = dict.fromkeys(rows.tolist(), ())
    asked = np.isin(state.match.rows, rows)
    for word, counts in _counted_words(state):
        said = asked & (counts > 0)
        for row, times in zip(state.match.rows[said].tolist(), counts[said].tolist(), strict=True):
            told[row] += (word,) * times
    return {row: words or (NONE_MEETS,) for row, words in told.items()}


def tallied(state: OwnerState, rows: Rows) -> Mapping[str, int]:
    """Count the reasons of many rejected rows, without listing them."""
    if state.named:
        return Counter(word for words in words_by_row(state, rows).values() for word in words)
    asked = np.isin(state.match.rows, rows)
    # A row without a matched offer is one where none matches.
    found = Counter({NO_MATCH: len(rows) - int(np.count_nonzero(asked))})
    silent = asked.copy()
    for word, counts in _counted_words(state):
        found[word] += int(counts[asked].sum())
        silent &= counts == 0
    found[NONE_MEETS] += int(np.count_nonzero(silent))
    return found


def _counted_words(state: OwnerState) -> Iterator[tuple[str, Ints]]:
    """Every word there is to say, and how often of each matched row."""
    match, found = state.match, fit(state)
    matchable = state.offers.columns.matchable[match.slots]
    open_ = np.logical_or.reduceat(matchable, match.first)
    closed = ~open_ if state.must else np.zeros(len(match.rows), np.bool_)
    yield NO_MATCH, closed.astype(np.int64)
    sharing = np.logical_or.reduceat(found.shares, match.first)
    alone = ~closed if state.ignoring else ~sharing & ~closed
    for n in range(len(state.needs)):
        short = alone & _short_alone(state, found, n)
        yield _short(state, n, "" if state.ignoring else " by node"), short.astype(np.int64)
        if state.ignoring:
            continue
        helpless = found.shares & (found.reach[n] < 0)
        lacking = ~closed & np.logical_or.reduceat(helpless, match.first)
        yield _short(state, n, " by node"), lacking.astype(np.int64)
        within = found.shares & found.lacks[n]
        counts = np.add.reduceat(within.astype(np.int64), match.first)
        yield f"Reservation(s) {_short(state, n, '')}", np.where(closed, 0, counts)


def _short_alone(state: OwnerState, found: Fit, need: int) -> Bools:
    """Which matched rows have too little for a pod that takes no offer.

    One that ignores reservations could have what is held as well.
    """
    short: Bools = found.spare[need] < 0
    if state.ignoring:
        match = state.match
        helps = state.offers.columns.matchable[match.slots] & (found.reach[need] >= 0)
        short &= ~np.logical_or.reduceat(helps, match.first)
    return short


def _short(state: OwnerState, need: int, suffix: str) -> str:
    resource = state.needs[need][0]
    return (
        TOO_MANY if resource == PODS else f"Insufficient {state.nodes.resources[resource]}{suffix}"
    )


def _short_inside(state: OwnerState, found: Fit, need: int, i: int) -> str:
    words = f"Reservation(s) {_short(state, need, '')}"
    if not state.named:
        return words
    resource, wanted = state.needs[need]
    offer = state.offers.at(int(state.match.slots[i]))
    capacity = offer.reserved.get(resource, 0) - offer.inner.get(resource, 0)
    used = capacity - int(found.left[need][i])
    return f"{words}, requested: {wanted}, used: {used}, capacity: {capacity}"


@dataclass(slots=True)
class NodeCounts:
    """The pod's reservations on one node: how many, and how many refuse it on which ground."""

    owned: int = 0
    named: int = 0
    refused: Counter[RefusalGround] | None = None
    taints: Counter[str] | None = None

    def add(self, why: Refusal | None, *, named: bool) -> None:
        """Count one more."""
        self.owned += 1
        self.named += named
        if why is not None:
            self.refused = (self.refused or Counter()) + Counter({why.ground: 1})
            if why.taint is not None:
                self.taints = (self.taints or Counter()) + Counter({told(why.taint): 1})

    def left(self, inside: int) -> int:
        """How many neither refuse the pod nor were found too small."""
        return self.owned - (self.refused.total() if self.refused else 0) - inside


def told(taint: Taint) -> str:
    """A taint in the words of the reference."""
    return f"{{{taint.key}: {taint.value}}}"


def count(offers: Offers, pod: PodInfo, nodes: NodeTable) -> dict[int, NodeCounts]:
    """Count the reservations the pod owns, by row, on nodes it may go to.

    One that is taken is not to be had.
    """
    found: dict[int, NodeCounts] = {}
    groups = [] if pod.is_reserve_pod or ignores(pod) else offers.index.owned_by(pod.pod)
    if not groups:
        return found
    wishes, columns = ReservationWishes.of(pod), offers.columns
    slots = np.concatenate([group.slots for group in groups])
    slots = slots[columns.matchable[slots] & (columns.row[slots] >= 0)]
    slots = slots[required_selected(nodes, required_nodes(pod.pod), columns.row[slots])]
    # Without wishes of the pod's own, only offers that do not welcome everybody must be asked.
    welcome = columns.open[slots] & (not wishes)
    rows, how_many = np.unique(columns.row[slots[welcome]], return_counts=True)
    for row, owned in zip(rows.tolist(), how_many.tolist(), strict=True):
        found[row] = NodeCounts(owned=owned)
    for slot in slots[~welcome].tolist():
        why = refusal(offers, slot, pod, wishes)
        by_name = bool(wishes.name) and offers.at(slot).reservation.name == wishes.name
        found.setdefault(int(columns.row[slot]), NodeCounts()).add(why, named=by_name)
    return found


def reasons_by_row(rejection: Rejection, rows: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """What filters say of some rows; where preparing ended it, they were never asked."""
    if rejection.pre_filter_reject is not None:
        return {}
    told: dict[int, tuple[str, ...]] = {}
    asked = [row for row in rows if rejection.plugin_of[row] != EXCLUDED]
    ours = []
    for row in asked:
        if row not in rejection.statuses and rejection.plugin_at(row) == "Reservation":
            ours.append(row)
        else:
            told[row] = rejection.reasons(row)
    if not ours:
        return told
    state = rejection.states["Reservation"]
    assert isinstance(state, OwnerState), "only owners are refused by reservations"
    return told | words_by_row(state, np.array(ours, np.intp))


def summary(
    counts: Mapping[int, NodeCounts], reasons: Mapping[int, Sequence[str]], *, must: bool
) -> list[str]:
    """Sum up over all nodes; the total comes last, and alone only for a pod that must use one."""
    refused: Counter[RefusalGround] = sum(
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
    words = [(sum(c.named for c in counts.values()), NAMED)]
    words += [(refused[ground], ground.value) for ground in _IN_ORDER]
    words += [(n, f"{RefusalGround.TAINT.value} {taint}") for taint, n in sorted(taints.items())]
    words += [(n, f"{BY_NODE} {reason}") for reason, n in sorted(by_node.items())]
    owned = sum(c.owned for c in counts.values())
    told = [f"{n} {_SUBJECT} {what}" for n, what in words if n]
    return [*told, f"{owned} {_SUBJECT} {TOTAL}"] if owned or must else []


def event_of(told: Sequence[str], histogram: Mapping[str, int]) -> str:
    """Put the same into an event about reservations: what nodes say of them in the middle."""
    *words, last = told
    total = last.split(" ", 1)[0]
    inside = sorted(
        f"{n} {reason}" for reason, n in histogram.items() if reason.startswith(_SUBJECT)
    )
    first = [word for word in words if word.endswith(NAMED)]
    nodes = [word for word in words if f" {BY_NODE} " in word]
    own = [word for word in words if word not in first and word not in nodes]
    details = [*first, *inside, *own, *nodes] or ([OWNS_NONE] if total == "0" else [])
    told = f": {', '.join(details)}" if details else ""
    return f"0/{total} reservations are available{told}."

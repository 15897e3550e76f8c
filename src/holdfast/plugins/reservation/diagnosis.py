"""What became of a pod's reservations when it fits nowhere, counted over all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.api.node import Taint
from holdfast.api.node_selection import required_nodes
from holdfast.capacity.admission import Ground, Refusal, Wishes, refusal
from holdfast.capacity.matching import ignores
from holdfast.capacity.offers import Offers
from holdfast.columns.picture import Picture
from holdfast.columns.pod_facts import PodFacts
from holdfast.columns.selection import required_selected
from holdfast.framework.rejection import EXCLUDED, Rejection
from holdfast.plugins.reservation.owner import OwnerState
from holdfast.plugins.reservation.words import words_by_row

NAMED = "exactly matches the requested reservation name"
BY_NODE = "for node reason that"
TOTAL = "matched owner total"
EVENT = "FailedScheduling-Reservation"
OWNS_NONE = "no Available reservation has the pod among its owners"
_SUBJECT = "Reservation(s)"
_IN_ORDER = (Ground.NAME, Ground.AFFINITY, Ground.UNSCHEDULABLE, Ground.EXACT)


@dataclass(slots=True)
class NodeCounts:
    """The pod's reservations on one node: how many, and how many refuse it on which ground."""

    owned: int = 0
    named: int = 0
    refused: Counter[Ground] | None = None
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


def count(offers: Offers, pod: PodFacts, nodes: Picture) -> dict[int, NodeCounts]:
    """Count the reservations the pod owns, by row, on nodes it may go to.

    One that is taken is not to be had.
    """
    found: dict[int, NodeCounts] = {}
    groups = [] if pod.reserve_for or ignores(pod) else offers.index.owned_by(pod.pod)
    if not groups:
        return found
    wishes, columns = Wishes.of(pod), offers.columns
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
    if rejection.prefilter is not None:
        return {}
    told: dict[int, tuple[str, ...]] = {}
    asked = [row for row in rows if rejection.plugin_of[row] != EXCLUDED]
    ours = []
    for row in asked:
        if row not in rejection.words and rejection.plugin_at(row) == "Reservation":
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
    refused: Counter[Ground] = sum((c.refused for c in counts.values() if c.refused), Counter())
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
    words += [(n, f"{Ground.TAINT.value} {taint}") for taint, n in sorted(taints.items())]
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

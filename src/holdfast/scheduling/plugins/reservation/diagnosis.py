"""Explain why an owner fits in none of its reservations, in Koordinator's texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.api.node import Taint
from holdfast.api.node_selection import required_nodes
from holdfast.scheduling.framework.rejection import EXCLUDED, Rejection
from holdfast.scheduling.plugins.reservation.owner_plan import OwnerPlan
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.columns.selection import required_selected
from holdfast.state.reservations.matching import (
    RefusalReason,
    ReservationRefusal,
    ReservationRequirements,
    ignores_reservations,
)
from holdfast.state.reservations.operating_pods import owners_mistake
from holdfast.state.reservations.reservation_cache import ReservationCache

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


@dataclass(slots=True)
class NodeCounts:
    """The pod's reservations on one node: how many, and how many refuse it for which reason."""

    owned: int = 0
    named: int = 0
    refused: Counter[RefusalReason] | None = None
    taints: Counter[str] | None = None

    def add(self, why: ReservationRefusal | None, *, named: bool) -> None:
        """Count one more reservation."""
        self.owned += 1
        self.named += named
        if why is not None:
            self.refused = (self.refused or Counter()) + Counter({why.reason: 1})
            if why.taint is not None:
                self.taints = (self.taints or Counter()) + Counter({taint_text(why.taint): 1})

    def left(self, inside: int) -> int:
        """Return how many reservations accept the pod and are large enough."""
        return self.owned - (self.refused.total() if self.refused else 0) - inside


def taint_text(taint: Taint) -> str:
    """Format a taint as Koordinator does."""
    return f"{{{taint.key}: {taint.value}}}"


def count_reservations(
    reservations: ReservationCache, pod: PodInfo, nodes: NodeTable
) -> dict[int, NodeCounts]:
    """Count the reservations the pod owns, by row, on nodes that its node affinity allows.

    Reservations that are not matchable do not count. A pod that acts as a reservation uses none.
    """
    counts: dict[int, NodeCounts] = {}
    uses_none = ignores_reservations(pod) or owners_mistake(pod.pod) == ""
    if pod.is_reserve_pod or uses_none:
        return counts
    groups = reservations.index.owned_by(pod.pod)
    if not groups:
        return counts
    wishes, columns = ReservationRequirements.of(pod), reservations.columns
    slots = np.concatenate([group.slots for group in groups])
    slots = slots[columns.matchable[slots] & (columns.row[slots] >= 0)]
    slots = slots[required_selected(nodes, required_nodes(pod.pod), columns.row[slots])]
    # A pod without requirements need not be checked against reservations that accept any owner.
    welcome = columns.accepts_any_owner[slots] & (not wishes)
    rows, how_many = np.unique(columns.row[slots[welcome]], return_counts=True)
    for row, owned in zip(rows.tolist(), how_many.tolist(), strict=True):
        counts[row] = NodeCounts(owned=owned)
    asked = slots[~welcome]
    refused = reservations.refusals(groups, pod, asked, wishes)
    for slot, why in zip(asked.tolist(), refused, strict=True):
        by_name = bool(wishes.name) and reservations.at(slot).reservation.name == wishes.name
        counts.setdefault(int(columns.row[slot]), NodeCounts()).add(why, named=by_name)
    return counts


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
    plan = rejection.plans["Reservation"]
    assert isinstance(plan, OwnerPlan), "only owners are refused by reservations"
    return reasons | plan.reasons_of_rows(np.array(ours, np.intp))


def summary(
    counts: Mapping[int, NodeCounts],
    reasons: Mapping[int, Sequence[str]],
    *,
    requires_reservation: bool,
) -> list[str]:
    """Sum up over all nodes, the total last; a total of 0 only if a reservation is required."""
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
    messages = [f"{n} {_SUBJECT} {what}" for n, what in texts if n]
    return [*messages, f"{owned} {_SUBJECT} {TOTAL}"] if owned or requires_reservation else []


def event_message(messages: Sequence[str], histogram: Mapping[str, int]) -> str:
    """Format the summary as an event message, with the reasons of nodes in the middle."""
    *texts, last = messages
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

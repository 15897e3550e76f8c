"""Why a pod fits on no node: codes per row, and upstream's messages when they are needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.scheduling.framework.extender import ExtenderPreemption
from holdfast.scheduling.framework.plan import NodeFilter, PodPlan, Tiers
from holdfast.scheduling.framework.plugin import Code, FilterPair, Reject, Rows, finite_time
from holdfast.scheduling.framework.points import overrides
from holdfast.scheduling.framework.view import View
from holdfast.state.columns.pod_info import PodInfo

NO_NODES = "no nodes available to schedule pods"
EXCLUDED = -2
"""In ``plugin_of``: the row was not filtered, because a plugin's ``pre_filter`` excluded it."""
PASSED = -1


def fit_error_message(total: int, reasons: Mapping[str, int]) -> str:
    """Return upstream's fit error: the number of nodes per reason, sorted as byte strings.

    >>> fit_error_message(12, {"x": 2, "Insufficient cpu": 10})
    '0/12 nodes are available: 10 Insufficient cpu, 2 x.'
    """
    listed = sorted((f"{count} {reason}" for reason, count in reasons.items()), key=str.encode)
    return f"0/{total} nodes are available:" + (f" {', '.join(listed)}." if listed else "")


@dataclass(frozen=True, slots=True)
class Status:
    """The result of one filter that rejected a row; upstream's Status."""

    plugin: str
    code: Code
    reasons: tuple[str, ...]


class RowStatuses:
    """Statuses of rows that were rejected with nominated pods added, or by extenders.

    Thousands of rows share a few statuses, so each is stored once: ``numbers`` has per row the
    number of its status, counted from 1, or 0 for none.
    """

    __slots__ = ("_counts", "_numbers", "_statuses", "numbers")

    def __init__(self, size: int) -> None:
        self.numbers: NDArray[np.int32] = np.zeros(size, np.int32)
        self._statuses: list[Status] = []
        self._counts: list[int] = []
        self._numbers: dict[Status, int] = {}

    def __contains__(self, row: int) -> bool:
        return bool(row < len(self.numbers) and self.numbers[row])

    def __bool__(self) -> bool:
        return any(self._counts)

    def at(self, row: int) -> Status | None:
        """Return the status of a row, or None."""
        number = int(self.numbers[row]) if row < len(self.numbers) else 0
        return self._statuses[number - 1] if number else None

    def put(self, row: int, status: Status | None) -> None:
        """Set the status of a row; None removes it."""
        old, new = int(self.numbers[row]), self._number(status)
        if old != new:
            self.numbers[row] = new
            if old:
                self._counts[old - 1] -= 1
            if new:
                self._counts[new - 1] += 1

    def put_all(self, rows: Rows, status: Status | None) -> None:
        """Set the status of several rows; None removes it."""
        self.numbers[rows] = self._number(status)
        self._counts = np.bincount(self.numbers, minlength=len(self._statuses) + 1)[1:].tolist()

    def _number(self, status: Status | None) -> int:
        if status is None:
            return 0
        number = self._numbers.setdefault(status, len(self._statuses) + 1)
        if number > len(self._statuses):
            self._statuses.append(status)
            self._counts.append(0)
        return number

    def resized(self, size: int) -> RowStatuses:
        """Return an independent copy with this number of rows."""
        made = RowStatuses(size)
        made.numbers[: len(self.numbers)] = self.numbers[:size]
        made._statuses, made._counts = list(self._statuses), list(self._counts)
        made._numbers = dict(self._numbers)
        return made

    def write_codes(self, codes: NDArray[np.int8]) -> Rows:
        """Write the codes of the rows that have a status, and return these rows."""
        rows: Rows = (self.numbers != 0).nonzero()[0]
        table = np.array([0, *(status.code for status in self._statuses)], np.int8)
        codes[rows] = table[self.numbers[rows]]
        return rows

    def rows_of_plugin(self, name: str) -> NDArray[np.bool_]:
        """Return a mask of the rows with a status of this plugin."""
        numbers = [i for i, status in enumerate(self._statuses, 1) if status.plugin == name]
        mask = np.zeros(len(self.numbers), np.bool_)
        for number in numbers:
            mask |= self.numbers == number
        return mask

    def plugins(self) -> set[str]:
        """Return the names of the plugins that have a status here."""
        counted = zip(self._statuses, self._counts, strict=True)
        return {status.plugin for status, count in counted if count}

    def count_reasons(self, default: tuple[str, ...]) -> Counter[str]:
        """Return the number of rows per reason; a status without reasons counts as ``default``."""
        counts: Counter[str] = Counter()
        for status, count in zip(self._statuses, self._counts, strict=True):
            for reason in status.reasons or default if count else ():
                counts[reason] += count
        return counts


NO_STATUSES = RowStatuses(0)


class ConditionReason(NamedTuple):
    """The reason that a plugin gives for a pod's condition, and the message of its event."""

    plugin: str
    reason: str
    message: str


@dataclass(slots=True, eq=False)
class Rejection:
    """The pod fits on no node.

    ``codes`` and ``plugin_of`` are per row; the latter is an index into ``filters``, PASSED or
    EXCLUDED. ``pre_filter_reject``, if set, is the reason for every node. ``error`` is set if the
    attempt failed: then it is not known whether the pod fits.
    """

    pod: PodInfo
    view: View
    nodes: int
    codes: NDArray[np.int8]
    plugin_of: NDArray[np.int8]
    filters: tuple[FilterPair, ...] = ()
    plans: Mapping[str, PodPlan] = field(default_factory=dict)
    pre_filtered: frozenset[str] = frozenset()
    pre_filter_reject: tuple[str, Reject] | None = None
    restricting_plugins: tuple[str, ...] = ()
    statuses: RowStatuses = NO_STATUSES
    error: str = ""
    rejecting_filters: list[int] | None = None
    """The values in ``plugin_of`` except PASSED, if they are known already."""
    reason_counts: list[Mapping[str, int]] | None = None
    """Where to store the number of rows per reason; shared by the rejections of a pod class."""
    extender_preemption: ExtenderPreemption | None = None
    """The candidates for preemption that extenders accepted, if they were called."""
    tiers: tuple[Tiers, ...] = ()
    """The plans that divide the rows into tiers for this pod."""
    rng: np.random.Generator | None = None
    """The random generator of the cycle, for ``post_filter``; None: the first choice is made."""

    @property
    def code(self) -> Code:
        """The code that decides how the pod is queued again."""
        if self.error:
            return Code.ERROR
        return (
            Code.UNSCHEDULABLE if self.pre_filter_reject is None else self.pre_filter_reject[1].code
        )

    @property
    def unschedulable_plugins(self) -> frozenset[str]:
        """The plugins that rejected the pod; their queueing hints decide when it is tried again."""
        if self.error or not self.nodes:
            return frozenset()
        if self.pre_filter_reject is not None:
            return frozenset(self.pre_filter_reject[0].split(", "))
        used = self._rejecting_filters()
        named = {self.filters[i][0].name for i in used if i >= 0}
        if EXCLUDED in used:
            named.update(self.restricting_plugins)
        return frozenset(named | self.statuses.plugins())

    def _rejecting_filters(self) -> list[int]:
        """Return the indexes of the filters that reject a row, and EXCLUDED."""
        if self.rejecting_filters is None:
            there: Rows = np.bincount(self.plugin_of - EXCLUDED).nonzero()[0]
            self.rejecting_filters = [i for i in (there + EXCLUDED).tolist() if i != PASSED]
        return self.rejecting_filters

    @property
    def pending_plugins(self) -> frozenset[str]:
        """The plugins that wait for something outside the scheduler; its event skips backoff."""
        return self.unschedulable_plugins if self.code is Code.PENDING else frozenset()

    @property
    def retry_at(self) -> float | None:
        """When the pod is to be tried again even without an event; None: it waits for one.

        The earliest time that a plugin gives for the rows that it rejects, except rows that another
        plugin rejects first and for good.
        """
        if self.error or not self.nodes:
            return None
        if self.pre_filter_reject is not None:
            return finite_time(self.pre_filter_reject[1].retry_at)
        times: list[float] = []
        for index, (_, plan) in enumerate(self.filters):
            if overrides(plan, NodeFilter.retry_at):
                rows = self._rows_rejected_by(index)
                time = finite_time(plan.retry_at(self.pod, rows)) if len(rows) else None
                times += [] if time is None else [time]
        return min(times, default=None)

    def _rows_rejected_by(self, index: int) -> Rows:
        """Return the rows that a filter rejects, except those that another one rejects for good."""
        if not self.statuses and self._rejecting_filters() == [index]:
            only: Rows = (self.plugin_of == index).nonzero()[0]
            return only
        asked = (self.plugin_of == index) | (self.codes == Code.UNSCHEDULABLE)
        rows: Rows = asked.nonzero()[0]
        return rows[self.filters[index][1].filter(rows) != 0] if len(rows) else rows

    def condition_reason(self) -> ConditionReason | None:
        """Return the condition reason of a plugin that rejects every node, or None.

        Other plugins may reject some of the nodes before it.
        """
        if self.pre_filter_reject is not None or not self.nodes:
            return None
        for plugin, plan in self.filters:
            if not overrides(plan, NodeFilter.condition_reason):
                continue
            rows = self.view.nodes.rows
            alone = {plugin.name} == self.unschedulable_plugins
            if not alone and not plan.filter(rows).all():
                continue
            if reason := plan.condition_reason(rows):
                counts = self.histogram() if alone else plan.count_reasons(rows)
                return ConditionReason(plugin.name, reason, ", ".join(sorted(counts)))
        return None

    def rows_with(self, code: Code) -> Rows:
        """Return the rows rejected with this code."""
        rows: Rows = (self.codes == code).nonzero()[0]
        return rows

    def plugin_at(self, row: int) -> str:
        """Return the first plugin that rejected the row, or ""."""
        if self.pre_filter_reject is not None:
            return self.pre_filter_reject[0]
        if status := self.statuses.at(row):
            return status.plugin
        index = int(self.plugin_of[row])
        return str(self.filters[index][0].name) if index >= 0 else ""

    def reasons(self, row: int) -> tuple[str, ...]:
        """Return the reasons of the first plugin that rejected the row."""
        if self.pre_filter_reject is not None:
            return self.pre_filter_reject[1].reasons
        if status := self.statuses.at(row):
            # Upstream counts nodes without a reason among those that PreFilter excluded.
            return status.reasons or self._default_reasons
        index = int(self.plugin_of[row])
        if index == EXCLUDED:
            return (self._exclusion,)
        if index < 0:
            return ()
        return tuple(self.filters[index][1].reasons(row))

    def message(self) -> str:
        """Return upstream's fit error, without the part that PostFilter adds."""
        if self.error:
            return self.error
        if not self.nodes:
            return NO_NODES
        if self.pre_filter_reject is not None:
            reasons = ", ".join(self.pre_filter_reject[1].reasons)
            return f"0/{self.nodes} nodes are available: {reasons}."
        return fit_error_message(self.nodes, self.histogram())

    def histogram(self) -> Mapping[str, int]:
        """Return the number of nodes per reason; a node may have several."""
        # A row with a status is PASSED in ``plugin_of``, so no row is counted twice.
        counts = (
            self.statuses.count_reasons(self._default_reasons) if self.statuses else Counter[str]()
        )
        counts.update(self._count_filtered())
        return {reason: count for reason, count in counts.items() if count}

    def _count_filtered(self) -> Mapping[str, int]:
        """Return the number of nodes per reason, without those that have a status."""
        if self.reason_counts:
            return self.reason_counts[0]
        counts: Counter[str] = Counter()
        for index in self._rejecting_filters():
            rows = (self.plugin_of == index).nonzero()[0]
            if index == EXCLUDED:
                counts[self._exclusion] += len(rows)
            else:
                counts.update(self.filters[index][1].count_reasons(rows))
        if self.reason_counts is not None:
            self.reason_counts.append(counts)
        return counts

    @property
    def _default_reasons(self) -> tuple[str, ...]:
        return (self._exclusion,) if self.restricting_plugins else ()

    @property
    def _exclusion(self) -> str:
        return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(self.restricting_plugins))}]"

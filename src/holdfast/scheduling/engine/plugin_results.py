"""Results of one plugin: of ``pre_filter`` for a pod, of ``filter`` and ``score`` for all rows.

``PreFilterOutcome`` is the result of ``pre_filter``. ``RowResults`` caches the verdicts and raw
scores of all rows for pods with the same ``reads``. ``NodeFilterMask`` combines the verdicts that
depend on nothing but the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from operator import attrgetter
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from holdfast.scheduling.engine.plugin_use import CacheLevel, CyclePlan, PluginUse, plan_methods
from holdfast.scheduling.framework.plan import PodPlan
from holdfast.scheduling.framework.plugin import (
    AnyRows,
    Code,
    FilterPair,
    RawScores,
    Reject,
    Rows,
    Skip,
    Verdicts,
)
from holdfast.scheduling.framework.points import Point
from holdfast.scheduling.framework.view import View
from holdfast.state.columns.cells import Cells, cells
from holdfast.state.columns.journal import StaleRows
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo

_FILTER_ORDER = attrgetter("use.filter_order")
_ROWS, _NOTHING = CacheLevel.ROWS, CacheLevel.NOTHING
"""Constants, because looking up a member in its enum class takes several times as long."""


class WrongPlan(TypeError):
    """A plugin's ``pre_filter`` returned something that is none of its plans."""


class PreFilterOutcome:
    """The result of one plugin's ``pre_filter``: skip, reject or a plan.

    ``filters``, ``scores`` and ``tiers`` tell whether the plan does so for this pod. ``level`` is
    what may be used again; at ROWS ``row_results`` has verdicts and raw scores. ``versions`` are
    those of the plugin's epochs, last compared at ``stamp``: while that is the stamp of all epochs,
    the versions need not be compared. The plan may consider the outcomes ``combined``, the first of
    which is the plugin's own.
    """

    __slots__ = ("allowed_rows", "combined", "filters", "level", "methods", "plan", "reject",
                 "row_results", "scores", "skip", "stamp", "tiers", "use", "versions")  # fmt: skip

    def __init__(
        self, use: PluginUse, result: PodPlan | Skip | Reject, versions: tuple[int, ...]
    ) -> None:
        self.use = use
        self.versions = versions
        self.stamp = -1
        self.row_results: RowResults | None = None
        self.combined: tuple[PreFilterOutcome, ...] = ()
        self.allowed_rows: Rows | None = None
        self.reject: Reject | None = None
        self.skip = False
        self.plan = cast("CyclePlan", result)
        self.level = use.level
        kind: type = type(result)
        self.methods = methods = plan_methods(kind)
        if isinstance(result, PodPlan):
            if result.allowed_rows is not None and use.pre_filter_enabled:
                self.allowed_rows = np.unique(result.allowed_rows)
            self.filters = methods.filters and use.filters and self.plan.filters
            self.scores = methods.scores and use.scores and self.plan.scores
            self.tiers = methods.tiers and use.scores
            if result.row_scope:
                self.level = _ROWS
            return
        self.filters = self.scores = self.tiers = False
        # What a plugin rejects at PreFilter does not count if it is disabled there.
        if isinstance(result, Reject) and use.pre_filter_enabled:
            self.reject = result
        else:
            self.skip = True

    @property
    def decides(self) -> bool:
        """Whether it affects the choice of a node; a plan that only reserves does not."""
        says = self.filters or self.scores or self.tiers or self.methods.pre_scores
        return says or self.reject is not None or self.allowed_rows is not None

    @property
    def only_pre_scores(self) -> bool:
        """Whether the plan reads the feasible rows in ``pre_score``, but does not score them."""
        asked = self.level is _NOTHING and not self.skip
        return asked and self.methods.pre_scores and not self.scores

    def cache_rows(self, nodes: NodeTable) -> None:
        """Cache the results of rows, if they can be cached."""
        if (self.filters or self.scores) and self.level is _ROWS and self.row_results is None:
            self.row_results = RowResults(self, nodes)

    def considering(self, plan: PodPlan, others: Sequence[PreFilterOutcome]) -> PreFilterOutcome:
        """Return the same with a plan that considers other outcomes."""
        outcome = copy(self)
        outcome.plan, outcome.row_results = cast("CyclePlan", plan), None
        outcome.combined = (self, *others)
        return outcome

    def filter(self, rows: AnyRows) -> Verdicts:
        """Call ``filter`` of the plan, counted and measured."""
        return self.use.filter_rows(self.plan, rows)

    def score(self, rows: AnyRows) -> RawScores:
        """Call ``score`` of the plan, counted and measured."""
        return self.use.score_rows(self.plan, rows)

    def pre_score(self, rows: AnyRows) -> Skip | Reject | None:
        """Call ``pre_score`` of the plan, counted and measured."""
        use = self.use
        use.pre_scored[0] += 1
        if use.meter.on:
            return use.meter.measure(use.name, Point.PRE_SCORE, self.plan.pre_score, rows)
        return self.plan.pre_score(rows)


def run_pre_filter(
    use: PluginUse, pod: PodInfo, view: View, versions: tuple[int, ...] = ()
) -> PreFilterOutcome:
    """Call a plugin's ``pre_filter`` and read its result."""
    return PreFilterOutcome(use, call_pre_filter(use, pod, view), versions)


def call_pre_filter(use: PluginUse, pod: PodInfo, view: View) -> PodPlan | Skip | Reject:
    """Call a plugin's ``pre_filter``, counted and measured; raise WrongPlan for other results.

    Otherwise a plugin that forgot to return would count as skipping the pod, and filter nothing.
    """
    use.pre_filtered[0] += 1
    result: PodPlan | Skip | Reject
    if use.meter.on:
        result = use.meter.measure(use.name, Point.PRE_FILTER, use.plugin.pre_filter, pod, view)
    else:
        result = use.plugin.pre_filter(pod, view)
    if not isinstance(result, use.result_types):
        wanted = ", ".join([plan.__name__ for plan in use.plugin.plan_classes])
        raise WrongPlan(
            f"{use.name}.pre_filter returned an object of {type(result).__name__}: return Skip(), "
            f"Reject(...) or an object of plan_classes ({wanted})"
        )
    return result


def active_filters(outcomes: Iterable[PreFilterOutcome]) -> tuple[FilterPair, ...]:
    """Return the plugins that filter this pod, with their plans, in filter order."""
    return tuple((p.use.plugin, p.plan) for p in in_filter_order(outcomes))


def in_filter_order(outcomes: Iterable[PreFilterOutcome]) -> list[PreFilterOutcome]:
    """Return the outcomes of the plugins that filter this pod, in the order of the Filter point."""
    return sorted((p for p in outcomes if p.filters), key=_FILTER_ORDER)


def plans_of(outcomes: Iterable[PreFilterOutcome]) -> dict[str, PodPlan]:
    """Return the plan of each plugin that takes part, by the plugin's name."""
    return {p.use.name: p.plan for p in outcomes if not p.skip and p.reject is None}


def pre_filtered_plugins(outcomes: Iterable[PreFilterOutcome]) -> frozenset[str]:
    """Return the plugins whose ``pre_filter`` ran: a Reject other than UNSCHEDULABLE ends it."""
    names = []
    for outcome in outcomes:
        names.append(outcome.use.name)
        if outcome.reject is not None and outcome.reject.code is not Code.UNSCHEDULABLE:
            break
    return frozenset(names)


class RowResults:
    """Cached verdicts and raw scores of all rows, for a plugin of scope NODE or ROW.

    ``verdicts`` is None if the plugin does not filter these pods, ``raw`` if it does not score
    them. Arrays have the node table's capacity; values beyond its size are undefined.

    Invariant: while ``cursor`` is the end of the journal, both are what ``filter`` and ``score``
    return now for every node.

    Classes share it, so it may be ahead of the class that refreshes it. Then ``refresh_row`` of one
    changed row is not enough, and its ``cursor`` must be that of the class.
    """

    __slots__ = (
        "_by_row", "_filter_row", "_filtered", "_journal", "_meter", "_nodes", "_score_range",
        "_score_row", "_scored", "_use", "cursor", "plan", "raw", "raw_at", "verdict_at",
        "verdicts",
    )  # fmt: skip

    def __init__(self, outcome: PreFilterOutcome, nodes: NodeTable) -> None:
        # Not the outcome itself: in a reference cycle these arrays would stay until the garbage
        # collector runs. If they are freed at once, they are used again while they are in the
        # processor's cache; pods that are all different cost a tenth less.
        self.plan, self._use = outcome.plan, outcome.use
        self._filtered, self._scored = outcome.use.filtered, outcome.use.scored
        self._meter = outcome.use.meter
        self._nodes = nodes
        self._journal = nodes.node_journal if outcome.use.node_scope else nodes.journal
        self.cursor = -1
        self._score_range: tuple[int, float, float] | None = None
        methods, filters, scores = outcome.methods, outcome.filters, outcome.scores
        # After a placement these are called for one row: each lookup that is saved saves a percent.
        if filters:
            self._filter_row = outcome.plan.filter_row
        if scores:
            self._score_row = outcome.plan.score_row
        self._by_row = (not filters or methods.filters_by_row) and (
            not scores or methods.scores_by_row
        )
        self.verdicts: Verdicts | None = np.empty(nodes.capacity, np.int8) if filters else None
        self.raw: NDArray[np.float64] | None = np.empty(nodes.capacity) if scores else None
        self.verdict_at: Cells[int] | None = cells(self.verdicts) if filters else None  # type: ignore[arg-type]
        self.raw_at: Cells[float] | None = cells(self.raw) if scores else None  # type: ignore[arg-type]

    @property
    def name(self) -> str:
        """The name of the plugin."""
        return self._use.name

    def refresh(self) -> None:
        """Call the plugin for the rows that changed."""
        seq = self._journal.seq
        if self.cursor == seq:
            return
        size = self._nodes.size
        stale: StaleRows = slice(0, size)
        if self.cursor >= 0:
            stale = self._journal.stale(self.cursor, size)
        self.cursor = seq
        if isinstance(stale, list):
            if self._by_row:
                for row in stale:
                    self._refresh_row(row)
                return
            stale = np.array(stale, np.intp)
        self._refresh_rows(stale)

    def score_range(self) -> tuple[float, float]:
        """Return the lowest and highest raw score of all rows, feasible or not.

        If they are equal, every class has this range, and none has to select its feasible rows.
        """
        assert self.raw is not None
        if self._score_range is None or self._score_range[0] != self.cursor:
            raw = self.raw[: self._nodes.size]
            self._score_range = (self.cursor, float(raw.min()), float(raw.max()))
        return self._score_range[1:]

    def refresh_row(self, row: int, cursor: int, seq: int) -> None:
        """Call the plugin for ``row``, if that is the only change since the last refresh."""
        if self.cursor != cursor or not self._by_row or self._meter.on:
            self.refresh()
            return
        self.cursor = seq
        if self.verdict_at is not None:
            self._filtered[0] += 1
            self.verdict_at[row] = self._filter_row(row)
        if self.raw_at is not None:
            self._scored[0] += 1
            self.raw_at[row] = self._score_row(row)

    def faults(self) -> Iterator[str]:
        """Call the plugin for every node and describe cached results that differ."""
        if self.cursor != self._journal.seq:
            return
        rows, name = self._nodes.rows, self.name
        if self.verdicts is not None:
            verdicts = self.plan.filter(rows)
            yield from differences(f"{name}: cached verdicts", self.verdicts[rows], verdicts)
        if self.raw is not None:
            scores = self.plan.score(rows)
            yield from differences(f"{name}: cached raw scores", self.raw[rows], scores)
            raw = self.raw[: self._nodes.size]
            expected = self.cursor, raw.min(initial=np.inf), raw.max(initial=-np.inf)
            if (
                self._score_range is not None
                and self._score_range[0] == self.cursor
                and self._score_range != expected
            ):
                yield f"{name}: cached range of raw scores is wrong"

    def _refresh_row(self, row: int) -> None:
        use = self._use
        if self.verdict_at is not None:
            self._filtered[0] += 1
            verdict = use.meter.call(use.name, Point.FILTER, self._filter_row, row)
            self.verdict_at[row] = verdict
        if self.raw_at is not None:
            self._scored[0] += 1
            self.raw_at[row] = use.meter.call(use.name, Point.SCORE, self._score_row, row)

    def _refresh_rows(self, rows: AnyRows) -> None:
        passed = rows
        if isinstance(rows, slice) and not self._use.accepts_slices:
            passed = np.arange(rows.stop, dtype=np.intp)
        if self.verdicts is not None:
            self.verdicts[rows] = self._use.filter_rows(self.plan, passed)
        if self.raw is not None:
            self.raw[rows] = self._use.score_rows(self.plan, passed)


class NodeFilterMask:
    """The nodes that pass all filters of scope NODE and are in all rows that PreFilter allows.

    Pods change all the time, nodes rarely: this part of the verdict is computed again only after a
    node has changed, and classes share it.

    Invariant: while no node has changed since ``refresh``, ``mask`` is what the filters and the
    allowed rows give now.
    """

    __slots__ = ("_allowed", "_cursor", "_nodes", "_row_results", "at", "mask")

    def __init__(
        self, nodes: NodeTable, row_results: Sequence[RowResults], allowed: Sequence[Rows]
    ) -> None:
        self._nodes = nodes
        self._row_results = tuple(row_results)
        self._allowed = tuple(allowed)
        self._cursor = -1
        self.mask: NDArray[np.bool_] = np.zeros(nodes.capacity, np.bool_)
        self.at: Cells[bool] = cells(self.mask)

    def restricted_to(self, rows: Rows) -> NodeFilterMask:
        """Return the same with only these rows."""
        return NodeFilterMask(self._nodes, self._row_results, (*self._allowed, rows))

    def refresh(self) -> None:
        """Compute the mask again, if a node changed."""
        seq, size = self._nodes.node_journal.seq, self._nodes.size
        if self._cursor == seq:
            return
        self._cursor = seq
        for row_results in self._row_results:
            row_results.refresh()
        self.mask[:size] = self._compute()

    def _compute(self) -> NDArray[np.bool_]:
        size = self._nodes.size
        node_mask = self._nodes.alive[:size].copy()
        for row_results in self._row_results:
            if row_results.verdicts is not None:
                node_mask &= row_results.verdicts[:size] == 0
        for rows in self._allowed:
            here = np.zeros(size, np.bool_)
            here[rows] = True
            node_mask &= here
        return node_mask

    def faults(self) -> Iterator[str]:
        """Compute the mask again and describe what differs."""
        if self._cursor == self._nodes.node_journal.seq:
            cached = self.mask[: self._nodes.size]
            yield from differences("cached rows by node filters", cached, self._compute())


def differences(what: str, cached: NDArray[Any], expected: NDArray[Any]) -> Iterator[str]:
    """Describe where two arrays differ, if anywhere."""
    wrong = (cached != expected).nonzero()[0]
    if len(wrong):
        at = int(wrong[0])
        first = f"{cached[at]} instead of {expected[at]} at {at}"
        yield f"{what} differ in {len(wrong)} places, the first is {first}"

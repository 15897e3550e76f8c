"""Results of one plugin: of ``pre_filter`` for a pod, of ``filter`` and ``score`` for all rows.

``PreFilterOutcome`` is the result of ``pre_filter``. ``RowResults`` caches the verdicts and raw
scores of all rows for pods with the same ``reads``. ``NodeFilterMask`` combines the verdicts that
depend on nothing but the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.cells import Cells, cells
from holdfast.columns.journal import StaleRows
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.engine.plugin_use import CyclePlugin, PluginUse
from holdfast.framework.plugin import (
    AnyRows,
    Code,
    FilterAndScoreRowPlugin,
    FilterPlugin,
    PreFilterResult,
    PreFilterState,
    Reject,
    Rows,
    Scope,
    Skip,
    State,
    Verdicts,
    implements,
)
from holdfast.framework.view import View

_FILTER_ORDER = attrgetter("use.filter_order")


class PreFilterOutcome:
    """The result of one plugin's ``pre_filter``: skip, reject or a state.

    ``filters``, ``scores`` and ``tiers`` tell whether the plugin does so for this pod. If it is
    ``cacheable``, ``row_results`` caches its verdicts and raw scores. ``versions`` are those of the
    plugin's epochs, last compared at ``stamp``. The state may consider the outcomes ``combined``,
    the first of which is the plugin's own.
    """

    __slots__ = ("allowed_rows", "cacheable", "combined", "filters", "plugin", "reject",
                 "row_results", "score_error", "scores", "skip", "stamp", "state", "tiers", "use",
                 "versions")  # fmt: skip

    def __init__(
        self,
        use: PluginUse,
        versions: tuple[int, ...],
        *,
        skip: bool = False,
        state: State = None,
        options: PreFilterState | None = None,
        allowed_rows: Rows | None = None,
        reject: Reject | None = None,
    ) -> None:
        self.use = use
        self.plugin = use.plugin
        self.versions = versions
        self.stamp = -1
        self.skip = skip
        self.state = state
        self.score_error = options.score_error if options is not None else ""
        self.allowed_rows = allowed_rows
        self.reject = reject
        self.row_results: RowResults | None = None
        self.combined: tuple[PreFilterOutcome, ...] = ()
        takes_part = not skip and reject is None
        self.filters = takes_part and use.filters and (options is None or options.filters)
        self.scores = takes_part and use.scores and (options is None or options.scores)
        self.tiers = takes_part and use.tiers
        self.cacheable = takes_part and (
            use.cacheable or (options is not None and options.row_scope)
        )

    def cache_rows(self, nodes: NodeTable) -> None:
        """Cache the results of rows, if they can be cached."""
        if self.cacheable and self.row_results is None:
            self.row_results = RowResults(
                self.plugin, self.state, nodes, filters=self.filters, scores=self.scores
            )

    def considering(self, state: State, others: Sequence[PreFilterOutcome]) -> PreFilterOutcome:
        """Return the same with a state that considers other outcomes."""
        found = copy(self)
        found.state, found.row_results, found.combined = state, None, (self, *others)
        return found


def run_pre_filter(
    use: PluginUse, pod: PodInfo, view: View, versions: tuple[int, ...]
) -> PreFilterOutcome:
    """Call a plugin's ``pre_filter``; a plugin without it has the state None."""
    if not use.pre_filters:
        return PreFilterOutcome(use, versions)
    return read_pre_filter(use, use.plugin.pre_filter(pod, view), versions)


def read_pre_filter(use: PluginUse, result: Any, versions: tuple[int, ...]) -> PreFilterOutcome:
    """Convert a result of ``pre_filter``; if it is disabled there, it rejects nothing."""
    match result:
        case Skip():
            return PreFilterOutcome(use, versions, skip=True)
        case Reject():
            if not use.pre_filter_enabled:
                return PreFilterOutcome(use, versions, skip=True)
            return PreFilterOutcome(use, versions, reject=result)
        case PreFilterResult():
            inner = result.state
            options = inner if isinstance(inner, PreFilterState) else None
            state = inner if options is None else options.state
            rows = np.unique(result.rows) if use.pre_filter_enabled else None
            return PreFilterOutcome(use, versions, state=state, options=options, allowed_rows=rows)
        case PreFilterState():
            return PreFilterOutcome(use, versions, state=result.state, options=result)
    return PreFilterOutcome(use, versions, state=result)


def active_filters(outcomes: Iterable[PreFilterOutcome]) -> tuple[tuple[FilterPlugin, State], ...]:
    """Return the plugins that filter this pod, with their states, in filter order."""
    return tuple((p.plugin, p.state) for p in in_filter_order(outcomes))


def in_filter_order(outcomes: Iterable[PreFilterOutcome]) -> list[PreFilterOutcome]:
    """Return the outcomes of the plugins that filter this pod, in the order of the Filter point."""
    return sorted((p for p in outcomes if p.filters), key=_FILTER_ORDER)


def states_of(outcomes: Iterable[PreFilterOutcome]) -> dict[str, State]:
    """Return the state of each plugin that takes part, by name."""
    return {p.plugin.name: p.state for p in outcomes if not p.skip and p.reject is None}


def pre_filtered_plugins(outcomes: Iterable[PreFilterOutcome]) -> frozenset[str]:
    """Return the plugins whose ``pre_filter`` ran: a Reject other than UNSCHEDULABLE ends it."""
    names = []
    for outcome in outcomes:
        names.append(outcome.plugin.name)
        if outcome.reject is not None and outcome.reject.code is not Code.UNSCHEDULABLE:
            break
    return frozenset(names)


class RowResults:
    """Cached verdicts and raw scores of all rows, for a plugin of scope NODE or ROW.

    ``verdicts`` is None if the plugin does not filter these pods, ``raw`` if it does not score
    them. Arrays have the node table's capacity; values beyond its size are undefined.

    Invariant: while ``cursor`` is the end of the journal, both are what ``filter`` and ``score``
    return now for every node.
    """

    __slots__ = (
        "_accepts_slices", "_filter_and_score_row", "_journal", "_nodes", "_score_range", "cursor",
        "plugin", "raw", "raw_at", "state", "verdict_at", "verdicts",
    )  # fmt: skip

    def __init__(
        self, plugin: CyclePlugin, state: State, nodes: NodeTable, *, filters: bool, scores: bool
    ) -> None:
        self.plugin = plugin
        self.state = state
        self._nodes = nodes
        self._journal = nodes.node_journal if plugin.traits.scope is Scope.NODE else nodes.journal
        self.cursor = -1
        self._score_range: tuple[int, float, float] | None = None
        self._accepts_slices = plugin.traits.accepts_slices
        self._filter_and_score_row = (
            plugin.filter_and_score_row if implements(plugin, FilterAndScoreRowPlugin) else None
        )
        self.verdicts: Verdicts | None = np.empty(nodes.capacity, np.int8) if filters else None
        self.raw: NDArray[np.float64] | None = np.empty(nodes.capacity) if scores else None
        self.verdict_at: Cells[int] | None = cells(self.verdicts) if filters else None  # type: ignore[arg-type]
        self.raw_at: Cells[float] | None = cells(self.raw) if scores else None  # type: ignore[arg-type]

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
            if self._filter_and_score_row is not None:
                self._refresh_each(stale)
                return
            stale = np.array(stale, np.intp)
        self._refresh_rows(stale)

    def score_range(self) -> tuple[float, float]:
        """Return the lowest and highest raw score of all rows, feasible or not."""
        assert self.raw is not None
        if self._score_range is None or self._score_range[0] != self.cursor:
            raw = self.raw[: self._nodes.size]
            self._score_range = (self.cursor, float(raw.min()), float(raw.max()))
        return self._score_range[1:]

    def refresh_row(self, row: int, cursor: int, seq: int) -> None:
        """Call the plugin for ``row``, if that is the only change since the last refresh."""
        if self.cursor != cursor or self._filter_and_score_row is None:
            self.refresh()
            return
        self.cursor = seq
        verdict, score = self._filter_and_score_row(self.state, row)
        if self.verdict_at is not None:
            self.verdict_at[row] = verdict
        if self.raw_at is not None:
            self.raw_at[row] = score

    def faults(self) -> Iterator[str]:
        """Call the plugin for every node and describe cached results that differ."""
        if self.cursor != self._journal.seq:
            return
        rows, name = self._nodes.rows, self.plugin.name
        if self.verdicts is not None:
            verdicts = self.plugin.filter(self.state, rows)
            yield from differences(f"{name}: cached verdicts", self.verdicts[rows], verdicts)
        if self.raw is not None:
            scores = self.plugin.score(self.state, rows)
            yield from differences(f"{name}: cached raw scores", self.raw[rows], scores)
            raw = self.raw[: self._nodes.size]
            expected = self.cursor, raw.min(initial=np.inf), raw.max(initial=-np.inf)
            if (
                self._score_range is not None
                and self._score_range[0] == self.cursor
                and self._score_range != expected
            ):
                yield f"{name}: cached range of raw scores is wrong"

    def _refresh_each(self, rows: list[int]) -> None:
        call, state = self._filter_and_score_row, self.state
        verdicts, raw = self.verdict_at, self.raw_at
        assert call is not None
        for row in rows:
            verdict, score = call(state, row)
            if verdicts is not None:
                verdicts[row] = verdict
            if raw is not None:
                raw[row] = score

    def _refresh_rows(self, rows: AnyRows) -> None:
        passed = rows
        if isinstance(rows, slice) and not self._accepts_slices:
            passed = np.arange(rows.stop, dtype=np.intp)
        if self.verdicts is not None:
            self.verdicts[rows] = self.plugin.filter(self.state, passed)
        if self.raw is not None:
            self.raw[rows] = self.plugin.score(self.state, passed)


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

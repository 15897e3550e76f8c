"""Results of one plugin: of ``pre_filter`` for a pod, of ``filter`` and ``score`` for all rows.

``PreFilterOutcome`` is the result of ``pre_filter``. ``RowResults`` caches the verdicts and raw
scores of all rows for pods with the same ``reads``. ``NodeFilterMask`` combines the verdicts that
depend on nothing but the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
    plugin's epochs, last compared at ``stamp``.
    """

    __slots__ = ("allowed_rows", "cacheable", "filters", "plugin", "reject", "row_results",
                 "score_error", "scores", "skip", "stamp", "state", "tiers", "use",
                 "versions")  # fmt: skip

    def __init__(
        self,
        use: PluginUse,
        versions: tuple[int, ...],
        *,
        skip: bool = False,
        state: State = None,
        part: PreFilterState | None = None,
        allowed_rows: Rows | None = None,
        reject: Reject | None = None,
    ) -> None:
        self.use = use
        self.plugin = use.plugin
        self.versions = versions
        self.stamp = -1
        self.skip = skip
        self.state = state
        self.score_error = part.score_error if part is not None else ""
        self.allowed_rows = allowed_rows
        self.reject = reject
        self.row_results: RowResults | None = None
        outcomes = not skip and reject is None
        self.filters = outcomes and use.filters and (part is None or part.filters)
        self.scores = outcomes and use.scores and (part is None or part.scores)
        self.tiers = outcomes and use.tiers
        self.cacheable = outcomes and (use.cacheable or (part is not None and part.row_scope))


def run_pre_filter(
    use: PluginUse, pod: PodInfo, view: View, versions: tuple[int, ...]
) -> PreFilterOutcome:
    """Let the plugin prepare; one that does not is always ready, with no state."""
    if not use.pre_filters:
        return PreFilterOutcome(use, versions)
    return read_pre_filter(use, use.plugin.pre_filter(pod, view), versions)


def read_pre_filter(use: PluginUse, answer: Any, versions: tuple[int, ...]) -> PreFilterOutcome:
    """Read what ``pre_filter`` answered; where it is off at preFilter it rules nothing out."""
    match answer:
        case Skip():
            return PreFilterOutcome(use, versions, skip=True)
        case Reject():
            if not use.pre_filter_enabled:
                return PreFilterOutcome(use, versions, skip=True)
            return PreFilterOutcome(use, versions, reject=answer)
        case PreFilterResult():
            inner = answer.state
            part = inner if isinstance(inner, PreFilterState) else None
            state = inner if part is None else part.state
            rows = np.unique(answer.rows) if use.pre_filter_enabled else None
            return PreFilterOutcome(use, versions, state=state, part=part, allowed_rows=rows)
        case PreFilterState():
            return PreFilterOutcome(use, versions, state=answer.state, part=answer)
    return PreFilterOutcome(use, versions, state=answer)


def active_filters(outcomes: Iterable[PreFilterOutcome]) -> tuple[tuple[FilterPlugin, State], ...]:
    """Plugins that filter for this pod, with their states, in order."""
    return tuple((p.plugin, p.state) for p in in_filter_order(outcomes))


def in_filter_order(outcomes: Iterable[PreFilterOutcome]) -> list[PreFilterOutcome]:
    """What filters for this pod, in the order of the filters, which need not be that of active."""
    return sorted((p for p in outcomes if p.filters), key=_FILTER_ORDER)


def states_of(outcomes: Iterable[PreFilterOutcome]) -> dict[str, State]:
    """What plugins that have something to say made of the pod, by name."""
    return {p.plugin.name: p.state for p in outcomes if not p.skip and p.reject is None}


def pre_filtered_plugins(outcomes: Iterable[PreFilterOutcome]) -> frozenset[str]:
    """Plugins that had their turn to prepare: an unresolvable word ends it."""
    names = []
    for outcome in outcomes:
        names.append(outcome.plugin.name)
        if outcome.reject is not None and outcome.reject.code is not Code.UNSCHEDULABLE:
            break
    return frozenset(names)


class RowResults:
    """What a NODE or ROW plugin says about all rows, patched where rows change.

    ``verdicts`` is None for a plugin that does not filter (for these pods), ``raw`` for one that
    does not score. Arrays have the picture's capacity; rows beyond its size are meaningless.

    Invariant: while ``cursor`` is the end of the journal, both are for every node what ``filter``
    and ``score`` answer now.
    """

    __slots__ = (
        "_journal", "_nodes", "_sliced", "_span", "_twin", "cursor", "plugin", "raw", "raw_at",
        "state", "verdict_at", "verdicts",
    )  # fmt: skip

    def __init__(
        self, plugin: CyclePlugin, state: State, nodes: NodeTable, *, filters: bool, scores: bool
    ) -> None:
        self.plugin = plugin
        self.state = state
        self._nodes = nodes
        self._journal = nodes.node_journal if plugin.traits.scope is Scope.NODE else nodes.journal
        self.cursor = -1
        self._span: tuple[int, float, float] | None = None
        self._sliced = plugin.traits.accepts_slices
        self._twin = (
            plugin.filter_and_score_row if implements(plugin, FilterAndScoreRowPlugin) else None
        )
        self.verdicts: Verdicts | None = np.empty(nodes.capacity, np.int8) if filters else None
        self.raw: NDArray[np.float64] | None = np.empty(nodes.capacity) if scores else None
        self.verdict_at: Cells[int] | None = cells(self.verdicts) if filters else None  # type: ignore[arg-type]
        self.raw_at: Cells[float] | None = cells(self.raw) if scores else None  # type: ignore[arg-type]

    def refresh(self) -> None:
        """Ask the plugin again about the rows that changed."""
        seq = self._journal.seq
        if self.cursor == seq:
            return
        size = self._nodes.size
        stale: StaleRows = slice(0, size)
        if self.cursor >= 0:
            stale = self._journal.stale(self.cursor, size)
        self.cursor = seq
        if isinstance(stale, list):
            if self._twin is not None:
                self._one_by_one(stale)
                return
            stale = np.array(stale, np.intp)
        self._all_at_once(stale)

    def score_range(self) -> tuple[float, float]:
        """The lowest and highest raw score of any row, feasible or not."""
        assert self.raw is not None
        if self._span is None or self._span[0] != self.cursor:
            raw = self.raw[: self._nodes.size]
            self._span = (self.cursor, float(raw.min()), float(raw.max()))
        return self._span[1:]

    def refresh_row(self, row: int, cursor: int, seq: int) -> None:
        """Ask again about the one row that changed, if that is all this one is behind."""
        if self.cursor != cursor or self._twin is None:
            self.refresh()
            return
        self.cursor = seq
        verdict, score = self._twin(self.state, row)
        if self.verdict_at is not None:
            self.verdict_at[row] = verdict
        if self.raw_at is not None:
            self.raw_at[row] = score

    def faults(self) -> Iterator[str]:
        """Ask the plugin about every node and name what differs from what is kept."""
        if self.cursor != self._journal.seq:
            return
        rows, name = self._nodes.rows, self.plugin.name
        if self.verdicts is not None:
            asked = self.plugin.filter(self.state, rows)
            yield from differences(f"{name}: kept verdicts", self.verdicts[rows], asked)
        if self.raw is not None:
            scores = self.plugin.score(self.state, rows)
            yield from differences(f"{name}: kept raw scores", self.raw[rows], scores)
            everywhere = self.raw[: self._nodes.size]
            ends = self.cursor, everywhere.min(initial=np.inf), everywhere.max(initial=-np.inf)
            if self._span is not None and self._span[0] == self.cursor and self._span != ends:
                yield f"{name}: the kept span is not that of the raw scores"

    def _one_by_one(self, rows: list[int]) -> None:
        twin, state, verdicts, raw = self._twin, self.state, self.verdict_at, self.raw_at
        assert twin is not None
        for row in rows:
            verdict, score = twin(state, row)
            if verdicts is not None:
                verdicts[row] = verdict
            if raw is not None:
                raw[row] = score

    def _all_at_once(self, rows: AnyRows) -> None:
        asked = rows
        if isinstance(rows, slice) and not self._sliced:
            asked = np.arange(rows.stop, dtype=np.intp)
        if self.verdicts is not None:
            self.verdicts[rows] = self.plugin.filter(self.state, asked)
        if self.raw is not None:
            self.raw[rows] = self.plugin.score(self.state, asked)


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

    def refresh(self) -> None:
        """Look at the nodes again, if one of them changed."""
        seq, size = self._nodes.node_journal.seq, self._nodes.size
        if self._cursor == seq:
            return
        self._cursor = seq
        for row_results in self._row_results:
            row_results.refresh()
        self.mask[:size] = self._work_out()

    def _work_out(self) -> NDArray[np.bool_]:
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
        """Work the rows out again and name what differs from what is kept."""
        if self._cursor == self._nodes.node_journal.seq:
            kept = self.mask[: self._nodes.size]
            yield from differences("rows possible by their nodes", kept, self._work_out())


def differences(what: str, kept: NDArray[Any], expected: NDArray[Any]) -> Iterator[str]:
    """Say where what is kept is not what it should be, if anywhere."""
    wrong = (kept != expected).nonzero()[0]
    if len(wrong):
        at = int(wrong[0])
        yield f"{what} differ in {len(wrong)} places, first {kept[at]} for {expected[at]} at {at}"

"""What one plugin made of a pod, and its answers about every row.

``Prepared`` is the outcome of ``pre_filter``, before any node is looked at. ``Answers`` are the
verdicts and raw scores of all rows, kept for pods that the plugin cannot tell apart; ``Possible``
is the part of the verdict that several plugins give on nodes alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.cells import Cells, cells
from holdfast.columns.journal import Stale
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.engine.plugin_use import Deciding, PluginUse
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

_PLACE = attrgetter("use.place")


class Prepared:
    """What one plugin made of a pod: skip, a state, its answers if they are kept.

    ``filters``, ``scores`` and ``tiers`` tell whether it does so for this pod, ``kept`` whether
    its answers are remembered. ``stamp`` is when
    ``versions`` were last found true.
    """

    __slots__ = ("answers", "filters", "kept", "narrow", "plugin", "reject", "score_error",
                 "scores", "skip", "stamp", "state", "tiers", "use", "versions")  # fmt: skip

    def __init__(
        self,
        use: PluginUse,
        versions: tuple[int, ...],
        *,
        skip: bool = False,
        state: State = None,
        part: PreFilterState | None = None,
        narrow: Rows | None = None,
        reject: Reject | None = None,
    ) -> None:
        self.use = use
        self.plugin = use.plugin
        self.versions = versions
        self.stamp = -1
        self.skip = skip
        self.state = state
        self.score_error = part.score_error if part is not None else ""
        self.narrow = narrow
        self.reject = reject
        self.answers: Answers | None = None
        active = not skip and reject is None
        self.filters = active and use.filters and (part is None or part.filters)
        self.scores = active and use.scores and (part is None or part.scores)
        self.tiers = active and use.tiers
        self.kept = active and (use.kept or (part is not None and part.row_scope))


def ask(use: PluginUse, pod: PodInfo, view: View, versions: tuple[int, ...]) -> Prepared:
    """Let the plugin prepare; one that does not is always ready, with no state."""
    if not use.prepares:
        return Prepared(use, versions)
    return take(use, use.plugin.pre_filter(pod, view), versions)


def take(use: PluginUse, answer: Any, versions: tuple[int, ...]) -> Prepared:
    """Read what ``pre_filter`` answered; where it is off at preFilter it rules nothing out."""
    match answer:
        case Skip():
            return Prepared(use, versions, skip=True)
        case Reject():
            if not use.speaks:
                return Prepared(use, versions, skip=True)
            return Prepared(use, versions, reject=answer)
        case PreFilterResult():
            inner = answer.state
            part = inner if isinstance(inner, PreFilterState) else None
            state = inner if part is None else part.state
            rows = np.unique(answer.rows) if use.speaks else None
            return Prepared(use, versions, state=state, part=part, narrow=rows)
        case PreFilterState():
            return Prepared(use, versions, state=answer.state, part=answer)
    return Prepared(use, versions, state=answer)


def filters_of(active: Iterable[Prepared]) -> tuple[tuple[FilterPlugin, State], ...]:
    """Plugins that filter for this pod, with their states, in order."""
    return tuple((p.plugin, p.state) for p in in_turn(active))


def in_turn(active: Iterable[Prepared]) -> list[Prepared]:
    """What filters for this pod, in the order of the filters, which need not be that of active."""
    return sorted((p for p in active if p.filters), key=_PLACE)


def states_of(active: Iterable[Prepared]) -> dict[str, State]:
    """What plugins that have something to say made of the pod, by name."""
    return {p.plugin.name: p.state for p in active if not p.skip and p.reject is None}


def reached(active: Iterable[Prepared]) -> frozenset[str]:
    """Plugins that had their turn to prepare: an unresolvable word ends it."""
    names = []
    for prepared in active:
        names.append(prepared.plugin.name)
        if prepared.reject is not None and prepared.reject.code is not Code.UNSCHEDULABLE:
            break
    return frozenset(names)


class Answers:
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
        self, plugin: Deciding, state: State, nodes: NodeTable, *, filters: bool, scores: bool
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
        stale: Stale = slice(0, size)
        if self.cursor >= 0:
            stale = self._journal.stale(self.cursor, size)
        self.cursor = seq
        if isinstance(stale, list):
            if self._twin is not None:
                self._one_by_one(stale)
                return
            stale = np.array(stale, np.intp)
        self._all_at_once(stale)

    def span(self) -> tuple[float, float]:
        """The lowest and highest raw score of any row, feasible or not."""
        assert self.raw is not None
        if self._span is None or self._span[0] != self.cursor:
            raw = self.raw[: self._nodes.size]
            self._span = (self.cursor, float(raw.min()), float(raw.max()))
        return self._span[1:]

    def follow(self, row: int, cursor: int, seq: int) -> None:
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
            yield from differing(f"{name}: kept verdicts", self.verdicts[rows], asked)
        if self.raw is not None:
            scores = self.plugin.score(self.state, rows)
            yield from differing(f"{name}: kept raw scores", self.raw[rows], scores)
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


class Possible:
    """Rows that are nodes and pass every filter which looks at nothing but the node.

    Pods come and go all the time, nodes do not: this part of a verdict (the answers of NODE
    plugins, and what preparing allowed) is worked out again only when some node changed, and
    shared by all classes that differ in other things.

    Invariant: while no node has changed since ``refresh``, ``rows`` are the nodes that every one
    of these filters passes and every plugin that narrows allows.
    """

    __slots__ = ("_allowed", "_answers", "_cursor", "_nodes", "at", "rows")

    def __init__(
        self, nodes: NodeTable, answers: Sequence[Answers], allowed: Sequence[Rows]
    ) -> None:
        self._nodes = nodes
        self._answers = tuple(answers)
        self._allowed = tuple(allowed)
        self._cursor = -1
        self.rows: NDArray[np.bool_] = np.zeros(nodes.capacity, np.bool_)
        self.at: Cells[bool] = cells(self.rows)

    def refresh(self) -> None:
        """Look at the nodes again, if one of them changed."""
        seq, size = self._nodes.node_journal.seq, self._nodes.size
        if self._cursor == seq:
            return
        self._cursor = seq
        for answers in self._answers:
            answers.refresh()
        self.rows[:size] = self._work_out()

    def _work_out(self) -> NDArray[np.bool_]:
        size = self._nodes.size
        possible = self._nodes.alive[:size].copy()
        for answers in self._answers:
            if answers.verdicts is not None:
                possible &= answers.verdicts[:size] == 0
        for rows in self._allowed:
            here = np.zeros(size, np.bool_)
            here[rows] = True
            possible &= here
        return possible

    def faults(self) -> Iterator[str]:
        """Work the rows out again and name what differs from what is kept."""
        if self._cursor == self._nodes.node_journal.seq:
            kept = self.rows[: self._nodes.size]
            yield from differing("rows possible by their nodes", kept, self._work_out())


def differing(what: str, kept: NDArray[Any], expected: NDArray[Any]) -> Iterator[str]:
    """Say where what is kept is not what it should be, if anywhere."""
    wrong = (kept != expected).nonzero()[0]
    if len(wrong):
        at = int(wrong[0])
        yield f"{what} differ in {len(wrong)} places, first {kept[at]} for {expected[at]} at {at}"

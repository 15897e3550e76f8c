"""What one plugin made of a pod, and its answers about every row.

``Prepared`` is the outcome of ``prepare``, before any node is looked at. ``Answers`` are the
verdicts and raw scores of all rows, kept for pods that the plugin cannot tell apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.cells import Cells, cells
from holdfast.columns.journal import Stale
from holdfast.columns.picture import Picture
from holdfast.columns.pod_facts import PodFacts
from holdfast.engine.plugin_use import PluginUse
from holdfast.framework.plugin import (
    AnyRows,
    Code,
    Narrow,
    Part,
    Reject,
    Rows,
    ScalarTwin,
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

    __slots__ = ("answers", "filters", "kept", "mistake", "narrow", "plugin", "reject", "scores",
                 "skip", "stamp", "state", "tiers", "use", "versions")  # fmt: skip

    def __init__(
        self,
        use: PluginUse,
        versions: tuple[int, ...],
        *,
        skip: bool = False,
        state: State = None,
        part: Part | None = None,
        narrow: Rows | None = None,
        reject: Reject | None = None,
    ) -> None:
        self.use = use
        self.plugin = use.plugin
        self.versions = versions
        self.stamp = -1
        self.skip = skip
        self.state = state
        self.mistake = part.mistake if part is not None else ""
        self.narrow = narrow
        self.reject = reject
        self.answers: Answers | None = None
        active = not skip and reject is None
        self.filters = active and use.filters and (part is None or part.filters)
        self.scores = active and use.scores and (part is None or part.scores)
        self.tiers = active and use.tiers
        self.kept = active and (use.kept or (use.by_row is not None and use.by_row(state)))


def ask(use: PluginUse, pod: PodFacts, view: View, versions: tuple[int, ...]) -> Prepared:
    """Let the plugin prepare; one that does not is always ready, with no state."""
    if not use.prepares:
        return Prepared(use, versions)
    return take(use, use.plugin.prepare(pod, view), versions)


def take(use: PluginUse, answer: Any, versions: tuple[int, ...]) -> Prepared:
    """Read what ``prepare`` answered; where it is off at preFilter it rules nothing out."""
    match answer:
        case Skip():
            return Prepared(use, versions, skip=True)
        case Reject():
            if not use.speaks:
                return Prepared(use, versions, skip=True)
            return Prepared(use, versions, reject=answer)
        case Narrow():
            inner = answer.state
            part = inner if isinstance(inner, Part) else None
            state = inner if part is None else part.state
            rows = np.unique(answer.rows) if use.speaks else None
            return Prepared(use, versions, state=state, part=part, narrow=rows)
        case Part():
            return Prepared(use, versions, state=answer.state, part=answer)
    return Prepared(use, versions, state=answer)


def filters_of(active: Iterable[Prepared]) -> tuple[tuple[Any, State], ...]:
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
    """

    __slots__ = (
        "_journal", "_nodes", "_sliced", "_span", "_twin", "cursor", "plugin", "raw", "raw_at",
        "state", "verdict_at", "verdicts",
    )  # fmt: skip

    def __init__(
        self, plugin: Any, state: State, nodes: Picture, *, filters: bool, scores: bool
    ) -> None:
        self.plugin = plugin
        self.state = state
        self._nodes = nodes
        self._journal = nodes.node_journal if plugin.traits.scope is Scope.NODE else nodes.journal
        self.cursor = -1
        self._span: tuple[int, float, float] | None = None
        self._sliced = plugin.traits.sliced
        self._twin = plugin.row if implements(plugin, ScalarTwin) else None
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
        asked: Any = rows
        if isinstance(rows, slice) and not self._sliced:
            asked = np.arange(rows.stop, dtype=np.intp)
        if self.verdicts is not None:
            self.verdicts[rows] = self.plugin.filter(self.state, asked)
        if self.raw is not None:
            self.raw[rows] = self.plugin.score(self.state, asked)

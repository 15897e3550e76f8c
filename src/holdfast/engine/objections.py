"""How a rejection is put together: one reason for all nodes, or each row's first objection.

``Objections`` keeps the first objections of a class between pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from holdfast.columns.cells import cells
from holdfast.columns.journal import Follower
from holdfast.columns.node_table import NodeTable
from holdfast.engine.nominated_pods import Crowd, judge
from holdfast.engine.prepared import Prepared, differing, filters_of, in_turn, reached, states_of
from holdfast.framework.plugin import (
    AnyRows,
    Code,
    PodChange,
    ReasonGroupsPlugin,
    Reject,
    Rows,
    Verdicts,
    implements,
)
from holdfast.framework.rejection import EXCLUDED, PASSED, Rejection, Word, Words, count_reasons
from holdfast.framework.view import View

_MOST_NOMINATED = 16


def rejection_of(
    view: View,
    active: Iterable[Prepared],
    *,
    prefilter: tuple[str, Reject] | None = None,
    error: str = "",
) -> Rejection:
    """Make a rejection that counts for every node alike."""
    nodes = view.nodes
    codes = np.zeros(nodes.size, np.int8)
    if prefilter is not None:
        codes[nodes.rows] = prefilter[1].code
    return Rejection(
        pod=view.pod, view=view, nodes=nodes.node_count, codes=codes,
        plugin_of=np.full(nodes.size, PASSED, np.int8), filters=filters_of(active),
        states=states_of(active), prepared=reached(active), prefilter=prefilter, error=error,
    )  # fmt: skip


def refused(view: View, active: list[Prepared], plugin: str, reject: Reject) -> Rejection:
    """Make the rejection of a pod that did not get beyond preparing."""
    if reject.code is Code.ERROR:
        words = ", ".join(reject.reasons)
        return rejection_of(view, active, error=f'running PreFilter plugin "{plugin}": {words}')
    return rejection_of(view, active, prefilter=(plugin, reject))


def first_objections(
    view: View,
    active: list[Prepared],
    words: Words,
    kept: Objections | None = None,
    crowd: Crowd | None = None,
) -> Rejection:
    """Find each row's first objection; what is kept of a class is taken if it is given."""
    size = view.nodes.size
    if kept is not None:
        kept.count_reasons()
        told = Rejection(
            view.pod, view, view.nodes.node_count, kept.codes[:size].copy(),
            kept.plugin_of[:size].copy(), kept.filters, kept.states, kept.prepared,
            objectors=kept.objectors, memo=kept.memo,
        )  # fmt: skip
    else:
        told = rejection_of(view, active)
        narrowing = [p for p in active if p.narrow is not None]
        told.narrowed_by = tuple(p.plugin.name for p in narrowing)
        _ask_in_turn(told, view, active, narrowing)
    aside = False
    if words or view.world.nominations:
        told.words = words.sized(size)
        aside = _beside_nominated(told, crowd)
    if told.words:
        rows = told.words.write_codes(told.codes)
        if aside:
            # Some speak of rows that were objected to: what is kept counts those too.
            told.plugin_of[rows], told.objectors, told.memo = PASSED, None, None
    return told


def _ask_in_turn(
    told: Rejection, view: View, active: list[Prepared], narrowing: list[Prepared]
) -> None:
    """Ask in order, and only about rows still undecided."""
    nodes = view.nodes
    undecided = nodes.alive[: nodes.size].copy()
    promised: int | None = None
    if narrowing:
        kept = np.zeros(nodes.size, np.bool_)
        kept[common_rows(narrowing)] = True
        out = (undecided & ~kept).nonzero()[0]
        told.codes[out], told.plugin_of[out] = Code.UNRESOLVABLE, EXCLUDED
        undecided[out] = False
        promised = nodes.row_of.get(view.pod.pod.status.nominated_node_name)
        if promised is not None:
            undecided[promised] = True  # it is tried first, whatever anybody narrows to
    for index, prepared in enumerate(in_turn(active)):
        rows = undecided.nonzero()[0]
        verdicts = _verdicts(prepared, rows)
        out = verdicts.nonzero()[0]
        told.codes[rows[out]], told.plugin_of[rows[out]] = verdicts[out], index
        undecided[rows[out]] = False
    if promised is not None and told.plugin_of[promised] >= 0:
        # Upstream names it among those that narrowed.
        told.narrowed_by = tuple({*told.narrowed_by, told.plugin_at(promised)})


def _beside_nominated(told: Rejection, crowd: Crowd | None) -> bool:
    """Let rows that pods are nominated to say what is said first with those pods there.

    Only the words differ, the rows will not do either way; so only a few rows are asked again.
    Tells whether any was.
    """
    nominations, pod = told.view.world.nominations, told.pod
    rows = nominations.promised.rows(pod.priority)
    own = told.view.nodes.row_of.get(nominations.node_of(pod.uid))
    if len(rows) > _MOST_NOMINATED:
        return False
    rows = rows[told.plugin_of[rows] >= 0]
    for row in rows.tolist():
        if told.words.at(row) is not None:
            continue
        if crowd is not None and row != own:
            told.words.put(row, crowd.aside(row))
        else:
            others = tuple(nominations.beside(pod, row).values())
            word = judge(told.filters, row, PodChange({row: others})) if others else None
            told.words.put(row, word)
    return len(rows) > 0


def _verdicts(prepared: Prepared, rows: Rows) -> Verdicts:
    if prepared.answers is not None and prepared.answers.verdicts is not None:
        kept: Verdicts = prepared.answers.verdicts[rows]
        return kept
    answer: Verdicts = prepared.plugin.filter(prepared.state, rows)
    return answer


def common_rows(narrowing: list[Prepared]) -> Rows:
    """Rows that every one of them allows."""
    common = narrowing[0].narrow
    assert common is not None
    for prepared in narrowing[1:]:
        common = np.intersect1d(common, prepared.narrow)  # type: ignore[arg-type]
    return common


class Objections:
    """Each row's first objection, patched where rows moved.

    For a class all of whose verdicts are kept, and which no plugin narrows to some rows.

    Invariant after ``refresh``, until the picture changes: ``codes`` and ``plugin_of`` have of
    every row the verdict of the first filter that rejects it, ``_counts`` how many rows each filter
    rejects first; ``memo``, if it is filled, is the histogram of their reasons.
    """

    def __init__(self, nodes: NodeTable, prepared: list[Prepared]) -> None:
        self.filters, self.states = filters_of(prepared), states_of(prepared)
        self.prepared = reached(prepared)
        self._nodes = nodes
        self._follower = Follower(nodes.journal)
        answers = [p.answers for p in in_turn(prepared)]
        self._verdicts = [a.verdicts for a in answers if a is not None and a.verdicts is not None]
        self._at = [cells(verdicts) for verdicts in self._verdicts]
        self._counts: list[int] = []
        self.memo: list[Mapping[str, int]] = []
        """What these objections come to, put there by the first who asks."""
        self._grouping = [implements(plugin, ReasonGroupsPlugin) for plugin, _ in self.filters]
        self._steady = False
        """Whether single rows have changed since all were looked at: then keeping words pays."""
        self._said: Words | None = None
        """Why rows are rejected by plugins that group their reasons."""
        self.codes: Verdicts = np.zeros(nodes.capacity, np.int8)
        self.plugin_of: Verdicts = np.full(nodes.capacity, PASSED, np.int8)

    @staticmethod
    def possible(prepared: Iterable[Prepared]) -> bool:
        """Tell whether they can be kept for a class."""
        return all(p.narrow is None and (not p.filters or p.answers) for p in prepared)

    def refresh(self) -> None:
        """Look again at rows that moved; the answers themselves must be up to date."""
        size = self._nodes.size
        stale = self._follower.stale(size)
        if isinstance(stale, slice) or len(stale):
            self.memo = []
        if isinstance(stale, list):
            self._steady |= bool(stale)
            for row in stale:
                self._one(row)
        elif isinstance(stale, slice) or len(stale):
            self._said, self._steady = None, False
            self.codes[stale], self.plugin_of[stale] = self._first(stale)
            # The last count is of rows that pass, PASSED being -1: nodes that come later are not
            # in it, and it is not used.
            counts = np.bincount(self.plugin_of[:size] + 1, minlength=len(self._verdicts) + 1)
            self._counts = [*counts[1:].tolist(), int(counts[0])]

    def _first(self, rows: AnyRows) -> tuple[Verdicts, Verdicts]:
        """The first verdict against each row, and which filter gives it."""
        alive = self._nodes.alive[rows]
        codes: Verdicts = np.zeros(len(alive), np.int8)
        plugin_of: Verdicts = np.full(len(alive), PASSED, np.int8)
        for index in reversed(range(len(self._verdicts))):
            verdicts = self._verdicts[index][rows]
            objects = alive & (verdicts > 0)
            codes = np.where(objects, verdicts, codes)
            plugin_of[objects] = index
        return codes, plugin_of

    def _one(self, row: int) -> None:
        code, plugin = 0, PASSED
        if self._nodes.alive[row]:
            for index, verdicts in enumerate(self._at):
                if verdicts[row]:
                    code, plugin = verdicts[row], index
                    break
        self._counts[self.plugin_of[row]] -= 1
        self._counts[plugin] += 1
        self.codes[row], self.plugin_of[row] = code, plugin
        if self._said is not None:
            grouped = plugin != PASSED and self._grouping[plugin]
            self._said.put(row, self._word(plugin, row) if grouped else None)

    def _word(self, index: int, row: int) -> Word:
        plugin, state = self.filters[index]
        return Word(plugin.name, Code.UNSCHEDULABLE, tuple(plugin.reasons(state, row)))

    def count_reasons(self) -> None:
        """Work out how many rows give each reason, unless nothing moved."""
        if self.memo:
            return
        if self._said is None and self._steady:
            self._said = self._listen()
        tally: Counter[str] = Counter() if self._said is None else self._said.tally(())
        for index in self.objectors:
            if self._said is None or not self._grouping[index]:
                plugin, state = self.filters[index]
                rows = (self.plugin_of[: self._nodes.size] == index).nonzero()[0]
                tally.update(count_reasons(plugin, state, rows))
        self.memo.append(tally)

    def _listen(self) -> Words:
        """Ask plugins that group their reasons about all rows they reject."""
        said = Words(self._nodes.capacity)
        for index in self.objectors:
            plugin, state = self.filters[index]
            if implements(plugin, ReasonGroupsPlugin):
                rows = (self.plugin_of[: self._nodes.size] == index).nonzero()[0]
                groups = plugin.reason_groups(state, rows)
                for group in sorted(set(groups.tolist())):
                    alike = rows[groups == group]
                    said.put_all(alike, self._word(index, int(alike[0])))
        return said

    def faults(self) -> Iterator[str]:
        """Find the first objections again and name what differs from what is kept."""
        if not self._follower.current:
            return
        size = self._nodes.size
        codes, plugin_of = self._first(slice(0, size))
        yield from differing("codes of first objections", self.codes[:size], codes)
        yield from differing("plugins of first objections", self.plugin_of[:size], plugin_of)
        _, *rejected = np.bincount(plugin_of + 1, minlength=len(self._counts)).tolist()
        if self._counts[:PASSED] != rejected:
            yield f"rows by the filter that rejects them first are counted as {self._counts}"
        if self.memo:
            tally: Counter[str] = Counter()
            for index in sorted(set(plugin_of.tolist()) - {PASSED}):
                plugin, state = self.filters[index]
                rows = (plugin_of == index).nonzero()[0]
                tally.update(count_reasons(plugin, state, rows))
            if +tally != +Counter(self.memo[0]):
                yield "the kept histogram of reasons is wrong"

    @property
    def objectors(self) -> list[int]:
        """Which plugins object to some row, by their place."""
        return [index for index in range(len(self._verdicts)) if self._counts[index]]

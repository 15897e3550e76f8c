"""How a rejection is put together: one reason for all nodes, or each row's first objection.

``FirstRejections`` keeps the first objections of a class between pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from holdfast.columns.cells import cells
from holdfast.columns.journal import JournalReader
from holdfast.columns.node_table import NodeTable
from holdfast.engine.nominated_pods import NominatedPodFilter, run_filter_plugins
from holdfast.engine.plugin_results import (
    PreFilterOutcome,
    active_filters,
    differences,
    in_filter_order,
    pre_filtered_plugins,
    states_of,
)
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
from holdfast.framework.rejection import (
    EXCLUDED,
    PASSED,
    Rejection,
    RowStatuses,
    Status,
    count_reasons,
)
from holdfast.framework.view import View

_MOST_NOMINATED = 16


def reject_all_nodes(
    view: View,
    outcomes: Iterable[PreFilterOutcome],
    *,
    pre_filter_reject: tuple[str, Reject] | None = None,
    error: str = "",
) -> Rejection:
    """Make a rejection that counts for every node alike."""
    nodes = view.nodes
    codes = np.zeros(nodes.size, np.int8)
    if pre_filter_reject is not None:
        codes[nodes.rows] = pre_filter_reject[1].code
    return Rejection(
        pod=view.pod, view=view, nodes=nodes.node_count, codes=codes,
        plugin_of=np.full(nodes.size, PASSED, np.int8), filters=active_filters(outcomes),
        states=states_of(outcomes), pre_filtered=pre_filtered_plugins(outcomes),
        pre_filter_reject=pre_filter_reject, error=error,
    )  # fmt: skip


def pre_filter_rejection(
    view: View, outcomes: list[PreFilterOutcome], plugin: str, reject: Reject
) -> Rejection:
    """Make the rejection of a pod that did not get beyond preparing."""
    if reject.code is Code.ERROR:
        words = ", ".join(reject.reasons)
        return reject_all_nodes(
            view, outcomes, error=f'running PreFilter plugin "{plugin}": {words}'
        )
    return reject_all_nodes(view, outcomes, pre_filter_reject=(plugin, reject))


def reject_by_row(
    view: View,
    outcomes: list[PreFilterOutcome],
    words: RowStatuses,
    kept: FirstRejections | None = None,
    nominated_filter: NominatedPodFilter | None = None,
) -> Rejection:
    """Find each row's first objection; what is kept of a class is taken if it is given."""
    size = view.nodes.size
    if kept is not None:
        kept.count_reasons()
        told = Rejection(
            view.pod, view, view.nodes.node_count, kept.codes[:size].copy(),
            kept.plugin_of[:size].copy(), kept.filters, kept.states, kept.outcomes,
            rejecting_filters=kept.rejecting_filters, reason_counts=kept.reason_counts,
        )  # fmt: skip
    else:
        told = reject_all_nodes(view, outcomes)
        restricting = [p for p in outcomes if p.allowed_rows is not None]
        told.restricting_plugins = tuple(p.plugin.name for p in restricting)
        _ask_in_turn(told, view, outcomes, restricting)
    aside = False
    if words or view.world.nominations:
        told.statuses = words.resized(size)
        aside = _beside_nominated(told, nominated_filter)
    if told.statuses:
        rows = told.statuses.write_codes(told.codes)
        if aside:
            # Some speak of rows that were objected to: what is kept counts those too.
            told.plugin_of[rows], told.rejecting_filters, told.reason_counts = PASSED, None, None
    return told


def _ask_in_turn(
    told: Rejection,
    view: View,
    outcomes: list[PreFilterOutcome],
    restricting: list[PreFilterOutcome],
) -> None:
    """Ask in order, and only about rows still undecided."""
    nodes = view.nodes
    undecided = nodes.alive[: nodes.size].copy()
    promised: int | None = None
    if restricting:
        kept = np.zeros(nodes.size, np.bool_)
        kept[common_allowed_rows(restricting)] = True
        out = (undecided & ~kept).nonzero()[0]
        told.codes[out], told.plugin_of[out] = Code.UNRESOLVABLE, EXCLUDED
        undecided[out] = False
        promised = nodes.row_of.get(view.pod.pod.status.nominated_node_name)
        if promised is not None:
            undecided[promised] = True  # it is tried first, whatever anybody narrows to
    for index, outcome in enumerate(in_filter_order(outcomes)):
        rows = undecided.nonzero()[0]
        verdicts = _verdicts(outcome, rows)
        out = verdicts.nonzero()[0]
        told.codes[rows[out]], told.plugin_of[rows[out]] = verdicts[out], index
        undecided[rows[out]] = False
    if promised is not None and told.plugin_of[promised] >= 0:
        # Upstream names it among those that narrowed.
        told.restricting_plugins = tuple({*told.restricting_plugins, told.plugin_at(promised)})


def _beside_nominated(told: Rejection, nominated_filter: NominatedPodFilter | None) -> bool:
    """Let rows that pods are nominated to say what is said first with those pods there.

    Only the words differ, the rows will not do either way; so only a few rows are asked again.
    Tells whether any was.
    """
    nominations, pod = told.view.world.nominations, told.pod
    rows = nominations.columns.rows(pod.priority)
    own = told.view.nodes.row_of.get(nominations.node_of(pod.uid))
    if len(rows) > _MOST_NOMINATED:
        return False
    rows = rows[told.plugin_of[rows] >= 0]
    for row in rows.tolist():
        if told.statuses.at(row) is not None:
            continue
        if nominated_filter is not None and row != own:
            told.statuses.put(row, nominated_filter.status_of_infeasible(row))
        else:
            others = tuple(nominations.ahead_of(pod, row).values())
            word = (
                run_filter_plugins(told.filters, row, PodChange({row: others})) if others else None
            )
            told.statuses.put(row, word)
    return len(rows) > 0


def _verdicts(outcome: PreFilterOutcome, rows: Rows) -> Verdicts:
    if outcome.row_results is not None and outcome.row_results.verdicts is not None:
        kept: Verdicts = outcome.row_results.verdicts[rows]
        return kept
    answer: Verdicts = outcome.plugin.filter(outcome.state, rows)
    return answer


def common_allowed_rows(restricting: list[PreFilterOutcome]) -> Rows:
    """Rows that every one of them allows."""
    common = restricting[0].allowed_rows
    assert common is not None
    for outcome in restricting[1:]:
        common = np.intersect1d(common, outcome.allowed_rows)  # type: ignore[arg-type]
    return common


class FirstRejections:
    """Each row's first objection, patched where rows moved.

    For a class all of whose verdicts are kept, and which no plugin narrows to some rows.

    Invariant after ``refresh``, until the picture changes: ``codes`` and ``plugin_of`` have of
    every row the verdict of the first filter that rejects it, ``_counts`` how many rows each filter
    rejects first; ``reason_counts``, if it is filled, is the histogram of their reasons.
    """

    def __init__(self, nodes: NodeTable, outcome: list[PreFilterOutcome]) -> None:
        self.filters, self.states = active_filters(outcome), states_of(outcome)
        self.outcomes = pre_filtered_plugins(outcome)
        self._nodes = nodes
        self._journal_reader = JournalReader(nodes.journal)
        answers = [p.row_results for p in in_filter_order(outcome)]
        self._verdicts = [a.verdicts for a in answers if a is not None and a.verdicts is not None]
        self._at = [cells(verdicts) for verdicts in self._verdicts]
        self._counts: list[int] = []
        self.reason_counts: list[Mapping[str, int]] = []
        """What these objections come to, put there by the first who asks."""
        self._grouping = [implements(plugin, ReasonGroupsPlugin) for plugin, _ in self.filters]
        self._steady = False
        """Whether single rows have changed since all were looked at: then keeping words pays."""
        self._said: RowStatuses | None = None
        """Why rows are rejected by plugins that group their reasons."""
        self.codes: Verdicts = np.zeros(nodes.capacity, np.int8)
        self.plugin_of: Verdicts = np.full(nodes.capacity, PASSED, np.int8)

    @staticmethod
    def possible(outcome: Iterable[PreFilterOutcome]) -> bool:
        """Tell whether they can be kept for a class."""
        return all(p.allowed_rows is None and (not p.filters or p.row_results) for p in outcome)

    def refresh(self) -> None:
        """Look again at rows that moved; the answers themselves must be up to date."""
        size = self._nodes.size
        stale = self._journal_reader.stale(size)
        if isinstance(stale, slice) or len(stale):
            self.reason_counts = []
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

    def _word(self, index: int, row: int) -> Status:
        plugin, state = self.filters[index]
        return Status(plugin.name, Code.UNSCHEDULABLE, tuple(plugin.reasons(state, row)))

    def count_reasons(self) -> None:
        """Work out how many rows give each reason, unless nothing moved."""
        if self.reason_counts:
            return
        if self._said is None and self._steady:
            self._said = self._listen()
        tally: Counter[str] = Counter() if self._said is None else self._said.count_reasons(())
        for index in self.rejecting_filters:
            if self._said is None or not self._grouping[index]:
                plugin, state = self.filters[index]
                rows = (self.plugin_of[: self._nodes.size] == index).nonzero()[0]
                tally.update(count_reasons(plugin, state, rows))
        self.reason_counts.append(tally)

    def _listen(self) -> RowStatuses:
        """Ask plugins that group their reasons about all rows they reject."""
        said = RowStatuses(self._nodes.capacity)
        for index in self.rejecting_filters:
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
        if not self._journal_reader.current:
            return
        size = self._nodes.size
        codes, plugin_of = self._first(slice(0, size))
        yield from differences("codes of first objections", self.codes[:size], codes)
        yield from differences("plugins of first objections", self.plugin_of[:size], plugin_of)
        _, *rejected = np.bincount(plugin_of + 1, minlength=len(self._counts)).tolist()
        if self._counts[:PASSED] != rejected:
            yield f"rows by the filter that rejects them first are counted as {self._counts}"
        if self.reason_counts:
            tally: Counter[str] = Counter()
            for index in sorted(set(plugin_of.tolist()) - {PASSED}):
                plugin, state = self.filters[index]
                rows = (plugin_of == index).nonzero()[0]
                tally.update(count_reasons(plugin, state, rows))
            if +tally != +Counter(self.reason_counts[0]):
                yield "the kept histogram of reasons is wrong"

    @property
    def rejecting_filters(self) -> list[int]:
        """Which plugins object to some row, by their place."""
        return [index for index in range(len(self._verdicts)) if self._counts[index]]

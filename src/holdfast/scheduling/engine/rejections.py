"""Make the rejection of a pod: with one reason for all nodes, or with a reason per row.

The reason of a row is that of the first filter that rejects it. ``FirstRejections`` caches these
for a class of pods: thousands of equal pods may wait, and each event that may help them causes an
attempt for each of them, in which only one or two rows have changed. Reasons are counted, not
listed, since there is one for each of thousands of rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from holdfast.scheduling.engine.nominated_pods import (
    NominatedPodFilter,
    nominated_in_sets,
    run_filter_plugins,
)
from holdfast.scheduling.engine.plugin_results import (
    PreFilterOutcome,
    active_filters,
    differences,
    in_filter_order,
    plans_of,
    pre_filtered_plugins,
)
from holdfast.scheduling.engine.preemption import active_tiers
from holdfast.scheduling.framework.plugin import (
    AnyRows,
    Code,
    PodChange,
    Reject,
    Rows,
    Verdicts,
)
from holdfast.scheduling.framework.rejection import (
    EXCLUDED,
    PASSED,
    Rejection,
    RowStatuses,
    Status,
)
from holdfast.scheduling.framework.view import View
from holdfast.state.columns.cells import cells
from holdfast.state.columns.journal import JournalReader
from holdfast.state.columns.node_table import NodeTable

_MAX_NOMINATED_ROWS = 16
"""With nominated pods on more rows than this, rejected rows are not filtered again with them: they
stay rejected, and only their reasons may differ."""


def reject_all_nodes(
    view: View,
    outcomes: Iterable[PreFilterOutcome],
    *,
    pre_filter_reject: tuple[str, Reject] | None = None,
    error: str = "",
) -> Rejection:
    """Make a rejection with one reason for every node."""
    nodes = view.nodes
    codes = np.zeros(nodes.size, np.int8)
    if pre_filter_reject is not None:
        codes[nodes.rows] = pre_filter_reject[1].code
    return Rejection(
        pod=view.pod, view=view, nodes=nodes.node_count, codes=codes,
        plugin_of=np.full(nodes.size, PASSED, np.int8), filters=active_filters(outcomes),
        plans=plans_of(outcomes), pre_filtered=pre_filtered_plugins(outcomes),
        pre_filter_reject=pre_filter_reject, error=error,
    )  # fmt: skip


def pre_filter_rejection(
    view: View, outcomes: list[PreFilterOutcome], plugin: str, reject: Reject
) -> Rejection:
    """Make the rejection of a pod that a plugin rejected at PreFilter."""
    if reject.code is Code.ERROR:
        error = f'running PreFilter plugin "{plugin}": {", ".join(reject.reasons)}'
        return reject_all_nodes(view, outcomes, error=error)
    return reject_all_nodes(view, outcomes, pre_filter_reject=(plugin, reject))


def reject_by_row(
    view: View,
    outcomes: list[PreFilterOutcome],
    statuses: RowStatuses,
    cached: FirstRejections | None = None,
    nominated_filter: NominatedPodFilter | None = None,
) -> Rejection:
    """Make a rejection with the first rejection of each row, from the cache if given."""
    size = view.nodes.size
    if cached is not None:
        cached.count_reasons()
        rejection = Rejection(
            view.pod, view, view.nodes.node_count, cached.codes[:size].copy(),
            cached.plugin_of[:size].copy(), cached.filters, cached.plans, cached.pre_filtered,
            rejecting_filters=cached.rejecting_filters, reason_counts=cached.reason_counts,
        )  # fmt: skip
    else:
        rejection = reject_all_nodes(view, outcomes)
        restricting = [p for p in outcomes if p.allowed_rows is not None]
        rejection.restricting_plugins = tuple(p.use.name for p in restricting)
        _run_filters_in_order(rejection, view, outcomes, restricting)
    rejection.tiers = active_tiers(outcomes)
    refiltered = False
    if statuses or view.world.nominations:
        rejection.statuses = statuses.resized(size)
        refiltered = _filter_with_nominated_pods(rejection, nominated_filter)
    if rejection.statuses:
        rows = rejection.statuses.write_codes(rejection.codes)
        if refiltered:
            # Some of these rows count in the cached numbers as rejected by a filter.
            rejection.plugin_of[rows], rejection.rejecting_filters, rejection.reason_counts = (
                PASSED,
                None,
                None,
            )
    return rejection


def _run_filters_in_order(
    rejection: Rejection,
    view: View,
    outcomes: list[PreFilterOutcome],
    restricting: list[PreFilterOutcome],
) -> None:
    """Run the filters in order, each for the rows that are not rejected yet."""
    nodes = view.nodes
    undecided = nodes.alive[: nodes.size].copy()
    nominated: int | None = None
    if restricting:
        allowed = np.zeros(nodes.size, np.bool_)
        allowed[common_allowed_rows(restricting)] = True
        out = (undecided & ~allowed).nonzero()[0]
        rejection.codes[out], rejection.plugin_of[out] = Code.UNRESOLVABLE, EXCLUDED
        undecided[out] = False
        nominated = nodes.row_of.get(view.pod.pod.status.nominated_node_name)
        if nominated is not None:
            undecided[nominated] = True  # upstream tries it first, whatever PreFilter allows
    for index, outcome in enumerate(in_filter_order(outcomes)):
        rows = undecided.nonzero()[0]
        verdicts = _verdicts(outcome, rows)
        out = verdicts.nonzero()[0]
        rejection.codes[rows[out]], rejection.plugin_of[rows[out]] = verdicts[out], index
        undecided[rows[out]] = False
    if nominated is not None and rejection.plugin_of[nominated] >= 0:
        # Upstream names its plugin among those that restrict the rows.
        rejection.restricting_plugins = tuple(
            {*rejection.restricting_plugins, rejection.plugin_at(nominated)}
        )


def _filter_with_nominated_pods(
    rejection: Rejection, nominated_filter: NominatedPodFilter | None
) -> bool:
    """Filter rejected rows again with their nominated pods added; return whether there are any.

    The rows stay rejected and only the reasons may differ, so this is done for a few rows only.
    """
    nominations, pod = rejection.view.world.nominations, rejection.pod
    rows = nominations.columns.rows(pod.priority)
    own = rejection.view.nodes.row_of.get(nominations.node_of(pod.uid))
    if len(rows) > _MAX_NOMINATED_ROWS:
        return False
    rows = rows[rejection.plugin_of[rows] >= 0]
    in_sets = nominated_in_sets(rejection.filters, rejection.view.world, pod)
    for row in rows.tolist():
        if rejection.statuses.at(row) is not None:
            continue
        if nominated_filter is not None and row != own:
            rejection.statuses.put(row, nominated_filter.status_of_infeasible(row))
        else:
            others = tuple(nominations.ahead_of(pod, row).values())
            status = (
                run_filter_plugins(rejection.filters, row, PodChange({row: others}), in_sets)
                if others
                else None
            )
            rejection.statuses.put(row, status)
    return len(rows) > 0


def _verdicts(outcome: PreFilterOutcome, rows: Rows) -> Verdicts:
    if outcome.row_results is not None and outcome.row_results.verdicts is not None:
        cached: Verdicts = outcome.row_results.verdicts[rows]
        return cached
    return outcome.filter(rows)


def common_allowed_rows(restricting: list[PreFilterOutcome]) -> Rows:
    """Return the rows that all of these plugins allow."""
    common = restricting[0].allowed_rows
    assert common is not None
    for outcome in restricting[1:]:
        common = np.intersect1d(common, outcome.allowed_rows)  # type: ignore[arg-type]
    return common


def _verdicts_in_filter_order(
    outcomes: list[PreFilterOutcome], verdicts_per_pod: list[Verdicts]
) -> list[Verdicts]:
    """Return the verdicts of all filters; ``verdicts_per_pod`` are not in row results."""
    cached = {p.use.name: p.row_results.verdicts for p in outcomes if p.row_results is not None}
    rest = (p.use.name for p in outcomes if p.filters and p.row_results is None)
    verdicts = cached | dict(zip(rest, verdicts_per_pod, strict=True))
    in_order = [verdicts[p.use.name] for p in in_filter_order(outcomes)]
    return [of_filter for of_filter in in_order if of_filter is not None]


class FirstRejections:
    """Each row's first rejection, recomputed for changed rows only.

    For a class whose rows no plugin restricts at PreFilter. ``verdicts_per_pod`` are the verdicts
    of the filters that are called for every pod; a new object is needed when one has changed.

    Invariant after ``refresh``, until the node table changes: ``codes`` and ``plugin_of`` have the
    verdict and the index of the first filter that rejects a row; ``_counts`` has the number of rows
    that each filter rejects first; ``reason_counts``, unless empty, has the number of rows per
    reason.
    """

    def __init__(
        self, nodes: NodeTable, outcomes: list[PreFilterOutcome], verdicts_per_pod: list[Verdicts]
    ) -> None:
        self.filters, self.plans = active_filters(outcomes), plans_of(outcomes)
        self.pre_filtered = pre_filtered_plugins(outcomes)
        self._nodes = nodes
        self._journal_reader = JournalReader(nodes.journal)
        self.verdicts_per_pod = verdicts_per_pod
        self._verdicts = _verdicts_in_filter_order(outcomes, verdicts_per_pod)
        self._verdicts_at = [cells(verdicts) for verdicts in self._verdicts]
        self._counts: list[int] = []
        self.reason_counts: list[Mapping[str, int]] = []
        """Empty, or the number of rows per reason; shared with the rejections of the class."""
        self._counted_at = nodes.pods_version
        """The version of the pods when reasons were last counted."""
        self._groups_reasons = [
            p.row_results is not None and p.methods.groups_reasons
            for p in in_filter_order(outcomes)
        ]
        """Whether the reasons of a row are those of its group until that row changes."""
        self._single_row_changes = False
        """Whether single rows have changed since all were computed: then caching reasons is
        worthwhile."""
        self._statuses: RowStatuses | None = None
        """The reasons of rows that are rejected by plugins with ``reason_groups``."""
        self.codes: Verdicts = np.zeros(nodes.capacity, np.int8)
        self.plugin_of: Verdicts = np.full(nodes.capacity, PASSED, np.int8)

    def refresh(self) -> None:
        """Update changed rows; the row results must be up to date."""
        size = self._nodes.size
        stale = self._journal_reader.stale(size)
        if isinstance(stale, slice) or len(stale):
            self.reason_counts = []
        if isinstance(stale, list):
            self._single_row_changes |= bool(stale)
            for row in stale:
                self._update_row(row)
        elif isinstance(stale, slice) or len(stale):
            self._statuses, self._single_row_changes = None, False
            self.codes[stale], self.plugin_of[stale] = self._first(stale)
            # The last count is that of rows that pass, because PASSED is -1. It is not used, and
            # does not include nodes that are added later.
            counts = np.bincount(self.plugin_of[:size] + 1, minlength=len(self._verdicts) + 1)
            self._counts = [*counts[1:].tolist(), int(counts[0])]

    def _first(self, rows: AnyRows) -> tuple[Verdicts, Verdicts]:
        """Return the first verdict that rejects each row, and the index of its filter."""
        alive = self._nodes.alive[rows]
        codes: Verdicts = np.zeros(len(alive), np.int8)
        plugin_of: Verdicts = np.full(len(alive), PASSED, np.int8)
        for index in reversed(range(len(self._verdicts))):
            verdicts = self._verdicts[index][rows]
            rejected = alive & (verdicts > 0)
            codes = np.where(rejected, verdicts, codes)
            plugin_of[rejected] = index
        return codes, plugin_of

    def _update_row(self, row: int) -> None:
        code, plugin = 0, PASSED
        if self._nodes.alive[row]:
            for index, verdicts in enumerate(self._verdicts_at):
                if verdicts[row]:
                    code, plugin = verdicts[row], index
                    break
        self._counts[self.plugin_of[row]] -= 1
        self._counts[plugin] += 1
        self.codes[row], self.plugin_of[row] = code, plugin
        if self._statuses is not None:
            grouped = plugin != PASSED and self._groups_reasons[plugin]
            self._statuses.put(row, self._status(plugin, row) if grouped else None)

    def _status(self, index: int, row: int) -> Status:
        plugin, plan = self.filters[index]
        return Status(plugin.name, Code.UNSCHEDULABLE, tuple(plan.reasons(row)))

    def count_reasons(self) -> None:
        """Fill ``reason_counts``, unless it is up to date."""
        if self.reason_counts:
            return
        if self._statuses is None and self._single_row_changes:
            self._statuses = self._group_statuses()
        counts: Counter[str] = (
            Counter() if self._statuses is None else self._statuses.count_reasons(())
        )
        for index in self.rejecting_filters:
            if self._statuses is None or not self._groups_reasons[index]:
                rows = (self.plugin_of[: self._nodes.size] == index).nonzero()[0]
                counts.update(self.filters[index][1].count_reasons(rows))
        self.reason_counts.append(counts)
        self._counted_at = self._nodes.pods_version

    def _group_statuses(self) -> RowStatuses:
        """Get the reasons of all rows that are rejected by plugins with ``reason_groups``."""
        statuses = RowStatuses(self._nodes.capacity)
        for index in self.rejecting_filters:
            if self._groups_reasons[index]:
                rows = (self.plugin_of[: self._nodes.size] == index).nonzero()[0]
                groups = self.filters[index][1].reason_groups(rows)
                if groups is None:
                    self._groups_reasons[index] = False
                    continue
                for group in sorted(set(groups.tolist())):
                    members = rows[groups == group]
                    statuses.put_all(members, self._status(index, int(members[0])))
        return statuses

    def faults(self) -> Iterator[str]:
        """Compute the first rejections again and describe what differs."""
        if not self._journal_reader.current:
            return
        size = self._nodes.size
        codes, plugin_of = self._first(slice(0, size))
        yield from differences("cached codes of first rejections", self.codes[:size], codes)
        yield from differences(
            "cached plugins of first rejections", self.plugin_of[:size], plugin_of
        )
        _, *rejected = np.bincount(plugin_of + 1, minlength=len(self._counts)).tolist()
        if self._counts[:PASSED] != rejected:
            yield f"cached numbers of first rejections by filter {self._counts} are wrong"
        # Filters that are called for every pod may depend on changes that are not in the journal,
        # such as a confirmed Binding. Their reasons are counted again in the next attempt, so the
        # stored counts are compared only while no pod has changed.
        current = not self.verdicts_per_pod or self._counted_at == self._nodes.pods_version
        if self.reason_counts and current:
            counts: Counter[str] = Counter()
            for index in sorted(set(plugin_of.tolist()) - {PASSED}):
                rows = (plugin_of == index).nonzero()[0]
                counts.update(self.filters[index][1].count_reasons(rows))
            if +counts != +Counter(self.reason_counts[0]):
                yield "cached numbers of rows per reason are wrong"

    @property
    def rejecting_filters(self) -> list[int]:
        """The indexes of the filters that reject a row first."""
        return [index for index in range(len(self._verdicts)) if self._counts[index]]

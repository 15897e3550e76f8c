"""Verdicts and reasons of filters beside nominated pods, for rows that need no real dry run.

For a filter with row sets the pods nominated to any row of a set count on all of its rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from holdfast.engine.nominated_pods import NominatedInSets
from holdfast.framework.plugin import (
    DependsOnPodsPlugin,
    FilterAndScoreRowPlugin,
    FilterEachPlugin,
    FilterPlugin,
    Plugin,
    PodChange,
    ReasonGroupsPlugin,
    Rows,
    RowSetsPlugin,
    State,
    Verdicts,
    implements,
)
from holdfast.framework.rejection import count_reasons
from holdfast.framework.view import View
from holdfast.plugins.default_preemption.victims import DryRunContext


class DryRunFilters:
    """Calls the filters for one search of candidates."""

    def __init__(self, view: View, context: DryRunContext) -> None:
        self._view = view
        self._context = context

    def in_sets(self, plugin: Plugin) -> NominatedInSets | None:
        """Return the pods nominated to all rows, if they count for a filter."""
        return self._context.in_sets if implements(plugin, RowSetsPlugin) else None

    def verdicts(self, plugin: FilterPlugin, state: State, rows: Rows) -> Verdicts:
        """Return a filter's verdicts; for one with row sets, also with the nominated pods added."""
        if implements(plugin, FilterEachPlugin):
            verdicts = plugin.filter_each(state, rows)
        else:
            verdicts = plugin.filter(state, rows)
        in_sets = self.in_sets(plugin)
        if in_sets is not None:
            added = in_sets.verdicts(plugin, state)[rows]
            verdicts = np.where(added != 0, added, verdicts)
        return verdicts

    def verdict(self, plugin: FilterPlugin, state: State, row: int) -> int:
        """Return the same for one row."""
        if implements(plugin, FilterAndScoreRowPlugin):
            return int(plugin.filter_and_score_row(state, row)[0])
        return int(self.verdicts(plugin, state, np.array([row], np.intp))[0])

    def reasons(self, plugin: FilterPlugin, state: State, row: int) -> tuple[str, ...]:
        """Return why a row fails with all pods of lower priority removed."""
        in_sets, removed = self.in_sets(plugin), {row: self._context.lower_on(row)}
        if in_sets is None:
            beside = self._view.world.nominations.ahead_of(self._view.pod, row)
            return plugin.reasons(state, row, PodChange({row: [*beside.values()]}, removed))
        # It may pass with the nominated pods, and fail without them.
        added = plugin.reasons(state, row, PodChange(in_sets.change.added, removed))
        return added or plugin.reasons(state, row, PodChange(removed=removed))

    def count_reasons(self, plugin: FilterPlugin, state: State, rows: Rows) -> Mapping[str, int]:
        """Count the reasons of rows that a filter rejects, by ``verdicts``."""
        in_sets = self.in_sets(plugin)
        if in_sets is None:
            return count_reasons(plugin, state, rows)
        added, change = in_sets.verdicts(plugin, state)[rows] != 0, in_sets.change
        found = count_reasons(plugin, state, rows[~added])
        return Counter(found) + Counter(
            reason for row in rows[added].tolist() for reason in plugin.reasons(state, row, change)
        )


def rows_by_reasons(plugin: Plugin, state: State, rows: Rows) -> Rows:
    """Return a number for each row; rows with the same number have the same reasons.

    They depend on the set of a row, and on the pods that leave it.
    """
    numbers, alike = rows.copy(), np.zeros(len(rows), np.bool_)
    if implements(plugin, DependsOnPodsPlugin):
        depends = plugin.depends_on_pods(state)
        alike = ~alike if depends is None else ~depends[rows]
    if implements(plugin, ReasonGroupsPlugin):
        numbers[alike] = -1 - plugin.reason_groups(state, rows[alike])
    return numbers

"""Verdicts and reasons of filters beside nominated pods, for rows that need no real dry run.

For a filter with row sets the pods nominated to any row of a set count on all of its rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from holdfast.engine.nominated_pods import NominatedInSets, has_row_sets
from holdfast.framework.plan import NodeFilter
from holdfast.framework.plugin import PodChange, Rows, Verdicts
from holdfast.framework.points import overrides
from holdfast.framework.preemption_rules import rules_of
from holdfast.framework.view import View
from holdfast.plugins.default_preemption.victims import DryRunContext


class DryRunFilters:
    """Calls the filters for one search of candidates."""

    def __init__(self, view: View, context: DryRunContext) -> None:
        self._view = view
        self._context = context

    def in_sets(self, plan: NodeFilter) -> NominatedInSets | None:
        """Return the pods nominated to all rows, if they count for a filter."""
        return self._context.in_sets if has_row_sets(plan) else None

    def verdicts(self, plan: NodeFilter, rows: Rows) -> Verdicts:
        """Return a filter's verdicts; for one with row sets, also with the nominated pods added."""
        verdicts = plan.filter_each(rows)
        in_sets = self.in_sets(plan)
        if in_sets is not None:
            added = in_sets.verdicts(plan)[rows]
            verdicts = np.where(added != 0, added, verdicts)
        return verdicts

    def verdict(self, plan: NodeFilter, row: int) -> int:
        """Return the same for one row."""
        if overrides(plan, NodeFilter.filter_row) and self.in_sets(plan) is None:
            return plan.filter_row(row)
        return int(self.verdicts(plan, np.array([row], np.intp))[0])

    def reasons(self, plan: NodeFilter, row: int) -> tuple[str, ...]:
        """Return why a row fails with all pods of lower priority removed."""
        in_sets, removed = self.in_sets(plan), {row: self._context.lower_on(row)}
        if in_sets is None:
            beside = self._view.world.nominations.ahead_of(self._view.pod, row)
            return plan.reasons(row, PodChange({row: [*beside.values()]}, removed))
        # It may pass with the nominated pods, and fail without them.
        added = plan.reasons(row, PodChange(in_sets.change.added, removed))
        return added or plan.reasons(row, PodChange(removed=removed))

    def count_reasons(self, plan: NodeFilter, rows: Rows) -> Mapping[str, int]:
        """Count the reasons of rows that a filter rejects, by ``verdicts``."""
        in_sets = self.in_sets(plan)
        if in_sets is None:
            return plan.count_reasons(rows)
        added, change = in_sets.verdicts(plan)[rows] != 0, in_sets.change
        found = plan.count_reasons(rows[~added])
        return Counter(found) + Counter(
            reason for row in rows[added].tolist() for reason in plan.reasons(row, change)
        )


def rows_by_reasons(plan: NodeFilter, rows: Rows) -> Rows:
    """Return a number for each row; rows with the same number have the same reasons.

    They depend on the set of a row, and on the pods that leave it.
    """
    depends, numbers = rules_of(plan).depends_on_pods(), rows.copy()
    alike = ~depends[rows] if isinstance(depends, np.ndarray) else np.full(len(rows), not depends)
    groups = plan.reason_groups(rows[alike])
    if groups is not None:
        numbers[alike] = -1 - groups
    return numbers

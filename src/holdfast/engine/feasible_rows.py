"""The rows on which a pod can run, and the filters that are called for every pod."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.pod_info import PodInfo
from holdfast.engine.plugin_results import PreFilterOutcome
from holdfast.engine.pod_class import PodClass, RemainingRows
from holdfast.framework.plan import PodPlan
from holdfast.framework.plugin import Code, Rows, Verdicts
from holdfast.framework.rejection import NO_STATUSES, RowStatuses
from holdfast.framework.view import View

_ERROR = int(Code.ERROR)
"""An enum member takes NumPy several times as long to compare with."""


@dataclass(slots=True, eq=False)
class Feasible:
    """The rows on which a pod can run.

    ``outcomes`` is the list ``pod_class.outcomes`` itself, unless a plugin that is called for every
    pod takes part; ``per_pod_outcomes`` are those of these plugins. ``mask`` is None while it
    equals ``pod_class.feasible_mask``. ``preselected_row`` is the row of the node that the pod is
    nominated to, if that is feasible: it is chosen without scoring. ``best_tier`` has the feasible
    rows of the best tier, if they were found without the others: then all ``rows`` are computed
    when they are read.
    """

    pod: PodInfo
    view: View
    pod_class: PodClass
    outcomes: list[PreFilterOutcome]
    mask: NDArray[np.bool_] | None = None
    preselected_row: int | None = None
    statuses: RowStatuses = NO_STATUSES
    remaining: RemainingRows | None = None
    best_tier: Feasible | None = None
    per_pod_outcomes: list[PreFilterOutcome] = field(init=False)

    def __post_init__(self) -> None:
        outcomes = self.outcomes
        self.per_pod_outcomes = [outcomes[place] for place, _ in self.pod_class.per_pod_places]

    @property
    def rows(self) -> Rows:
        """The feasible rows, ascending; a shared array, do not modify it."""
        if self.best_tier is not None and self.mask is None:
            self.pod_class.refresh()
            run_uncached_filters(self)
        if self.mask is None:
            return self.pod_class.rows()
        if self.remaining is not None and self.mask is self.remaining.mask:
            return self.remaining.rows
        rows: Rows = self.mask.nonzero()[0]
        return rows

    @property
    def count(self) -> int:
        """The number of feasible rows."""
        return self.pod_class.count if self.mask is None else int(np.count_nonzero(self.mask))

    @property
    def nominated_row(self) -> int | None:
        """The row of the node that the pod is nominated to, or None."""
        return self.view.nodes.row_of.get(self.view.world.nominations.node_of(self.pod.uid))

    @property
    def has_scores_of_class(self) -> bool:
        """Whether the cached scores are the pod's: no plugin called for every pod scores it."""
        return self.outcomes is self.pod_class.outcomes or not any(
            [p.scores or p.tiers for p in self.per_pod_outcomes]
        )

    @property
    def plans(self) -> dict[str, PodPlan]:
        """The plan of each plugin that takes part, by the plugin's name; do not modify it."""
        if self.outcomes is self.pod_class.outcomes:
            return self.pod_class.plans
        return self.pod_class.plans | {
            p.use.name: p.plan for p in self.per_pod_outcomes if not p.skip
        }

    def restricted_to(self, rows: Rows) -> Feasible:
        """Return the same with only these rows, which extenders have chosen."""
        mask = np.zeros(self.view.nodes.size, np.bool_)
        mask[rows] = True
        chosen = (
            self.preselected_row
            if self.preselected_row is not None and mask[self.preselected_row]
            else None
        )
        return Feasible(
            self.pod, self.view, self.pod_class, self.outcomes, mask, chosen, self.statuses
        )


def run_uncached_filters(found: Feasible) -> str:
    """Remove the rows that uncached filters reject from the mask; return an error, or "".

    An error on any row fails the attempt, unless the pod fits on the node it is nominated to.
    """
    pod_class = found.pod_class
    if pod_class.accepts_slices and found.outcomes is pod_class.outcomes:
        size = found.view.nodes.size
        # A slice of all rows is cheaper than selected rows, and these plugins return no errors.
        all_rows = slice(0, size)
        found.remaining = pod_class.remaining_after(
            [p.filter(all_rows) for p in pod_class.uncached_filters]
        )
        found.mask = found.remaining.mask
        return ""
    return _run_filters_in_order(found)


def _run_filters_in_order(found: Feasible) -> str:
    only = _only_filter(found)
    if only is not None:
        rows = found.pod_class.rows()
        verdicts = only.filter(rows)
        if not np.count_nonzero(verdicts):
            return ""  # the feasible rows of the class are those of the pod
        passed: NDArray[np.bool_] = verdicts == 0
        if len(rows) == found.view.nodes.size:
            found.mask = passed
        else:
            found.mask = np.zeros(found.view.nodes.size, np.bool_)
            found.mask[rows] = passed
        return _first_error(only, rows, verdicts)
    size, error = found.view.nodes.size, ""
    passed = np.ones(size, np.bool_)
    for outcome, rows in _uncached_filters(found, passed):
        verdicts = outcome.filter(rows)
        error = error or _first_error(outcome, rows, verdicts)
        passed[rows] = verdicts == 0
    found.mask = found.pod_class.feasible_mask[:size] & passed
    return error


def _only_filter(found: Feasible) -> PreFilterOutcome | None:
    """Return the uncached filter if it is the only one, and runs after all cached ones."""
    pod_class, per_pod = found.pod_class, found.per_pod_outcomes
    if pod_class.uncached_filters or pod_class.restricting:
        return None
    filters = [p for p in per_pod if p.filters]
    if len(filters) != 1 or any([p.allowed_rows is not None for p in per_pod]):
        return None
    use = filters[0].use
    is_last = pod_class.last_cached_filter < use.filter_order
    return filters[0] if is_last and not use.accepts_slices else None


def _first_error(outcome: PreFilterOutcome, rows: Rows, verdicts: Verdicts) -> str:
    """Return the error of the first row for which the filter returned one, or ""."""
    is_error = verdicts == _ERROR
    if not np.count_nonzero(is_error):
        return ""
    row = int(rows[is_error.nonzero()[0][0]])
    reasons = ", ".join(outcome.plan.reasons(row))
    return f'running "{outcome.use.name}" filter plugin: {reasons}'


def rows_before(found: Feasible, plugin: str) -> Rows:
    """Return the rows with which the filter of a plugin will be called."""
    passed = np.ones(found.view.nodes.size, np.bool_)
    for outcome, rows in _uncached_filters(found, passed):
        if outcome.use.name == plugin:
            return rows
        passed[rows] = outcome.filter(rows) == 0
    none: Rows = np.zeros(0, np.intp)
    return none


def _uncached_filters(
    found: Feasible, passed: NDArray[np.bool_]
) -> Iterator[tuple[PreFilterOutcome, Rows]]:
    """Yield each filter that is not cached with its rows; the caller updates ``passed``."""
    size = found.view.nodes.size
    for outcome in found.outcomes:
        if outcome.row_results is not None or outcome.skip:
            continue
        if outcome.allowed_rows is not None:
            allowed = np.zeros(size, np.bool_)
            allowed[outcome.allowed_rows] = True
            passed &= allowed
        if not outcome.filters:
            continue
        if outcome.use.accepts_slices:
            passed &= outcome.filter(slice(0, size)) == 0
            continue
        yield outcome, (passed & _passed_before(found, outcome)).nonzero()[0]


def _passed_before(found: Feasible, outcome: PreFilterOutcome) -> NDArray[np.bool_]:
    """Return a mask of the rows that pass all cached filters before this one in filter order.

    Rows that only later filters reject are included: an error of this filter there counts.
    """
    size = found.view.nodes.size
    mask = found.pod_class.feasible_mask[:size]
    order = outcome.use.filter_order
    if found.pod_class.last_cached_filter < order:
        return mask
    cached = [p for p in found.outcomes if p.filters and p.row_results is not None]
    mask = found.view.nodes.alive[:size].copy()
    for other in cached:
        verdicts = other.row_results.verdicts if other.row_results is not None else None
        if verdicts is not None and other.use.filter_order < order:
            mask &= verdicts[:size] == 0
    return mask

"""The kind of ``policy``: how many pods may be disrupted at a time."""

from __future__ import annotations

from holdfast.api import scheme
from holdfast.apiserver.descriptor import Served, each_write
from holdfast.apiserver.kinds.printers import workloads
from holdfast.apiserver.kinds.validation.scheduling import check_budget
from holdfast.validation import list_limits
from holdfast.validation.counting import tree_of

KINDS = (
    Served(
        scheme.DISRUPTION_BUDGETS,
        lists=tree_of(list_limits.DISRUPTION_BUDGET),
        checks=(each_write(check_budget),),
        printer=workloads.DISRUPTION_BUDGET,
        counts_generations=True,
        needs_version=True,
    ),
)

"""Describe how a filter's verdicts depend on a node's pods, for preemption and nominated pods."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from holdfast.scheduling.framework.plan import PodPlan
from holdfast.scheduling.framework.values import PodChange, RequiredResources

if TYPE_CHECKING:
    from holdfast.scheduling.framework.rejection import Rejection
    from holdfast.state.columns.pod_info import PodInfo

Bools = NDArray[np.bool_]
NEVER = -(2**59)
"""In ``PodLimit.remaining``: the row fails even if all pods leave."""
ALWAYS = 2**59
"""In ``PodLimit.remaining``: the row passes even if all pods stay."""


@dataclass(frozen=True, slots=True)
class PodLimit:
    """A limit on some of the pods of a row, such as those that use a host port.

    ``count_of`` returns how much a pod counts, the same on every row. ``remaining`` holds, per row,
    how much more the row accepts; a negative amount must leave. Counts are cached by ``key`` while
    ``version`` is the same. ``by_label_group``: pods of a label group count the same.
    ``requires_pods`` is the opposite limit, for pods that the row needs (required pod affinity):
    they count as negative amounts, and the limit is tested only with all potential victims removed.
    """

    key: Hashable
    remaining: NDArray[np.int64]
    count_of: Callable[[PodInfo], int]
    version: int = 0
    by_label_group: bool = False
    requires_pods: bool = False


@dataclass(frozen=True, slots=True)
class PodLimits:
    """All that a filter requires of the pods of a row, except on ``unknown_rows`` (None: no rows).

    ``incomplete_for`` returns whether the limits are too weak on a row to which that pod is
    nominated.
    """

    limits: tuple[PodLimit, ...]
    unknown_rows: Bools | None = None
    incomplete_for: Callable[[PodInfo], bool] | None = None


class PreemptionRules(PodPlan):
    """Tell preemption how the verdicts of a plan depend on the pods of a node; with ``NodeFilter``.

    Most methods let preemption try all nodes at once, with pods removed. A filter without them is
    called for every node by itself, once for each pod that might stay: the result is the same, and
    slow. Three change results: without ``row_sets`` a nominated pod counts on its own node only;
    ``preemption_refusal`` and ``protected_victims`` restrict preemption.
    """

    __slots__ = ()

    def depends_on_pods(self) -> Bools | bool:
        """Return whether removing pods from a row could change its verdict: per row, or for all.

        Preemption does not filter the other rows again.
        """
        return True

    def pod_limits(self) -> PodLimits | None:
        """Return the limits of every row, for a filter that counts pods one by one.

        A row must pass exactly if no limit is exceeded. An added pod never makes a row pass, except
        through a limit with ``requires_pods``. None: pods are not counted like this.
        """
        return None

    def required_resources(self) -> RequiredResources | None:
        """Return what must be free for a row to pass, for a filter that columns can decide.

        On the rows of ``depends_on_pods``, enough free resources may not be sufficient. None: it
        rejects rows for other reasons than insufficient resources.
        """
        return None

    def row_sets(self) -> Bools | None:
        """Return sets of rows in which a pod on one row counts on all, such as a capped unit.

        An array [set, row], with the capacity of the node table as number of rows; only for the
        scopes DOMAIN and CLUSTER. A pod that is nominated to a row of a set counts on all rows of
        it, for pods of no higher priority; so does a victim of preemption that is removed. A change
        of pods on a row changes no verdict outside of its sets. With ``reason_groups``, rows of one
        group also have the same reasons with a change on other rows. None: there are no sets.
        """
        return None

    def pod_limits_in_sets(self, change: PodChange) -> PodLimits | None:
        """Return the limits that hold both with and without the pods that ``change`` adds.

        For a filter with row sets and ``pod_limits``; without this method it has no limits next to
        nominated pods. The rows of the change itself are unknown.
        """
        return None

    def preemption_refusal(self, rejection: Rejection) -> str | None:
        """Return why the rejected pod may not preempt ("": no reason given), None if it may."""
        return None

    def protected_victims(self, pod: PodInfo) -> Callable[[PodInfo], bool] | None:
        """Return a test for pods that must not be evicted for ``pod``; None: all may be."""
        return None


_NO_RULES = PreemptionRules()


def rules_of(plan: PodPlan) -> PreemptionRules:
    """Return the rules of a plan; if it has none, the rules that hold for any plan."""
    return plan if isinstance(plan, PreemptionRules) else _NO_RULES

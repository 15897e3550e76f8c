"""Optional methods about hypothetical pods: victims of preemption and nominated pods.

Most let preemption try all nodes at once, with pods removed. A filter without them is called for
every node by itself, once for each pod that might stay: the result is the same, and slow.
``RowSetsPlugin`` changes results: a filter without it counts a nominated pod on its own node only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.framework.traits import Plugin
from holdfast.framework.values import ApiCall, PodChange, RequiredResources, Rows, State, Verdicts

if TYPE_CHECKING:
    from holdfast.columns.pod_info import PodInfo
    from holdfast.framework.rejection import Rejection
    from holdfast.framework.world import World

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
    they count negative, and the limit is tested only with all potential victims removed.
    """

    key: Hashable
    remaining: NDArray[np.int64]
    count_of: Callable[[PodInfo], int]
    version: int = 0
    by_label_group: bool = False
    requires_pods: bool = False


@dataclass(frozen=True, slots=True)
class PodLimits:
    """Everything a filter requires of the pods of a row, but for ``unknown_rows`` (None: no rows).

    ``incomplete_for`` returns whether the limits are too weak on a row to which that pod is
    nominated.
    """

    limits: tuple[PodLimit, ...]
    unknown_rows: Bools | None = None
    incomplete_for: Callable[[PodInfo], bool] | None = None


class PodLimitsPlugin(Plugin, Protocol):
    """A filter that rejects rows because of the pods there, counted one by one.

    A row must pass exactly if no limit is exceeded. An added pod never makes a row pass, except
    through a limit with ``requires_pods``.
    """

    def pod_limits(self, state: State) -> PodLimits:
        """Return the limits of every row."""
        ...


class PodLimitsInSetsPlugin(Plugin, Protocol):
    """A filter with row sets and ``pod_limits``; without this it has none beside nominated pods."""

    def pod_limits_in_sets(self, state: State, change: PodChange) -> PodLimits:
        """Return the limits that hold both with and without the pods that ``change`` adds.

        The rows of the change itself are unknown.
        """
        ...


class DependsOnPodsPlugin(Plugin, Protocol):
    """Name the rows whose verdict depends on the pods there.

    Preemption does not filter the other rows again. A plugin without this method is called for
    every row, unless its scope is NODE.
    """

    def depends_on_pods(self, state: State) -> Bools | None:
        """Return per row whether removing pods from it could change its verdict.

        None: it never could.
        """
        ...


class FilterEachPlugin(Plugin, Protocol):
    """A filter that evaluates no more rows after one fails with an error, since the pod does.

    For preemption such a row is just no candidate.
    """

    def filter_each(self, state: State, rows: Rows) -> Verdicts:
        """Return what ``filter`` does for each of the rows alone."""
        ...


class RequiredResourcesPlugin(Plugin, Protocol):
    """A filter that rejects rows only for insufficient resources, which columns can decide.

    If it has ``depends_on_pods`` too, then on those rows enough resources may not be sufficient.
    """

    def required_resources(self, state: State) -> RequiredResources:
        """Return what must be free for a row to pass."""
        ...

    def ignores_resource(self, name: str) -> bool:
        """Return whether the filter ignores a resource because an extender accounts for it."""
        ...


class RowSetsPlugin(Plugin, Protocol):
    """A filter for which a pod on one row counts on every row of a set, such as a capped unit.

    Its scope is DOMAIN or CLUSTER. A pod that is nominated to a row of a set counts on all rows of
    it, for pods of no higher priority; so does a victim of preemption that is removed.
    """

    def row_sets(self, state: State) -> Bools:
        """Return the sets: [set, row], with the capacity of the node table as number of rows.

        A change of pods on a row changes no verdict outside of its sets. With ``reason_groups``,
        rows of one group also have the same reasons with a change on other rows.
        """
        ...


class PreemptBeforeNextTierPlugin(Plugin, Protocol):
    """A plugin with tiers that wants preemption in a tier before rows of the next one are used."""

    def preempts_before_next_tier(self, state: State) -> bool:
        """Return whether to preempt in better tiers before the pod is placed in a lower one.

        If preemption helps in a better tier, the pod is nominated there and waits; else it is
        placed in the same attempt.
        """
        ...


class CallsBeforeEvictionPlugin(Plugin, Protocol):
    """A PostFilter plugin that writes something before the victims of a preemption are evicted."""

    def calls_before_eviction(
        self, pod: PodInfo, node: str, world: World, now: float
    ) -> Sequence[ApiCall]:
        """Return the calls for a pod that is about to be nominated to a node.

        If one fails, no pod is evicted and the attempt is an error. Typed responses (``returns``)
        are stored in the world.
        """
        ...


class PreemptionRulesPlugin(Plugin, Protocol):
    """Restrict preemption: whether a pod may preempt, and which pods are never victims."""

    def preemption_refusal(self, rejection: Rejection) -> str | None:
        """Return why the rejected pod may not preempt ("": no reason given), None if it may."""
        ...

    def protected_victims(self, pod: PodInfo) -> Callable[[PodInfo], bool] | None:
        """Return a test for pods that must not be evicted for ``pod``; None: all may be."""
        ...

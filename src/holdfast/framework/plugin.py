"""The plugin contract: one small protocol per extension point; implement only those you need.

The points are those of the Kubernetes scheduling framework, but a plugin sees all nodes at once: it
is called with an array of rows and returns an array. It does no I/O. It *yields* what must be
written to the API server as an ``ApiCall`` from ``pre_bind``, ``bind``, ``post_bind`` or
``undo_pre_bind``; the scheduler sends the call and sends the stored object back into the generator.
A test or a simulation may answer the calls itself.

The order of the calls for one pod::

    pre_enqueue ─────────────── keep the pod out of the active queue
    pre_filter ─┬─ Skip ─────── the plugin does not filter or score this pod
                ├─ Reject ───── no node is suitable
                └─ state
                     filter ─── per row: passes (0), unschedulable (1), unresolvable (2)
                     │  └─ no row passes: reasons, condition_reason, retry_at, post_filter;
                     │     later queueing_hint per event
                     pre_score, score, normalize_score, tier
                     reserve ── reserve resources in the ledgers    ⇄ unreserve
                     permit ─── approve, wait or reject
                     pre_bind ─ write claims and annotations        ⇄ undo_pre_bind
                     bind
                     post_bind  the pod is bound

This module is for every author. The points from PreBind on are in ``binding_points``. Optional
methods that make a plugin faster are in ``fast_paths``; those for nominated pods and preemption, in
``preemption_support``. All can be imported from here. Plugins that exclude or rank reservations
find their points in ``reservation_options``.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.framework.binding_points import (
    BindPlugin,
    NominatingPreBindPlugin,
    PendingPreBindPlugin,
    PostBindPlugin,
    PreBindPlugin,
    PreBindPreFlightPlugin,
)
from holdfast.framework.events import ClusterEvent, QueueingStrategy
from holdfast.framework.fast_paths import (
    CountReasonsPlugin,
    EventKeysPlugin,
    FilterAndScoreRowPlugin,
    FilterRowPlugin,
    NormalizeByRangePlugin,
    OutsideSpecKeyPlugin,
    PrepareFilterPlugin,
    PreparePlugin,
    PreparePostFilterPlugin,
    ReasonGroupsPlugin,
    ScoreTablePlugin,
    TierRowsPlugin,
)
from holdfast.framework.preemption_support import (
    DependsOnPodsPlugin,
    FilterEachPlugin,
    PodLimit,
    PodLimits,
    PodLimitsInSetsPlugin,
    PodLimitsPlugin,
    PreemptBeforeNextTierPlugin,
    PreemptionRulesPlugin,
    RequiredResourcesPlugin,
    RowSetsPlugin,
)
from holdfast.framework.traits import Plugin, Scope, Traits, implements
from holdfast.framework.values import (
    END_TURN,
    MERGE_PATCH,
    NO_CHANGE,
    AnyRows,
    ApiCall,
    ApiCalls,
    Candidate,
    Code,
    Placement,
    PodChange,
    PostFilterResult,
    PreBindCalls,
    PreFilterResult,
    PreFilterState,
    RawScores,
    Reject,
    RequiredResources,
    Rows,
    Skip,
    State,
    Verdicts,
    Wait,
    finite_time,
)

if TYPE_CHECKING:
    from holdfast.columns.pod_info import PodInfo
    from holdfast.framework.rejection import Rejection
    from holdfast.framework.view import View
    from holdfast.framework.waiting_pods import WaitingPods


class PreEnqueuePlugin(Plugin, Protocol):
    """Keep a pod out of the active queue until something about it changes."""

    def pre_enqueue(self, pod: PodInfo, view: View) -> Reject | None:
        """Return why the pod must not be queued yet, or None."""
        ...


class PreFilterPlugin(Plugin, Protocol):
    """Look at the pod once, before any node."""

    def pre_filter(
        self, pod: PodInfo, view: View
    ) -> State | Skip | Reject | PreFilterResult | PreFilterState:
        """Return the plugin's state for the pod, passed to its other methods.

        Skip and Reject end the plugin's part; PreFilterResult restricts the rows; PreFilterState is
        a state that filters only, scores only or is cached differently.
        Unless the scope is CLUSTER the state is shared by all pods with the same ``reads``: it may
        hold arrays of the columns, but neither the view nor anything of this pod alone.
        """
        ...


class FilterPlugin(Plugin, Protocol):
    """Reject nodes."""

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return everything of the pod that filter and score depend on: the cache key."""
        ...

    def filter(self, state: State, rows: Rows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Return 0, 1 or 2 per row (see Code).

        DOMAIN and CLUSTER plugins may also return 4 (ERROR): it fails the whole attempt.
        """
        ...

    def reasons(self, state: State, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return why the row is rejected; called only when a message is written."""
        ...


class RetryAtPlugin(Plugin, Protocol):
    """A filter whose verdicts change with time: the pod is tried again then, without an event.

    What the time decides, as ``view.now`` gives it, is part of ``reads``, say as a bool; so the
    plugin needs the trait ``reads_outside_spec``, or the scope CLUSTER.
    """

    def retry_at(self, state: State, pod: PodInfo, rows: Rows) -> float | None:
        """Return the earliest time at which the verdict of a row may change without an event.

        ``rows`` are rows that this plugin rejects. The time is after ``view.now``, in seconds since
        the epoch; None: time changes nothing.
        """
        ...


class ConditionReasonPlugin(Plugin, Protocol):
    """Give the PodScheduled condition another reason than Unschedulable, say for autoscalers."""

    def condition_reason(self, state: State, rows: Rows) -> str:
        """Return the reason for a pod that this plugin rejects on all nodes; "" for none.

        Other plugins may reject some nodes too. An event of that reason is recorded as well.
        ``rows`` are those of all nodes.
        """
        ...


class ExplainPlugin(FilterPlugin, Protocol):
    """Explain rejections in more detail than reasons can, for ``holdfast why`` and ``explain``."""

    def explain(self, state: State, rows: Rows) -> Mapping[str, Any]:
        """Return JSON data about rows that the plugin rejects; it may take a second for all."""
        ...


class PostFilterPlugin(Plugin, Protocol):
    """Try to make a pod schedulable that fits on no node."""

    def post_filter(
        self, state: State | None, rejection: Rejection, view: View
    ) -> PostFilterResult:
        """Return what the scheduler is to do; the message becomes part of the pod's condition."""
        ...


class QueueingHintPlugin(Plugin, Protocol):
    """Select the events that may make a pod schedulable that this plugin rejected.

    It is called for the events in ``Traits.events_to_register``. For a plugin without this method
    every event requeues the pod.
    """

    def queueing_hint(
        self, event: ClusterEvent, pod: PodInfo, view: View
    ) -> bool | QueueingStrategy:
        """Return whether ``event`` may make ``pod`` schedulable, so that it is tried again.

        True skips backoff if the plugin returned PENDING; a QueueingStrategy decides itself.
        """
        ...


class PreScorePlugin(Plugin, Protocol):
    """Look at the feasible rows once before scoring.

    A plugin of scope CLUSTER may have this without ``score``; it is called if there are two or more
    feasible rows, and may keep them in the state for Reserve.
    """

    def pre_score(self, state: State, feasible: Rows) -> Skip | Reject | None:
        """Prepare to score these rows; Skip leaves this plugin out of the weighted sum."""
        ...


class ScorePlugin(Plugin, Protocol):
    """Prefer some nodes."""

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return everything of the pod that filter and score depend on: the cache key."""
        ...

    def score(self, state: State, rows: Rows) -> RawScores:
        """Return the raw score of each row; whole numbers, exact in float64."""
        ...


class NormalizeScorePlugin(Plugin, Protocol):
    """Bring the raw scores of the feasible rows into 0..100."""

    def normalize_score(self, state: State, rows: Rows, raw: RawScores) -> RawScores:
        """Return the scores of ``rows``, which are all feasible rows, in 0..100."""
        ...


class TierPlugin(Plugin, Protocol):
    """Divide nodes into strict tiers: the lowest tier wins whatever the scores are."""

    def tier(self, state: State, rows: Rows) -> NDArray[np.int32]:
        """Return the tier of each row; only rows of the lowest feasible tier are compared."""
        ...


class ReservePlugin(Plugin, Protocol):
    """Reserve resources for a placed pod in the ledgers; in memory, without waiting."""

    def reserve(self, state: State, placement: Placement) -> Reject | None:
        """Reserve; after a Reject every plugin's ``unreserve`` is called in reverse order."""
        ...

    def unreserve(self, state: State, placement: Placement) -> None:
        """Undo ``reserve``; must be idempotent and must not fail."""
        ...


class PermitPlugin(Plugin, Protocol):
    """Approve, delay or reject a placed pod before it is bound."""

    def permit(
        self, state: State, placement: Placement, waiting: WaitingPods
    ) -> Wait | Reject | None:
        """Return None to approve; after Wait the pod keeps its resources until it is allowed.

        ``waiting`` holds all waiting pods, so a plugin can allow or reject them when it is called
        for another pod. A pod waits 15 minutes at most.
        """
        ...


def is_registered_for(plugin: Plugin, event: ClusterEvent) -> bool:
    """Return whether an event may requeue pods that the plugin rejected.

    True for every event if the plugin has no ``queueing_hint``.
    """
    return not implements(plugin, QueueingHintPlugin) or plugin.traits.registers(event)


def runs_for(plugin: Plugin, placement: Placement) -> bool:
    """Return whether a plugin's later points run for a placement.

    They do if its ``pre_filter`` returned a state for the pod, or if it has no ``pre_filter``.
    """
    return plugin.name in placement.states or not implements(plugin, PreFilterPlugin)


__all__ = [
    "END_TURN",
    "MERGE_PATCH",
    "NO_CHANGE",
    "AnyRows",
    "ApiCall",
    "ApiCalls",
    "BindPlugin",
    "Candidate",
    "ClusterEvent",
    "Code",
    "ConditionReasonPlugin",
    "CountReasonsPlugin",
    "DependsOnPodsPlugin",
    "EventKeysPlugin",
    "ExplainPlugin",
    "FilterAndScoreRowPlugin",
    "FilterEachPlugin",
    "FilterPlugin",
    "FilterRowPlugin",
    "NominatingPreBindPlugin",
    "NormalizeByRangePlugin",
    "NormalizeScorePlugin",
    "OutsideSpecKeyPlugin",
    "PendingPreBindPlugin",
    "PermitPlugin",
    "Placement",
    "Plugin",
    "PodChange",
    "PodLimit",
    "PodLimits",
    "PodLimitsInSetsPlugin",
    "PodLimitsPlugin",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PostFilterResult",
    "PreBindCalls",
    "PreBindPlugin",
    "PreBindPreFlightPlugin",
    "PreEnqueuePlugin",
    "PreFilterPlugin",
    "PreFilterResult",
    "PreFilterState",
    "PreScorePlugin",
    "PreemptBeforeNextTierPlugin",
    "PreemptionRulesPlugin",
    "PrepareFilterPlugin",
    "PreparePlugin",
    "PreparePostFilterPlugin",
    "QueueingHintPlugin",
    "QueueingStrategy",
    "RawScores",
    "ReasonGroupsPlugin",
    "Reject",
    "RequiredResources",
    "RequiredResourcesPlugin",
    "ReservePlugin",
    "RetryAtPlugin",
    "RowSetsPlugin",
    "Rows",
    "Scope",
    "ScorePlugin",
    "ScoreTablePlugin",
    "Skip",
    "State",
    "TierPlugin",
    "TierRowsPlugin",
    "Traits",
    "Verdicts",
    "Wait",
    "finite_time",
    "implements",
    "is_registered_for",
    "runs_for",
]  # fmt: skip

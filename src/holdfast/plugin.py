"""The public names for authors of scheduler plugins; docs/plugins.md shows how to use them.

::

    from holdfast.plugin import PerNodePlugin

    class AvoidCrowds(PerNodePlugin):
        name = "AvoidCrowds"

        def fits(self, pod, node):
            return "node(s) were full of pods" if len(node.pods) > 50 else None
"""

from holdfast.scheduling.framework.per_node import NodeInfo, PerNodePlugin
from holdfast.scheduling.framework.plugin import (
    END_TURN,
    MERGE_PATCH,
    NO_CHANGE,
    ActionType,
    AnyRows,
    ApiCall,
    ApiCalls,
    Candidate,
    ClusterEvent,
    Code,
    Epoch,
    EventResource,
    NodeFilter,
    NodeScorer,
    Placement,
    Plugin,
    PodChange,
    PodLimit,
    PodLimits,
    PodPlan,
    PostFilterResult,
    PreBindCalls,
    PreemptionRules,
    QueueingStrategy,
    RawScores,
    Reject,
    RequiredResources,
    Reserver,
    Rows,
    Scope,
    Skip,
    Tiers,
    Traits,
    Verdicts,
    Wait,
)
from holdfast.scheduling.framework.rejection import ConditionReason, Rejection
from holdfast.scheduling.framework.reservation_options import ReservationFilter
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.waiting_pods import WaitingPod, WaitingPods
from holdfast.scheduling.framework.world import World
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo

__all__ = [
    "END_TURN",
    "MERGE_PATCH",
    "NO_CHANGE",
    "ActionType",
    "AnyRows",
    "ApiCall",
    "ApiCalls",
    "Candidate",
    "ClusterEvent",
    "Code",
    "ConditionReason",
    "Epoch",
    "EventResource",
    "NodeFilter",
    "NodeInfo",
    "NodeScorer",
    "NodeTable",
    "PerNodePlugin",
    "Placement",
    "Plugin",
    "PodChange",
    "PodInfo",
    "PodLimit",
    "PodLimits",
    "PodPlan",
    "PostFilterResult",
    "PreBindCalls",
    "PreemptionRules",
    "QueueingStrategy",
    "RawScores",
    "Reject",
    "Rejection",
    "RequiredResources",
    "ReservationFilter",
    "Reserver",
    "Rows",
    "Scope",
    "Skip",
    "Tiers",
    "Traits",
    "Verdicts",
    "View",
    "Wait",
    "WaitingPod",
    "WaitingPods",
    "World",
]

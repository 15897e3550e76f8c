"""NodeDeclaredFeatures: the node must declare the kubelet features a pod needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.api.pod import Pod
from holdfast.scheduling.framework.events import ActionType, EventResource
from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ClusterEvent,
    Code,
    NodeFilter,
    Plugin,
    PodChange,
    Scope,
    Skip,
    Traits,
    Verdicts,
)
from holdfast.scheduling.framework.view import View
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo

RESTART_ALL = "RestartAllContainersOnContainerExits"
HOST_NETWORK_USERS = "UserNamespacesHostNetworkSupport"


@dataclass(frozen=True, slots=True)
class NodesWithFeatures(NodeFilter):
    """Reject nodes that lack a needed feature."""

    nodes: NodeTable
    needed: frozenset[str]

    reason = "node(s) didn't match Pod's required features"

    def filter(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject nodes without a needed feature as unresolvable."""
        verdict_of = [
            Code.PASS if self.needed <= known else Code.UNRESOLVABLE
            for known in self.nodes.feature_sets
        ]
        return np.array(verdict_of, np.int8)[self.nodes.feature_set[rows]]


class NodeDeclaredFeatures(Plugin):
    """Filter nodes that lack a feature the pod needs."""

    name = "NodeDeclaredFeatures"
    traits = Traits(
        scope=Scope.NODE,
        events_to_register={
            EventResource.NODE: (ActionType.ADD, ActionType.UPDATE_NODE_DECLARED_FEATURE),
            EventResource.UNSCHEDULABLE_POD: (),
        },
        ignores_requests=True,
        accepts_slices=True,
    )
    plan_classes = (NodesWithFeatures,)

    def reads(self, pod: PodInfo, view: View) -> frozenset[str]:
        """Return the features the pod needs."""
        return needed_features(pod.pod)

    def pre_filter(self, pod: PodInfo, view: View) -> NodesWithFeatures | Skip:
        """Skip a pod that needs no feature."""
        needed = needed_features(pod.pod)
        return NodesWithFeatures(view.nodes, needed) if needed else Skip()

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Requeue if a node declares other features, or the pod needs others."""
        if event.resource == EventResource.NODE:
            old, new = event.old, event.new
            if new is None or event.action not in (
                ActionType.ADD,
                ActionType.UPDATE_NODE_DECLARED_FEATURE,
            ):
                return False
            return old is None or old.status.declared_features != new.status.declared_features
        if event.is_for_pod(pod) and event.old is not None:
            return needed_features(event.old) != needed_features(event.new)
        return False


def needed_features(pod: Pod) -> frozenset[str]:
    """Return the features the pod's spec needs that not every kubelet has."""
    needed = []
    rules = (
        rule
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        for rule in container.restart_policy_rules
    )
    if any(rule.action == "RestartAllContainers" for rule in rules):
        needed.append(RESTART_ALL)
    if pod.spec.host_network and pod.spec.host_users is False:
        needed.append(HOST_NETWORK_USERS)
    return frozenset(needed)

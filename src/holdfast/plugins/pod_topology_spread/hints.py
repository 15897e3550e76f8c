"""Which events may make a pod schedulable that was rejected by a spread constraint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.columns.pod_info import PodInfo
from holdfast.framework.events import ActionType, EventResource
from holdfast.framework.plugin import ClusterEvent
from holdfast.plugins.pod_topology_spread.constraints import Constraint

NODE_ACTIONS = (
    ActionType.ADD,
    ActionType.DELETE,
    ActionType.UPDATE_NODE_LABEL,
    ActionType.UPDATE_NODE_TAINT,
)
POD_ACTIONS = (
    ActionType.ADD,
    ActionType.DELETE,
    ActionType.UPDATE_POD_LABEL,
    ActionType.UPDATE_POD_TOLERATION,
)
Hard = Sequence[Constraint]


def may_help(event: ClusterEvent, pod: PodInfo) -> bool:
    """Return whether an event may help the pod, whatever its constraints: those are costly."""
    if event.resource == EventResource.NODE:
        return event.action in NODE_ACTIONS
    if not event.is_pod_event or event.action not in POD_ACTIONS:
        return False
    return all(_concerns(other, pod) for other in (event.old, event.new) if other is not None)


def event_helps(event: ClusterEvent, pod: PodInfo, hard: Hard) -> bool:
    """Return whether to requeue a pod that this plugin rejected, if the event may help it."""
    if event.resource == EventResource.NODE:
        return _node_matters(event.old, event.new, hard)
    pods = [other for other in (event.old, event.new) if other is not None]
    if len(pods) == 2:
        return _pod_changed(event, pod, hard)
    return any(c.selector.matches(p.metadata.labels) for c in hard for p in pods)


def _concerns(other: Pod, pod: PodInfo) -> bool:
    if other.uid == pod.pod.uid:
        return True
    assigned = bool(other.spec.node_name or other.status.nominated_node_name)
    return assigned and other.metadata.namespace == pod.namespace


def _pod_changed(event: ClusterEvent, pod: PodInfo, hard: Hard) -> bool:
    old, new = event.old, event.new
    tolerates = event.is_for_pod(pod) and old.spec.tolerations != new.spec.tolerations
    if tolerates and any(c.honor_taints for c in hard):
        return True
    before, after = old.metadata.labels, new.metadata.labels
    return any(c.selector.matches(before) != c.selector.matches(after) for c in hard)


def _node_matters(old: Node | None, new: Node | None, hard: Hard) -> bool:
    keys = {c.key for c in hard}
    was, is_ = _has(old, keys), _has(new, keys)
    if old is None or new is None:
        return was or is_
    if was != is_:
        return True
    before: Mapping[str, str] = old.metadata.labels
    moved = any(before.get(key) != new.metadata.labels.get(key) for key in keys)
    return is_ and (moved or old.spec.taints != new.spec.taints)


def _has(node: Node | None, keys: set[str]) -> bool:
    return node is not None and keys <= node.metadata.labels.keys()

"""Which events may make a pod schedulable that was rejected by pod affinity."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.columns.affinity_terms import AffinityTerm, AffinityTerms, read_affinity_terms
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.framework.plugin import ClusterEvent


def event_helps(event: ClusterEvent, pod: PodInfo, nodes: NodeTable) -> bool:
    """Return whether to requeue a pod that this plugin rejected."""
    if event.resource == "Node":
        relevant = event.action in ("Add", "UpdateNodeLabel")
        return relevant and _node_helps(pod.affinity_terms, event.old, event.new)
    if not event.is_pod_event or event.action not in ("Add", "UpdatePodLabel", "Delete"):
        return False
    if event.old is not None and event.is_for_pod(pod):
        return True
    there = [p for p in (event.old, event.new) if p is not None]
    if any(not (p.spec.node_name or p.status.nominated_node_name) for p in there):
        return False
    return _pod_helps(pod, event.old, event.new, nodes)


def _pod_helps(pod: PodInfo, old: Pod | None, new: Pod | None, nodes: NodeTable) -> bool:
    terms = pod.affinity_terms

    def satisfies_affinity(other: Pod) -> bool:
        return _all_match(terms.required_affinity, other, nodes)

    def violates_anti_affinity(other: Pod) -> bool:
        return _all_match(terms.required_anti_affinity, other, nodes)

    if old is not None and new is not None:
        return (not satisfies_affinity(old) and satisfies_affinity(new)) or (
            violates_anti_affinity(old) and not violates_anti_affinity(new)
        )
    if new is not None:
        return satisfies_affinity(new)
    if old is None:
        return False
    theirs = read_affinity_terms(old.spec.affinity, old.metadata.namespace).required_anti_affinity
    return violates_anti_affinity(old) or _all_match(theirs, pod.pod, nodes)


def _all_match(terms: Sequence[AffinityTerm], pod: Pod, nodes: NodeTable) -> bool:
    """Return whether every term matches the pod; False without terms."""
    meta = pod.metadata
    namespace_labels = nodes.namespaces.get(meta.namespace, {})
    return bool(terms) and all(
        term.pod_selector.matches(meta.namespace, namespace_labels, meta.labels) for term in terms
    )


def _node_helps(terms: AffinityTerms, old: Node | None, new: Node | None) -> bool:
    if new is None:
        return False
    after = new.metadata.labels
    if old is None:
        return bool(terms.required_anti_affinity) or any(
            term.topology_key in after for term in terms.required_affinity
        )
    before = old.metadata.labels
    moved = {
        term.topology_key
        for term in (*terms.required_affinity, *terms.required_anti_affinity)
        if term.topology_key in before
        and term.topology_key in after
        and before[term.topology_key] != after[term.topology_key]
    }
    added = any(
        term.topology_key not in before and term.topology_key in after
        for term in terms.required_affinity
    )
    removed = any(
        term.topology_key in before and term.topology_key not in after
        for term in terms.required_anti_affinity
    )
    return bool(moved) or added or removed

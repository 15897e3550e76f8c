"""Which news may let a pod in that its neighbours, or their absence, kept out."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.columns.affinity_terms import AffinityTerm, AffinityTerms, read_affinity_terms
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.framework.plugin import ClusterEvent


def event_helps(event: ClusterEvent, pod: PodInfo, nodes: NodeTable) -> bool:
    """Tell whether a pod this plugin rejected should be looked at again."""
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

    def wanted(other: Pod) -> bool:
        return _all_mean(terms.required_affinity, other, nodes)

    def unwanted(other: Pod) -> bool:
        return _all_mean(terms.required_anti_affinity, other, nodes)

    if old is not None and new is not None:
        return (not wanted(old) and wanted(new)) or (unwanted(old) and not unwanted(new))
    if new is not None:
        return wanted(new)
    if old is None:
        return False
    theirs = read_affinity_terms(old.spec.affinity, old.metadata.namespace).required_anti_affinity
    return unwanted(old) or _all_mean(theirs, pod.pod, nodes)


def _all_mean(terms: Sequence[AffinityTerm], pod: Pod, nodes: NodeTable) -> bool:
    """Tell whether every term means the pod; no terms mean nobody."""
    meta = pod.metadata
    its = nodes.namespaces.get(meta.namespace, {})
    return bool(terms) and all(
        term.pod_selector.matches(meta.namespace, its, meta.labels) for term in terms
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
    came = any(
        term.topology_key not in before and term.topology_key in after
        for term in terms.required_affinity
    )
    went = any(
        term.topology_key in before and term.topology_key not in after
        for term in terms.required_anti_affinity
    )
    return bool(moved) or came or went

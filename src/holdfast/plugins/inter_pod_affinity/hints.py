"""Which events may make a pod schedulable that was rejected by pod affinity."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.columns.affinity_terms import AffinityTerm, read_affinity_terms
from holdfast.columns.pod_info import PodInfo
from holdfast.framework.events import ActionType, EventResource
from holdfast.framework.plugin import ClusterEvent
from holdfast.framework.view import View
from holdfast.plugins.inter_pod_affinity.terms import (
    existing_anti_affinity_keys,
    no_pod_matches_affinity,
    own_terms,
)


def event_helps(event: ClusterEvent, pod: PodInfo, view: View) -> bool:
    """Return whether to requeue a pod that this plugin rejected."""
    if event.resource == EventResource.NODE:
        relevant = event.action in (ActionType.ADD, ActionType.UPDATE_NODE_LABEL)
        return relevant and _node_helps(view, event.old, event.new)
    if not event.is_pod_event or event.action not in (
        ActionType.ADD,
        ActionType.UPDATE_POD_LABEL,
        ActionType.DELETE,
    ):
        return False
    if event.old is not None and event.is_for_pod(pod):
        return True
    there = [p for p in (event.old, event.new) if p is not None]
    if any(not (p.spec.node_name or p.status.nominated_node_name) for p in there):
        return False
    return _pod_helps(view, event.old, event.new)


def _pod_helps(view: View, old: Pod | None, new: Pod | None) -> bool:
    """Return whether another pod now matches the affinity terms, or no longer blocks a domain.

    One pod has to match all affinity terms; each anti-affinity term blocks its domain alone.
    """
    terms = own_terms(view.pod.affinity_terms)
    matched, matches = (_all_match(terms.required_affinity, p, view) for p in (old, new))
    if matched != matches:
        return matches or no_pod_matches_affinity(view)
    blocked, blocks = (_matching(terms.required_anti_affinity, p, view) for p in (old, new))
    if blocked - blocks:
        return True
    if old is None or new is not None:
        return False
    theirs = read_affinity_terms(old.spec.affinity, old.metadata.namespace).required_anti_affinity
    return bool(_matching(theirs, view.pod.pod, view))


def _all_match(terms: Sequence[AffinityTerm], pod: Pod | None, view: View) -> bool:
    """Return whether every term matches the pod; False without terms or pod."""
    return pod is not None and bool(terms) and len(_matching(terms, pod, view)) == len(set(terms))


def _matching(terms: Sequence[AffinityTerm], pod: Pod | None, view: View) -> set[AffinityTerm]:
    """Return the terms that match a pod; none without it."""
    if pod is None:
        return set()
    meta = pod.metadata
    namespace_labels = view.nodes.namespaces.get(meta.namespace, {})
    return {
        term
        for term in terms
        if term.pod_selector.matches(meta.namespace, namespace_labels, meta.labels)
    }


def _node_helps(view: View, old: Node | None, new: Node | None) -> bool:
    if new is None:
        return False
    terms = view.pod.affinity_terms
    affinity = {term.topology_key for term in terms.required_affinity}
    anti_affinity = {term.topology_key for term in terms.required_anti_affinity}
    after = new.metadata.labels
    if old is None:
        # A pod without terms was rejected by those of existing pods.
        return bool(anti_affinity) or not affinity or any(key in after for key in affinity)
    before = old.metadata.labels
    anti_affinity |= existing_anti_affinity_keys(view)
    return (
        any(
            before[key] != after[key]
            for key in affinity | anti_affinity
            if key in before and key in after
        )
        or any(key not in before and key in after for key in affinity)
        or any(key in before and key not in after for key in anti_affinity)
    )

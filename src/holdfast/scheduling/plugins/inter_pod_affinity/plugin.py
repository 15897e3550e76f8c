"""The plugin: read the terms of pods, find what they count, and which events may help a pod.

Users determine the cost of this plugin: a pod with 64 new terms is matched against all groups of
pods, which takes 0.5 to 1 s with 20,000 pods; a new label key of a selector regroups all pods,
which takes 320 ms with 150,000. So both happen in steps before the cycle (``prepare``, decisions
0020 and 0031). The cycle then only looks up counters.

Queueing hints follow the filter term by term. A pod must match all affinity terms, but each
anti-affinity term rejects alone. When a hint required all of them to match, a pod whose blocker
matched one of two terms waited for the five-minute flush.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from holdfast.api.field_errors import invalid
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.scheduling.framework.arguments import Arguments, PluginArgs
from holdfast.scheduling.framework.events import ActionType, EventResource
from holdfast.scheduling.framework.plugin import (
    ClusterEvent,
    Code,
    Plugin,
    Reject,
    Rows,
    Scope,
    Skip,
    Traits,
)
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.plugins.inter_pod_affinity.affinity_rules import (
    AffinityRules,
    WeightedDomains,
)
from holdfast.scheduling.plugins.inter_pod_affinity.terms import (
    count_anti_affinity,
    count_required_affinity,
    count_term,
    counted_selectors,
    existing_anti_affinity_keys,
    matches_all,
    no_pod_matches_affinity,
    own_terms,
)
from holdfast.state.columns.affinity_terms import AffinityTerm, read_affinity_terms
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.existing_terms import TermRole
from holdfast.state.columns.hidden_reserve_pods import AnyDomains, AnyTerm
from holdfast.state.columns.node_labels import LabelColumn
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo

_MAX_WEIGHT = 100


class _Args(PluginArgs, frozen=True):
    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class InterPodAffinity(Plugin):
    """Place pods near to or away from other pods, as their terms say."""

    name = "InterPodAffinity"
    traits = Traits(
        scope=Scope.DOMAIN,
        epochs=(Epoch.COUNTERS, Epoch.EXISTING_TERMS, Epoch.NAMESPACES),
        events_to_register={
            EventResource.NODE: (ActionType.ADD, ActionType.UPDATE_NODE_LABEL),
            EventResource.ASSIGNED_POD: (
                ActionType.ADD,
                ActionType.UPDATE_POD_LABEL,
                ActionType.DELETE,
            ),
            EventResource.UNSCHEDULABLE_POD: (
                ActionType.ADD,
                ActionType.UPDATE_POD_LABEL,
                ActionType.DELETE,
            ),
        },
        ignores_requests=True,
        comparable_plans=True,
        accepts_slices=True,
        bounded_scores=True,
    )
    plan_classes = (AffinityRules,)

    def __init__(self, args: Mapping[str, Any]) -> None:
        wrong = Arguments(self.name)
        given = wrong.read(_Args, args)
        self._hard_weight = given.hard_pod_affinity_weight
        self._ignore = given.ignore_preferred_terms_of_existing_pods
        if not 0 <= self._hard_weight <= _MAX_WEIGHT:
            message = f"not in valid range [0, {_MAX_WEIGHT}]"
            wrong.append(invalid("hardPodAffinityWeight", self._hard_weight, message))
        wrong.refuse_if_wrong()

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return the terms, and the label group if an existing pod's term matches; else None."""
        if (
            not pod.affinity_terms
            and not pod.affinity_terms.mistakes
            and not view.nodes.existing_terms_for(pod)
        ):
            return None
        return (view.nodes.label_group_of(pod).id, pod.affinity_terms, view.hidden_pods)

    def prepare(self, pod: PodInfo, view: View, rows: Callable[[], Rows]) -> Iterator[None] | None:
        """Match new terms, also those of existing pods, against all pods in short steps."""
        nodes, terms = view.nodes, pod.affinity_terms
        if not terms and nodes.has_few_new_terms(pod):
            return None
        return chain(
            nodes.count_in_steps(terms, pod.namespace, partial(counted_selectors, terms)),
            nodes.match_existing_terms_in_steps(pod),
        )

    def pre_filter(self, pod: PodInfo, view: View) -> AffinityRules | Skip | Reject:
        """Find the counters; skip a pod without terms that no existing term matches."""
        if pod.affinity_terms.mistakes:
            return Reject(Code.UNRESOLVABLE, (f"parsing pod: {pod.affinity_terms.mistakes}",))
        nodes, terms = view.nodes, own_terms(pod.affinity_terms)
        # New selector keys regroup all pods: add them at once, and look up existing terms last.
        nodes.add_selector_keys(terms.label_keys)
        affinity = count_required_affinity(terms, view)
        anti_affinity = count_anti_affinity(terms, view)
        preferred = [(t.weight, t.topology_key, count_term(t, view)) for t in terms.preferred]
        existing = view.existing_terms_for()
        if terms.preferred or not self._ignore:
            preferred += [
                (weight, e.term.topology_key, e.domains)
                for e in existing
                if (weight := self._weight(e))
            ]
        existing_anti_affinity = tuple(
            e for e in existing if e.role is TermRole.REQUIRED_ANTI_AFFINITY
        )
        filters = bool(affinity or anti_affinity or existing_anti_affinity)
        if not filters and not preferred:
            return Skip()
        return AffinityRules(
            nodes=nodes,
            affinity=affinity,
            matches_own_terms=bool(affinity) and matches_all(nodes, affinity[0].pod_selectors, pod),
            anti_affinity=anti_affinity,
            existing_anti_affinity=existing_anti_affinity,
            preferred=_by_key(preferred, nodes),
            pod=pod,
            filters=filters,
            scores=bool(preferred),
        )

    def _weight(self, existing: AnyTerm) -> int:
        if existing.role is TermRole.PREFERRED:
            return existing.term.weight
        return self._hard_weight if existing.role is TermRole.REQUIRED_AFFINITY else 0

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Requeue when pods start or stop matching, or topology labels of nodes change."""
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


def _by_key(
    weighted: Iterable[tuple[int, str, AnyDomains]], nodes: NodeTable
) -> tuple[tuple[LabelColumn, tuple[WeightedDomains, ...]], ...]:
    sums_by_key: dict[str, dict[AnyDomains, int]] = {}
    for weight, key, domains in weighted:
        sums = sums_by_key.setdefault(key, {})
        sums[domains] = sums.get(domains, 0) + weight
    return tuple(
        (nodes.label_column(key), tuple((weight, domains) for domains, weight in sums.items()))
        for key, sums in sums_by_key.items()
    )


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

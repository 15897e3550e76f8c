"""A pod's terms as they apply to existing pods, and how many pods they match in each domain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from holdfast.api.labels import EVERYTHING
from holdfast.scheduling.framework.plugin import NO_CHANGE, PodChange
from holdfast.scheduling.framework.view import View
from holdfast.state.columns.affinity_terms import AffinityTerm, AffinityTerms
from holdfast.state.columns.counters import PodSelectors
from holdfast.state.columns.existing_terms import TermRole
from holdfast.state.columns.hidden_reserve_pods import AnyCount, AnyDomains
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo

_MAX_TERMS = 512


@dataclass(frozen=True, slots=True)
class AffinityCount:
    """Pods that match all ``pod_selectors``, per domain of one topology key."""

    pod_selectors: PodSelectors
    domains: AnyDomains

    def in_domain_of(self, nodes: NodeTable, row: int, change: PodChange) -> int:
        """Return how many there are in the row's domain after the change."""
        self.domains.refresh()
        here = self.domains.label.at[row]
        if here < 0:
            return 0
        count = self.domains.at(row)
        return count + self._moved(nodes, change, here) if change else count

    def in_any_domain(self, nodes: NodeTable, change: PodChange) -> int:
        """Return how many there are in all domains after the change."""
        self.domains.refresh()
        return self.domains.total + (self._moved(nodes, change, None) if change else 0)

    def _moved(self, nodes: NodeTable, change: PodChange, here: int | None) -> int:
        label = self.domains.label
        moved = 0
        for sign, side in ((1, change.added), (-1, change.removed)):
            for row, pods in side.items():
                there = label.at[row]
                if there >= 0 and here in (None, there):
                    moved += sign * sum(matches_all(nodes, self.pod_selectors, pod) for pod in pods)
        return moved


def matches_all(nodes: NodeTable, pod_selectors: PodSelectors, pod: PodInfo) -> bool:
    """Return whether a pod matches all selectors."""
    namespace_labels = nodes.namespaces.get(pod.namespace, {})
    return all(
        pod_selector.matches(pod.namespace, namespace_labels, pod.labels)
        for pod_selector in pod_selectors
    )


def no_pod_matches_affinity(view: View) -> bool:
    """Return whether the pod matches its own terms and no other pod does: it may go anywhere."""
    terms = own_terms(view.pod.affinity_terms)
    view.nodes.add_selector_keys(terms.label_keys)
    affinity = count_required_affinity(terms, view)
    if not affinity or not matches_all(view.nodes, affinity[0].pod_selectors, view.pod):
        return False
    return not any(counted.in_any_domain(view.nodes, NO_CHANGE) for counted in affinity)


def existing_anti_affinity_keys(view: View) -> set[str]:
    """Return the topology keys of existing pods' anti-affinity terms that match the pod."""
    return {
        existing.term.topology_key
        for existing in view.existing_terms_for()
        if existing.role is TermRole.REQUIRED_ANTI_AFFINITY
    }


@lru_cache(maxsize=_MAX_TERMS)
def own_terms(terms: AffinityTerms) -> AffinityTerms:
    """Return a pod's terms as they apply to existing pods.

    As in kube-scheduler, a namespace selector that matches a namespace without labels ("has no such
    label") matches every namespace.
    """
    if not any(_selects_all_namespaces(term) for group in _groups(terms) for term in group):
        return terms
    required_affinity, required_anti_affinity, preferred = (
        tuple(_in_all_namespaces(term) if _selects_all_namespaces(term) else term for term in group)
        for group in _groups(terms)
    )
    return replace(
        terms,
        required_affinity=required_affinity,
        required_anti_affinity=required_anti_affinity,
        preferred=preferred,
    )


def counted_selectors(terms: AffinityTerms) -> Iterator[PodSelectors]:
    """Yield the selectors of the counters that the plan for a pod with these terms has."""
    terms = own_terms(terms)
    if terms.required_affinity:
        yield _all_selectors(terms)
    for term in (*terms.required_anti_affinity, *terms.preferred):
        yield (term.pod_selector,)


def _all_selectors(terms: AffinityTerms) -> PodSelectors:
    return tuple(dict.fromkeys(term.pod_selector for term in terms.required_affinity))


def _groups(terms: AffinityTerms) -> tuple[tuple[AffinityTerm, ...], ...]:
    return terms.required_affinity, terms.required_anti_affinity, terms.preferred


def _selects_all_namespaces(term: AffinityTerm) -> bool:
    selector = term.pod_selector.namespace_selector
    return not selector.everything and selector.matches({})


def _in_all_namespaces(term: AffinityTerm) -> AffinityTerm:
    return replace(term, pod_selector=replace(term.pod_selector, namespace_selector=EVERYTHING))


def count_required_affinity(terms: AffinityTerms, view: View) -> tuple[AffinityCount, ...]:
    """Count the pods that match all required affinity terms, for each topology key."""
    if not terms.required_affinity:
        return ()
    pod_selectors = _all_selectors(terms)
    keys = dict.fromkeys(term.topology_key for term in terms.required_affinity)
    counter = view.count(pod_selectors)
    return tuple(AffinityCount(pod_selectors, _by_domain(view, counter, key)) for key in keys)


def count_anti_affinity(terms: AffinityTerms, view: View) -> tuple[AffinityCount, ...]:
    """Count the pods that match each required anti-affinity term."""
    return tuple(
        AffinityCount((term.pod_selector,), count_term(term, view))
        for term in dict.fromkeys(terms.required_anti_affinity)
    )


def count_term(term: AffinityTerm, view: View) -> AnyDomains:
    """Count the pods that match a term, per domain."""
    return _by_domain(view, view.count((term.pod_selector,)), term.topology_key)


def _by_domain(view: View, counter: AnyCount, key: str) -> AnyDomains:
    nodes = view.nodes
    return counter.by_domain(
        key, None, nodes.label_column(key), None, nodes.node_journal, live=False
    )

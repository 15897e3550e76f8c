"""The state of a class of pods: its terms with their counters, and existing pods' terms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

from holdfast.api.labels import EVERYTHING
from holdfast.columns.affinity_terms import AffinityTerm, AffinityTerms
from holdfast.columns.counters import PodSelectors
from holdfast.columns.existing_terms import TermRole
from holdfast.columns.hidden_reserve_pods import AnyCount, AnyDomains, AnyTerm
from holdfast.columns.node_labels import LabelColumn
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.framework.plugin import NO_CHANGE, PodChange
from holdfast.framework.view import View

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
        found = self.domains.at(row)
        return found + self._moved(nodes, change, here) if change else found

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


WeightedDomains = tuple[int, AnyDomains]


@dataclass(frozen=True, slots=True)
class AffinityState:
    """Everything the plugin needs for a class of pods.

    ``affinity`` has one entry for each topology key, counting pods that match all required terms.
    ``matches_own_terms``: the pod matches its own terms, so the first such pod may go anywhere.
    ``existing_anti_affinity`` are existing pods' terms that match this pod. ``preferred`` are
    weighted counts by topology label.

    ``pod`` is only used to match the terms of pods in a PodChange. Their selector keys must be
    added before, because pods of a class may differ in other labels.
    """

    nodes: NodeTable
    affinity: tuple[AffinityCount, ...] = ()
    matches_own_terms: bool = False
    anti_affinity: tuple[AffinityCount, ...] = ()
    existing_anti_affinity: tuple[AnyTerm, ...] = ()
    preferred: tuple[tuple[LabelColumn, tuple[WeightedDomains, ...]], ...] = ()
    pod: PodInfo | None = field(default=None, compare=False)

    @property
    def filters(self) -> bool:
        """Whether any node can be rejected."""
        return bool(self.affinity or self.anti_affinity or self.existing_anti_affinity)

    def violates_existing_at(self, row: int, change: PodChange) -> bool:
        """Return whether a pod in the row's domains has anti-affinity to this one.

        Terms of added pods count only if some other term does: upstream's PreFilter skips the
        plugin for a pod without terms if the terms of existing pods are in no domain.
        """
        any_counts = bool(self.affinity or self.anti_affinity)
        for existing in self.existing_anti_affinity:
            existing.domains.refresh()
            here = existing.domains.at(row)
            if here and here > self._removed_by(existing, row, change):
                return True
            any_counts = any_counts or existing.domains.total > 0
        return any_counts and self._violated_by_added(row, change)

    def _removed_by(self, existing: AnyTerm, row: int, change: PodChange) -> int:
        """Return how many pods with the term the change removes from the row's domain."""
        label = existing.domains.label
        return sum(
            pod.affinity_terms.required_anti_affinity.count(existing.term)
            for other, pods in change.removed.items()
            if label.at[other] == label.at[row]
            for pod in pods
        )

    def _violated_by_added(self, row: int, change: PodChange) -> bool:
        for other, pods in change.added.items():
            for pod in pods:
                for term in pod.affinity_terms.required_anti_affinity:
                    label = self.nodes.label_column(term.topology_key)
                    here = label.at[row]
                    if here >= 0 and here == label.at[other] and self.is_matched_by(term):
                        return True
        return False

    def is_matched_by(self, term: AffinityTerm) -> bool:
        """Return whether a term matches the pod."""
        assert self.pod is not None
        return matches_all(self.nodes, (term.pod_selector,), self.pod)


def affinity_state(
    view: View, hard_weight: int, *, ignore_existing_preferred: bool
) -> AffinityState:
    """Find the counters of a pod's terms and the existing pods' terms that match it."""
    pod, nodes = view.pod, view.nodes
    terms = own_terms(pod.affinity_terms)
    # New selector keys regroup all pods: add them at once, and look up existing terms last.
    nodes.add_selector_keys(terms.label_keys)
    affinity, anti_affinity = (
        _affinity(terms, view),
        tuple(_anti_affinity(terms.required_anti_affinity, view)),
    )
    own = [
        (t.weight, t.topology_key, _count(view, (t.pod_selector,), t.topology_key))
        for t in terms.preferred
    ]
    existing = view.existing_terms_for()
    if not (ignore_existing_preferred and not terms.preferred):
        own += [
            (w, e.term.topology_key, e.domains) for e in existing if (w := _weight(e, hard_weight))
        ]
    return AffinityState(
        nodes=nodes,
        affinity=affinity,
        matches_own_terms=bool(affinity) and matches_all(nodes, affinity[0].pod_selectors, pod),
        anti_affinity=anti_affinity,
        existing_anti_affinity=tuple(
            e for e in existing if e.role is TermRole.REQUIRED_ANTI_AFFINITY
        ),
        preferred=_by_key(own, nodes),
        pod=pod,
    )


def no_pod_matches_affinity(view: View) -> bool:
    """Return whether the pod matches its own terms and no other pod does: it may go anywhere."""
    terms = own_terms(view.pod.affinity_terms)
    view.nodes.add_selector_keys(terms.label_keys)
    affinity = _affinity(terms, view)
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
    """Yield the selectors of the counters that the state of a class with these terms has."""
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


def _affinity(terms: AffinityTerms, view: View) -> tuple[AffinityCount, ...]:
    if not terms.required_affinity:
        return ()
    pod_selectors = _all_selectors(terms)
    keys = dict.fromkeys(term.topology_key for term in terms.required_affinity)
    counter = view.count(pod_selectors)
    return tuple(AffinityCount(pod_selectors, _by_domain(view, counter, key)) for key in keys)


def _anti_affinity(terms: Iterable[AffinityTerm], view: View) -> Iterable[AffinityCount]:
    for term in dict.fromkeys(terms):
        yield AffinityCount(
            (term.pod_selector,), _count(view, (term.pod_selector,), term.topology_key)
        )


def _count(view: View, pod_selectors: PodSelectors, key: str) -> AnyDomains:
    return _by_domain(view, view.count(pod_selectors), key)


def _by_domain(view: View, counter: AnyCount, key: str) -> AnyDomains:
    nodes = view.nodes
    return counter.by_domain(
        key, None, nodes.label_column(key), None, nodes.node_journal, live=False
    )


def _weight(existing: AnyTerm, hard_weight: int) -> int:
    if existing.role is TermRole.PREFERRED:
        return existing.term.weight
    return hard_weight if existing.role is TermRole.REQUIRED_AFFINITY else 0


def _by_key(
    weighted: Iterable[tuple[int, str, AnyDomains]], nodes: NodeTable
) -> tuple[tuple[LabelColumn, tuple[WeightedDomains, ...]], ...]:
    found: dict[str, dict[AnyDomains, int]] = {}
    for weight, key, domains in weighted:
        sums = found.setdefault(key, {})
        sums[domains] = sums.get(domains, 0) + weight
    return tuple(
        (nodes.label_column(key), tuple((weight, domains) for domains, weight in sums.items()))
        for key, sums in found.items()
    )

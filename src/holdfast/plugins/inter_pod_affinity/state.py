"""What a class of pods needs to know: its own terms with counters, and who speaks of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from holdfast.api.labels import EVERYTHING
from holdfast.columns.affinity_terms import AffinityTerm, AffinityTerms, PodSelector
from holdfast.columns.existing_terms import TermRole
from holdfast.columns.node_labels import LabelColumn
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.unseen import AnyCount, AnyDomains, AnyTerm
from holdfast.framework.plugin import PodChange
from holdfast.framework.view import View

Choices = tuple[PodSelector, ...]


@dataclass(frozen=True, slots=True)
class AffinityCount:
    """Pods that all of ``choices`` mean, per domain of one topology key."""

    pod_selectors: Choices
    domains: AnyDomains

    def in_domain_of(self, nodes: NodeTable, row: int, change: PodChange) -> int:
        """How many there are in the row's domain, were the change to happen."""
        self.domains.refresh()
        here = self.domains.label.at[row]
        if here < 0:
            return 0
        found = self.domains.at(row)
        return found + self._moved(nodes, change, here) if change else found

    def in_any_domain(self, nodes: NodeTable, change: PodChange) -> int:
        """How many there are in any domain, were the change to happen."""
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


def matches_all(nodes: NodeTable, pod_selectors: Choices, pod: PodInfo) -> bool:
    """Tell whether all choices mean a pod."""
    its = nodes.namespaces.get(pod.namespace, {})
    return all(
        pod_selector.matches(pod.namespace, its, pod.labels) for pod_selector in pod_selectors
    )


Weighed = tuple[int, AnyDomains]


@dataclass(frozen=True, slots=True)
class AffinityState:
    """All that decides for a class of pods.

    ``near`` has one entry a topology key, counting pods that match every required term;
    ``self_sufficient``: the pod matches its own terms, so the first of its kind may go anywhere.
    ``shunned`` are held terms that forbid this pod. ``wishes`` are sums of weights per key.

    ``pod`` is asked only about pods of a hypothesis. Whoever puts one must make the labels their
    terms look at visible, for the pods of a class may differ in labels nobody looks at.
    """

    nodes: NodeTable
    affinity: tuple[AffinityCount, ...] = ()
    matches_own_terms: bool = False
    anti_affinity: tuple[AffinityCount, ...] = ()
    existing_anti_affinity: tuple[AnyTerm, ...] = ()
    preferred: tuple[tuple[LabelColumn, tuple[Weighed, ...]], ...] = ()
    pod: PodInfo | None = field(default=None, compare=False)

    @property
    def filters(self) -> bool:
        """Whether any node could be ruled out."""
        return bool(self.affinity or self.anti_affinity or self.existing_anti_affinity)

    def violates_existing_at(self, row: int, change: PodChange) -> bool:
        """Tell whether a pod around the row would not have this one near."""
        for held in self.existing_anti_affinity:
            held.domains.refresh()
            here = held.domains.at(row)
            if here and here > self._let_go(held, row, change):
                return True
        return self._hypothetically_shunned(row, change)

    def _let_go(self, held: AnyTerm, row: int, change: PodChange) -> int:
        """How many holders of the term in the row's domain the change takes away."""
        label = held.domains.label
        return sum(
            pod.affinity_terms.required_anti_affinity.count(held.term)
            for other, pods in change.removed.items()
            if label.at[other] == label.at[row]
            for pod in pods
        )

    def _hypothetically_shunned(self, row: int, change: PodChange) -> bool:
        for other, pods in change.added.items():
            for pod in pods:
                for term in pod.affinity_terms.required_anti_affinity:
                    label = self.nodes.label_column(term.topology_key)
                    here = label.at[row]
                    if here >= 0 and here == label.at[other] and self.is_matched_by(term):
                        return True
        return False

    def is_matched_by(self, term: AffinityTerm) -> bool:
        """Tell whether a term means the pod."""
        assert self.pod is not None
        return matches_all(self.nodes, (term.pod_selector,), self.pod)


def affinity_state(
    view: View, hard_weight: int, *, ignore_existing_preferred: bool
) -> AffinityState:
    """Find the counters behind a pod's terms and the held terms that speak of it."""
    pod, nodes = view.pod, view.nodes
    terms = _own(pod.affinity_terms)
    # Counting makes labels visible, after which the pod may be of another kind: held terms last.
    # All of them at once: each time, every pod is sorted into its kind anew.
    nodes.add_selector_keys(terms.label_keys)
    affinity, anti_affinity = (
        _affinity(terms, view),
        tuple(_anti_affinity(terms.required_anti_affinity, view)),
    )
    own = [
        (t.weight, t.topology_key, _count(view, (t.pod_selector,), t.topology_key))
        for t in terms.preferred
    ]
    held = view.existing_terms_for()
    if not (ignore_existing_preferred and not terms.preferred):
        own += [(w, h.term.topology_key, h.domains) for h in held if (w := _weight(h, hard_weight))]
    return AffinityState(
        nodes=nodes,
        affinity=affinity,
        matches_own_terms=bool(affinity) and matches_all(nodes, affinity[0].pod_selectors, pod),
        anti_affinity=anti_affinity,
        existing_anti_affinity=tuple(h for h in held if h.role is TermRole.REQUIRED_ANTI_AFFINITY),
        preferred=_by_key(own, nodes),
        pod=pod,
    )


def _own(terms: AffinityTerms) -> AffinityTerms:
    """A waiting pod's terms as they are held against pods that stand.

    The pods' namespaces are asked for their labels, and so is one without any: as upstream's, a
    namespace selector that such a one would match ("has no such label") reaches every namespace.
    """
    if not any(_reaches_all(term) for group in _groups(terms) for term in group):
        return terms
    required_affinity, required_anti_affinity, preferred = (
        tuple(_everywhere(term) if _reaches_all(term) else term for term in group)
        for group in _groups(terms)
    )
    return replace(
        terms,
        required_affinity=required_affinity,
        required_anti_affinity=required_anti_affinity,
        preferred=preferred,
    )


def _groups(terms: AffinityTerms) -> tuple[tuple[AffinityTerm, ...], ...]:
    return terms.required_affinity, terms.required_anti_affinity, terms.preferred


def _reaches_all(term: AffinityTerm) -> bool:
    selector = term.pod_selector.namespace_selector
    return not selector.everything and selector.matches({})


def _everywhere(term: AffinityTerm) -> AffinityTerm:
    return replace(term, pod_selector=replace(term.pod_selector, namespace_selector=EVERYTHING))


def _affinity(terms: AffinityTerms, view: View) -> tuple[AffinityCount, ...]:
    if not terms.required_affinity:
        return ()
    pod_selectors = tuple(dict.fromkeys(term.pod_selector for term in terms.required_affinity))
    keys = dict.fromkeys(term.topology_key for term in terms.required_affinity)
    counter = view.count(pod_selectors)
    return tuple(AffinityCount(pod_selectors, _by_domain(view, counter, key)) for key in keys)


def _anti_affinity(terms: Iterable[AffinityTerm], view: View) -> Iterable[AffinityCount]:
    for term in dict.fromkeys(terms):
        yield AffinityCount(
            (term.pod_selector,), _count(view, (term.pod_selector,), term.topology_key)
        )


def _count(view: View, pod_selectors: Choices, key: str) -> AnyDomains:
    return _by_domain(view, view.count(pod_selectors), key)


def _by_domain(view: View, counter: AnyCount, key: str) -> AnyDomains:
    nodes = view.nodes
    return counter.by_domain(
        key, None, nodes.label_column(key), None, nodes.node_journal, live=False
    )


def _weight(held: AnyTerm, hard_weight: int) -> int:
    if held.role is TermRole.PREFERRED:
        return held.term.weight
    return hard_weight if held.role is TermRole.REQUIRED_AFFINITY else 0


def _by_key(
    weighed: Iterable[tuple[int, str, AnyDomains]], nodes: NodeTable
) -> tuple[tuple[LabelColumn, tuple[Weighed, ...]], ...]:
    found: dict[str, dict[AnyDomains, int]] = {}
    for weight, key, domains in weighed:
        sums = found.setdefault(key, {})
        sums[domains] = sums.get(domains, 0) + weight
    return tuple(
        (nodes.label_column(key), tuple((weight, domains) for domains, weight in sums.items()))
        for key, sums in found.items()
    )

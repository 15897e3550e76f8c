"""What a class of pods needs to know: its own terms with counters, and who speaks of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from holdfast.api.labels import EVERYTHING
from holdfast.columns.held import TermRole
from holdfast.columns.node_labels import LabelColumn
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.terms import PodChoice, PodTerms, Term
from holdfast.columns.unseen import AnyCount, AnyDomains, AnyTerm
from holdfast.framework.plugin import PodChange
from holdfast.framework.view import View

Choices = tuple[PodChoice, ...]


@dataclass(frozen=True, slots=True)
class AffinityCount:
    """Pods that all of ``choices`` mean, per domain of one topology key."""

    choices: Choices
    domains: AnyDomains

    def around(self, nodes: NodeTable, row: int, change: PodChange) -> int:
        """How many there are in the row's domain, were the change to happen."""
        self.domains.refresh()
        here = self.domains.label.at[row]
        if here < 0:
            return 0
        found = self.domains.at(row)
        return found + self._moved(nodes, change, here) if change else found

    def anywhere(self, nodes: NodeTable, change: PodChange) -> int:
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
                    moved += sign * sum(means(nodes, self.choices, pod) for pod in pods)
        return moved


def means(nodes: NodeTable, choices: Choices, pod: PodInfo) -> bool:
    """Tell whether all choices mean a pod."""
    its = nodes.namespaces.get(pod.namespace, {})
    return all(choice.matches(pod.namespace, its, pod.labels) for choice in choices)


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
    near: tuple[AffinityCount, ...] = ()
    self_sufficient: bool = False
    far: tuple[AffinityCount, ...] = ()
    shunned: tuple[AnyTerm, ...] = ()
    wishes: tuple[tuple[LabelColumn, tuple[Weighed, ...]], ...] = ()
    pod: PodInfo | None = field(default=None, compare=False)

    @property
    def filters(self) -> bool:
        """Whether any node could be ruled out."""
        return bool(self.near or self.far or self.shunned)

    def shunned_at(self, row: int, change: PodChange) -> bool:
        """Tell whether a pod around the row would not have this one near."""
        for held in self.shunned:
            held.domains.refresh()
            here = held.domains.at(row)
            if here and here > self._let_go(held, row, change):
                return True
        return self._hypothetically_shunned(row, change)

    def _let_go(self, held: AnyTerm, row: int, change: PodChange) -> int:
        """How many holders of the term in the row's domain the change takes away."""
        label = held.domains.label
        return sum(
            pod.terms.forbidden.count(held.term)
            for other, pods in change.removed.items()
            if label.at[other] == label.at[row]
            for pod in pods
        )

    def _hypothetically_shunned(self, row: int, change: PodChange) -> bool:
        for other, pods in change.added.items():
            for pod in pods:
                for term in pod.terms.forbidden:
                    label = self.nodes.label_column(term.key)
                    here = label.at[row]
                    if here >= 0 and here == label.at[other] and self.meant_by(term):
                        return True
        return False

    def meant_by(self, term: Term) -> bool:
        """Tell whether a term means the pod."""
        assert self.pod is not None
        return means(self.nodes, (term.choice,), self.pod)


def digest(view: View, hard_weight: int, *, ignore_held_wishes: bool) -> AffinityState:
    """Find the counters behind a pod's terms and the held terms that speak of it."""
    pod, nodes = view.pod, view.nodes
    terms = _own(pod.terms)
    # Counting makes labels visible, after which the pod may be of another kind: held terms last.
    # All of them at once: each time, every pod is sorted into its kind anew.
    nodes.show_labels(terms.label_keys)
    near, far = _near(terms, view), tuple(_far(terms.forbidden, view))
    own = [(t.weight, t.key, _count(view, (t.choice,), t.key)) for t in terms.wishes]
    held = view.held_about()
    if not (ignore_held_wishes and not terms.wishes):
        own += [(w, h.term.key, h.domains) for h in held if (w := _weight(h, hard_weight))]
    return AffinityState(
        nodes=nodes,
        near=near,
        self_sufficient=bool(near) and means(nodes, near[0].choices, pod),
        far=far,
        shunned=tuple(h for h in held if h.role is TermRole.FORBIDS),
        wishes=_by_key(own, nodes),
        pod=pod,
    )


def _own(terms: PodTerms) -> PodTerms:
    """A waiting pod's terms as they are held against pods that stand.

    The pods' namespaces are asked for their labels, and so is one without any: as upstream's, a
    namespace selector that such a one would match ("has no such label") reaches every namespace.
    """
    if not any(_reaches_all(term) for group in _groups(terms) for term in group):
        return terms
    required, forbidden, wishes = (
        tuple(_everywhere(term) if _reaches_all(term) else term for term in group)
        for group in _groups(terms)
    )
    return replace(terms, required=required, forbidden=forbidden, wishes=wishes)


def _groups(terms: PodTerms) -> tuple[tuple[Term, ...], ...]:
    return terms.required, terms.forbidden, terms.wishes


def _reaches_all(term: Term) -> bool:
    selector = term.choice.namespace_selector
    return not selector.everything and selector.matches({})


def _everywhere(term: Term) -> Term:
    return replace(term, choice=replace(term.choice, namespace_selector=EVERYTHING))


def _near(terms: PodTerms, view: View) -> tuple[AffinityCount, ...]:
    if not terms.required:
        return ()
    choices = tuple(dict.fromkeys(term.choice for term in terms.required))
    keys = dict.fromkeys(term.key for term in terms.required)
    counter = view.count(choices)
    return tuple(AffinityCount(choices, _by_domain(view, counter, key)) for key in keys)


def _far(terms: Iterable[Term], view: View) -> Iterable[AffinityCount]:
    for term in dict.fromkeys(terms):
        yield AffinityCount((term.choice,), _count(view, (term.choice,), term.key))


def _count(view: View, choices: Choices, key: str) -> AnyDomains:
    return _by_domain(view, view.count(choices), key)


def _by_domain(view: View, counter: AnyCount, key: str) -> AnyDomains:
    nodes = view.nodes
    return counter.by_domain(
        key, None, nodes.label_column(key), None, nodes.node_journal, live=False
    )


def _weight(held: AnyTerm, hard_weight: int) -> int:
    if held.role is TermRole.WISHES:
        return held.term.weight
    return hard_weight if held.role is TermRole.NEEDS else 0


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

"""Pod affinity as the columns see it: which pods a term speaks of, and over which topology.

A term is read once per spec and namespace. ``matchLabelKeys`` and ``mismatchLabelKeys`` are not
looked at: the API server has merged them into the selector when the pod was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.api.labels import NOTHING, Selector, from_selector
from holdfast.api.pod import Affinity, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm
from holdfast.errors import BadRequest, Invalid

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PodChoice:
    """Which pods: by namespace (its name, or its labels) and by their own labels."""

    namespaces: frozenset[str]
    selector: Selector
    namespace_selector: Selector = NOTHING

    def matches(self, namespace: str, namespace_labels: Labels, labels: Labels) -> bool:
        """Tell whether a pod is meant; a namespace nobody told us about has no labels."""
        reached = namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return reached and self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class Term:
    """Pods to be near to or far from; ``weight`` is 0 for a requirement, negative for "far"."""

    choice: PodChoice
    key: str
    weight: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class PodTerms:
    """All pod affinity of a pod: what it requires, forbids and wishes.

    ``mistakes`` says what could not be read; the group of terms concerned is then empty. One
    object serves all pods of a spec and namespace, so it goes by identity.
    """

    required: tuple[Term, ...] = ()
    forbidden: tuple[Term, ...] = ()
    wishes: tuple[Term, ...] = ()
    mistakes: str = ""
    label_keys: frozenset[str] = frozenset()
    """Pod label keys that some term looks at."""

    def __bool__(self) -> bool:
        return bool(self.required or self.forbidden or self.wishes)


NO_TERMS = PodTerms()


def read_terms(affinity: Affinity | None, namespace: str) -> PodTerms:
    """Read a pod's terms; what is wrong with them is kept as words, for the pod to hear."""
    if affinity is None or not (affinity.pod_affinity or affinity.pod_anti_affinity):
        return NO_TERMS
    near = affinity.pod_affinity or PodAffinity()
    far = affinity.pod_anti_affinity or PodAffinity()
    mistakes: list[str] = []

    def plain(group: str, terms: Sequence[PodAffinityTerm]) -> tuple[Term, ...]:
        return _read(group, ((term, 0) for term in terms), namespace, mistakes)

    def weighed(
        group: str, terms: Sequence[WeightedPodAffinityTerm], sign: int
    ) -> tuple[Term, ...]:
        pairs = ((term.pod_affinity_term, sign * term.weight) for term in terms)
        return _read(group, pairs, namespace, mistakes)

    required = plain(
        "requiredAffinityTerms", near.required_during_scheduling_ignored_during_execution
    )
    forbidden = plain(
        "requiredAntiAffinityTerms", far.required_during_scheduling_ignored_during_execution
    )
    wishes = weighed(
        "preferredAffinityTerms", near.preferred_during_scheduling_ignored_during_execution, 1
    )
    fears = weighed(
        "preferredAntiAffinityTerms", far.preferred_during_scheduling_ignored_during_execution, -1
    )
    words = mistakes[0] if len(mistakes) == 1 else f"[{', '.join(mistakes)}]" if mistakes else ""
    terms = (*required, *forbidden, *wishes, *fears)
    keys = frozenset(key for term in terms for key in term.choice.selector.keys)
    return PodTerms(required, forbidden, (*wishes, *fears), words, keys)


def _read(
    group: str,
    terms: Iterable[tuple[PodAffinityTerm, int]],
    namespace: str,
    mistakes: list[str],
) -> tuple[Term, ...]:
    try:
        return tuple(Term(_choice(term, namespace), term.topology_key, w) for term, w in terms)
    except (BadRequest, Invalid) as wrong:
        mistakes.append(f"{group}: {wrong}")
        return ()


def _choice(term: PodAffinityTerm, namespace: str) -> PodChoice:
    own = not term.namespaces and term.namespace_selector is None
    return PodChoice(
        frozenset((namespace,) if own else term.namespaces),
        from_selector(term.label_selector),
        from_selector(term.namespace_selector),
    )

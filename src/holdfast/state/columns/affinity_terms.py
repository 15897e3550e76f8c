"""Pod affinity terms: which pods a term matches, and over which topology key.

Terms are read once per spec and namespace. ``matchLabelKeys`` and ``mismatchLabelKeys`` are
ignored: the API server merged them into the selector when the pod was created.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.api.labels import NOTHING, Labels, Selector, from_selector
from holdfast.api.pod import Affinity, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm
from holdfast.runtime.errors import BadRequest, Invalid


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Selects pods by namespace (its name or its labels) and by their own labels."""

    namespaces: frozenset[str]
    selector: Selector
    namespace_selector: Selector = NOTHING

    def matches(self, namespace: str, namespace_labels: Labels, labels: Labels) -> bool:
        """Return whether a pod matches; an unknown namespace counts as one without labels."""
        reached = namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return reached and self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """One term; ``weight`` is 0 if it is required, negative if it is anti-affinity."""

    pod_selector: PodSelector
    topology_key: str
    weight: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class AffinityTerms:
    """All affinity and anti-affinity terms of a pod.

    ``mistakes`` is the error of terms that cannot be parsed; the group they are in is then empty.
    Pods with equal specs in one namespace share one object, so it is compared by identity.
    """

    required_affinity: tuple[AffinityTerm, ...] = ()
    required_anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred: tuple[AffinityTerm, ...] = ()
    mistakes: str = ""
    label_keys: frozenset[str] = frozenset()
    """Pod label keys that the terms' selectors use."""

    def __bool__(self) -> bool:
        return bool(self.required_affinity or self.required_anti_affinity or self.preferred)


NO_TERMS = AffinityTerms()


def read_affinity_terms(affinity: Affinity | None, namespace: str) -> AffinityTerms:
    """Parse a pod's terms; errors are returned in ``mistakes``, not raised."""
    if affinity is None or not (affinity.pod_affinity or affinity.pod_anti_affinity):
        return NO_TERMS
    near = affinity.pod_affinity or PodAffinity()
    far = affinity.pod_anti_affinity or PodAffinity()
    mistakes: list[str] = []

    def plain(group: str, terms: Sequence[PodAffinityTerm]) -> tuple[AffinityTerm, ...]:
        return _read(group, ((term, 0) for term in terms), namespace, mistakes)

    def weighed(
        group: str, terms: Sequence[WeightedPodAffinityTerm], sign: int
    ) -> tuple[AffinityTerm, ...]:
        pairs = ((term.pod_affinity_term, sign * term.weight) for term in terms)
        return _read(group, pairs, namespace, mistakes)

    required_affinity = plain(
        "requiredAffinityTerms", near.required_during_scheduling_ignored_during_execution
    )
    required_anti_affinity = plain(
        "requiredAntiAffinityTerms", far.required_during_scheduling_ignored_during_execution
    )
    preferred = weighed(
        "preferredAffinityTerms", near.preferred_during_scheduling_ignored_during_execution, 1
    )
    preferred_anti = weighed(
        "preferredAntiAffinityTerms", far.preferred_during_scheduling_ignored_during_execution, -1
    )
    message = mistakes[0] if len(mistakes) == 1 else f"[{', '.join(mistakes)}]" if mistakes else ""
    terms = (*required_affinity, *required_anti_affinity, *preferred, *preferred_anti)
    keys = frozenset(key for term in terms for key in term.pod_selector.selector.keys)
    return AffinityTerms(
        required_affinity, required_anti_affinity, (*preferred, *preferred_anti), message, keys
    )


def _read(
    group: str,
    terms: Iterable[tuple[PodAffinityTerm, int]],
    namespace: str,
    mistakes: list[str],
) -> tuple[AffinityTerm, ...]:
    try:
        return tuple(
            AffinityTerm(_pod_selector(term, namespace), term.topology_key, w) for term, w in terms
        )
    except (BadRequest, Invalid) as wrong:
        mistakes.append(f"{group}: {wrong}")
        return ()


def _pod_selector(term: PodAffinityTerm, namespace: str) -> PodSelector:
    own = not term.namespaces and term.namespace_selector is None
    return PodSelector(
        frozenset((namespace,) if own else term.namespaces),
        from_selector(term.label_selector),
        from_selector(term.namespace_selector),
    )

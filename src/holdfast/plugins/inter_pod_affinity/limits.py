"""Required terms as pod limits, for preemption: which pods must go, and which must stay."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.affinity_terms import AffinityTerm, AffinityTerms
from holdfast.columns.counters import PodSelectors
from holdfast.columns.epochs import Epoch
from holdfast.columns.hidden_reserve_pods import AnyDomains, AnyTerm
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.framework.preemption_rules import ALWAYS, NEVER, PodLimit
from holdfast.plugins.inter_pod_affinity.terms import AffinityCount, matches_all

Ints = NDArray[np.int64]


def no_pod_may_stay(nodes: NodeTable, counted: AffinityCount) -> PodLimit:
    """Return the limit of an anti-affinity term: all pods that it matches must leave."""
    return PodLimit(
        ("anti_affinity", counted.pod_selectors),
        _without_pods(counted.domains),
        partial(_count, nodes, counted.pod_selectors, 1),
        nodes.epochs[Epoch.NAMESPACES],
        by_label_group=True,
    )


def no_pod_with_term_may_stay(existing: AnyTerm) -> PodLimit:
    """Return the limit of existing pods' anti-affinity term: all pods that have it must leave."""
    key = ("existing_anti_affinity", existing.term)
    return PodLimit(key, _without_pods(existing.domains), partial(_count_term, existing.term))


def one_pod_must_stay(nodes: NodeTable, counted: AffinityCount, *, first: bool) -> PodLimit:
    """Return the limit of affinity terms: a pod that they match must stay, unless ``first``."""
    return PodLimit(
        ("affinity", counted.pod_selectors),
        _with_pods(counted.domains, first=first),
        partial(_count, nodes, counted.pod_selectors, -1),
        nodes.epochs[Epoch.NAMESPACES],
        by_label_group=True,
        requires_pods=True,
    )


def _in_domain_of(domains: AnyDomains) -> tuple[Ints, NDArray[np.bool_]]:
    """Return the matching pods in each row's domain, and which rows have no domain."""
    domains.refresh()
    ids = domains.label.ids
    found: Ints = domains.padded[ids].astype(np.int64)
    return found, ids < 0


def _without_pods(domains: AnyDomains) -> Ints:
    counts_around, no_domain = _in_domain_of(domains)
    left = -counts_around
    left[no_domain] = ALWAYS
    return left


def _with_pods(domains: AnyDomains, *, first: bool) -> Ints:
    counts_around, no_domain = _in_domain_of(domains)
    left = (
        np.full(len(counts_around), ALWAYS)
        if first
        else np.where(counts_around > 0, counts_around - 1, NEVER)
    )
    left[no_domain] = NEVER
    return left


def _count(nodes: NodeTable, pod_selectors: PodSelectors, amount: int, pod: PodInfo) -> int:
    return amount if matches_all(nodes, pod_selectors, pod) else 0


def _count_term(term: AffinityTerm, pod: PodInfo) -> int:
    return pod.affinity_terms.required_anti_affinity.count(term)


class ForbidsPod:
    """Tells whether a nominated pod's anti-affinity matches the preemptor; cached by terms."""

    def __init__(self, matches_preemptor: Callable[[AffinityTerm], bool]) -> None:
        self._matches = matches_preemptor
        self._known: dict[AffinityTerms, bool] = {}

    def __call__(self, pod: PodInfo) -> bool:
        """Return it for one pod."""
        if not pod.affinity_terms.required_anti_affinity:
            return False
        found = self._known.get(pod.affinity_terms)
        if found is None:
            found = any(map(self._matches, pod.affinity_terms.required_anti_affinity))
            self._known[pod.affinity_terms] = found
        return found

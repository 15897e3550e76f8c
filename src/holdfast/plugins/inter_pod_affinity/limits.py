"""Required terms as pod limits, for preemption: which pods must go, and which must stay."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.affinity_terms import AffinityTerm, AffinityTerms
from holdfast.columns.counters import PodSelectors
from holdfast.columns.hidden_reserve_pods import AnyDomains
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.framework.preemption_rules import ALWAYS, NEVER, PodLimit, PodLimits
from holdfast.plugins.inter_pod_affinity.state import (
    AffinityCount,
    AffinityState,
    matches_all,
)

Ints = NDArray[np.int64]


def limits_of(state: AffinityState) -> PodLimits:
    """Return the limits of a class.

    No pod may stay that violates anti-affinity; of the pods that affinity requires, one must stay.
    """
    version = state.nodes.epochs["namespaces"]
    found = []
    for counted in state.anti_affinity:
        count_of = partial(_count, state.nodes, counted.pod_selectors)
        left = _without_pods(counted.domains)
        found.append(
            PodLimit(
                ("anti_affinity", counted.pod_selectors),
                left,
                count_of,
                version,
                by_label_group=True,
            )
        )
    for existing in state.existing_anti_affinity:
        count_of = partial(_count_term, existing.term)
        found.append(
            PodLimit(
                ("existing_anti_affinity", existing.term), _without_pods(existing.domains), count_of
            )
        )
    if not state.affinity:
        return PodLimits(tuple(found), incomplete_for=ForbidsPod(state))
    first = state.matches_own_terms and not any(_total(c) for c in state.affinity)
    for counted in state.affinity:
        count_of = partial(_minus_count, state.nodes, counted.pod_selectors)
        left = _with_pods(counted.domains, first=first)
        key = ("affinity", counted.pod_selectors)
        found.append(
            PodLimit(key, left, count_of, version, by_label_group=True, requires_pods=True)
        )
    unknown = None
    if state.matches_own_terms and not first:
        # If all matching pods are on one row and are evicted, the pod needs none any more.
        unknown = np.logical_and.reduce([c.domains.per_row >= _total(c) for c in state.affinity])
    return PodLimits(tuple(found), unknown, incomplete_for=_always)


def _total(counted: AffinityCount) -> int:
    counted.domains.refresh()
    return counted.domains.total


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


def _count(nodes: NodeTable, pod_selectors: PodSelectors, pod: PodInfo) -> int:
    return int(matches_all(nodes, pod_selectors, pod))


def _minus_count(nodes: NodeTable, pod_selectors: PodSelectors, pod: PodInfo) -> int:
    return -int(matches_all(nodes, pod_selectors, pod))


def _count_term(term: AffinityTerm, pod: PodInfo) -> int:
    return pod.affinity_terms.required_anti_affinity.count(term)


class ForbidsPod:
    """Tells whether a nominated pod's anti-affinity matches the preemptor; cached by terms."""

    def __init__(self, state: AffinityState) -> None:
        self._state = state
        self._known: dict[AffinityTerms, bool] = {}

    def __call__(self, pod: PodInfo) -> bool:
        """Return it for one pod."""
        if not pod.affinity_terms.required_anti_affinity:
            return False
        found = self._known.get(pod.affinity_terms)
        if found is None:
            found = any(
                self._state.is_matched_by(term)
                for term in pod.affinity_terms.required_anti_affinity
            )
            self._known[pod.affinity_terms] = found
        return found


def _always(_pod: PodInfo) -> bool:
    return True

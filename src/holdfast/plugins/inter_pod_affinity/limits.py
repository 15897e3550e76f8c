"""Required terms as limits: which pods may stay on a row, and which of them it needs."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.affinity_terms import AffinityTerm, AffinityTerms
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.unseen import AnyDomains
from holdfast.framework.preemption_support import ALWAYS, NEVER, PodLimit, PodLimits
from holdfast.plugins.inter_pod_affinity.state import (
    AffinityCount,
    AffinityState,
    Choices,
    matches_all,
)

Ints = NDArray[np.int64]


def limits_of(state: AffinityState) -> PodLimits:
    """Nobody may stay who is forbidden or forbids; somebody must whom the pod has to be near to."""
    version = state.nodes.epochs["namespaces"]
    found = []
    for counted in state.anti_affinity:
        counts = partial(_meant, state.nodes, counted.pod_selectors)
        left = _nobody(counted.domains)
        found.append(
            PodLimit(("far", counted.pod_selectors), left, counts, version, by_label_group=True)
        )
    for held in state.existing_anti_affinity:
        counts = partial(_holds, held.term)
        found.append(PodLimit(("held", held.term), _nobody(held.domains), counts))
    if not state.affinity:
        return PodLimits(tuple(found), incomplete_for=ForbidsPod(state))
    first = state.matches_own_terms and not any(_total(c) for c in state.affinity)
    for counted in state.affinity:
        counts = partial(_anchors, state.nodes, counted.pod_selectors)
        left = _somebody(counted.domains, first=first)
        key = ("near", counted.pod_selectors)
        found.append(PodLimit(key, left, counts, version, by_label_group=True, requires_pods=True))
    apart = None
    if state.matches_own_terms and not first:
        # Were all of them gone, who stand on one row, the pod would be the first of its kind.
        apart = np.logical_and.reduce([c.domains.per_row >= _total(c) for c in state.affinity])
    return PodLimits(tuple(found), apart, incomplete_for=_anybody)


def _total(counted: AffinityCount) -> int:
    counted.domains.refresh()
    return counted.domains.total


def _in_domain_of(domains: AnyDomains) -> tuple[Ints, NDArray[np.bool_]]:
    """How many there are around each row, and which rows are in no domain."""
    domains.refresh()
    ids = domains.label.ids
    found: Ints = domains.padded[ids].astype(np.int64)
    return found, ids < 0


def _nobody(domains: AnyDomains) -> Ints:
    in_domain_of, nowhere = _in_domain_of(domains)
    left = -in_domain_of
    left[nowhere] = ALWAYS
    return left


def _somebody(domains: AnyDomains, *, first: bool) -> Ints:
    in_domain_of, nowhere = _in_domain_of(domains)
    left = (
        np.full(len(in_domain_of), ALWAYS)
        if first
        else np.where(in_domain_of > 0, in_domain_of - 1, NEVER)
    )
    left[nowhere] = NEVER
    return left


def _meant(nodes: NodeTable, pod_selectors: Choices, pod: PodInfo) -> int:
    return int(matches_all(nodes, pod_selectors, pod))


def _anchors(nodes: NodeTable, pod_selectors: Choices, pod: PodInfo) -> int:
    return -int(matches_all(nodes, pod_selectors, pod))


def _holds(term: AffinityTerm, pod: PodInfo) -> int:
    return pod.affinity_terms.required_anti_affinity.count(term)


class ForbidsPod:
    """Tells whether a pod to come forbids the one that looks for room; many have the same terms."""

    def __init__(self, state: AffinityState) -> None:
        self._state = state
        self._known: dict[AffinityTerms, bool] = {}

    def __call__(self, pod: PodInfo) -> bool:
        """Of one pod."""
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


def _anybody(_pod: PodInfo) -> bool:
    return True

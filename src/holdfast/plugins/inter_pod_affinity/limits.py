"""Required terms as limits: which pods may stay on a row, and which of them it needs."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.terms import PodTerms, Term
from holdfast.columns.unseen import AnyDomains
from holdfast.framework.preemption_support import ALWAYS, NEVER, PodLimit, PodLimits
from holdfast.plugins.inter_pod_affinity.state import AffinityCount, AffinityState, Choices, means

Ints = NDArray[np.int64]


def limits_of(state: AffinityState) -> PodLimits:
    """Nobody may stay who is forbidden or forbids; somebody must whom the pod has to be near to."""
    version = state.nodes.epochs["namespaces"]
    found = []
    for counted in state.far:
        counts = partial(_meant, state.nodes, counted.choices)
        left = _nobody(counted.domains)
        found.append(PodLimit(("far", counted.choices), left, counts, version, by_kind=True))
    for held in state.shunned:
        counts = partial(_holds, held.term)
        found.append(PodLimit(("held", held.term), _nobody(held.domains), counts))
    if not state.near:
        return PodLimits(tuple(found), incomplete_for=Forbidding(state))
    first = state.self_sufficient and not any(_total(c) for c in state.near)
    for counted in state.near:
        counts = partial(_anchors, state.nodes, counted.choices)
        left = _somebody(counted.domains, first=first)
        key = ("near", counted.choices)
        found.append(PodLimit(key, left, counts, version, by_kind=True, requires_pods=True))
    apart = None
    if state.self_sufficient and not first:
        # Were all of them gone, who stand on one row, the pod would be the first of its kind.
        apart = np.logical_and.reduce([c.domains.per_row >= _total(c) for c in state.near])
    return PodLimits(tuple(found), apart, incomplete_for=_anybody)


def _total(counted: AffinityCount) -> int:
    counted.domains.refresh()
    return counted.domains.total


def _around(domains: AnyDomains) -> tuple[Ints, NDArray[np.bool_]]:
    """How many there are around each row, and which rows are in no domain."""
    domains.refresh()
    ids = domains.label.ids
    found: Ints = domains.padded[ids].astype(np.int64)
    return found, ids < 0


def _nobody(domains: AnyDomains) -> Ints:
    around, nowhere = _around(domains)
    left = -around
    left[nowhere] = ALWAYS
    return left


def _somebody(domains: AnyDomains, *, first: bool) -> Ints:
    around, nowhere = _around(domains)
    left = np.full(len(around), ALWAYS) if first else np.where(around > 0, around - 1, NEVER)
    left[nowhere] = NEVER
    return left


def _meant(nodes: NodeTable, choices: Choices, pod: PodInfo) -> int:
    return int(means(nodes, choices, pod))


def _anchors(nodes: NodeTable, choices: Choices, pod: PodInfo) -> int:
    return -int(means(nodes, choices, pod))


def _holds(term: Term, pod: PodInfo) -> int:
    return pod.terms.forbidden.count(term)


class Forbidding:
    """Tells whether a pod to come forbids the one that looks for room; many have the same terms."""

    def __init__(self, state: AffinityState) -> None:
        self._state = state
        self._known: dict[PodTerms, bool] = {}

    def __call__(self, pod: PodInfo) -> bool:
        """Of one pod."""
        if not pod.terms.forbidden:
            return False
        found = self._known.get(pod.terms)
        if found is None:
            found = any(self._state.meant_by(term) for term in pod.terms.forbidden)
            self._known[pod.terms] = found
        return found


def _anybody(_pod: PodInfo) -> bool:
    return True

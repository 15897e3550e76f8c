"""A reserve pod looks for its node: where it is pinned to, and beside whom it may stand."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from holdfast.capacity import names
from holdfast.capacity.offers import Offers
from holdfast.columns.picture import Picture
from holdfast.columns.pod_facts import PodFacts
from holdfast.framework.plugin import AnyRows, Code, Reject, Rows, Verdicts
from holdfast.framework.rejection import Rejection
from holdfast.framework.view import View

NO_CLUSTER_MODE = "reservation requires cluster mode pre-allocation which is disabled"
NOT_THE_NODE = "node(s) didn't match the nodeName specified by reservation"
POLICY_CONFLICT = "node(s) reservation allocate policy conflict"


@dataclass(frozen=True, slots=True)
class ReserveState:
    """The node it is pinned to, and the policy it brings."""

    nodes: Picture
    offers: Offers
    pinned: str
    policy: str

    def verdict(self, row: int) -> str:
        """Why the row will not do, or ""."""
        if self.pinned and self.nodes.names[row] != self.pinned:
            return NOT_THE_NODE
        return POLICY_CONFLICT if row in self.conflicting() else ""

    def conflicting(self) -> Rows:
        """Rows where exactly one of the new and an existing reservation has the Default policy."""
        return self.offers.rows_with_other_policy(default=self.policy == "")


@dataclass(frozen=True, slots=True)
class Unrelated:
    """A pod that says it draws on a reservation and owns none: it goes where any other may."""

    nodes: Picture


def what_it_brings(pod: PodFacts, view: View) -> Hashable:
    """Everything of the reservation that decides where it may be."""
    found = view.world.offers.pending.get(pod.reserve_for)
    pinned = pod.pod.metadata.annotations.get(names.RESERVATION_NODE, "")
    if found is None:
        return (pinned, pod.reserve_for)
    spec = found.spec
    if spec.pre_allocation:
        # One that inherits is like no other, and looks at pods everywhere.
        return (pinned, pod.reserve_for, found.metadata.resource_version, view.nodes.news)
    return (pinned, spec.allocate_policy, spec.template is None)


def inherits(pod: PodFacts, view: View) -> bool:
    """Whether it is a reserve pod that may take room others still have."""
    found = view.world.offers.pending.get(pod.reserve_for) if pod.reserve_for else None
    return found is not None and found.spec.pre_allocation


def prepare_reserve_pod(pod: PodFacts, view: View) -> ReserveState | Reject:
    """Read the reservation behind a reserve pod."""
    reservation = view.world.offers.pending.get(pod.reserve_for)
    if reservation is None:
        missing = f'reservation.scheduling.koordinator.sh "{pod.name}" not found'
        return Reject(Code.ERROR, (f"cannot get reservation, err: {missing}",))
    if reservation.spec.template is None:
        return Reject(Code.ERROR, ("the reservation misses the template spec",))
    pinned = pod.pod.metadata.annotations.get(names.RESERVATION_NODE, "")
    return ReserveState(view.nodes, view.world.offers, pinned, reservation.spec.allocate_policy)


def remedy(pod: PodFacts, view: View, rejection: Rejection) -> str:
    """What whoever wrote the reservation can do about it where the reasons do not tell, or ""."""
    if rejection.prefilter is not None and rejection.prefilter[1].reasons == (NO_CLUSTER_MODE,):
        switch = "preAllocationConfig.enableClusterMode in ReservationArgs"
        return f"spec.preAllocationPolicy.mode: Cluster needs {switch}"
    pinned = pod.pod.metadata.annotations.get(names.RESERVATION_NODE, "")
    if not pinned or pinned in view.nodes.row_of:
        return ""
    return f'spec.template.spec.nodeName: there is no node "{pinned}"'


def filter_reserve_pod(state: ReserveState, rows: AnyRows) -> Verdicts:
    """Unresolvable but on the node it is pinned to, and where policies do not go together."""
    verdicts = np.zeros(state.nodes.capacity, np.int8)
    if state.pinned:
        verdicts[:] = Code.UNRESOLVABLE
        row = state.nodes.row_of.get(state.pinned)
        if row is not None:
            verdicts[row] = Code.PASS
    verdicts[state.conflicting()] = Code.UNRESOLVABLE
    found: Verdicts = verdicts[rows]
    return found

"""Trials of pods that ask for the same, on rows of the ledger; equal states share one trial.

NodeNUMAResource and DeviceShare must agree about the NUMA nodes of a pod, although neither may
import the other. Both call ``alignment``, which depends on the ledgers alone, so its results are
equal in Filter, Score and Reserve. When the hints were not merged in one place, a pod got CPUs of
one NUMA node and a GPU of another.

So many calls are cheap only because results are shared, at two levels. When each plugin merged the
hints of a row once for a pod, aligned pods with half a GPU went from 676 to 1,400 decisions a
second on 500 nodes. When equal questions shared one search, they went from 550 to 1,750 on 1,000
nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.api.reservation_names import IGNORED
from holdfast.api.resource_names import is_extended
from holdfast.state.columns.interner import PODS, ResourceNames
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.numa.node_policies import POLICY_MISMATCH, merge_numa_policies
from holdfast.state.numa.node_state import NO_OFFER, NodeState, NumaOffer, PodHolding
from holdfast.state.numa.pod_request import NumaRequest, read_request
from holdfast.state.numa.policy_names import FULL_PCPUS
from holdfast.state.numa.topology_hints import Hints, Merged
from holdfast.state.numa.trial import (
    NO_NUMA_RESOURCES,
    FrozenHints,
    Situation,
    Trial,
    TrialOptions,
    align,
    try_allocation,
)

if TYPE_CHECKING:
    from holdfast.state.numa.ledger import NumaLedger

_MOST_TRIALS = 20_000


class NumaOptions(NamedTuple):
    """The arguments of a profile that decide about CPUs and NUMA nodes."""

    default_bind_policy: str = FULL_PCPUS
    trial: TrialOptions = TrialOptions()


def request_of(pod: PodInfo, resources: ResourceNames, default_bind_policy: str) -> NumaRequest:
    """Return the CPUs and NUMA nodes that a pod requests; raise BadRequest if malformed."""
    amounts = {resources[id_]: amount for id_, amount in pod.request if id_ != PODS}
    return read_request(
        pod.labels,
        pod.pod.metadata.annotations,
        pod.pod.spec.priority,
        amounts,
        default_bind_policy,
    )


class PodTrials:
    """Trials for one request. Results depend on the ledger, and on hint providers."""

    def __init__(
        self, ledger: NumaLedger, request: NumaRequest, pod: PodInfo, options: TrialOptions
    ) -> None:
        self.ledger = ledger
        self.request = request
        self._pod = pod
        self._options = options
        self._known: dict[tuple[NodeState, NumaOffer], Trial] = {}
        self.has_provided_hints = bool(ledger.hint_providers) and any(
            is_extended(name) for name, _ in request.amounts
        )
        """Whether the pod requests something for which others may have hints."""

    def on_state(self, state: NodeState, offer: NumaOffer = NO_OFFER) -> Trial:
        """Return the trial on a state, without the hints of others."""
        key = (state, offer)
        trial = self._known.get(key)
        if trial is None:
            if len(self._known) >= _MOST_TRIALS:
                self._known.clear()
            trial = try_allocation(Situation(self.request, state, offer, self._options))
            self._known[key] = trial
        return trial

    def on_row(
        self,
        row: int,
        reservation: str = "",
        *,
        removed: Collection[str] = (),
        added: Iterable[PodHolding] = (),
        without_reservations: bool = False,
        taken_over: int = 0,
    ) -> Trial:
        """Return the trial on a row, from a reservation by uid ("" for none).

        ``taken_over`` are CPUs of pods that are removed, which a reservation takes over.
        """
        state, offer = self._situation(row, reservation, removed, added, without_reservations)
        if taken_over:
            offer = NumaOffer(taken_over & state.shape.available, all_cpus=True)
        if not self.has_provided_hints:
            return self.on_state(state, offer)
        provided = self._provided(row, reservation, state, removed)
        if not provided:
            return self.on_state(state, offer)
        return _try_with(Situation(self.request, state, offer, self._options), _frozen(provided))

    def provided_states(self) -> NDArray[np.int64]:
        """Return a number for each row: equal rows get equal hints, without a reservation."""
        numbers = np.zeros(self.ledger.signatures().shape, np.int64)
        for provider in self.ledger.hint_providers:
            states = provider.states(self._pod)
            numbers = numbers * (int(states.max(initial=0)) + 1) + states
        return numbers

    def alignment(self, row: int, reservation: str = "", removed: Collection[str] = ()) -> Merged:
        """Return the NUMA nodes that the pod is to use on a row, or why there are none."""
        ignores = self._pod.labels.get(IGNORED) == "true"
        state, offer = self._situation(row, reservation, removed, (), ignores)
        policy = self._policy(state)
        if policy is None or (policy and not state.shape.zones):
            reason = POLICY_MISMATCH if policy is None else NO_NUMA_RESOURCES
            return Merged(None, admitted=False, reasons=(reason,))
        if not policy:
            return Merged(None, admitted=True)
        provided = self._provided(row, reservation, state, removed)
        on = Situation(self.request, state, offer, self._options)
        return _align_with(on, policy, _frozen(provided))

    def _policy(self, state: NodeState) -> str | None:
        return merge_numa_policies(state.shape.policies.numa, self.request.numa_policy)

    def _situation(
        self,
        row: int,
        reservation: str,
        removed: Collection[str],
        added: Iterable[PodHolding],
        without_reservations: bool,
    ) -> tuple[NodeState, NumaOffer]:
        ledger, added = self.ledger, tuple(added)
        if removed or added or without_reservations:
            state = ledger.changed_state(
                row, removed, added, without_reservations=without_reservations
            )
        else:
            state = ledger.state(ledger.signature(row))
        offer = ledger.offer(row, reservation, removed, added) if reservation else NO_OFFER
        return state, offer

    def _provided(
        self, row: int, reservation: str, state: NodeState, removed: Collection[str]
    ) -> Sequence[Hints]:
        policy, nodes = self._policy(state), list(state.shape.zones)
        if not policy or not nodes:
            return ()
        provided_hints = [
            provider.hints(self._pod, row, nodes, policy, reservation, removed=removed)
            for provider in self.ledger.hint_providers
        ]
        return [hints for hints in provided_hints if hints]


# The functions below are pure, and their arguments contain everything that the result depends on.
# So results are shared between plugins, extension points and pods, and nothing makes them outdated.


def _frozen(provided: Sequence[Hints]) -> tuple[FrozenHints, ...]:
    return tuple(
        [
            tuple([(name, None if of is None else tuple(of)) for name, of in hints.items()])
            for hints in provided
        ]
    )


@lru_cache(maxsize=_MOST_TRIALS)
def _try_with(on: Situation, provided: tuple[FrozenHints, ...]) -> Trial:
    return try_allocation(on, [dict(hints) for hints in provided])


@lru_cache(maxsize=_MOST_TRIALS)
def _align_with(on: Situation, policy: str, provided: tuple[FrozenHints, ...]) -> Merged:
    return align(on, policy, [dict(hints) for hints in provided])

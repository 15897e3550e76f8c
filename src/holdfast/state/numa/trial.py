"""Try to allocate CPUs and NUMA nodes for a pod on a node's state: pure, so equal states share it.

The order of the checks, and so of the reasons, is Koordinator's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from holdfast.api.resource_names import CPU
from holdfast.state.numa.cpu_accumulator import (
    INSUFFICIENT_FOR_POLICY,
    NOT_ENOUGH_CPUS,
    take_cpus,
    usable_cpus,
)
from holdfast.state.numa.cpu_set import mask_of, members_of
from holdfast.state.numa.node_policies import (
    BAD_RATIO,
    POLICY_MISMATCH,
    amplify,
    merge_numa_policies,
)
from holdfast.state.numa.node_state import NO_OFFER, NodeState, NumaOffer, NumaShape
from holdfast.state.numa.numa_amounts import (
    LEAST,
    AmountsByNumaNode,
    Strategy,
    score_amounts,
    split_amounts,
    sum_amounts,
)
from holdfast.state.numa.pod_request import NOT_INTEGER, NumaRequest
from holdfast.state.numa.policy_names import FULL_PCPUS, RESTRICTED
from holdfast.state.numa.resource_status import NOTHING, NumaAllocation, ordered
from holdfast.state.numa.topology import CpuTopology
from holdfast.state.numa.topology_hints import Hint, Hints, Merged, merge_hints, numa_masks

INVALID_TOPOLOGY = "node(s) invalid CPU Topology"
BIND_POLICY_CONFLICT = "node(s) cpu bind policy conflicts with pod's required cpu bind policy"
NOT_WHOLE_CORES = "node(s) requested cpus not multiple cpus per core"
NO_NUMA_RESOURCES = "node(s) missing NUMA resources"
INSUFFICIENT = "Insufficient NUMA {}"
NO_CHOICE = "failed to allocate cpus"
NOT_ALL = "node(s) had pre-allocatable pods with CPUs that the reservation cannot have"
OF_RESERVATION = "Reservation(s) "
_MOST_OFFERED = 10_000

FrozenHints = tuple[tuple[str, tuple[Hint, ...] | None], ...]


class TrialOptions(NamedTuple):
    """How NUMA nodes are compared: ``numa`` for hints and CPUs, ``node`` for the final score."""

    numa: Strategy = LEAST
    node: Strategy = LEAST


class Trial(NamedTuple):
    """The result: an allocation (which may be empty), or why there is none.

    ``score`` is that of the NUMA nodes that the pod would use; 0 without a NUMA policy.
    """

    allocation: NumaAllocation | None
    reasons: tuple[str, ...] = ()
    unresolvable: bool = False
    score: int = 0


class Situation(NamedTuple):
    """A pod's request on a node's state, with what it may use of a reservation."""

    request: NumaRequest
    state: NodeState
    offer: NumaOffer = NO_OFFER
    options: TrialOptions = TrialOptions()

    @property
    def shape(self) -> NumaShape:
        """What the node has."""
        return self.state.shape

    @property
    def cpu(self) -> CpuTopology:
        """The CPUs of the node."""
        return self.state.shape.topology.cpu

    @property
    def bound(self) -> bool:
        """Whether the pod is bound to CPUs on the node."""
        request = self.request
        return request.bound or (bool(self.shape.policies.bind) and request.millicores > 0)

    @property
    def bind_policy(self) -> str:
        """The bind policy for a bound pod."""
        return self.required_policy or self.request.bind_policy

    @property
    def required_policy(self) -> str:
        """The bind policy if it must hold, else ""."""
        return self.request.required_policy or self.shape.policies.bind

    @property
    def free(self) -> int:
        """The CPUs that the pod may be bound to."""
        offer = self.offer
        return offer.cpus if offer.only_cpus else self.state.free | offer.cpus

    @property
    def held(self) -> int:
        """The CPUs that others use, without those that a reservation offers to the pod."""
        return self.state.held & ~(self.offer.cpus if self.bound else 0)

    def usable(self, within: int) -> int:
        """Return the free CPUs of a mask that the required policy allows."""
        return usable_cpus(self.cpu, self.free & within, self.required_policy)


def try_allocation(on: Situation, provided: Sequence[Hints] = ()) -> Trial:
    """Return what a pod would get on a node, from a reservation's offer if it has one.

    ``provided`` are the hints of others, such as shared devices.
    """
    trial = _try_allocation(on, provided)
    if trial.allocation is None or not (on.bound and on.offer.all_cpus):
        return trial
    return Trial(None, (NOT_ALL,)) if on.offer.cpus & ~trial.allocation.cpus else trial


def _try_allocation(on: Situation, provided: Sequence[Hints]) -> Trial:
    policy = merge_numa_policies(on.shape.policies.numa, on.request.numa_policy)
    if policy is None:
        return _unresolvable(POLICY_MISMATCH)
    if fault := _fault(on):
        return _unresolvable(fault)
    if not policy:
        return _without_policy(on) if on.bound else Trial(NOTHING)
    if not on.shape.zones:
        return _unresolvable(NO_NUMA_RESOURCES)
    merged = align(on, policy, provided)
    if not merged.admitted:
        return Trial(None, merged.reasons)
    trial = allocate_within(on, mask_of(on.shape.zones) if merged.mask is None else merged.mask)
    if trial.allocation is None:
        return trial
    return trial._replace(score=_final_score(on, trial.allocation))


def _unresolvable(reason: str) -> Trial:
    return Trial(None, (reason,), unresolvable=True)


def _fault(on: Situation) -> str:
    """Return why the pod can never be bound on the node, whatever pods are there, or ""."""
    request, policies = on.request, on.shape.policies
    if on.bound and request.millicores % 1000:
        return NOT_INTEGER
    if policies.ratio is None and request.millicores:
        return BAD_RATIO
    if not on.bound:
        return ""
    if not on.cpu.valid:
        return INVALID_TOPOLOGY
    if request.required_policy and policies.bind not in ("", request.required_policy):
        return BIND_POLICY_CONFLICT
    if on.required_policy == FULL_PCPUS and request.cpus % on.cpu.cpus_per_core:
        return NOT_WHOLE_CORES
    return ""


def _without_policy(on: Situation) -> Trial:
    """Bind a pod to CPUs anywhere on the node."""
    cpus_or_reason = _take(on, on.cpu.all, on.request.cpus)
    if isinstance(cpus_or_reason, str):
        return Trial(None, (cpus_or_reason,))
    return Trial(NumaAllocation(cpus_or_reason, exclusive_policy=on.request.exclusive_policy))


def _take(on: Situation, within: int, count: int) -> int | str:
    """Choose CPUs within a mask, or return why there are too few."""
    prefix = OF_RESERVATION if on.offer.only_cpus else ""
    if on.usable(within).bit_count() < count:
        return prefix + NOT_ENOUGH_CPUS
    exclusive_policy = on.request.exclusive_policy
    cpus = take_cpus(
        on.cpu,
        on.free & within,
        count,
        bind_policy=on.bind_policy,
        required=bool(on.required_policy),
        exclusive_policy=exclusive_policy,
        held_exclusively=on.state.held_exclusively(exclusive_policy) & ~on.offer.cpus,
        strategy=on.shape.policies.strategy or on.options.numa.type,
        preferred=on.offer.cpus & within,
    )
    if cpus is not None:
        return cpus
    return prefix + (
        INSUFFICIENT_FOR_POLICY.format(on.bind_policy) if on.required_policy else NO_CHOICE
    )


# --- NUMA nodes -------------------------------------------------------------------------------


def align(on: Situation, policy: str, provided: Sequence[Hints] = ()) -> Merged:
    """Merge the hints of CPUs and memory with those of others.

    Several plugins ask the same for each pod, so the latest results are kept.
    """
    frozen = [
        tuple((name, hints if hints is None else tuple(hints)) for name, hints in of.items())
        for of in provided
    ]
    return _align(on, policy, tuple(frozen))


@lru_cache(maxsize=1024)
def _align(on: Situation, policy: str, provided: tuple[FrozenHints, ...]) -> Merged:
    merged = merge_hints(
        policy,
        list(on.shape.zones),
        [amount_hints(on, policy), *map(dict, provided)],
        on.request.numa_exclusive,
        on.state.use,
    )
    if merged.admitted or not (on.offer.only_cpus or on.offer.only_amounts):
        return merged
    return merged._replace(reasons=tuple(OF_RESERVATION + reason for reason in merged.reasons))


def amount_hints(on: Situation, policy: str) -> dict[str, list[Hint]]:
    """Return the sets of NUMA nodes that can serve the pod, by resource."""
    zones = on.shape.zones
    names = [name for name, _ in on.request.amounts if any(name in of for of in zones.values())]
    available = available_amounts(on)
    lacking = {
        name: mask_of(node for node, of in available.items() if not of.get(name)) for name in names
    }
    hints_by_name: dict[str, list[Hint]] = {name: [] for name in names}
    for mask in numa_masks(list(zones)):
        if allocate_within(on, mask, available).allocation is None:
            continue
        nodes = members_of(mask)
        score = _subset_score(on, available, nodes) + _offered_score(on, nodes)
        for name in names:
            if not mask & lacking[name]:
                hints_by_name[name].append(Hint(mask, score=score))
    return {name: _with_preference(hints, policy) for name, hints in hints_by_name.items()}


def _with_preference(hints: list[Hint], policy: str) -> list[Hint]:
    sizes = [(hint.mask or 0).bit_count() for hint in hints]
    fewest = min(sizes, default=0)
    return [
        hint._replace(preferred=policy == RESTRICTED or size == fewest)
        for hint, size in zip(hints, sizes, strict=True)
    ]


def available_amounts(on: Situation) -> dict[int, dict[str, int]]:
    """Return what the pod may use of each NUMA node; cpu of a bound pod is that of usable CPUs."""
    state, offer = on.state, on.offer
    used, offered = dict(state.used), dict(offer.amounts)
    ratio = on.shape.policies.ratio or 1.0
    by_node: dict[int, dict[str, int]] = {}
    for node, zone in on.shape.zones.items():
        of_used, of_offer = dict(used.get(node, ())), dict(offered.get(node, ()))
        cpus = on.cpu.nodes.get(node, 0)
        if ratio > 1 and CPU in of_used:
            held = 1000 * (on.held & cpus).bit_count()
            of_used[CPU] += amplify(held, ratio) - held
        amounts = {
            name: max(0, amount - of_used.get(name, 0) + of_offer.get(name, 0))
            for name, amount in zone.items()
        }
        for name in offer.only_amounts & amounts.keys():
            amounts[name] = min(amounts[name], of_offer.get(name, 0))
        if on.bound and CPU in amounts:
            # In CPUs as they are: the pod's will be amplified.
            unamplified = amounts[CPU] if ratio <= 1 else int(amounts[CPU] / ratio)
            amounts[CPU] = min(unamplified, 1000 * on.usable(cpus).bit_count())
        by_node[node] = amounts
    return by_node


def allocate_within(on: Situation, mask: int, available: AmountsByNumaNode | None = None) -> Trial:
    """Allocate amounts, and CPUs for a bound pod, on the NUMA nodes of a mask."""
    nodes = [node for node in members_of(mask) if node in on.shape.zones]
    step = 1
    if on.bound:
        step = 1000 * (on.cpu.cpus_per_core if on.required_policy == FULL_PCPUS else 1)
    available = available_amounts(on) if available is None else available
    split, short = split_amounts(dict(on.request.amounts), available, nodes, cpu_step=step)
    if short:
        return Trial(None, tuple(_why_short(on, name) for name in short))
    if not on.bound:
        return Trial(NumaAllocation(0, ordered(split)))
    cpus = _cpus_within(on, split, nodes)
    if isinstance(cpus, str):
        return Trial(None, (cpus,))
    return Trial(NumaAllocation(cpus, ordered(split), on.request.exclusive_policy))


def _why_short(on: Situation, name: str) -> str:
    if on.bound and name == CPU:
        return (OF_RESERVATION if on.offer.only_cpus else "") + NOT_ENOUGH_CPUS
    return (OF_RESERVATION if name in on.offer.only_amounts else "") + INSUFFICIENT.format(name)


def _cpus_within(on: Situation, split: AmountsByNumaNode, nodes: Sequence[int]) -> int | str:
    """Choose the CPUs of each NUMA node by its part of the request."""
    if not any(CPU in of for of in split.values()):
        within = 0
        for node in nodes:
            within |= on.cpu.nodes.get(node, 0)
        return _take(on, within, on.request.cpus)
    cpus = 0
    for node in nodes:
        count = split.get(node, {}).get(CPU, 0) // 1000
        cpus_or_reason = _take(on, on.cpu.nodes.get(node, 0), count)
        if isinstance(cpus_or_reason, str):
            return cpus_or_reason
        cpus |= cpus_or_reason
    return cpus


def _subset_score(on: Situation, available: AmountsByNumaNode, nodes: Sequence[int]) -> int:
    """Return the score of NUMA nodes for a hint."""
    capacity, free = sum_amounts(on.shape.zones, nodes), sum_amounts(available, nodes)
    used = {name: max(0, amount - free.get(name, 0)) for name, amount in capacity.items()}
    return score_amounts(on.options.numa, used, capacity, dict(on.request.amounts))


def _offered_score(on: Situation, nodes: Sequence[int]) -> int:
    """Return how much of the request a reservation offers on NUMA nodes; more than other scores.

    A pod uses the NUMA nodes of its reservation, however much is free on others.
    """
    if on.offer == NO_OFFER:
        return 0
    offered = sum_amounts({node: dict(of) for node, of in on.offer.amounts}, nodes)
    if on.bound:
        cpus = sum((on.offer.cpus & on.cpu.nodes.get(node, 0)).bit_count() for node in nodes)
        offered = {**offered, CPU: 1000 * cpus}
    shares = [min(offered.get(name, 0), amount) / amount for name, amount in on.request.amounts]
    return int(_MOST_OFFERED * sum(shares) / len(shares)) if shares else 0


def _final_score(on: Situation, allocation: NumaAllocation) -> int:
    """Return the score of the NUMA nodes that a pod would use; CPUs of a bound pod count whole."""
    nodes = [node for node, _ in allocation.amounts]
    used = sum_amounts({node: dict(of) for node, of in on.state.used}, nodes)
    for name, amount in sum_amounts({n: dict(of) for n, of in on.offer.amounts}, nodes).items():
        used[name] = max(0, used.get(name, 0) - amount)
    if allocation.cpus:
        held = on.held & on.cpu.all
        used[CPU] = amplify(1000 * held.bit_count(), on.shape.policies.ratio or 1.0)
    capacity = sum_amounts(on.shape.zones, nodes)
    return score_amounts(on.options.node, used, capacity, dict(on.request.amounts))

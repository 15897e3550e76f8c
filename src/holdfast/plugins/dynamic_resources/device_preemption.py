"""Preemption that frees devices: evict lower-priority users of the devices that a pod needs.

Upstream has none: a node without free devices is not a candidate of DefaultPreemption. A claim is
freed if every pod that it is reserved for is evicted. Which node and which victims are chosen
follows the order of DefaultPreemption; the dry run is a search with the freed devices.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from holdfast.api.devices import ClaimConsumer, ResourceClaim
from holdfast.columns.pod_info import PodInfo
from holdfast.devices.allocated_devices import AllocatedDevices, allocated_results
from holdfast.engine.disruption_budgets import DisruptionBudgets
from holdfast.engine.nominated_pods import (
    nominated_in_sets,
    run_filter_plugins_with_nominated_pods,
)
from holdfast.engine.preemption import (
    LOWEST_COST,
    SHIFT,
    PreemptionCost,
    cost_of,
    importance_key,
    preemption_refusal,
    protection_of,
)
from holdfast.framework.plugin import Candidate, Code, PostFilterResult
from holdfast.framework.rejection import EXCLUDED, Rejection
from holdfast.framework.view import View
from holdfast.plugins.dynamic_resources.nominated_claims import can_allocate_beside
from holdfast.plugins.dynamic_resources.state import DynamicResourcesState

WAITING = "waiting for the devices of preempted pods"
MAX_CANDIDATES = 32
"""Upstream compares a part of the nodes, too; those with the least important users come first."""
MAX_ROWS = 1000
"""Limits the time where no eviction helps."""


@dataclass(frozen=True, slots=True)
class FreeableClaim:
    """An allocated claim, and the pods that would have to be evicted to free its devices."""

    claim: ResourceClaim
    users: tuple[PodInfo, ...]
    pools: frozenset[tuple[str, str]]


class DevicePreemption:
    """One preemptor's search over the rows that lack devices."""

    def __init__(
        self, plugin: str, state: DynamicResourcesState, rejection: Rejection, view: View
    ) -> None:
        self._plugin = plugin
        self._state = state
        self._rejection = rejection
        self._view = view
        self._filters = [pair for pair in rejection.filters if pair[0].name != plugin]
        self._in_sets = nominated_in_sets(self._filters, view.world, view.pod)

    @cached_property
    def _allocated(self) -> AllocatedDevices:
        return self._state.inventory.allocated_devices.copy()

    @cached_property
    def _budgets(self) -> DisruptionBudgets:
        budgets = DisruptionBudgets(self._view.world)
        budgets.refresh()
        return budgets

    def result(self) -> PostFilterResult | None:
        """Return whom to evict and the node to nominate; None if preemption does not help."""
        rejection = self._rejection
        if rejection.pre_filter_reject is not None or preemption_refusal(rejection) is not None:
            return None
        in_progress = self._view.world.evictions.in_progress(self._view.pod.uid)
        if in_progress or self._waits_for_devices():
            return PostFilterResult(
                self._plugin, WAITING, code=Code.UNRESOLVABLE, victims_terminating=True
            )
        candidates = self._candidates()
        agreement = rejection.extender_preemption
        if agreement is not None and candidates:
            if agreement.error:
                message = f"preemption: {agreement.error}"
                return PostFilterResult(self._plugin, message, code=Code.ERROR)
            candidates = list(agreement.still_accepted(candidates))
        if not candidates:
            return None
        costs = [cost_of(candidate, self._view.now) for candidate in candidates]
        best = candidates[costs.index(min(costs))]
        tied = [c.node for c, cost in zip(candidates, costs, strict=True) if cost == min(costs)]
        return PostFilterResult(
            self._plugin, nominated_node=best.node, victims=best.victims, code=Code.PASS,
            candidates=tuple(candidates), tied_nodes=tuple(tied),
        )  # fmt: skip

    def _candidates(self) -> list[Candidate]:
        """Return the rows where evictions help, with their victims, in the order of the rows."""
        freeable = self._freeable_claims()
        if not freeable:
            return []
        found: dict[int, Candidate] = {}
        best: PreemptionCost | None = None
        for bound, row, claims in self._bounds(freeable)[:MAX_ROWS]:
            if best is not None and bound > best:
                break
            candidate = self._dry_run(row, claims)
            if candidate is not None:
                found[row] = candidate
                cost = cost_of(candidate, self._view.now)
                best = cost if best is None else min(best, cost)
            if len(found) == MAX_CANDIDATES:
                break
        return [found[row] for row in sorted(found)]

    def _freeable_claims(self) -> list[FreeableClaim]:
        """Return the claims that only pods use which may be evicted for this one."""
        protected, own = protection_of(self._rejection), {c.uid for c in self._state.claims}
        found = []
        for claim in self._state.inventory.claims.all():
            pools = frozenset((r.driver, r.pool) for r in allocated_results(claim))
            if not pools or claim.uid in own or not claim.status.reserved_for:
                continue
            if self._state.inventory.claims.in_flight(claim.uid) is not None:
                continue
            users = [self._view.nodes.pod(user.uid) for user in claim.status.reserved_for]
            evictable = tuple(u[0] for u in users if u is not None and self._is_evictable(u[0]))
            if len(evictable) == len(users) and not (protected and any(map(protected, evictable))):
                found.append(FreeableClaim(claim, evictable, pools))
        return found

    def _is_evictable(self, pod: PodInfo) -> bool:
        """Return whether a user of devices may be evicted.

        One that is not bound yet would keep its claim allocated when its binding is cancelled.
        """
        return self._is_lower(pod) and not self._view.nodes.is_assumed(pod.uid)

    def _is_lower(self, pod: PodInfo) -> bool:
        return pod.priority < self._view.pod.priority and not pod.is_reserve_pod

    def _bounds(
        self, freeable: Sequence[FreeableClaim]
    ) -> list[tuple[PreemptionCost, int, list[FreeableClaim]]]:
        """Return the rows that lack devices, with claims to free, the least lower bound first."""
        by_pool: dict[tuple[str, str], list[FreeableClaim]] = {}
        for one in freeable:
            for pool in one.pools:
                by_pool.setdefault(pool, []).append(one)
        bounds = []
        for row in self._rows():
            node = self._view.nodes.nodes[row]
            assert node is not None, f"row {row} is a node"
            claims = {
                one.claim.uid: one
                for pool in self._state.inventory.pools_of(node)
                for one in by_pool.get(pool.id, ())
            }
            if claims:
                least = min(user.priority for one in claims.values() for user in one.users)
                bound = LOWEST_COST._replace(highest=least, total=least + SHIFT, victims=1)
                bounds.append((bound, row, list(claims.values())))
        return sorted(bounds, key=lambda entry: entry[:2])

    def _rows(self) -> list[int]:
        """Return the rows that lack devices and that another filter did not exclude."""
        rows = self._view.nodes.rows
        rejected = (self._rejection.codes[rows] != 0) & (
            self._rejection.plugin_of[rows] != EXCLUDED
        )
        tried = rows[rejected]
        found: list[int] = tried[self._state.lack_devices(tried)].tolist()
        return found

    def _dry_run(self, row: int, claims: Sequence[FreeableClaim]) -> Candidate | None:
        """Find the fewest and least important victims on a row; None if evictions do not help."""
        users = {user.uid: user for one in claims for user in one.users}
        if not self._has_devices(row, claims, users):
            return None
        if not self._passes_others(row, users):
            # Other pods of the node may have to go as well, for their resources.
            users |= {p.uid: p for p in self._lower_on(row)}
            if not self._passes_others(row, users):
                return None
        # Usually only devices are missing: then the other filters pass with any of these pods.
        only_devices = self._passes_others(row, {})
        now = self._view.now
        order = sorted(users.values(), key=lambda pod: importance_key(pod, now))
        violating = {order[rank].uid for rank in self._budgets.violating(order)}
        order.sort(key=lambda pod: pod.uid not in violating)
        victims = dict(users)
        for pod in order:
            del victims[pod.uid]
            passes = self._has_devices(row, claims, victims)
            if not passes or not (only_devices or self._passes_others(row, victims)):
                victims[pod.uid] = pod
        if not victims or not self._passes_others(row, victims):
            return None
        ordered = tuple(sorted(victims.values(), key=lambda pod: importance_key(pod, now)))
        count = sum(pod.uid in violating for pod in ordered)
        return Candidate(self._view.nodes.names[row], ordered, count)

    def _lower_on(self, row: int) -> Iterable[PodInfo]:
        protected = protection_of(self._rejection)
        there = self._view.nodes.pods_on(row).values()
        return [p for p in there if self._is_lower(p) and not (protected and protected(p))]

    def _has_devices(
        self, row: int, claims: Sequence[FreeableClaim], victims: Collection[str]
    ) -> bool:
        """Return whether the pod's claims can be allocated without these pods."""
        freed = [one.claim for one in claims if all(user.uid in victims for user in one.users)]
        return self._can_allocate(row, freed)

    def _can_allocate(self, row: int, freed: Sequence[ResourceClaim]) -> bool:
        """Return whether a row has devices without these claims, beside pods nominated to it."""
        results = [result for claim in freed for result in allocated_results(claim)]
        for result in results:
            self._allocated.deallocate(result)
        nominated = self._view.world.nominations.ahead_of(self._view.pod, row).values()
        try:
            return can_allocate_beside(self._state, row, nominated, self._allocated)
        finally:
            for result in results:
                self._allocated.allocate(result)

    def _passes_others(self, row: int, victims: dict[str, PodInfo]) -> bool:
        """Return whether the row passes all other filters without these pods."""
        there = self._view.nodes.pods_on(row)
        removed = [pod for uid, pod in victims.items() if uid in there]
        beside = self._view.world.nominations.ahead_of(self._view.pod, row)
        status = run_filter_plugins_with_nominated_pods(
            self._filters, row, beside, removed, self._in_sets
        )
        return status is None

    def _waits_for_devices(self) -> bool:
        """Return whether the pods that use devices of the nominated node terminate already.

        Their claims are deallocated a moment after they are gone; until then nobody else is
        evicted.
        """
        nominated = self._view.world.nominations.node_of(self._view.pod.uid)
        row = self._view.nodes.row_of.get(
            nominated or self._view.pod.pod.status.nominated_node_name
        )
        if row is None or not self._state.lack_devices(np.array([row], np.intp))[0]:
            return False
        leaving = [
            claim
            for claim in self._state.inventory.claims.all()
            if claim.status.reserved_for
            and all(self._is_leaving(user) for user in claim.status.reserved_for)
            and self._state.inventory.claims.in_flight(claim.uid) is None
        ]
        return bool(leaving) and self._can_allocate(row, leaving)

    def _is_leaving(self, user: ClaimConsumer) -> bool:
        entry = self._view.nodes.pod(user.uid)
        if entry is None:
            return user.resource == "pods" and not user.api_group
        return entry[0].terminating

"""Claims whose devices become free if pods of lower priority are evicted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from holdfast.api.devices import ClaimConsumer, DeviceResult, ResourceClaim
from holdfast.scheduling.framework.plugin import Rows
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.plugins.dynamic_resources.device_search import (
    PodClaimsSearch,
    device_backed_names,
)
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.columns.ranked_pods import NO_POD_PRIORITY, ReadValue
from holdfast.state.devices.allocated_devices import allocated_results
from holdfast.state.devices.inventory import Inventory
from holdfast.state.devices.slices import PoolId


@dataclass(frozen=True, slots=True)
class FreeableClaim:
    """An allocated claim, and the pods that would have to be evicted to free its devices.

    There are none if its users are gone or terminate: it is deallocated a moment after them.
    """

    claim: ResourceClaim
    users: tuple[PodInfo, ...]
    uids: frozenset[str]
    """The uids of the users."""
    results: tuple[DeviceResult, ...]
    """The devices that become free."""

    @classmethod
    def of(cls, claim: ResourceClaim, users: tuple[PodInfo, ...]) -> FreeableClaim:
        """Read the values that a dry run needs repeatedly."""
        uids = frozenset(user.uid for user in users)
        return cls(claim, users, uids, allocated_results(claim))


class FreeableClaims:
    """The claims whose users may all be evicted for a preemptor, by pool."""

    def __init__(
        self,
        devices: PodClaimsSearch,
        view: View,
        is_protected: Callable[[PodInfo], bool] | None,
    ) -> None:
        self._devices = devices
        self._claims = devices.inventory.claims
        self._view = view
        self._is_protected = is_protected
        self._own = {claim.uid for claim in devices.claims}
        self._of_pool: dict[PoolId, tuple[FreeableClaim, ...]] = {}
        self.binding = self._claims.has_in_flight
        """Whether a user is not bound yet: its devices may be freed after that."""

    def of_row(self, row: int) -> tuple[FreeableClaim, ...]:
        """Return the claims with devices that the node of a row can use."""
        node = self._view.nodes.nodes[row]
        assert node is not None, f"row {row} is a node"
        by_uid = {
            one.claim.uid: one
            for pool in self._devices.inventory.node_pools.of(node)
            for one in self._of(pool.id)
        }
        return tuple(by_uid.values())

    def lowest_priorities(self, rows: Rows) -> NDArray[np.int64]:
        """Return a lower bound of the least priority among the users of devices of each row."""
        view, inventory = self._view, self._devices.inventory
        ranked = view.nodes.ranked_pods()
        uses = ranked.values_of(*_users_of_devices(view.nodes, inventory)).columns()
        priority = ranked.priority.columns()
        # Both have empty ranks at the end, but not equally many.
        ranks = min(len(uses), len(priority))
        lowest: NDArray[np.int64] = np.where(
            uses[:ranks, rows], priority[:ranks, rows], NO_POD_PRIORITY
        ).min(axis=0, initial=NO_POD_PRIORITY)
        if inventory.node_pools.has_shared:
            # Devices that several nodes can reach may be used by pods of other nodes.
            shared = inventory.allocation_cache.shared_pools()
            shared.refresh(rows)
            of_group = [
                min(map(self._lowest_user, pools), default=NO_POD_PRIORITY)
                for pools in shared.pools
            ]
            lowest = np.minimum(lowest, np.array(of_group, np.int64)[shared.group[rows]])
        return lowest

    def _lowest_user(self, pool: PoolId) -> int:
        users = (user for one in self._of(pool) for user in one.users)
        return min((user.priority for user in users), default=NO_POD_PRIORITY)

    def _of(self, pool: PoolId) -> tuple[FreeableClaim, ...]:
        freeable_claims = self._of_pool.get(pool)
        if freeable_claims is None:
            claims = map(self._freeable, self._claims.in_pool(pool))
            freeable_claims = self._of_pool[pool] = tuple(one for one in claims if one is not None)
        return freeable_claims

    def _freeable(self, claim: ResourceClaim) -> FreeableClaim | None:
        reserved_for = claim.status.reserved_for
        if not reserved_for or claim.uid in self._own:
            return None
        if self._claims.in_flight(claim.uid) is not None:
            return None
        if all(map(self._is_leaving, reserved_for)):
            return FreeableClaim.of(claim, ())
        users = [self._view.nodes.pod(user.uid) for user in reserved_for]
        pods = tuple(
            user[0] for user in users if user is not None and is_lower(user[0], self._view)
        )
        if len(pods) < len(users) or (self._is_protected and any(map(self._is_protected, pods))):
            return None
        if any(self._view.nodes.is_assumed(pod.uid) for pod in pods):
            # Its claim would stay allocated when its binding is cancelled.
            self.binding = True
            return None
        return FreeableClaim.of(claim, pods)

    def _is_leaving(self, user: ClaimConsumer) -> bool:
        entry = self._view.nodes.pod(user.uid)
        if entry is None:
            return user.is_pod
        return entry[0].terminating


def rank_users_in_steps(pod: PodInfo, nodes: NodeTable, inventory: Inventory) -> Iterator[None]:
    """Compute what preemption will read, with pauses in which the world may change."""
    ranked = yield from nodes.ranked_pods_in_steps()
    for resource, _ in pod.request:
        yield from ranked.amounts_in_steps(resource)
    yield from ranked.values_in_steps(*_users_of_devices(nodes, inventory))
    if inventory.node_pools.has_shared:
        shared = inventory.allocation_cache.shared_pools()
        yield from shared.refresh_in_steps(lambda: nodes.rows)


def _users_of_devices(nodes: NodeTable, inventory: Inventory) -> tuple[str, ReadValue, int]:
    """Return the arguments of ``RankedPods.values_of`` for pods that use devices."""
    return "devices", partial(_uses_devices, nodes, inventory), nodes.epochs[Epoch.CLASSES]


def _uses_devices(nodes: NodeTable, inventory: Inventory, pod: PodInfo) -> int:
    if pod.pod.structured_claims:
        return 1
    return int(bool(device_backed_names(pod, nodes, inventory)))


def is_lower(pod: PodInfo, view: View) -> bool:
    """Return whether the pod's priority is lower than the preemptor's."""
    return pod.priority < view.pod.priority and not pod.is_reserve_pod

"""The pools of each node, gathered from slices; gathered again only after a change of its slices.

Slices with devices for named nodes concern only these nodes. Slices with counters belong to the
devices of their pool, wherever those are. A pool is built once for all nodes that see the same
slices of it, so two nodes have equal devices of a pool if they have the same ``Pool``.

The cost of a change of a device is the number of nodes that it invalidates. A slice with counters
names no node. When it concerned all nodes for that reason, each allocation gathered the pools of
every node again and searched every row (11 s per decision with 500 nodes). Now it concerns the
nodes whose devices share its counters (``_affected_nodes``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from holdfast.api.node import Node
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.devices.features import Features
from holdfast.state.devices.pools import (
    CountersByGeneration,
    Pool,
    PoolCounters,
    build_pool,
    in_search_order,
    newest_by_pool,
    pool_without_devices,
)
from holdfast.state.devices.row_table import RowTable
from holdfast.state.devices.slices import ALL_NODES, DeviceId, PoolId, SliceInfo

if TYPE_CHECKING:
    from holdfast.state.devices.inventory import Inventory


_MANY_NODES = 64
"""From this number on, invalidating all nodes costs less than one after the other; estimated."""
_Slices = dict[str, SliceInfo]
_T = TypeVar("_T")


class NodePools:
    """Slices by node and by pool; ``invalidate`` is called with each node whose pools changed."""

    def __init__(
        self,
        features: Features,
        invalidate: Callable[[str], None],
        is_allocated: Callable[[DeviceId], bool],
    ) -> None:
        self._features = features
        self._invalidate = invalidate
        self._is_allocated = is_allocated
        self._slices: _Slices = {}
        self._of_node: dict[str, _Slices] = {}
        self._of_pool: dict[PoolId, _Slices] = {}
        self._of: dict[str, tuple[Node, tuple[Pool, ...]]] = {}
        """By name, the pools of a node; ``_pool_changed`` removes those that have changed."""
        self._built: dict[PoolId, dict[tuple[str, ...], Pool | None]] = {}
        self._counters: dict[PoolId, CountersByGeneration] = {}
        self._overcommitted: dict[PoolId, dict[PoolCounters, frozenset[str]]] = {}
        self._nodes_with: dict[PoolId, set[str]] = {}
        self._affected: dict[PoolId, dict[str, frozenset[str]]] = {}
        self.slice_changes = 0
        """How often the pools of all nodes changed, not only devices of pools that they share."""
        self.changes: dict[PoolId, int] = {}
        """How often devices of a pool were allocated or deallocated since its slices changed."""
        self._faulty: dict[PoolId, tuple[Pool, frozenset[str]]] = {}

    @property
    def has_faulty(self) -> bool:
        """Whether a pool with counters is incomplete or invalid: nodes without it report it too."""
        return bool(self._faulty)

    @property
    def has_shared(self) -> bool:
        """Whether there are pools with devices that are not for one named node."""
        return ALL_NODES in self._of_node

    @property
    def slices(self) -> Collection[SliceInfo]:
        """All known slices."""
        return self._slices.values()

    def of(self, node: Node) -> tuple[Pool, ...]:
        """Return the pools with devices for this node, in search order."""
        name = node.metadata.name
        known = self._of.get(name)
        if known is None or known[0] is not node:
            known = self._of[name] = (node, self._gather(node))
        return known[1]

    def by_sharing(self, node: Node) -> tuple[tuple[Pool, ...], tuple[Pool, ...]]:
        """Return the node's own pools, and those that other nodes have too."""
        pools = self.of(node)
        if not self.has_shared:
            return pools, ()
        shared = tuple(pool for pool in pools if pool.is_shared)
        return (tuple(p for p in pools if not p.is_shared), shared) if shared else (pools, ())

    def with_faulty(self, node: Node) -> tuple[Pool, ...]:
        """Return the pools that a search on this node sees, the faulty ones included."""
        pools = self.of(node)
        if not self._faulty:
            return pools
        elsewhere = (pool for pool, nodes in self._faulty.values() if node.name not in nodes)
        return in_search_order((*pools, *elsewhere))

    def nodes_without_fault(self, *, invalid: bool = False) -> frozenset[str] | None:
        """Return the nodes that see no faulty, or invalid, pool of other nodes; None: all nodes."""
        seeing = [
            nodes for pool, nodes in self._faulty.values() if pool.invalid_reason or not invalid
        ]
        return frozenset.intersection(*seeing) if seeing else None

    def upsert(self, slice_info: SliceInfo) -> None:
        """Add or update a slice."""
        self.delete(slice_info.name)
        self._slices[slice_info.name] = slice_info
        for node in slice_info.node_names:
            self._of_node.setdefault(node, {})[slice_info.name] = slice_info
        self._of_pool.setdefault(slice_info.pool, {})[slice_info.name] = slice_info
        self._pool_changed(slice_info.pool)

    def delete(self, name: str) -> None:
        """Remove a slice; an unknown one is ignored."""
        slice_info = self._slices.pop(name, None)
        if slice_info is None:
            return
        rest = self._of_pool[slice_info.pool]
        nodes = _node_names(rest.values())
        del rest[name]
        self._pool_changed(slice_info.pool, nodes)
        if not rest:
            del self._of_pool[slice_info.pool]
        for node in slice_info.node_names:
            del self._of_node[node][name]
            if not self._of_node[node]:
                del self._of_node[node]

    def delete_node(self, name: str) -> None:
        """Remove what is cached for a node."""
        self._of.pop(name, None)
        for nodes in self._nodes_with.values():
            nodes.discard(name)

    def device_changed(self, device: DeviceId) -> None:
        """Invalidate the nodes for which it matters that the device is allocated or not."""
        pool = device[:2]
        if pool not in self._of_pool:
            return
        self.changes[pool] = self.changes.get(pool, 0) + 1
        affected = self._affected.get(pool)
        if affected is None:
            affected = self._affected[pool] = _affected_nodes(self._of_pool[pool].values())
        nodes = affected.get(device[2], frozenset())
        if pool in self._overcommitted and self._overcommitment_changes(device):
            nodes = _node_names(self._of_pool[pool].values())
        if ALL_NODES in nodes:
            sharing = self._nodes_with.get(pool, set())
            if len(sharing) >= _MANY_NODES:
                self._invalidate(ALL_NODES)
                nodes = nodes - sharing - {ALL_NODES}
            else:
                nodes = nodes.union(sharing) - {ALL_NODES}
        if len(nodes) >= _MANY_NODES:
            self.slice_changes += 1
            self._invalidate(ALL_NODES)
            return
        for node in nodes:
            self._invalidate(node)

    def is_overcommitted(self, pool: Pool) -> bool:
        """Return whether allocated devices consume more than there is of any counter of a pool."""
        known = self._overcommitted.setdefault(pool.id, {})
        if pool.counters not in known:
            known[pool.counters] = pool.counters.overcommitted(self._is_allocated)
        return bool(known[pool.counters])

    def _overcommitment_changes(self, device: DeviceId) -> bool:
        """Return whether a device that changed also changes a result of ``is_overcommitted``."""
        changes, known = False, self._overcommitted.get(device[:2], {})
        for counters, before in known.items():
            sets = [
                name
                for name, consumers in counters.consumers.items()
                if any(candidate.id == device for candidate in consumers)
            ]
            now = (before - set(sets)) | counters.overcommitted(self._is_allocated, sets)
            known[counters] = now
            changes = changes or bool(now) != bool(before)
        return changes

    def fork(
        self, invalidate: Callable[[str], None], is_allocated: Callable[[DeviceId], bool]
    ) -> NodePools:
        """Return an independent copy."""
        copy = NodePools(self._features, invalidate, is_allocated)
        copy._slices = dict(self._slices)
        copy._of_node = {name: dict(slices) for name, slices in self._of_node.items()}
        copy._of_pool = {pool: dict(slices) for pool, slices in self._of_pool.items()}
        copy._of = dict(self._of)
        copy._built = {pool: dict(built) for pool, built in self._built.items()}
        copy._nodes_with = {pool: set(nodes) for pool, nodes in self._nodes_with.items()}
        copy._counters = {pool: dict(known) for pool, known in self._counters.items()}
        copy._overcommitted = {pool: dict(known) for pool, known in self._overcommitted.items()}
        copy._affected, copy._faulty = dict(self._affected), dict(self._faulty)
        copy.changes, copy.slice_changes = dict(self.changes), self.slice_changes
        return copy

    def _gather(self, node: Node) -> tuple[Pool, ...]:
        own, shared = self._of_node.get(node.name, {}), self._of_node.get(ALL_NODES, {})
        seen = {**own, **shared} if own and shared else own or shared
        if not seen:
            return ()
        pools = {slice_info.pool for slice_info in seen.values()}
        counters = (s for pool in pools for s in self._of_pool[pool].values() if s.counters)
        node_pools = []
        for pool_id, here in newest_by_pool((*seen.values(), *counters), node, self._features):
            names = tuple(sorted(slice_info.name for slice_info in here))
            built = self._built.setdefault(pool_id, {})
            if names not in built:
                every = tuple(self._of_pool[pool_id].values())
                known = self._counters.setdefault(pool_id, {})
                built[names] = build_pool(pool_id, here, every, self._features, known)
            pool = built[names]
            if pool is not None:
                node_pools.append(pool)
                if pool.is_shared:
                    self._nodes_with.setdefault(pool_id, set()).add(node.name)
        return in_search_order(node_pools)

    def _pool_changed(self, pool_id: PoolId, before: frozenset[str] = frozenset()) -> None:
        """Invalidate every node with devices of this pool: it may have become complete or not."""
        slices = tuple(self._of_pool[pool_id].values())
        self._built.pop(pool_id, None)
        self._counters.pop(pool_id, None)
        self._overcommitted.pop(pool_id, None)
        self._nodes_with.pop(pool_id, None)
        self._affected.pop(pool_id, None)
        self.changes.pop(pool_id, None)
        self._faulty.pop(pool_id, None)
        names, elsewhere = _node_names(slices), pool_without_devices(slices, self._features)
        if elsewhere is not None and elsewhere.is_faulty and ALL_NODES not in names:
            self._faulty[pool_id] = (elsewhere, names)
        if ALL_NODES in before | names:
            self.slice_changes += 1
            self._of.clear()
        for node in before | names:
            self._of.pop(node, None)
            self._invalidate(node)


class PoolValues(Generic[_T]):
    """A value of each pool, computed once after each change of its devices for all its nodes."""

    def __init__(self, pools: NodePools, compute: Callable[[Pool, Node], _T]) -> None:
        self._pools = pools
        self._compute = compute
        self._values: WeakKeyDictionary[Pool, tuple[int, _T]] = WeakKeyDictionary()

    def of(self, pool: Pool, node: Node) -> _T:
        """Return the value of a pool; it may depend on the node only if devices select nodes."""
        if pool.selects_nodes_by_device:
            return self._compute(pool, node)
        version = self._pools.changes.get(pool.id, 0)
        known = self._values.get(pool)
        if known is None or known[0] != version:
            known = self._values[pool] = (version, self._compute(pool, node))
        return known[1]


def _node_names(slices: Iterable[SliceInfo]) -> frozenset[str]:
    return frozenset(node for slice_info in slices for node in slice_info.node_names)


def _affected_nodes(slices: Iterable[SliceInfo]) -> dict[str, frozenset[str]]:
    """Return for each device of a pool its nodes, and those whose devices share its counters."""
    candidates = [c for slice_info in slices for c in slice_info.candidates]
    sharing: dict[str, set[str]] = {}
    for candidate in candidates:
        for set_name in candidate.consumed_counters:
            sharing.setdefault(set_name, set()).add(candidate.node_name)
    affected: dict[str, frozenset[str]] = {}
    for candidate in candidates:
        name, consumed = candidate.device.name, candidate.consumed_counters
        nodes = affected.get(name, frozenset()) | {candidate.node_name}
        affected[name] = nodes.union(*(sharing[set_name] for set_name in consumed))
    return affected


class SharedPools(RowTable):
    """The pools with devices for several nodes that each row has: ``pools[group[row]]``."""

    def __init__(self, inventory: Inventory, nodes: NodeTable) -> None:
        super().__init__(inventory, nodes)
        self._numbers: dict[tuple[PoolId, ...], int] = {}
        self.group: NDArray[np.int32] = np.zeros(0, np.int32)

    @property
    def pools(self) -> list[tuple[PoolId, ...]]:
        """The pools of each group."""
        return [*self._numbers]

    def _resize(self, capacity: int) -> None:
        self._numbers.clear()
        self.group = np.zeros(capacity, np.int32)

    def _evaluate(self, row: int, node: Node) -> Iterator[None]:
        shared = self._inventory.node_pools.by_sharing(node)[1]
        pools = tuple(pool.id for pool in shared)
        self.group[row] = self._numbers.setdefault(pools, len(self._numbers))
        yield from ()

    def _copy(self, row: int, rows: NDArray[np.intp]) -> None:
        raise AssertionError("no row has a key: the groups do not depend on allocations")

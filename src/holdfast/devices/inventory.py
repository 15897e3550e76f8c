"""The devices of the cluster: slices, classes, claims, and which devices are allocated.

A change that affects one node is logged in the journal with that node's row. A change that affects
every node, such as a slice for all nodes, bumps the ``devices`` epoch. Changed classes bump the
epoch ``classes``, changed claims the epoch ``claims``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import get_args

from holdfast.api.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from holdfast.api.meta import Object
from holdfast.api.node import Node
from holdfast.api.resource_names import DEVICE_CLASS_PREFIX
from holdfast.cel import DeviceSelectors
from holdfast.columns.node_table import NodeTable
from holdfast.devices.allocated_devices import AllocatedDevices
from holdfast.devices.allocation_cache import AllocationCache
from holdfast.devices.allocator import Allocator
from holdfast.devices.claims import Claims
from holdfast.devices.device_backed_resource import DeviceBackedResource
from holdfast.devices.features import Features
from holdfast.devices.pools import Pool, gather_pools
from holdfast.devices.slice_tracker import SliceTracker
from holdfast.devices.slices import DeviceId, PoolId, SliceInfo

IMPLICIT_PREFIX = DEVICE_CLASS_PREFIX
"""Each device class is also an extended resource: this prefix followed by the class name."""
_Slices = dict[str, SliceInfo]
_Taken = DeviceClass | DeviceTaintRule | ResourceSlice | ResourceClaim | Node


class Inventory:
    """The ledger of devices; a part of the ``World``."""

    takes: tuple[type[Object], ...] = get_args(_Taken)

    def __init__(self, nodes: NodeTable, features: Features | None = None) -> None:
        self._nodes = nodes
        self.features = features or Features()
        self.selectors = DeviceSelectors(list_attributes=self.features.list_attributes)
        self.classes = Classes()
        self.claims = Claims(self._device_changed)
        self._tracker = SliceTracker()
        self._slices: _Slices = {}
        self._of_node: dict[str, _Slices] = {}
        self._of_pool: dict[PoolId, _Slices] = {}
        self._versions: dict[str, int] = {}
        self._pools: dict[str, tuple[Node, int, int, tuple[Pool, ...]]] = {}
        self.allocation_cache = AllocationCache(self, nodes)

    # --- read by plugins

    @property
    def allocated_devices(self) -> AllocatedDevices:
        """The allocated devices, including allocations in flight."""
        return self.claims.allocated_devices

    @property
    def slices(self) -> Collection[SliceInfo]:
        """All known slices."""
        return self._slices.values()

    def device_class_for(self, resource: str) -> str | None:
        """Return the device class of an extended resource, or None (epoch ``classes``)."""
        if not self.features.extended_resource:
            return None
        return self.classes.serving(resource)

    def device_backed(self, request: Iterable[tuple[int, int]]) -> frozenset[int]:
        """Return which of these resources have a device class (epoch ``classes``)."""
        if not self.classes.by_name or not self.features.extended_resource:
            return frozenset()
        names = self._nodes.resources
        return frozenset(r for r, _ in request if self.device_class_for(names[r]) is not None)

    def device_backed_resources(self, resources: Iterable[int]) -> dict[int, DeviceBackedResource]:
        """Return the device counts of those resources that have a device class.

        They depend on the epochs ``classes`` and ``devices``.
        """
        names, found = self._nodes.resources, {}
        for resource in resources:
            device_class = self.device_class_for(names[resource])
            if device_class is not None:
                counts = self.allocation_cache.counts(self.classes.by_name[device_class])
                found[resource] = DeviceBackedResource(self._nodes, resource, counts)
        return found

    def allocator(self, claims: Sequence[ResourceClaim]) -> Allocator:
        """Return an allocator for these claims; raise AllocationError if no node can serve them."""
        return Allocator(claims, self.classes.by_name, self.selectors, self.features)

    def pools_of(self, node: Node) -> tuple[Pool, ...]:
        """Return the pools with devices for this node, in search order."""
        of_all_nodes = self._versions.get("", 0)
        own = self._versions.get(node.name, 0)
        known = self._pools.get(node.name)
        if known is not None and known[0] is node and known[1:3] == (of_all_nodes, own):
            return known[3]
        slices = {**self._of_node.get(node.name, {}), **self._of_node.get("", {})}
        by_pool = {
            pool: tuple(self._of_pool[pool].values())
            for pool in {slice_info.pool for slice_info in slices.values()}
        }
        pools = gather_pools(slices.values(), by_pool, node, self.features)
        self._pools[node.name] = (node, of_all_nodes, own, pools)
        return pools

    # --- events

    def upsert(self, obj: _Taken) -> None:
        """Add or update an object; an older version of a claim is ignored."""
        if isinstance(obj, Node):
            return
        if isinstance(obj, ResourceClaim):
            if self.claims.upsert(obj):
                self._nodes.epochs.bump("claims")
        elif isinstance(obj, DeviceClass):
            self.classes.upsert(obj)
            self._classes_changed()
        elif isinstance(obj, DeviceTaintRule):
            self._replace_slices(self._tracker.upsert_rule(obj))
        else:
            self._replace_slices((self._tracker.upsert_slice(obj),))

    def delete(self, obj: _Taken) -> None:
        """Remove an object; an unknown object is ignored."""
        if isinstance(obj, Node):
            self._pools.pop(obj.name, None)
        elif isinstance(obj, ResourceClaim):
            self.claims.delete(obj)
            self._nodes.epochs.bump("claims")
        elif isinstance(obj, DeviceClass):
            self.classes.delete(obj.name)
            self._classes_changed()
        elif isinstance(obj, DeviceTaintRule):
            self._replace_slices(self._tracker.delete_rule(obj.name))
        else:
            self._tracker.delete_slice(obj.name)
            self._drop_slice(obj.name)

    def fork(self, nodes: NodeTable) -> Inventory:
        """Return an independent copy over a fork of the node table."""
        copy = Inventory(nodes, self.features)
        copy.selectors = self.selectors
        copy.classes = self.classes.fork()
        copy.claims = self.claims.fork(copy._device_changed)
        copy._tracker = self._tracker.fork()
        copy._slices = dict(self._slices)
        copy._of_node = {name: dict(slices) for name, slices in self._of_node.items()}
        copy._of_pool = {pool: dict(slices) for pool, slices in self._of_pool.items()}
        copy._versions = dict(self._versions)
        copy._pools = dict(self._pools)
        return copy

    # --- slices

    def _replace_slices(self, slices: Iterable[ResourceSlice]) -> None:
        for slice_ in slices:
            self._drop_slice(slice_.name)
            self._add_slice(SliceInfo(slice_))

    def _add_slice(self, slice_info: SliceInfo) -> None:
        self._slices[slice_info.name] = slice_info
        self._of_node.setdefault(slice_info.node_name, {})[slice_info.name] = slice_info
        self._of_pool.setdefault(slice_info.pool, {})[slice_info.name] = slice_info
        self._pool_changed(slice_info)

    def _drop_slice(self, name: str) -> None:
        slice_info = self._slices.pop(name, None)
        if slice_info is None:
            return
        self._pool_changed(slice_info)
        for index, key in ((self._of_node, slice_info.node_name), (self._of_pool, slice_info.pool)):
            del index[key][name]  # type: ignore[index]
            if not index[key]:  # type: ignore[index]
                del index[key]  # type: ignore[arg-type]
        if slice_info.node_name and slice_info.node_name not in self._of_node:
            # Versions start at 0 again, so results cached under the old ones must go too.
            self._versions.pop(slice_info.node_name, None)
            self._pools.pop(slice_info.node_name, None)

    def _pool_changed(self, slice_info: SliceInfo) -> None:
        """Invalidate every node with slices of this pool: it may have become complete or not."""
        for node in {other.node_name for other in self._of_pool[slice_info.pool].values()}:
            self._versions[node] = self._versions.get(node, 0) + 1
            self._invalidate(node)

    def _device_changed(self, device: DeviceId) -> None:
        slices = self._of_pool.get(device[:2], {})
        for node in {slice_info.node_name for slice_info in slices.values()}:
            self._invalidate(node)

    def _invalidate(self, node: str) -> None:
        """Invalidate the results of one node, or of all nodes for the empty name."""
        if not node:
            self._nodes.epochs.bump("devices")
        elif (row := self._nodes.row_of.get(node)) is not None:
            self._nodes.journal.log(row)

    def _classes_changed(self) -> None:
        self.allocation_cache.clear()
        self._nodes.epochs.bump("classes")


class Classes:
    """Device classes by name, and the class of each extended resource (KEP-5004).

    The class of a resource is always computed from all classes.
    """

    __slots__ = ("_explicit", "by_name")

    def __init__(self) -> None:
        self.by_name: dict[str, DeviceClass] = {}
        self._explicit: dict[str, str] = {}

    def upsert(self, device_class: DeviceClass) -> None:
        """Add or update a class."""
        self.by_name[device_class.name] = device_class
        self._resolve()

    def delete(self, name: str) -> None:
        """Remove a class; another class with the same resource name takes its place."""
        if self.by_name.pop(name, None) is not None:
            self._resolve()

    def serving(self, resource: str) -> str | None:
        """Return the name of the class that serves an extended resource, or None.

        Of several classes with the same explicit resource name the newest is used; if they were
        created in the same second, the first by name. Every class also has its implicit name.
        """
        if resource.startswith(IMPLICIT_PREFIX):
            name = resource[len(IMPLICIT_PREFIX) :]
            return name if name in self.by_name else None
        return self._explicit.get(resource)

    def fork(self) -> Classes:
        """Return an independent copy."""
        copy = Classes()
        copy.by_name, copy._explicit = dict(self.by_name), dict(self._explicit)
        return copy

    def _resolve(self) -> None:
        # The class to use is sorted last and overwrites the others. Timestamps have one format,
        # so sorting their texts sorts the times.
        by_name = sorted(self.by_name.values(), key=lambda c: c.name, reverse=True)
        self._explicit = {
            c.spec.extended_resource_name: c.name
            for c in sorted(by_name, key=lambda c: c.metadata.creation_timestamp or "")
            if c.spec.extended_resource_name
        }

"""The devices of the cluster: slices, classes, claims, and which devices are allocated.

A change that affects one node is logged in the journals with that node's row. A change that affects
every node, such as a slice for all nodes, bumps the ``devices`` epoch. Changed classes bump the
epoch ``classes``, and claims that were asked for before they were known bump the epoch ``awaited``.
Other claims change for every pod that uses one. An epoch would invalidate the classes of pods, so
these changes are counted in ``claim_changes``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import get_args

from holdfast.api.cel import DeviceSelectors
from holdfast.api.devices import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
    devices_of_claim,
)
from holdfast.api.meta import Object
from holdfast.api.node import Node
from holdfast.api.resource_names import DEVICE_CLASS_PREFIX
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.devices.allocated_devices import AllocatedDevices
from holdfast.state.devices.allocation_cache import AllocationCache
from holdfast.state.devices.allocator import Allocator
from holdfast.state.devices.claims import Claims
from holdfast.state.devices.device_counts import DeviceBackedResource
from holdfast.state.devices.features import Features
from holdfast.state.devices.node_pools import NodePools
from holdfast.state.devices.pools import Pool
from holdfast.state.devices.slice_tracker import SliceTracker
from holdfast.state.devices.slices import ALL_NODES, DeviceId, SliceInfo

IMPLICIT_PREFIX = DEVICE_CLASS_PREFIX
"""Each device class is also an extended resource: this prefix followed by the class name."""
_MOST_AWAITED = 4096
_Taken = DeviceClass | DeviceTaintRule | ResourceSlice | ResourceClaim | Node


class Inventory:
    """The ledger of devices; a part of the ``World``."""

    takes: tuple[type[Object], ...] = get_args(_Taken)

    def __init__(self, nodes: NodeTable, features: Features | None = None) -> None:
        self._nodes = nodes
        self.features = features or Features()
        self.selectors = DeviceSelectors(list_attributes=self.features.list_attributes)
        self.classes = Classes()
        self.node_pools = NodePools(self.features, self._invalidate, self._is_allocated)
        self._tracker = SliceTracker()
        self.claims = Claims(self.node_pools.device_changed)
        self.claim_changes = 0
        self._awaited: dict[str, None] = {}
        """Keys of unknown claims whose devices were asked for."""
        self.allocation_cache = AllocationCache(self, nodes)

    # --- read by plugins

    @property
    def allocated_devices(self) -> AllocatedDevices:
        """The allocated devices, including allocations in flight."""
        return self.claims.allocated_devices

    @property
    def slices(self) -> Collection[SliceInfo]:
        """All known slices."""
        return self.node_pools.slices

    def device_class_for(self, resource: str) -> str | None:
        """Return the device class of an extended resource, or None (epoch ``classes``)."""
        if not self.features.extended_resource:
            return None
        return self.classes.serving(resource)

    def extended_name_of(self, device_class: str) -> str:
        """Return the explicit extended resource name of a class, or "" (epoch ``classes``)."""
        class_object = self.classes.by_name.get(device_class)
        return (class_object.spec.extended_resource_name or "") if class_object is not None else ""

    def devices_of(self, namespace: str, name: str) -> Mapping[str, int]:
        """Return the devices of a claim by class; none while it is unknown (epoch ``awaited``)."""
        claim = self.claims.get(namespace, name)
        if claim is not None:
            return devices_of_claim(claim)
        self._awaited[f"{namespace}/{name}"] = None
        if len(self._awaited) > _MOST_AWAITED:
            del self._awaited[next(iter(self._awaited))]
        return {}

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
        names, by_resource = self._nodes.resources, {}
        for resource in resources:
            device_class = self.device_class_for(names[resource])
            if device_class is not None:
                counts = self.allocation_cache.counts(self.classes.by_name[device_class])
                by_resource[resource] = DeviceBackedResource(self._nodes, resource, counts)
        return by_resource

    def allocator(self, claims: Sequence[ResourceClaim]) -> Allocator:
        """Return an allocator for these claims; raise AllocationError if no node can serve them."""
        return self.allocation_cache.allocator(claims)

    def pools_of(self, node: Node) -> tuple[Pool, ...]:
        """Return the pools that a search on this node sees, in search order."""
        return self.node_pools.with_faulty(node)

    # --- events

    def upsert(self, obj: _Taken) -> None:
        """Add or update an object; an older version of a claim is ignored."""
        if isinstance(obj, Node):
            return
        if isinstance(obj, ResourceClaim):
            self.claim_changes += self.claims.upsert(obj)
            if obj.key in self._awaited:
                del self._awaited[obj.key]
                self._nodes.epochs.bump(Epoch.AWAITED)
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
            self.node_pools.delete_node(obj.name)
        elif isinstance(obj, ResourceClaim):
            self.claims.delete(obj)
            self.claim_changes += 1
        elif isinstance(obj, DeviceClass):
            self.classes.delete(obj.name)
            self._classes_changed()
        elif isinstance(obj, DeviceTaintRule):
            self._replace_slices(self._tracker.delete_rule(obj.name))
        else:
            self._tracker.delete_slice(obj.name)
            self.node_pools.delete(obj.name)

    def fork(self, nodes: NodeTable) -> Inventory:
        """Return an independent copy over a fork of the node table."""
        copy = Inventory(nodes, self.features)
        copy.selectors = self.selectors
        copy.classes = self.classes.fork()
        copy._tracker = self._tracker.fork()
        copy.node_pools = self.node_pools.fork(copy._invalidate, copy._is_allocated)
        copy.claims = self.claims.fork(copy.node_pools.device_changed)
        return copy

    def _replace_slices(self, slices: Iterable[ResourceSlice]) -> None:
        for slice_ in slices:
            self.node_pools.upsert(SliceInfo(slice_))

    def _is_allocated(self, device: DeviceId) -> bool:
        return self.claims.allocated_devices.is_allocated(device)

    def _invalidate(self, node: str) -> None:
        """Invalidate the results of one node, or of all nodes."""
        if node == ALL_NODES:
            self._nodes.epochs.bump(Epoch.DEVICES)
        elif (row := self._nodes.row_of.get(node)) is not None:
            # Rows of devices have a separate journal: a placement is in the other one, and would
            # make the tables of this package evaluate its row a second time.
            self._nodes.device_journal.log(row)
            self._nodes.journal.log(row)

    def _classes_changed(self) -> None:
        self.allocation_cache.clear()
        self._nodes.resources.of_classes = self.classes.resource_names
        self._nodes.epochs.bump(Epoch.CLASSES)


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

    @property
    def resource_names(self) -> frozenset[str]:
        """The explicit and implicit resource names of all classes."""
        return frozenset((*self._explicit, *(IMPLICIT_PREFIX + name for name in self.by_name)))

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

"""Everything known about devices: slices, classes, claims, and what is held on which node.

Changes that concern one node log that node's row in the picture's journal; changes that concern
every node (a slice for all of them) move the ``devices`` epoch. ``classes`` moves when a class
comes, changes or goes, ``claims`` when a claim does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from holdfast.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from holdfast.api.meta import Object
from holdfast.api.node import Node
from holdfast.cel import DeviceSelectors
from holdfast.columns.node_table import NodeTable
from holdfast.devices.allocator import Allocator
from holdfast.devices.claims import Claims
from holdfast.devices.features import Features
from holdfast.devices.holdings import Holdings
from holdfast.devices.pools import Pool, gather
from holdfast.devices.served import DeviceBackedResource
from holdfast.devices.slices import DeviceId, PoolId, SliceFacts
from holdfast.devices.tables import Tables

IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Every class can be asked for as an extended resource under this prefix and its name."""
_Slices = dict[str, SliceFacts]


class Inventory:
    """The devices' ledger; one room of the world."""

    takes: tuple[type[Object], ...] = (DeviceClass, ResourceSlice, ResourceClaim, Node)

    def __init__(self, nodes: NodeTable, features: Features | None = None) -> None:
        self._nodes = nodes
        # Nothing waits for binding conditions yet, so devices that need it stay out of sight.
        self.features = features or Features(binding_conditions=False)
        self.selectors = DeviceSelectors(list_attributes=self.features.list_attributes)
        self.classes = Classes()
        self.claims = Claims(self._moved)
        self._slices: _Slices = {}
        self._of_node: dict[str, _Slices] = {}
        self._of_pool: dict[PoolId, _Slices] = {}
        self._editions: dict[str, int] = {}
        self._pools: dict[str, tuple[Node, int, int, tuple[Pool, ...]]] = {}
        self.tables = Tables(self, nodes)

    # --- what others read

    @property
    def holdings(self) -> Holdings:
        """Which devices are held, promised ones included."""
        return self.claims.holdings

    @property
    def slices(self) -> Collection[SliceFacts]:
        """Every slice there is."""
        return self._slices.values()

    def class_for(self, resource: str) -> str | None:
        """The device class that serves an extended resource, or None (epoch ``classes``)."""
        return self.classes.serving(resource)

    def backing(self, request: Iterable[tuple[int, int]]) -> frozenset[int]:
        """Which of these resources devices serve where a node has none (epoch ``classes``)."""
        if not self.classes.by_name:
            return frozenset()
        names = self._nodes.resources
        return frozenset(r for r, _ in request if self.class_for(names[r]) is not None)

    def served(self, resources: Iterable[int]) -> dict[int, DeviceBackedResource]:
        """Those of these that devices serve, counted (epochs ``classes`` and ``devices``)."""
        names, found = self._nodes.resources, {}
        for resource in resources:
            device_class = self.class_for(names[resource])
            if device_class is not None:
                counts = self.tables.counts(self.classes.by_name[device_class])
                found[resource] = DeviceBackedResource(self._nodes, resource, counts)
        return found

    def allocator(self, claims: Sequence[ResourceClaim]) -> Allocator:
        """Make claims ready to be tried on nodes; raises AllocationError."""
        return Allocator(claims, self.classes.by_name, self.selectors, self.features)

    def pools_of(self, node: Node) -> tuple[Pool, ...]:
        """The pools a node can reach, in the order they are searched."""
        everywhere = self._editions.get("", 0)
        own = self._editions.get(node.name, 0)
        known = self._pools.get(node.name)
        if known is not None and known[0] is node and known[1:3] == (everywhere, own):
            return known[3]
        near = {**self._of_node.get(node.name, {}), **self._of_node.get("", {})}
        everything = {
            pool: tuple(self._of_pool[pool].values())
            for pool in {facts.pool for facts in near.values()}
        }
        pools = gather(near.values(), everything, node, self.features)
        self._pools[node.name] = (node, everywhere, own, pools)
        return pools

    # --- what the world tells

    def upsert(self, obj: DeviceClass | ResourceSlice | ResourceClaim | Node) -> None:
        """Take in an object, new or changed; an older version of a claim is ignored."""
        if isinstance(obj, Node):
            return
        if isinstance(obj, ResourceClaim):
            if self.claims.upsert(obj):
                self._nodes.epochs.bump("claims")
        elif isinstance(obj, DeviceClass):
            self.classes.upsert(obj)
            self._classes_changed()
        else:
            self._drop_slice(obj.name)
            self._add_slice(SliceFacts(obj))

    def delete(self, obj: DeviceClass | ResourceSlice | ResourceClaim | Node) -> None:
        """Let an object go; an unknown one is fine."""
        if isinstance(obj, Node):
            self._pools.pop(obj.name, None)
        elif isinstance(obj, ResourceClaim):
            self.claims.delete(obj)
            self._nodes.epochs.bump("claims")
        elif isinstance(obj, DeviceClass):
            self.classes.delete(obj.name)
            self._classes_changed()
        else:
            self._drop_slice(obj.name)

    def fork(self, nodes: NodeTable) -> Inventory:
        """An independent copy over a forked picture."""
        copy = Inventory(nodes, self.features)
        copy.selectors = self.selectors
        copy.classes = self.classes.fork()
        copy.claims = self.claims.fork(copy._moved)
        copy._slices = dict(self._slices)
        copy._of_node = {name: dict(slices) for name, slices in self._of_node.items()}
        copy._of_pool = {pool: dict(slices) for pool, slices in self._of_pool.items()}
        copy._editions = dict(self._editions)
        copy._pools = dict(self._pools)
        return copy

    # --- slices

    def _add_slice(self, facts: SliceFacts) -> None:
        self._slices[facts.name] = facts
        self._of_node.setdefault(facts.node_name, {})[facts.name] = facts
        self._of_pool.setdefault(facts.pool, {})[facts.name] = facts
        self._pool_changed(facts)

    def _drop_slice(self, name: str) -> None:
        facts = self._slices.pop(name, None)
        if facts is None:
            return
        self._pool_changed(facts)
        for index, key in ((self._of_node, facts.node_name), (self._of_pool, facts.pool)):
            del index[key][name]  # type: ignore[index]
            if not index[key]:  # type: ignore[index]
                del index[key]  # type: ignore[arg-type]
        if facts.node_name and facts.node_name not in self._of_node:
            # Nothing remembered under these may outlive them: they count from the start again.
            self._editions.pop(facts.node_name, None)
            self._pools.pop(facts.node_name, None)

    def _pool_changed(self, facts: SliceFacts) -> None:
        """A pool is complete or not as a whole: every node with a part of it looks again."""
        for node in {other.node_name for other in self._of_pool[facts.pool].values()}:
            self._editions[node] = self._editions.get(node, 0) + 1
            self._touch(node)

    def _moved(self, device: DeviceId) -> None:
        slices = self._of_pool.get(device[:2], {})
        for node in {facts.node_name for facts in slices.values()}:
            self._touch(node)

    def _touch(self, node: str) -> None:
        """Have a node looked at again, or every node for the empty name."""
        if not node:
            self._nodes.epochs.bump("devices")
        elif (row := self._nodes.row_of.get(node)) is not None:
            self._nodes.journal.log(row)

    def _classes_changed(self) -> None:
        self.tables.clear()
        self._nodes.epochs.bump("classes")


class Classes:
    """Device classes by name, and which class serves an extended resource (KEP-5004).

    What serves a name is always worked out from the full set.
    """

    __slots__ = ("_explicit", "by_name")

    def __init__(self) -> None:
        self.by_name: dict[str, DeviceClass] = {}
        self._explicit: dict[str, str] = {}

    def upsert(self, device_class: DeviceClass) -> None:
        """Take in a class, new or changed."""
        self.by_name[device_class.name] = device_class
        self._resolve()

    def delete(self, name: str) -> None:
        """Let a class go; another of the same resource name then serves it."""
        if self.by_name.pop(name, None) is not None:
            self._resolve()

    def serving(self, resource: str) -> str | None:
        """The class that serves an extended resource, or None.

        Of several classes with one explicit name the newest serves; made in the same second,
        the first by name. The implicit name is valid for a class with an explicit one too.
        """
        if resource.startswith(IMPLICIT_PREFIX):
            name = resource[len(IMPLICIT_PREFIX) :]
            return name if name in self.by_name else None
        return self._explicit.get(resource)

    def fork(self) -> Classes:
        """An independent copy."""
        copy = Classes()
        copy.by_name, copy._explicit = dict(self.by_name), dict(self._explicit)
        return copy

    def _resolve(self) -> None:
        # Sorted so that the serving class comes last and overwrites the others. Timestamps are
        # written in one form only, so their texts sort as their times.
        by_name = sorted(self.by_name.values(), key=lambda c: c.name, reverse=True)
        self._explicit = {
            c.spec.extended_resource_name: c.name
            for c in sorted(by_name, key=lambda c: c.metadata.creation_timestamp or "")
            if c.spec.extended_resource_name
        }

"""A cluster of nodes and devices whose cached allocations can be compared with new ones."""

import numpy as np

from holdfast.state.columns.node_table import NodeTable
from holdfast.state.devices.allocated_devices import AllocatedDevices
from holdfast.state.devices.allocation_cache import (
    DOES_NOT_FIT,
    ERROR,
    FITS,
    INVALID_POOL,
    NOT_SEARCHED,
)
from holdfast.state.devices.errors import AllocationError, NodeAllocationError
from holdfast.state.devices.features import Features
from holdfast.state.devices.inventory import Inventory
from holdfast.state.devices.pools import build_pool, in_search_order, newest_by_pool
from holdfast.state.devices.slices import SliceInfo
from holdfast.testing import a_claim, a_device, a_device_class, a_slice, typed

DRIVER = "gpu.example.com"
NUMA = f"{DRIVER}/numa"
RACK = "example.com/rack"


def counters(name, *sets, pool="p", node=None, slices=2, generation=1, total="4", **spec):
    """A slice with counter sets, each with one counter of ``total`` units."""
    spec = {"allNodes": True} | spec if node is None and not spec else spec
    made = a_slice(
        name,
        node=node,
        pool=pool,
        slices=slices,
        generation=generation,
        devices=[],
        sharedCounters=[{"name": s, "counters": {"units": {"value": total}}} for s in sets],
        **spec,
    )
    del made["spec"]["devices"]
    return made


def part(name, counter_set, amount="2", **fields):
    uses = [{"counterSet": counter_set, "counters": {"units": {"value": amount}}}]
    return a_device(name, consumesCounters=uses, **fields)


def allocated_claim(name, device, pool, share=None):
    result = {"request": "req-0", "driver": DRIVER, "pool": pool, "device": device}
    if share:
        result |= {"shareID": f"id-{name}", "consumedCapacity": {"memory": share}}
    status = {"allocation": {"devices": {"results": [result]}}}
    return a_claim(name, status=status, metadata={"uid": f"uid-{name}"})


class Cluster:
    """Nodes and an inventory, with the objects as they are now."""

    def __init__(self, *objects, features=None):
        self.nodes = NodeTable()
        self.inventory = Inventory(self.nodes, features or Features())
        self.objects = {}
        for raw in (a_device_class("gpu"), *objects):
            self.add(raw)

    def add(self, raw):
        made = typed(raw)
        self.objects[raw["kind"], raw["metadata"]["name"]] = made
        if raw["kind"] == "Node":
            self.nodes.upsert_node(made)
        self.inventory.upsert(made)

    def remove(self, kind, name):
        made = self.objects.pop((kind, name), None)
        if made is not None:
            self.inventory.delete(made)
            if kind == "Node":
                self.nodes.delete_node(made.name)

    @property
    def rows(self):
        return np.array(sorted(self.nodes.row_of.values()), np.intp)

    def codes(self, *claims):
        """Return the codes by node; rows that were not searched after an error are asked again."""
        allocator = self.inventory.allocator([typed(claim) for claim in claims])
        results, rows = self.inventory.allocation_cache.results(allocator), self.rows
        found = results.codes(rows)
        assert NOT_SEARCHED not in found or ERROR in found
        for i in (found == NOT_SEARCHED).nonzero()[0]:
            found[i] = results.codes(rows[i : i + 1])[0]
        codes = zip(rows, found.tolist(), strict=True)
        return {self.nodes.nodes[row].name: code for row, code in codes}

    def results(self, claims):
        allocator = self.inventory.allocator([typed(claim) for claim in claims])
        return allocator, self.inventory.allocation_cache.results(allocator)

    def cached_devices(self, *claims):
        """Return the devices that cached searches have chosen, by node."""
        (allocator, results), found = self.results(claims), {}
        for node in self.of_kind("Node"):
            choices = results.choices(self.nodes.row_of[node.name])
            if choices is not None:
                solution = allocator.solution(choices, self.inventory.node_pools.of(node))
                found[node.name] = chosen_by(solution)
        return found

    def of_kind(self, kind):
        return [obj for (which, _), obj in self.objects.items() if which == kind]

    def searched_anew(self, *claims):
        """Return the codes of a search that reads nothing but the objects."""
        features = self.inventory.features
        slices = [SliceInfo(s) for s in self.of_kind("ResourceSlice")]
        by_pool = {s.pool: [o for o in slices if o.pool == s.pool] for s in slices}
        allocated = AllocatedDevices.of(self.of_kind("ResourceClaim"))
        allocator = self.inventory.allocator([typed(claim) for claim in claims])
        found, self.devices = {}, {}
        for node in self.of_kind("Node"):
            pools = gather_pools(slices, by_pool, node, features)
            try:
                solution = allocator.solve(node, pools, allocated)
                found[node.name] = DOES_NOT_FIT if solution is None else FITS
                if solution is not None:
                    self.devices[node.name] = chosen_by(solution)
            except NodeAllocationError:
                found[node.name] = INVALID_POOL
            except AllocationError:
                found[node.name] = ERROR
        return found


def chosen_by(solution):
    return [(c.alternative.label, c.candidate.id, c.consumed) for c in solution.chosen_devices]


def gather_pools(slices, pools, node, features):
    """Return the node's pools in search order, without any cache.

    ``slices`` are those that may be available on the node, ``pools`` all slices of every pool.
    """
    built = (
        build_pool(pool_id, newest, pools.get(pool_id, newest), features)
        for pool_id, newest in newest_by_pool(slices, node, features)
    )
    return in_search_order(pool for pool in built if pool is not None)

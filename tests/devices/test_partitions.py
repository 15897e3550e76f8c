"""Devices that share counters: which nodes they concern, and cached results equal new searches."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.columns.node_table import NodeTable
from holdfast.devices import search
from holdfast.devices.allocated_devices import AllocatedDevices
from holdfast.devices.allocation_cache import DOES_NOT_FIT, ERROR, FITS, INVALID_POOL
from holdfast.devices.allocator import Allocator
from holdfast.devices.errors import AllocationError, NodeAllocationError
from holdfast.devices.features import Features
from holdfast.devices.inventory import Inventory
from holdfast.devices.pools import gather_pools
from holdfast.devices.slices import SliceInfo
from holdfast.testing import a_claim, a_device, a_device_class, a_node, a_slice, typed

DRIVER = "gpu.example.com"
NUMA = f"{DRIVER}/numa"
RACK = "example.com/rack"


def counters(name, *sets, pool="p", node=None, slices=2, generation=1, total="4", **spec):
    """A slice with counter sets, each with one counter of ``total`` units."""
    spec = {"allNodes": True} | spec if node is None and not spec else spec
    made = a_slice(name, node=node, pool=pool, slices=slices, generation=generation, devices=[],
                   sharedCounters=[{"name": s, "counters": {"units": {"value": total}}}
                                   for s in sets], **spec)  # fmt: skip
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

    def codes(self, *claims):
        allocator = self.inventory.allocator([typed(claim) for claim in claims])
        rows = np.array(sorted(self.nodes.row_of.values()), np.intp)
        found = self.inventory.allocation_cache.results(allocator).codes(rows).tolist()
        return {self.nodes.nodes[row].name: code for row, code in zip(rows, found, strict=True)}

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


@pytest.fixture
def searches(monkeypatch):
    """The nodes that were searched."""
    searched, solve = [], Allocator.solve_in_steps

    def noted(self, node, *rest):
        searched.append(node.name)
        return solve(self, node, *rest)

    monkeypatch.setattr(Allocator, "solve_in_steps", noted)
    return searched


def a_partitioned_node(name, generation=1):
    return (
        a_node(name),
        counters(f"{name}-counters", "card", pool=name, node=name, generation=generation),
        a_slice(f"{name}-gpu", node=name, slices=2, generation=generation,
                devices=[part("whole", "card", "4"), part("a", "card"), part("b", "card")]),
    )  # fmt: skip


def test_D038_a_partitioned_pool_of_one_node_concerns_only_this_node(searches):
    names = [f"n{i}" for i in range(20)]
    cluster = Cluster(*(obj for name in names for obj in a_partitioned_node(name)))
    two = a_claim("two", count=2)
    assert set(cluster.codes(two).values()) == {FITS}
    # All nodes are in the same state: one of them is searched.
    assert len(searches) == 1
    before = cluster.nodes.epochs["devices"]
    cluster.add(allocated_claim("x", "a", "n7"))
    assert cluster.codes(two) == dict.fromkeys(names, FITS) | {"n7": DOES_NOT_FIT}
    assert searches[1:] == ["n7"]
    cluster.add(allocated_claim("y", "a", "n8"))
    assert cluster.codes(two)["n8"] == DOES_NOT_FIT
    assert len(searches) == 2
    assert cluster.nodes.epochs["devices"] == before


def test_D038_counters_of_several_nodes_invalidate_only_the_nodes_that_share_them(searches):
    cluster = Cluster(
        *(a_node(name) for name in "abcd"),
        counters("counters", "left", "right", slices=5),
        *(a_slice(f"{name}-gpu", node=name, pool="p", slices=5,
                  devices=[part(f"{name}-0", side), part(f"{name}-1", side)])
          for name, side in (("a", "left"), ("b", "left"), ("c", "right"), ("d", "right"))),
    )  # fmt: skip
    two = a_claim("two", count=2)
    assert cluster.codes(two) == dict.fromkeys("abcd", FITS)
    logged = cluster.nodes.journal.seq
    cluster.add(allocated_claim("x", "a-0", "p"))
    changed = cluster.nodes.journal.since(logged).tolist()
    assert changed == [cluster.nodes.row_of["a"], cluster.nodes.row_of["b"]]
    assert cluster.codes(two) == {"a": DOES_NOT_FIT, "b": DOES_NOT_FIT, "c": FITS, "d": FITS}


def test_a_pool_of_some_nodes_by_label_invalidates_only_these():
    def selected(rack):
        wanted = [{"key": RACK, "operator": "In", "values": [rack]}]
        return {"nodeSelectorTerms": [{"matchExpressions": wanted}]}

    cluster = Cluster(
        *(a_node(f"n{i}", labels={RACK: f"r{i // 2}"}) for i in range(6)),
        *(a_slice(f"r{i}", node=None, pool=f"r{i}", nodeSelector=selected(f"r{i}"))
          for i in range(3)),
    )  # fmt: skip
    one = a_claim("one")
    assert set(cluster.codes(one).values()) == {FITS}
    before = cluster.nodes.epochs["devices"]
    cluster.add(allocated_claim("x", "gpu-0", "r1"))
    assert [name for name, code in cluster.codes(one).items() if code != FITS] == ["n2", "n3"]
    assert cluster.nodes.epochs["devices"] == before


def test_devices_that_name_their_nodes_concern_only_these():
    devices = [a_device(f"d{i}", nodeName=f"n{i}") for i in range(3)]
    shared = a_slice("all", node=None, pool="p", perDeviceNodeSelection=True, devices=devices)
    cluster = Cluster(*(a_node(f"n{i}") for i in range(4)), shared)
    one = a_claim("one")
    expected = {"n0": FITS, "n1": FITS, "n2": FITS, "n3": DOES_NOT_FIT}
    assert cluster.codes(one) == expected
    logged, before = cluster.nodes.journal.seq, cluster.nodes.epochs["devices"]
    cluster.add(allocated_claim("x", "d1", "p"))
    assert cluster.nodes.journal.since(logged).tolist() == [cluster.nodes.row_of["n1"]]
    assert cluster.nodes.epochs["devices"] == before
    assert cluster.codes(one) == expected | {"n1": DOES_NOT_FIT}


def test_D027_an_incomplete_pool_with_counters_is_an_error_for_mode_all_on_every_node():
    everything = a_claim("all", requests=[
        {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}
    ])  # fmt: skip
    cluster = Cluster(a_node("m"), a_slice("m-gpu", node="m"), *a_partitioned_node("n"))
    assert cluster.codes(everything) == {"m": FITS, "n": DOES_NOT_FIT}
    cluster.remove("ResourceSlice", "n-gpu")
    assert cluster.codes(everything) == {"m": ERROR, "n": ERROR}
    assert cluster.codes(a_claim("one")) == {"m": FITS, "n": DOES_NOT_FIT}
    cluster.add(a_partitioned_node("n")[2])
    assert cluster.codes(everything) == {"m": FITS, "n": DOES_NOT_FIT}


def test_D028_an_invalid_pool_with_counters_is_reported_on_every_node():
    broken = counters("n-counters", "other", pool="n", node="n")
    cluster = Cluster(a_node("m"), *a_partitioned_node("n"), broken)
    assert cluster.codes(a_claim("one")) == {"m": INVALID_POOL, "n": INVALID_POOL}
    cluster.add(a_slice("m-gpu", node="m"))
    assert cluster.codes(a_claim("one")) == {"m": FITS, "n": INVALID_POOL}
    assert cluster.codes(a_claim("two", count=2)) == {"m": INVALID_POOL, "n": INVALID_POOL}


# --- cached results equal new ones

NODES, SETS = ("a", "b", "c"), ("s", "t")
POOLS = {"one": 1, "two": 2, "pair": 2, "three": 3}
"""Pools and the number of their slices."""
DEVICE = st.fixed_dictionaries(
    {"set": st.sampled_from((None, *SETS)), "amount": st.sampled_from("123"),
     "numa": st.sampled_from((None, 0, 1)), "shareable": st.booleans(),
     "on": st.sampled_from(NODES)}
)  # fmt: skip
WHERE = st.sampled_from(("node", "node", "all", "rack", "device"))
SLICE = st.tuples(
    st.just("slice"), st.sampled_from([*POOLS]), st.sampled_from(NODES),
    st.tuples(WHERE, st.lists(DEVICE, min_size=1, max_size=3),
              st.sampled_from((1, 1, 1, 2))),
)  # fmt: skip
COUNTERS = st.tuples(
    st.just("counters"), st.sampled_from([*POOLS]), st.sampled_from(NODES),
    st.tuples(st.lists(st.sampled_from(SETS), min_size=1, max_size=2, unique=True),
              st.sampled_from((1, 1, 1, 2)), st.sampled_from("2468")),
)  # fmt: skip
CLAIM = st.tuples(
    st.just("claim"), st.sampled_from([*POOLS]), st.sampled_from(NODES),
    st.tuples(st.integers(0, 2), st.sampled_from((None, "2Gi"))),
)  # fmt: skip
GONE = st.tuples(
    st.just("gone"), st.sampled_from([*POOLS]), st.sampled_from(NODES),
    st.sampled_from(("slice", "counters", "claim", "node")),
)  # fmt: skip
NODE = st.tuples(st.just("node"), st.none(), st.sampled_from(NODES), st.sampled_from(("r", "q")))


def happen(cluster, event):
    kind, pool, node, detail = event
    if kind == "slice":
        cluster.add(a_random_slice(pool, node, *detail))
    elif kind == "counters":
        sets, generation, total = detail
        cluster.add(counters(f"{pool}-{node}-counters", *sets, pool=pool, node=node,
                             slices=POOLS[pool], generation=generation, total=total))  # fmt: skip
    elif kind == "claim":
        number, share = detail
        claim = allocated_claim(f"{pool}-{node}", f"{node}{number}", pool, share)
        cluster.remove("ResourceClaim", f"{pool}-{node}")
        claim["metadata"]["uid"] += str(len(cluster.inventory.claims._deleted))
        cluster.add(claim)
    elif kind == "node":
        cluster.add(a_node(node, labels={RACK: detail}))
    elif detail == "node":
        cluster.remove("Node", node)
    else:
        suffix = {"slice": "-gpu", "counters": "-counters", "claim": ""}[detail]
        what = "ResourceClaim" if detail == "claim" else "ResourceSlice"
        cluster.remove(what, f"{pool}-{node}{suffix}")


def a_random_slice(pool, node, where, devices, generation):
    made = []
    for i, device in enumerate(devices):
        raw = a_device(f"{node}{i}", capacity={"memory": "4Gi"})
        if device["numa"] is not None:
            raw["attributes"] = {"numa": {"int": device["numa"]}}
        if device["set"]:
            raw |= part("x", device["set"], device["amount"]) | {"name": raw["name"]}
        if device["shareable"]:
            raw["allowMultipleAllocations"] = True
        if where == "device":
            raw["nodeName"] = device["on"]
        made.append(raw)
    terms = [{"matchExpressions": [{"key": RACK, "operator": "In", "values": ["r"]}]}]
    spec = {
        "node": {"node": node},
        "all": {"node": None, "allNodes": True},
        "rack": {"node": None, "nodeSelector": {"nodeSelectorTerms": terms}},
        "device": {"node": None, "perDeviceNodeSelection": True},
    }[where]
    return a_slice(f"{pool}-{node}-gpu", pool=pool, devices=made, slices=POOLS[pool],
                   generation=generation, **spec)  # fmt: skip


def asks(**exactly):
    return [{"name": "r", "exactly": {"deviceClassName": "gpu", **exactly}}]


CLAIMS = (
    [a_claim("one")],
    [a_claim("two", count=2)],
    [a_claim("near", count=2, constraints=[{"matchAttribute": NUMA}])],
    [a_claim("far", count=2, constraints=[{"distinctAttribute": NUMA}])],
    [a_claim("share", requests=asks(capacity={"requests": {"memory": "2Gi"}}, count=2))],
    [a_claim("all", requests=asks(allocationMode="All"))],
    [a_claim("first"), a_claim("second", count=2)],
    [a_claim("either", requests=[{"name": "r", "firstAvailable": [
        {"name": "x", "deviceClassName": "gpu", "count": 3},
        {"name": "y", "deviceClassName": "gpu"},
    ]}])],
)  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(st.lists(st.one_of(SLICE, SLICE, COUNTERS, COUNTERS, CLAIM, CLAIM, GONE, NODE), max_size=25))
def test_cached_results_equal_a_search_over_the_objects(events):
    cluster = Cluster(*(a_node(name, labels={RACK: "r"}) for name in NODES))
    for event in events:
        happen(cluster, event)
        for claims in CLAIMS:
            assert cluster.codes(*claims) == cluster.searched_anew(*claims), event
            assert cluster.cached_devices(*claims).items() <= cluster.devices.items(), event


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.one_of(SLICE, COUNTERS, CLAIM, GONE, NODE),
            st.integers(0, 8),
            st.sampled_from(range(8)),
        ),
        max_size=20,
    )
)
def test_results_are_right_after_searches_in_steps_between_events(events):
    cluster = Cluster(*(a_node(name, labels={RACK: "r"}) for name in NODES))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "_TRIES_A_STEP", 1)
        started = {}
        for event, steps, number in events:
            happen(cluster, event)
            running = started.get(number)
            if running is None:
                running = started[number] = cluster.results(CLAIMS[number])[1].refresh_in_steps()
            for _ in zip(range(steps), running, strict=False):
                pass
            if steps == 8:
                del started[number]
            other = CLAIMS[(number + steps) % len(CLAIMS)]
            assert cluster.codes(*other) == cluster.searched_anew(*other), event
        for running in started.values():
            for _ in running:
                pass
    for claims in CLAIMS:
        assert cluster.codes(*claims) == cluster.searched_anew(*claims)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.one_of(SLICE, COUNTERS, CLAIM), max_size=12),
    st.lists(st.one_of(SLICE, COUNTERS, CLAIM, GONE), max_size=6),
)
def test_a_fork_and_its_origin_stay_right(before, after):
    origin = Cluster(*(a_node(name, labels={RACK: "r"}) for name in NODES))
    for event in before:
        happen(origin, event)
    for claims in CLAIMS:
        origin.codes(*claims)
    fork = Cluster()
    fork.nodes = origin.nodes.fork()
    fork.inventory, fork.objects = origin.inventory.fork(fork.nodes), dict(origin.objects)
    for event in after:
        happen(fork, event)
        for claims in CLAIMS:
            for cluster in (fork, origin):
                assert cluster.codes(*claims) == cluster.searched_anew(*claims), event

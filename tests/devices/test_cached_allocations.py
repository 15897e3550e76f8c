"""Cached allocations equal new searches over random slices, counters, claims and deletions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devices.device_cluster import Cluster, allocated_claim, counters, gather_pools, part
from holdfast.devices import node_pools, search
from holdfast.devices.allocated_devices import AllocatedDevices
from holdfast.devices.slices import SliceInfo
from holdfast.testing import a_claim, a_device, a_node, a_slice
from soak_size import law

DRIVER = "gpu.example.com"
NUMA = f"{DRIVER}/numa"
RACK = "example.com/rack"


NODES, SETS = ("a", "b", "c"), ("s", "t")
POOLS = {"one": 1, "two": 2, "pair": 2, "three": 3}
"""Pools and the number of their slices."""
DEVICE = st.fixed_dictionaries(
    {
        "set": st.sampled_from((None, *SETS)),
        "amount": st.sampled_from("123"),
        "numa": st.sampled_from((None, 0, 1)),
        "shareable": st.booleans(),
        "on": st.sampled_from(NODES),
    }
)
WHERE = st.sampled_from(("node", "node", "all", "rack", "device"))
SLICE = st.tuples(
    st.just("slice"),
    st.sampled_from([*POOLS]),
    st.sampled_from(NODES),
    st.tuples(WHERE, st.lists(DEVICE, min_size=1, max_size=3), st.sampled_from((1, 1, 1, 2))),
)
COUNTERS = st.tuples(
    st.just("counters"),
    st.sampled_from([*POOLS]),
    st.sampled_from(NODES),
    st.tuples(
        st.lists(st.sampled_from(SETS), min_size=1, max_size=2, unique=True),
        st.sampled_from((1, 1, 1, 2)),
        st.sampled_from("2468"),
    ),
)
CLAIM = st.tuples(
    st.just("claim"),
    st.sampled_from([*POOLS]),
    st.sampled_from(NODES),
    st.tuples(st.integers(0, 2), st.sampled_from((None, "2Gi"))),
)
GONE = st.tuples(
    st.just("gone"),
    st.sampled_from([*POOLS]),
    st.sampled_from(NODES),
    st.sampled_from(("slice", "counters", "claim", "node")),
)
NODE = st.tuples(st.just("node"), st.none(), st.sampled_from(NODES), st.sampled_from(("r", "q")))


def happen(cluster, event):
    kind, pool, node, detail = event
    if kind == "slice":
        cluster.add(a_random_slice(pool, node, *detail))
    elif kind == "counters":
        sets, generation, total = detail
        cluster.add(
            counters(
                f"{pool}-{node}-counters",
                *sets,
                pool=pool,
                node=node,
                slices=POOLS[pool],
                generation=generation,
                total=total,
            )
        )
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
    return a_slice(
        f"{pool}-{node}-gpu",
        pool=pool,
        devices=made,
        slices=POOLS[pool],
        generation=generation,
        **spec,
    )


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
    [
        a_claim(
            "either",
            requests=[
                {
                    "name": "r",
                    "firstAvailable": [
                        {"name": "x", "deviceClassName": "gpu", "count": 3},
                        {"name": "y", "deviceClassName": "gpu"},
                    ],
                }
            ],
        )
    ],
)


MANY = st.sampled_from((1, 2, 64))
"""From how many nodes on a shared pool is evaluated once for all of them."""


def assert_counted(cluster):
    """Compare the counted devices of the class with those of the objects."""
    inventory = cluster.inventory
    counts = inventory.allocation_cache.counts(inventory.classes.by_name["gpu"])
    counts.refreshed()
    slices = [SliceInfo(s) for s in cluster.of_kind("ResourceSlice")]
    by_pool = {s.pool: [o for o in slices if o.pool == s.pool] for s in slices}
    allocated = AllocatedDevices.of(cluster.of_kind("ResourceClaim"))
    for node in cluster.of_kind("Node"):
        devices = [
            c.id
            for pool in gather_pools(slices, by_pool, node, inventory.features)
            for c in pool.candidates
            if c.is_available_on(node)
        ]
        row = cluster.nodes.row_of[node.name]
        expected = (len(devices), sum(map(allocated.is_allocated, devices)))
        assert (counts.total[row], counts.allocated[row]) == expected, node.name


@law(50)
@given(
    MANY,
    st.lists(st.one_of(SLICE, SLICE, COUNTERS, COUNTERS, CLAIM, CLAIM, GONE, NODE), max_size=25),
)
def test_cached_results_equal_a_search_over_the_objects(many, events):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_pools, "_MANY_NODES", many)
        cluster = Cluster(*(a_node(name, labels={RACK: "r"}) for name in NODES))
        for event in events:
            happen(cluster, event)
            for claims in CLAIMS:
                assert cluster.codes(*claims) == cluster.searched_anew(*claims), event
                assert cluster.cached_devices(*claims).items() <= cluster.devices.items(), event
            assert_counted(cluster)


@law(40)
@given(
    MANY,
    st.lists(
        st.tuples(
            st.one_of(SLICE, COUNTERS, CLAIM, GONE, NODE),
            st.integers(0, 8),
            st.sampled_from(range(8)),
        ),
        max_size=20,
    ),
)
def test_results_are_right_after_searches_in_steps_between_events(many, events):
    cluster = Cluster(*(a_node(name, labels={RACK: "r"}) for name in NODES))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "_TRIES_A_STEP", 1)
        patch.setattr(node_pools, "_MANY_NODES", many)
        started = {}
        for event, steps, number in events:
            happen(cluster, event)
            running = started.get(number)
            if running is None:
                results = cluster.results(CLAIMS[number])[1]
                running = started[number] = results.refresh_in_steps(lambda: cluster.rows)
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


@law(10)
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

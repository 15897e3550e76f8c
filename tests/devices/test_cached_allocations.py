"""Cached allocations equal new searches over random slices, counters, claims and deletions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devices.device_cluster import Cluster, gather_pools
from devices.random_devices import CLAIM, CLAIMS, COUNTERS, GONE, NODES, RACK, SLICE, happen
from holdfast.state.devices import node_pools, search
from holdfast.state.devices.allocated_devices import AllocatedDevices
from holdfast.state.devices.slices import SliceInfo
from holdfast.testing import a_node
from soak_size import law

NODE = st.tuples(st.just("node"), st.none(), st.sampled_from(NODES), st.sampled_from(("r", "q")))


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

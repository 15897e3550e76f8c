"""Devices that share counters, or that several nodes share: which nodes a change concerns."""

import pytest

from devices.device_cluster import Cluster, allocated_claim, counters, part
from holdfast.state.devices.allocation_cache import DOES_NOT_FIT, ERROR, FITS, INVALID_POOL
from holdfast.state.devices.allocator import Allocator
from holdfast.testing import a_claim, a_device, a_node, a_slice

RACK = "example.com/rack"


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
        a_slice(
            f"{name}-gpu",
            node=name,
            slices=2,
            generation=generation,
            devices=[part("whole", "card", "4"), part("a", "card"), part("b", "card")],
        ),
    )


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
        *(
            a_slice(
                f"{name}-gpu",
                node=name,
                pool="p",
                slices=5,
                devices=[part(f"{name}-0", side), part(f"{name}-1", side)],
            )
            for name, side in (("a", "left"), ("b", "left"), ("c", "right"), ("d", "right"))
        ),
    )
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
        *(
            a_slice(f"r{i}", node=None, pool=f"r{i}", nodeSelector=selected(f"r{i}"))
            for i in range(3)
        ),
    )
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
    everything = a_claim(
        "all",
        requests=[{"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}],
    )
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


def test_a_pool_of_all_nodes_is_searched_once_for_equal_nodes(searches):
    names = [f"n{i}" for i in range(80)]
    shared = a_slice("net", node=None, pool="net", devices=4, allNodes=True)
    local = [a_slice(f"{name}-gpu", node=name, devices=1) for name in names]
    cluster = Cluster(*(a_node(name) for name in names), shared, *local)
    three = a_claim("three", count=3, constraints=[])
    two = [a_claim("x", count=2), a_claim("y", count=2)]
    assert set(cluster.codes(three).values()) == set(cluster.codes(*two).values()) == {FITS}
    cluster.add(allocated_claim("a", "gpu-0", "net"))
    assert set(cluster.codes(*two).values()) == {FITS}
    cluster.add(allocated_claim("b", "gpu-0", "n5"))
    assert cluster.codes(*two) == dict.fromkeys(names, FITS) | {"n5": DOES_NOT_FIT}
    cluster.add(allocated_claim("c", "gpu-1", "net"))
    assert set(cluster.codes(*two).values()) == {DOES_NOT_FIT}
    assert cluster.codes(three) == dict.fromkeys(names, FITS) | {"n5": DOES_NOT_FIT}
    assert len(searches) == 5


def test_an_overcommitted_counter_rejects_every_device_with_counters_of_its_pool():
    """kube-scheduler checks all counters of the pool for each of its devices, on every node."""
    cluster = Cluster(
        *(a_node(name) for name in "abc"),
        counters("counters", "left", "right", slices=4),
        a_slice("a", node="a", pool="p", slices=4,
                devices=[part("l0", "left", "3"), part("l1", "left", "3")]),
        a_slice("b", node="b", pool="p", slices=4, devices=[part("r0", "right")]),
        a_slice("c", node="c", pool="p", slices=4, devices=[a_device("plain")]),
    )  # fmt: skip
    one = a_claim("one")
    assert cluster.codes(one) == dict.fromkeys("abc", FITS)
    cluster.add(allocated_claim("x", "l0", "p"))
    assert cluster.codes(one) == {"a": DOES_NOT_FIT, "b": FITS, "c": FITS}
    cluster.add(allocated_claim("y", "l1", "p"))
    assert cluster.codes(one) == {"a": DOES_NOT_FIT, "b": DOES_NOT_FIT, "c": FITS}
    cluster.remove("ResourceClaim", "x")
    assert cluster.codes(one) == {"a": DOES_NOT_FIT, "b": FITS, "c": FITS}

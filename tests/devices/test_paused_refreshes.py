"""A refresh of rows that others overtake in its pauses, with devices that nodes share."""

import pytest

from devices.device_cluster import Cluster, allocated_claim
from devices.random_devices import CLAIMS, RACK
from holdfast.state.devices import node_pools, row_table, search
from holdfast.testing import a_device, a_node, a_slice

DEVICES = [
    a_device(f"d{i}", attributes={"numa": i % 2}, capacity={"memory": "4Gi"}) for i in range(3)
]


@pytest.fixture
def cluster(monkeypatch):
    """Two nodes that share three devices; rows are known to be outdated by their keys."""
    monkeypatch.setattr(node_pools, "_MANY_NODES", 1)
    monkeypatch.setattr(search, "_TRIES_A_STEP", 1)
    monkeypatch.setattr(row_table, "_WORK_A_STEP", 1)
    shared = a_slice("s", node=None, allNodes=True, pool="s", devices=DEVICES)
    return Cluster(a_node("a"), a_node("b"), shared)


def expect_results_of_a_new_search(cluster, claims):
    assert cluster.codes(*claims) == cluster.searched_anew(*claims)
    assert cluster.cached_devices(*claims).items() <= cluster.devices.items()


@pytest.mark.parametrize("end", ["stays paused", "is dropped", "goes on"])
@pytest.mark.parametrize("claims", CLAIMS)
def test_a_row_that_was_refreshed_in_a_pause_is_not_evaluated_again(cluster, claims, end):
    cluster.codes(*claims)
    for name in "ab":
        cluster.add(a_node(name, labels={RACK: "x"}))
    refresh = cluster.results(claims)[1].refresh_in_steps(lambda: cluster.rows)
    next(refresh)
    expect_results_of_a_new_search(cluster, claims)
    for i in range(3):
        cluster.add(allocated_claim(f"c{i}", f"d{i}", "s"))
    next(refresh, None)
    if end == "is dropped":
        refresh.close()
    elif end == "goes on":
        list(refresh)
    expect_results_of_a_new_search(cluster, claims)
    for i in range(3):
        cluster.remove("ResourceClaim", f"c{i}")
    expect_results_of_a_new_search(cluster, claims)

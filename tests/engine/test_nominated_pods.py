"""Rows with nominated pods: filters count those pods."""

import pytest

from holdfast.scheduling.engine.profile import build_profile
from holdfast.scheduling.plugins import REGISTRY
from holdfast.testing import FakeCluster, a_node, a_pod, typed


def with_port(pod):
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    return pod


def cluster_of(count, *, nominated):
    """Nodes, of which the first ones have a nominated pod with a host port."""
    cluster = FakeCluster(*(a_node(f"n{i}", cpu="4") for i in range(count)))
    for i in range(nominated):
        pod_info = cluster.world.pod_info(typed(with_port(a_pod(f"nominated-{i}", cpu="3"))))
        cluster.world.nominations.set(pod_info, f"n{i}")
    return cluster


def test_nominated_pods_use_resources_of_pods_without_higher_priority():
    cluster = cluster_of(2, nominated=1)
    assert cluster.place(a_pod("a", cpu="2")) == "n1"
    assert cluster.place(a_pod("b", cpu="1")) in ("n0", "n1")
    assert cluster.place(a_pod("above", cpu="3", priority=10)) == "n0"


@pytest.mark.parametrize(
    ("nominated", "message"),
    [
        (16, "16 node(s) didn't have free ports for the requested pod ports, 4 Insufficient cpu."),
        (17, "20 Insufficient cpu."),
    ],
)
def test_an_infeasible_row_gives_the_first_reason_with_its_nominated_pods(nominated, message):
    """Only the reasons differ, so only a few rows are filtered again."""
    cluster = cluster_of(20, nominated=nominated)
    assert message in cluster.why(with_port(a_pod("big", cpu="5")))
    cluster.place(with_port(a_pod("big", cpu="5")))


def test_a_nominated_pod_is_filtered_with_other_nominated_pods_but_not_itself():
    cluster = cluster_of(2, nominated=1)
    alone = cluster.world.pod_info(typed(a_pod("alone", cpu="3")))
    cluster.world.nominations.set(alone, "n1")
    beside = cluster.world.pod_info(typed(a_pod("beside", cpu="2")))
    cluster.world.nominations.set(beside, "n0")
    assert cluster.why(a_pod("beside", cpu="2")) == "0/2 nodes are available: 2 Insufficient cpu."
    assert cluster.place(a_pod("alone", cpu="3")) == "n1"


def test_a_row_that_an_uncached_filter_rejects_counts_once():
    spread = {
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }  # fmt: skip
    cluster = cluster_of(17, nominated=17)
    cluster.add(
        *(a_node(f"n{i}", cpu="4", labels={"zone": "a"}) for i in range(17)),
        a_node("full", cpu="1", labels={"zone": "b"}),
        a_pod("there", cpu="100m", labels={"app": "web"}, node="n0"),
    )
    assert cluster.why(
        a_pod("p", cpu="2", labels={"app": "web"}, topologySpreadConstraints=[spread])
    ) == (
        "0/18 nodes are available: 1 Insufficient cpu, "
        "17 node(s) didn't match pod topology spread constraints."
    )


def test_a_nominated_pod_that_requests_nothing_still_counts_as_a_pod():
    cluster = FakeCluster(a_node("n0", pods="1"), a_node("n1", pods="1", cpu="2"))
    cluster.world.nominations.set(cluster.world.pod_info(typed(a_pod("nominated", cpu=None))), "n0")
    assert cluster.place(a_pod("a", cpu="1")) == "n1"
    assert cluster.why(a_pod("b", cpu="1")) == "0/2 nodes are available: 2 Too many pods."


def test_filters_of_scope_node_ignore_nominated_pods():
    enabled = [(name, 0) for name in ("NodeUnschedulable", "DefaultBinder")]
    cluster = FakeCluster(a_node("n0"), profile=build_profile("mine", REGISTRY, enabled=enabled))
    cluster.world.nominations.set(cluster.world.pod_info(typed(a_pod("nominated", cpu="8"))), "n0")
    assert cluster.place(a_pod("a", cpu="8")) == "n0"

"""Rows that pods are nominated to: those pods take room, and filters answer with them there."""

import pytest

from holdfast.engine.profile import build_profile
from holdfast.plugins import REGISTRY
from holdfast.testing import FakeCluster, a_node, a_pod, typed


def with_port(pod):
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    return pod


def cluster_of(count, *, nominated):
    """Nodes to each of which, up to a number, a pod with a host port is nominated."""
    cluster = FakeCluster(*(a_node(f"n{i}", cpu="4") for i in range(count)))
    for i in range(nominated):
        pod_info = cluster.world.pod_info(typed(with_port(a_pod(f"coming-{i}", cpu="3"))))
        cluster.world.nominations.set(pod_info, f"n{i}")
    return cluster


def test_nominated_pods_take_room_from_pods_that_are_not_more_important():
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
def test_a_row_that_will_not_do_anyway_says_what_is_said_first_with_those_pods_there(
    nominated, message
):
    """Only the words differ, so only a few rows are asked again."""
    cluster = cluster_of(20, nominated=nominated)
    assert message in cluster.why(with_port(a_pod("big", cpu="5")))
    cluster.place(with_port(a_pod("big", cpu="5")))


def test_a_nominated_pod_leaves_room_for_others_and_not_for_itself():
    cluster = cluster_of(2, nominated=1)
    alone = cluster.world.pod_info(typed(a_pod("alone", cpu="3")))
    cluster.world.nominations.set(alone, "n1")
    beside = cluster.world.pod_info(typed(a_pod("beside", cpu="2")))
    cluster.world.nominations.set(beside, "n0")
    assert cluster.why(a_pod("beside", cpu="2")) == "0/2 nodes are available: 2 Insufficient cpu."
    assert cluster.place(a_pod("alone", cpu="3")) == "n1"


def test_a_row_that_a_filter_asked_every_time_rejects_is_not_spoken_of_twice():
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
    cluster.world.nominations.set(cluster.world.pod_info(typed(a_pod("coming", cpu=None))), "n0")
    assert cluster.place(a_pod("a", cpu="1")) == "n1"
    assert cluster.why(a_pod("b", cpu="1")) == "0/2 nodes are available: 2 Too many pods."


def test_filters_that_look_at_nodes_alone_have_nothing_to_do_with_nominated_pods():
    enabled = [(name, 0) for name in ("NodeUnschedulable", "DefaultBinder")]
    cluster = FakeCluster(a_node("n0"), profile=build_profile("mine", REGISTRY, enabled=enabled))
    cluster.world.nominations.set(cluster.world.pod_info(typed(a_pod("coming", cpu="8"))), "n0")
    assert cluster.place(a_pod("a", cpu="8")) == "n0"

"""Policies of one profile do not work against one another."""

import pytest

from descheduler.clusters import (
    DUPLICATES,
    NO_SCHEDULE,
    SPREAD,
    TAINTS,
    ZONE,
    configured,
    objects,
    owned,
    plan,
    shown,
    spread,
)
from holdfast.testing import a_node

LOAD = {"lowThresholds": {"cpu": 30}, "highThresholds": {"cpu": 60}}


def agent(node, cpu):
    """Return a pod that fills a node and does not move."""
    return owned(f"agent-{node}", node, owner="agent", kind="DaemonSet", cpu=cpu)


def moves(cluster, *policies):
    return shown(plan(objects(*cluster), configured(*policies, LowNodeLoad=LOAD)))


@pytest.mark.parametrize(("counts", "skew"), [((1, 2, 1), 1), ((1, 3, 1), 2)])
def test_a_full_node_keeps_a_pod_that_its_zone_needs(counts, skew):
    nodes = [a_node(f"n{i}", cpu="20", labels={ZONE: f"z{i}"}) for i in range(3)]
    web = [
        owned(f"p{i}-{j}", f"n{i}", **spread(skew))
        for i, count in enumerate(counts)
        for j in range(count)
    ]
    cluster = [*nodes, *web, agent("n0", "12")]
    assert moves(cluster, "LowNodeLoad") == [("p0-0", "n2")]
    assert moves(cluster, SPREAD, "LowNodeLoad") == []


def test_a_full_node_keeps_a_pod_that_would_be_a_duplicate_elsewhere():
    nodes = [a_node(name, cpu="10") for name in ("n1", "n2")]
    cluster = [*nodes, owned("p", "n1"), owned("q", "n2"), agent("n1", "6")]
    assert moves(cluster, "LowNodeLoad") == [("p", "n2")]
    assert moves(cluster, DUPLICATES, "LowNodeLoad") == []


def test_a_pod_that_breaks_a_rule_moves_even_to_a_node_that_gets_full():
    nodes = a_node("n1", cpu="10", taints=[NO_SCHEDULE]), a_node("n2", cpu="10")
    cluster = [*nodes, owned("p", "n1"), agent("n2", "6")]
    assert moves(cluster, TAINTS, "LowNodeLoad") == [("p", "n2")]


def test_a_pod_does_not_leave_a_full_node_for_one_that_is_not_below_the_low_threshold():
    nodes = a_node("n1", cpu="10"), a_node("n2", cpu="10"), a_node("n3", taints=[NO_SCHEDULE])
    cluster = [*nodes, owned("p", "n1"), agent("n1", "6"), agent("n2", "4")]
    assert moves(cluster, "LowNodeLoad") == []

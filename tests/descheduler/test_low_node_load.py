"""LowNodeLoad: which pods leave which nodes, as tables of values."""

import pytest

from descheduler.clusters import configured, objects, owned, plan, shown
from holdfast.api.scheme import POD_MIGRATION_JOBS
from holdfast.testing import a_node, a_reservation
from holdfast.testing.builders import an_object

QOS = "koordinator.sh/qosClass"
LOAD = {"lowThresholds": {"cpu": 30}, "highThresholds": {"cpu": 60}}


def load(*cluster, settings=None, **args):
    found = objects(*cluster)
    return plan(found, configured("LowNodeLoad", LowNodeLoad={**LOAD, **args}), **(settings or {}))


def full(count=8, node="n1", **pod):
    """Return pods of 1 CPU each on one node."""
    return [owned(f"p{i}", node, **pod) for i in range(count)]


def test_a_full_node_is_relieved_until_it_is_below_the_high_threshold():
    moves = load(a_node("n1", cpu="10"), a_node("n2", cpu="10"), *full())
    assert shown(moves) == [("p0", "n2"), ("p1", "n2")]
    assert moves[0].reason == "node is overutilized, cpu usage(80.00%)>threshold(60.00%)"
    assert moves[1].reason == "node is overutilized, cpu usage(70.00%)>threshold(60.00%)"
    assert {(m.policy, m.profile, m.node) for m in moves} == {
        ("LowNodeLoad", "holdfast-descheduler", "n1")
    }


def test_nothing_moves_unless_a_node_is_below_the_low_threshold():
    half = [owned(f"q{i}", "n2") for i in range(4)]
    assert not load(a_node("n1", cpu="10"), a_node("n2", cpu="10"), *full(), *half)


def test_a_node_at_the_low_threshold_is_a_target():
    some = [owned(f"q{i}", "n2") for i in range(3)]
    moves = load(a_node("n1", cpu="10"), a_node("n2", cpu="10"), *full(), *some)
    assert shown(moves) == [("p0", "n2"), ("p1", "n2")]


def test_a_node_at_the_high_threshold_is_not_relieved():
    assert not load(a_node("n1", cpu="10"), a_node("n2", cpu="10"), *full(6))


def test_moves_stop_when_the_targets_would_exceed_the_high_threshold():
    moves = load(a_node("n1", cpu="20"), a_node("n2", cpu="5"), *full(20))
    assert [target for _, target in shown(moves)] == ["n2", "n2", "n2"]


def test_a_pod_that_would_fill_the_target_is_left_and_a_smaller_one_moves():
    pods = [owned("large", "n1", cpu="7"), owned("small", "n1", cpu="1")]
    assert shown(load(a_node("n1", cpu="10"), a_node("n2", cpu="10"), *pods)) == [("small", "n2")]


def test_the_fullest_node_comes_first():
    cluster = [a_node(name, cpu="10") for name in ("n1", "n2", "n3")]
    seven = [owned(f"a{i}", "n1") for i in range(7)]
    nine = [owned(f"b{i}", "n2") for i in range(9)]
    assert [name[0] for name, _ in shown(load(*cluster, *seven, *nine))] == ["b", "b", "b", "a"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"priority": 5}, {"priority": 1}),
        ({"labels": {QOS: "LSR"}}, {"labels": {QOS: "LS"}}),
        ({"annotations": {"scheduling.koordinator.sh/eviction-cost": "7"}}, {}),
        ({"cpu": "1"}, {"cpu": "2"}),
    ],
)  # fmt: skip
def test_the_order_is_priority_qos_eviction_cost_and_size(first, second):
    nodes = a_node("n1", cpu="10"), a_node("n2", cpu="10")
    rest = owned("rest", "n1", cpu="5", priority=100)
    moves = load(*nodes, rest, owned("a", "n1", **first), owned("b", "n1", **second))
    assert shown(moves)[0] == ("b", "n2")


def test_several_resources_all_count():
    nodes = [a_node(name, cpu="10", memory="10Gi") for name in ("n1", "n2")]
    pods = [owned(f"p{i}", "n1", cpu="1", memory="2Gi") for i in range(4)]
    both = {"lowThresholds": {"cpu": 30, "memory": 30}, "highThresholds": {"cpu": 60, "memory": 60}}
    moves = load(*nodes, *pods, **both)
    assert shown(moves) == [("p0", "n2")]
    assert moves[0].reason == "node is overutilized, memory usage(80.00%)>threshold(60.00%)"


def test_deviation_thresholds_are_relative_to_the_mean():
    nodes = [a_node(name, cpu="10") for name in ("n1", "n2", "n3")]
    deviation = {
        "useDeviationThresholds": True, "lowThresholds": {"cpu": 10}, "highThresholds": {"cpu": 10},
    }  # fmt: skip
    pods = [*full(6), owned("q", "n2"), owned("r", "n3"), owned("s", "n3")]
    # The mean is 30 %: n1 has 60 %, n2 is at most 20 %.
    assert shown(load(*nodes, *pods, **deviation)) == [("p0", "n2"), ("p1", "n2")]


@pytest.mark.parametrize(
    "args",
    [
        {"paused": True},
        {"numberOfNodes": 1},
        {"evictableNamespaces": {"exclude": ["default"]}},
        {"podSelectors": [{"name": "db", "selector": {"matchLabels": {"app": "db"}}}]},
        {"nodeSelector": {"matchLabels": {"pool": "b"}}},
        {"highThresholds": {}},
        {"highThresholds": {"example.com/none": 1}, "lowThresholds": {"example.com/none": 1}},
    ],
)
def test_arguments_that_let_nothing_move(args):
    assert not load(a_node("n1", cpu="10"), a_node("n2", cpu="10"), *full(), **args)


def test_pods_that_no_other_node_takes_stay():
    tainted = a_node("n2", cpu="10", taints=[{"key": "k", "effect": "NoSchedule"}])
    assert not load(a_node("n1", cpu="10"), tainted, *full())
    assert shown(load(a_node("n1", cpu="10"), tainted, *full(), nodeFit=False)) == [
        ("p0", ""), ("p1", ""),
    ]  # fmt: skip


def test_without_node_fit_the_room_of_the_targets_is_the_limit():
    moves = load(a_node("n1", cpu="20"), a_node("n2", cpu="5"), *full(20), nodeFit=False)
    assert len(moves) == 3


def test_what_reservations_hold_counts_as_load():
    status = {"phase": "Available", "nodeName": "n2", "allocatable": {"cpu": "4"}}
    held = {**a_reservation("r", cpu="4"), "status": status}
    assert not load(a_node("n1", cpu="10"), a_node("n2", cpu="10"), *full(), held)


def a_job(pod, phase="", node=""):
    ref = {"namespace": "default", "name": pod, "uid": f"uid-{pod}"}
    status = {"phase": phase, "nodeName": node}
    return {**an_object(POD_MIGRATION_JOBS, f"j-{pod}", {"podRef": ref}), "status": status}


def test_pods_that_migrate_already_count_where_they_go():
    cluster = [a_node("n1", cpu="10"), a_node("n2", cpu="10"), *full()]
    first = cluster[2]["metadata"]
    job = a_job(first["name"], "Running")
    job["spec"]["podRef"]["uid"] = objects(cluster[2]).pods[0].uid
    assert shown(load(*cluster, job)) == [("p1", "n2")]


def test_a_pod_with_an_ended_job_waits_until_the_job_is_removed():
    cluster = [a_node("n1", cpu="10"), a_node("n2", cpu="10"), *full()]
    job = a_job("p0", "Failed")
    job["spec"]["podRef"]["uid"] = objects(cluster[2]).pods[0].uid
    assert shown(load(*cluster, job)) == [("p1", "n2"), ("p2", "n2")]


def test_the_limits_of_the_controller_hold():
    cluster = [a_node("n1", cpu="10"), a_node("n2", cpu="10"), *full()]
    assert shown(load(*cluster, settings={"max_per_node": 1})) == [("p0", "n2")]
    assert not load(*cluster, settings={"scheduler_names": frozenset(("koord-scheduler",))})
    assert not load(*cluster, settings={"excluded_namespaces": frozenset(("default",))})


def test_evicted_directly_a_pod_that_would_come_back_stays():
    # Both pods were placed together; the emptied node is the best one again.
    cluster = [a_node("n1", cpu="10"), a_node("n2", cpu="10"), owned("p", "n1", cpu="7")]
    assert not load(*cluster, settings={"default_mode": "EvictDirectly"})
    pods = [*full(5), owned("q", "n1", cpu="3")]
    moves = load(*cluster[:2], *pods, settings={"default_mode": "EvictDirectly"})
    assert shown(moves) == [("q", "n2")]

"""Pods that violate node affinity, taints, anti-affinity or spread, and duplicates."""

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

AFFINITY = "RemovePodsViolatingNodeAffinity"
ANTI = "RemovePodsViolatingInterPodAntiAffinity"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
PREFER = {"key": "gpu", "effect": "PreferNoSchedule"}


def moves_of(policy, *cluster, args=None, **settings):
    return plan(objects(*cluster), configured(policy, **{policy: args or {}}), **settings)


def disk(kind):
    return {"labels": {"disk": kind}}


def prefers(value):
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": [value]}]}
    weighted = [{"weight": 10, "preference": term}]
    return {"affinity": {"nodeAffinity": {PREFERRED: weighted}}}


def test_a_pod_moves_to_a_node_that_matches_its_selector():
    pods = owned("p", "n1", nodeSelector={"disk": "ssd"}), owned("q", "n1")
    (move,) = moves_of(AFFINITY, a_node("n1", **disk("hdd")), a_node("n2", **disk("ssd")), *pods)
    assert (move.pod.name, move.target) == ("p", "n2")
    assert move.reason == "node n1 does not match the pod's node affinity"


def test_a_pod_that_no_node_matches_stays():
    pod = owned("p", "n1", nodeSelector={"disk": "ssd"})
    assert not moves_of(AFFINITY, a_node("n1", **disk("hdd")), a_node("n2", **disk("hdd")), pod)


def test_preferred_affinity_counts_on_request():
    cluster = (
        a_node("n1", **disk("hdd")),
        a_node("n2", **disk("ssd")),
        owned("p", "n1", **prefers("ssd")),
    )
    assert not moves_of(AFFINITY, *cluster)
    assert shown(moves_of(AFFINITY, *cluster, args={"nodeAffinityType": [PREFERRED]})) == [
        ("p", "n2")
    ]  # fmt: skip
    settled = (*cluster[:2], owned("p", "n2", **prefers("ssd")))
    assert not moves_of(AFFINITY, *settled, args={"nodeAffinityType": [PREFERRED]})


def test_a_pod_that_does_not_tolerate_a_new_taint_moves():
    pods = owned("p", "n1"), owned("q", "n1", tolerations=[{"key": "gpu", "operator": "Exists"}])
    (move,) = moves_of(TAINTS, a_node("n1", taints=[NO_SCHEDULE]), a_node("n2"), *pods)
    assert (move.pod.name, move.target) == ("p", "n2")
    assert move.reason == "the pod does not tolerate taint gpu=yes:NoSchedule of n1"


@pytest.mark.parametrize(
    ("taint", "args", "count"),
    [
        (NO_SCHEDULE, {}, 1),
        (NO_SCHEDULE, {"excludedTaints": ["gpu"]}, 0),
        (NO_SCHEDULE, {"excludedTaints": ["gpu=yes"]}, 0),
        (NO_SCHEDULE, {"excludedTaints": ["gpu=no"]}, 1),
        (NO_SCHEDULE, {"includedTaints": ["other"]}, 0),
        (NO_SCHEDULE, {"includedTaints": ["gpu"]}, 1),
        (NO_SCHEDULE, {"namespaces": {"include": ["prod"]}}, 0),
        (NO_SCHEDULE, {"labelSelector": {"matchLabels": {"app": "db"}}}, 0),
        (NO_SCHEDULE | {"effect": "NoExecute"}, {}, 0),
        (PREFER, {}, 0),
        (PREFER, {"includePreferNoSchedule": True}, 1),
    ],
)
def test_which_taints_and_pods_count(taint, args, count):
    cluster = a_node("n1", taints=[taint]), a_node("n2"), owned("p", "n1")
    assert len(moves_of(TAINTS, *cluster, args=args)) == count


def test_a_pod_does_not_go_from_one_unwanted_taint_to_another():
    cluster = a_node("n1", taints=[PREFER]), a_node("n2", taints=[PREFER]), owned("p", "n1")
    assert not moves_of(TAINTS, *cluster, args={"includePreferNoSchedule": True})


def test_without_room_elsewhere_a_pod_stays_unless_fit_is_not_asked():
    cluster = a_node("n1", taints=[NO_SCHEDULE]), a_node("n2", cpu="500m"), owned("p", "n1")
    assert not moves_of(TAINTS, *cluster)
    assert shown(moves_of(TAINTS, *cluster, args={"nodeFit": False})) == [("p", "")]


def keeps_away(key="kubernetes.io/hostname"):
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}}
    return {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}


def test_of_two_pods_that_keep_apart_one_moves():
    pods = [owned(name, "n1", **keeps_away()) for name in ("a", "b")]
    (move,) = moves_of(ANTI, a_node("n1"), a_node("n2"), a_node("n3"), *pods)
    assert move.pod.name == "a"
    assert move.reason == "node(s) didn't match pod anti-affinity rules"


def test_of_pods_that_keep_apart_the_one_of_lower_priority_moves():
    pods = [owned("a", "n1", priority=9, **keeps_away()), owned("b", "n1", **keeps_away())]
    assert shown(moves_of(ANTI, a_node("n1"), a_node("n2"), *pods)) == [("b", "n2")]


def test_pods_that_keep_apart_stay_where_no_other_domain_is_free():
    nodes = [a_node(name, labels={ZONE: "z"}) for name in ("n1", "n2")]
    pods = [owned(name, "n1", **keeps_away(ZONE)) for name in ("a", "b")]
    assert not moves_of(ANTI, *nodes, *pods)


def test_a_pod_without_terms_of_its_own_does_not_move():
    pods = [owned("a", "n1", **keeps_away()), owned("b", "n1", owner="db")]
    assert not moves_of(ANTI, a_node("n1"), a_node("n2"), *pods)


def zones(*counts, when="DoNotSchedule", skew=1):
    """Return a node per zone, with so many pods each."""
    nodes = [a_node(f"n{i}", labels={ZONE: f"z{i}"}) for i in range(len(counts))]
    pods = [
        owned(f"p{i}-{j}", f"n{i}", **spread(skew, when=when))
        for i, count in enumerate(counts)
        for j in range(count)
    ]
    return [*nodes, *pods]


@pytest.mark.parametrize(
    ("counts", "skew", "targets"),
    [
        ((4, 0), 1, ["n1", "n1"]),
        ((3, 1), 1, ["n1"]),
        ((2, 1), 1, []),
        ((3, 1), 2, []),
        ((5, 2, 2), 1, ["n1", "n2"]),
        ((6, 0, 0), 1, ["n1", "n2", "n1", "n2"]),
        ((2, 2, 0), 1, ["n2"]),
    ],
)
def test_domains_are_evened_out_up_to_the_skew(counts, skew, targets):
    found = moves_of(SPREAD, *zones(*counts, skew=skew))
    assert sorted(move.target for move in found) == sorted(targets)


def test_soft_constraints_do_not_move_pods():
    assert not moves_of(SPREAD, *zones(4, 0, when="ScheduleAnyway"))


def test_duplicates_spread():
    nodes = [a_node(name) for name in ("n1", "n2", "n3")]
    pods = [owned(f"p{i}", "n1") for i in range(3)]
    moves = moves_of(DUPLICATES, *nodes, *pods)
    assert sorted(move.target for move in moves) == ["n2", "n3"]
    assert moves[0].reason == "3 pods of one owner are on n1, an equal share is 1"


def test_an_equal_share_counts_only_nodes_that_the_pods_may_use():
    nodes = a_node("n1"), a_node("n2"), a_node("n3", taints=[NO_SCHEDULE])
    pods = [owned(f"p{i}", "n1") for i in range(4)]
    assert [m.target for m in moves_of(DUPLICATES, *nodes, *pods)] == ["n2", "n2"]


@pytest.mark.parametrize(
    ("pods", "args"),
    [
        ([owned("p", "n1"), owned("q", "n1", owner="db")], {}),
        ([owned("p", "n1", image="a"), owned("q", "n1", image="b")], {}),
        ([owned("p", "n1"), owned("q", "n1")], {"excludeOwnerKinds": ["ReplicaSet"]}),
        ([owned("p", "n1"), owned("q", "n1")], {"namespaces": {"exclude": ["default"]}}),
    ],
)
def test_pods_that_are_no_duplicates(pods, args):
    assert not moves_of(DUPLICATES, a_node("n1"), a_node("n2"), *pods, args=args)


def test_duplicates_do_not_fill_a_node_above_the_high_threshold():
    nodes = a_node("n1", cpu="10"), a_node("n2", cpu="4")
    pods = owned("p0", "n1", cpu="3"), owned("p1", "n1", cpu="3")
    assert len(moves_of(DUPLICATES, *nodes, *pods)) == 1
    load = {"lowThresholds": {"cpu": 30}, "highThresholds": {"cpu": 70}}
    both = configured(DUPLICATES, "LowNodeLoad", LowNodeLoad=load)
    assert not plan(objects(*nodes, *pods), both)

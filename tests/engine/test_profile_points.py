"""A profile has a list of plugins for each extension point."""

import numpy as np

from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    Code,
    NodeFilter,
    Plugin,
    Reject,
    Reserver,
    Skip,
)
from holdfast.scheduling.framework.points import Point
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing import a_node, a_pod
from holdfast.testing.fake_cluster import FakeCluster

DEFAULT = default_profiles()["default-scheduler"]


class RejectAll(NodeFilter):
    def __init__(self, reason):
        self.reason = reason

    def filter(self, rows, change=NO_CHANGE):
        return np.ones(len(rows), np.int8)


class Rejects(Plugin):
    """Rejects every node."""

    plan_classes = (RejectAll,)

    def __init__(self, name):
        self.name = name

    def pre_filter(self, pod, view):
        return RejectAll(f"{self.name} rejects")


class ReserveNode(Reserver):
    def __init__(self, reserved):
        self.reserved = reserved

    def reserve(self, placement):
        self.reserved.append(placement.node)

    def unreserve(self, placement):
        self.reserved.remove(placement.node)


class OnlyReserves(Plugin):
    """Has no point but Reserve."""

    name = "OnlyReserves"
    plan_classes = (ReserveNode,)

    def __init__(self):
        self.reserved = []

    def pre_filter(self, pod, view):
        return ReserveNode(self.reserved)


def profile(*more, points=None):
    return Profile("p", (*DEFAULT.plugins, *more), DEFAULT.weights, points or {})


def test_a_plugin_with_only_a_filter_runs():
    cluster = FakeCluster(a_node("n"), profile=profile(Rejects("a")))
    assert cluster.why(a_pod("p")).startswith("0/1 nodes are available: 1 a rejects.")


def test_the_first_filter_in_the_order_of_the_point_gives_the_reason():
    a, b = Rejects("a"), Rejects("b")
    fit = DEFAULT.plugin("NodeResourcesFit")
    big = a_pod("p", cpu="99")
    first = FakeCluster(a_node("n"), profile=profile(a, b, points={Point.FILTER: (b, fit, a)}))
    assert "b rejects" in first.why(big)
    last = FakeCluster(a_node("n"), profile=profile(a, b, points={Point.FILTER: (fit, b, a)}))
    assert "Insufficient cpu" in last.why(big)
    assert "b rejects" in last.why(a_pod("q"))


def test_a_plugin_that_is_disabled_at_a_point_does_nothing_there():
    cordoned = a_node("n", unschedulable=True)
    assert not FakeCluster(cordoned).explain(a_pod("p"))["schedulable"]
    others = tuple(
        p for p in DEFAULT.plugins if p.name not in ("NodeUnschedulable", "TaintToleration")
    )
    unfiltered = profile(points={Point.FILTER: others})
    assert FakeCluster(cordoned, profile=unfiltered).place(a_pod("p")) == "n"
    unscored = FakeCluster(a_node("n"), profile=profile(points={Point.SCORE: ()}))
    assert unscored.explain(a_pod("p"))["nodes"][0]["total"] == 0


def test_a_plugin_that_is_disabled_at_pre_filter_rejects_nothing_but_scores():
    affinity = DEFAULT.plugin("NodeAffinity")
    wish = a_pod("p")
    wish["spec"]["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}
                ]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "preference": {
                        "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]
                    },
                }
            ],
        }
    }
    nodes = [a_node("n", labels={"k": "v"}), a_node("m")]
    assert FakeCluster(*nodes).place(wish) == "m"
    rest = tuple(p for p in DEFAULT.plugins if p is not affinity)
    off = profile(points={Point.PRE_FILTER: rest, Point.FILTER: rest})
    assert FakeCluster(*nodes, profile=off).place(wish) == "n"


def test_a_plugin_with_only_reserve_runs():
    reserver = OnlyReserves()
    assert FakeCluster(a_node("n"), profile=profile(reserver)).place(a_pod("p")) == "n"
    assert reserver.reserved == ["n"]


def test_a_plugin_that_skips_the_pod_does_not_reserve():
    class Skips(OnlyReserves):
        def pre_filter(self, pod, view):
            return Skip()

    reserver = Skips()
    assert FakeCluster(a_node("n"), profile=profile(reserver)).place(a_pod("p")) == "n"
    assert reserver.reserved == []


class RejectsAtPreFilter(Rejects):
    """Rejects the pod at PreFilter."""

    def pre_filter(self, pod, view):
        return Reject(Code.UNSCHEDULABLE, (f"{self.name} rejects at once",))


def test_a_plugin_that_is_disabled_at_pre_filter_and_rejects_there_does_not_filter():
    rejects = RejectsAtPreFilter("a")
    on = FakeCluster(a_node("n"), profile=profile(rejects))
    assert "a rejects at once" in on.why(a_pod("p"))
    points = {Point.PRE_FILTER: DEFAULT.plugins}
    off = FakeCluster(a_node("n"), profile=profile(rejects, points=points))
    assert off.place(a_pod("p")) == "n"

"""The numbered scenarios of the scheduler's configuration."""

import numpy as np

from configuration.config_builders import (
    config,
    mistakes,
    names,
    off,
    on,
    only,
    profile,
    wrong_args,
)
from holdfast.scheduling.configuration.catalog import Catalog
from holdfast.scheduling.configuration.reading import read
from holdfast.scheduling.engine.profile import PluginEntry
from holdfast.scheduling.framework.plugin import NO_CHANGE, NodeFilter, Plugin, Scope, Traits
from holdfast.scheduling.framework.points import Point
from holdfast.scheduling.plugins import REGISTRY, default_profiles
from holdfast.testing import a_node, a_pod
from holdfast.testing.fake_cluster import FakeCluster

DEFAULT = default_profiles()["default-scheduler"]


class PassAll(NodeFilter):
    reason = "no"

    def filter(self, rows, change=NO_CHANGE):
        return np.zeros(len(rows), np.int8)


class MyFilter(Plugin):
    name = "MyFilter"
    traits = Traits(scope=Scope.NODE)
    plan_classes = (PassAll,)

    def __init__(self, _args):
        pass

    def reads(self, pod, view):
        return None

    def pre_filter(self, pod, view):
        return PassAll()


def test_S001_profiles_without_a_name_are_all_reported():
    assert mistakes(config({}, {})) == [
        "profiles[0].schedulerName: Required value",
        "profiles[1].schedulerName: Required value",
        'profiles[1].schedulerName: Duplicate value: ""',
    ]


def test_S002_a_star_leaves_only_enabled_plugins():
    found = only(config(profile(score=off("*") | on(ImageLocality=5))))
    assert names(found, Point.SCORE) == ["ImageLocality"]
    assert found.weight("ImageLocality") == 5
    assert names(found, Point.FILTER) == names(DEFAULT, Point.FILTER)


def test_S003_an_enabled_default_keeps_its_place_and_gets_the_weight():
    found = only(config(profile(multiPoint=on(NodeAffinity=7))))
    assert found.weight("NodeAffinity") == 7
    assert [p.name for p in found.plugins] == [p.name for p in DEFAULT.plugins]
    assert names(found, Point.FILTER) == names(DEFAULT, Point.FILTER)
    assert names(found, Point.SCORE) == names(DEFAULT, Point.SCORE)


def test_S004_a_points_own_order_comes_first_and_new_plugins_last():
    catalog = Catalog((*REGISTRY, PluginEntry(MyFilter, "MyFilter", default=False)))
    raw = config(profile(filter=on("NodeName", "MyFilter")))
    found = read(raw, catalog).profiles["default-scheduler"]
    others = [name for name in names(DEFAULT, Point.FILTER) if name != "NodeName"]
    assert names(found, Point.FILTER) == ["NodeName", *others, "MyFilter"]


def test_S005_disabled_and_enabled_means_last():
    spread = "PodTopologySpread"
    found = only(config(profile(multiPoint=off(spread) | on(spread))))
    for point in (Point.FILTER, Point.SCORE):
        assert names(found, point)[-1] == spread
        assert sorted(names(found, point)) == sorted(names(DEFAULT, point))
    assert found.weight(spread) == 1


def test_S006_invalid_arguments_are_reported_by_field():
    zero = {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0}
    assert wrong_args("DefaultPreemption", **zero) == [
        "minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as "
        "minCandidateNodesAbsolute",
        "minCandidateNodesAbsolute: Invalid value: 0: cannot be zero at the same time as "
        "minCandidateNodesPercentage",
    ]
    assert wrong_args("InterPodAffinity", hardPodAffinityWeight=101) == [
        "hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]"
    ]


def test_S007_the_maximum_backoff_is_at_least_the_initial_one():
    raw = config(podInitialBackoffSeconds=5, podMaxBackoffSeconds=3)
    assert mistakes(raw) == [
        "podMaxBackoffSeconds: Invalid value: 3: must be greater than or equal to "
        "PodInitialBackoffSeconds"
    ]


def test_S008_every_node_is_evaluated_whatever_the_percentage():
    """kube-scheduler would evaluate 500 of 5,000 nodes in one attempt."""
    nodes = [a_node(f"n{i:04}", cpu="1") for i in range(4999)]
    profiles = config({"percentageOfNodesToScore": 1}, percentageOfNodesToScore=5)
    cluster = FakeCluster(*nodes, a_node("last", cpu="8"), profile=only(profiles))
    assert cluster.place(a_pod("p", cpu="4")) == "last"

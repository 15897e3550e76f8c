"""Plugins that look at the feasible rows of a pod without scoring them."""

import numpy as np
import pytest

from holdfast.scheduling.engine.decision import decide
from holdfast.scheduling.engine.explanation import explain
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.engine.scoring import InvalidScore
from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    Code,
    NodeFilter,
    NodeScorer,
    Placement,
    Plugin,
    Reject,
    Scope,
    Traits,
)
from holdfast.scheduling.framework.world import World
from holdfast.testing import a_node, a_pod, check_plugin, typed


class KeepFeasible(NodeFilter, NodeScorer):
    """Keeps the feasible rows for Reserve."""

    reason = "never"

    def __init__(self, refuses):
        self.refuses, self.kept = refuses, []

    def filter(self, rows, change=NO_CHANGE):
        return np.zeros(len(rows), np.int8)

    def pre_score(self, feasible):
        self.kept.append(feasible.tolist())
        return Reject(Code.ERROR, ("no luck",)) if self.refuses else None


class PotentialNodes(Plugin):
    name = "PotentialNodes"
    plan_classes = (KeepFeasible,)
    refuses = False

    def pre_filter(self, pod, view):
        return KeepFeasible(self.refuses)


def placed(nodes, plugin=None):
    world = World()
    for i in range(nodes):
        world.upsert(typed(a_node(f"n{i}")))
    plugin = plugin or PotentialNodes()
    profile = Profile("default-scheduler", (plugin,))
    pod = world.pod_info(typed(a_pod("p")))
    return decide(profile, profile.view(pod, world, 0.0), np.random.default_rng(0)), profile, world


def test_it_gets_the_feasible_rows_once_and_its_plan_is_that_of_the_placement():
    found, _, _ = placed(3)
    assert isinstance(found, Placement)
    assert found.plans["PotentialNodes"].kept == [[0, 1, 2]]


def test_a_single_row_is_not_compared():
    assert placed(1)[0].plans["PotentialNodes"].kept == []


def test_its_rejection_is_an_error_of_the_attempt():
    plugin = PotentialNodes()
    plugin.refuses = True
    with pytest.raises(InvalidScore, match='running PreScore plugin "PotentialNodes": no luck'):
        placed(2, plugin)
    _, profile, world = placed(1, plugin)
    world.upsert(typed(a_node("n1")))
    explained = explain(profile, typed(a_pod("p")), world, 0.0)
    assert explained["error"] == 'running PreScore plugin "PotentialNodes": no luck'


def test_the_law_demands_the_scope_cluster():
    check_plugin(PotentialNodes, clusters=1, steps=2)

    class Cached(PotentialNodes):
        traits = Traits(scope=Scope.ROW)

        def reads(self, pod, view):
            return None

    with pytest.raises(AssertionError, match="pre_score without score has the scope CLUSTER"):
        check_plugin(Cached, clusters=1, steps=2)

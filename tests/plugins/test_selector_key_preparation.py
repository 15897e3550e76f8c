"""The first pod whose selectors use a label key regroups all pods, in steps before its cycle."""

import numpy as np
import pytest

from holdfast.scheduling.engine.preparation import prepare_in_steps
from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.scheduler.cycle import schedule_pod
from holdfast.state.columns import counter_steps
from holdfast.state.columns.pod_placements import PodPlacements
from holdfast.testing import a_node, a_pod, typed

PROFILE = default_profiles()["default-scheduler"]
HOST = "kubernetes.io/hostname"
NOW = 1.8e9
BY_LABELS, BY_EXPRESSION = (
    {"matchLabels": {"app": "x"}},
    {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]},
)


def far(selector):
    term = {"labelSelector": selector, "topologyKey": HOST}
    return {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    }


def even(selector, **more):
    constraint = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topology_spread_constraints": [constraint | {"labelSelector": selector} | more]}


SPECS = {
    "anti-affinity": far(BY_LABELS),
    "anti-affinity by expression": far(BY_EXPRESSION),
    "spread": even(BY_LABELS),
    "spread by expression": even(BY_EXPRESSION),
    "spread by a key of the pod": even({}, matchLabelKeys=["app"]),
}


@pytest.mark.parametrize("kind", SPECS)
def test_after_the_steps_the_cycle_regroups_no_pods(monkeypatch, kind):
    monkeypatch.setattr(counter_steps, "_PODS_A_STEP", 10)
    world = World()
    for i in range(3):
        world.upsert(typed(a_node(f"n{i}", labels={HOST: f"n{i}"})))
    for i in range(60):
        labels = {"app": "x" if i % 3 else "y"}
        world.upsert(typed(a_pod(f"p{i}", cpu="1m", node=f"n{i % 2}", labels=labels)))
    pod = world.pod_info(typed(a_pod("new", labels={"app": "x"}, **SPECS[kind])))
    assert len([*prepare_in_steps(PROFILE, pod, world, NOW)]) >= 6
    monkeypatch.setattr(PodPlacements, "regroup", None)
    placement = schedule_pod(PROFILE, PROFILE.view(pod, world, NOW), np.random.default_rng(1))
    assert isinstance(placement, Placement)
    assert placement.node == "n2"
    pod = world.pod_info(typed(a_pod("next", labels={"app": "x"}, **SPECS[kind])))
    assert not [*prepare_in_steps(PROFILE, pod, world, NOW)]

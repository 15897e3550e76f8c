"""The search for devices: its errors, its time limit, its order, and scores of nodes."""

import numpy as np
import pytest

from holdfast.scheduling.engine.decision import feasible
from holdfast.scheduling.framework.plugin import Code, PodChange
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.state.devices.allocator import Allocator
from holdfast.testing import a_claim, a_device, a_device_class, a_node, a_pod, a_slice, typed
from plugins.device_desk import GPU, Desk, one_gpu, using


def test_D025_a_selector_error_on_one_of_two_nodes_keeps_the_pod_pending():
    class_ = a_device_class("gpu", selectors=['device.attributes["gpu.example.com"].healthy'])
    desk = Desk(
        a_node("n"), a_node("m"), class_, a_claim("a"),
        a_slice("n-gpu", node="n", devices=[a_device(attributes={"healthy": True})]),
        a_slice("m-gpu", node="m", devices=[a_device()]),
    )  # fmt: skip
    plan = desk.pre_filter(a_pod(claims=using("a")))
    assert desk.verdicts(plan) == {"n": 0, "m": Code.ERROR}
    words = "class gpu: selector #0: CEL runtime error: no such key: healthy"
    assert desk.reasons(plan, "m") == (words,)


def test_D043_a_search_over_its_limit_is_an_error():
    desk = one_gpu(a_claim("a", constraints=[{"matchAttribute": "a.com/x"}]), filterTimeout="1ns")
    plan = desk.pre_filter(a_pod(claims=using("a")))
    assert desk.verdicts(plan) == {"n": Code.ERROR}
    assert desk.reasons(plan, "n") == ("node n: timed out trying to allocate devices",)


def test_D043_the_reason_of_a_time_out_needs_no_second_search(monkeypatch):
    desk = one_gpu(a_claim("a", constraints=[{"matchAttribute": "a.com/x"}]), filterTimeout="1ns")
    plan = desk.pre_filter(a_pod(claims=using("a")))
    assert desk.verdicts(plan) == {"n": Code.ERROR}
    monkeypatch.setattr(Allocator, "solve_in_steps", None)
    assert desk.reasons(plan, "n") == ("node n: timed out trying to allocate devices",)


@pytest.fixture
def hard_cluster(monkeypatch):
    """Three nodes in different states, on each of which a search takes too long."""
    searched, solve = [], Allocator.solve_in_steps

    def noted(self, node, *rest):
        searched.append(node.name)
        return solve(self, node, *rest)

    monkeypatch.setattr(Allocator, "solve_in_steps", noted)
    desk = Desk(
        *(a_node(f"n{i}") for i in range(3)), a_device_class("gpu"),
        *(a_slice(f"n{i}-gpu", node=f"n{i}", devices=6 + i) for i in range(3)),
        a_claim("a", count=3, constraints=[{"matchAttribute": "a.com/x"}]),
        filterTimeout="50us",
    )  # fmt: skip
    return desk, searched


def test_D043_one_time_out_fails_the_pod_without_further_searches(hard_cluster):
    desk, searched = hard_cluster
    for _ in range(2):
        plan = desk.pre_filter(a_pod(claims=using("a")))
        assert set(desk.verdicts(plan).values()) == {Code.ERROR}
    assert searched == ["n0"]
    assert desk.reasons(plan, "n0") == ("node n0: timed out trying to allocate devices",)


def test_D043_the_nominated_node_is_searched_first(hard_cluster):
    desk, searched = hard_cluster
    desk.world.upsert(typed(a_slice("n2-gpu", node="n2", devices=1)))
    pod = a_pod(claims=using("a"))
    pod["status"] = {"nominatedNodeName": "n2"}
    plan = desk.pre_filter(pod)
    assert desk.verdicts(plan) == {"n0": Code.ERROR, "n1": Code.ERROR, "n2": Code.UNRESOLVABLE}
    assert searched == ["n2", "n0"]


def test_D034_nodes_with_earlier_alternatives_score_higher():
    wish = {
        "name": "r",
        "firstAvailable": [
            {"name": "big", "deviceClassName": "gpu", "count": 2},
            {"name": "small", "deviceClassName": "gpu", "count": 1},
        ],
    }
    desk = Desk(
        a_node("n"), a_node("m"), a_device_class("gpu"), a_claim("a", requests=[wish]),
        a_slice("n-gpu", node="n", devices=1), a_slice("m-gpu", node="m", devices=2),
    )  # fmt: skip
    pod = a_pod(claims=using("a"))
    plan = desk.pre_filter(pod)
    rows = np.array([desk.world.nodes.row_of[name] for name in ("n", "m")])
    raw = plan.score(rows)
    assert raw.tolist() == [7, 8]
    assert plan.normalize_score(rows, raw).tolist() == [87, 100]
    desk.bind(pod, "n")
    [claim] = desk.api.of_kind("ResourceClaim")
    [result] = claim["status"]["allocation"]["devices"]["results"]
    assert result["request"] == "r/small"


@pytest.mark.parametrize(
    ("devices", "on", "verdict"), [(1, True, Code.UNRESOLVABLE), (1, False, 0), (2, True, 0)]
)
@pytest.mark.parametrize("by_name", [False, True])
def test_a_pod_leaves_the_devices_of_a_pod_that_is_nominated_to_the_node(
    devices, on, verdict, by_name
):
    desk = Desk(
        a_node("n"),
        a_device_class("gpu", extendedResourceName=GPU),
        a_slice("n-gpu", node="n", devices=devices),
        a_claim("a"),
        a_claim("b"),
        preemptDevices=on,
    )
    nominated = a_pod("q", requests={GPU: "1"}) if by_name else a_pod("q", claims=using("b"))
    plan = desk.pre_filter(a_pod("p", claims=using("a")))
    row = desk.world.nodes.row_of["n"]
    change = PodChange(added={row: [desk.pod_info(nominated)]})
    rows = np.array([row])
    assert plan.filter(rows).tolist() == [0]
    assert plan.filter(rows, change).tolist() == [verdict]
    if verdict:
        assert plan.reasons(row, change) == ("cannot allocate all claims",)


def test_the_error_of_the_nominated_node_is_reported_not_that_others_were_not_searched():
    world = World()
    rule = 'device.attributes["gpu.example.com"].cores > 4'
    for raw in (
        a_node("n1"), a_node("n2"), a_slice("n2-gpus", node="n2", devices=1),
        a_device_class("gpu"), a_claim("a", selectors=[rule]),
    ):  # fmt: skip
        world.upsert(typed(raw))
    pod = a_pod("p", claims=using("a")) | {"status": {"nominatedNodeName": "n2"}}
    profile = default_profiles()["default-scheduler"]
    found = feasible(profile, profile.view(world.pod_info(typed(pod)), world, 0.0))
    assert "selector #0: CEL runtime error: no such key: cores" in found.message()

"""Searches for devices run in steps before the scheduling cycle, while other tasks run."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from devices.device_cluster import counters, part
from holdfast.scheduling.framework.plugin import Placement, Plugin
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.scheduler.cycle import SchedulingFailure, schedule_pod
from holdfast.scheduling.scheduler.preparation_turns import Preparations
from holdfast.scheduling.scheduler.queued_pods import QueuedPodInfo
from holdfast.state.devices.allocator import Allocator
from holdfast.testing import a_claim, a_device, a_device_class, a_node, a_pod, a_slice, typed
from holdfast.testing.clock import VirtualClock
from scheduler.impatient_clock import ImpatientClock, preparation_of, prepare_and_count

PROFILE = default_profiles()["default-scheduler"]
NUMA = "gpu.example.com/numa"


def a_world(*objects, nodes=3, devices=14):
    """Nodes whose devices have a NUMA node of their own each: two of one are never found."""
    world = World()
    world.upsert(typed(a_device_class("gpu")))
    for i in range(nodes):
        world.upsert(typed(a_node(f"n{i}")))
        made = [a_device(f"d{d}", attributes={"numa": d}) for d in range(devices)]
        world.upsert(typed(a_slice(f"s{i}", node=f"n{i}", devices=made)))
    for raw in objects:
        world.upsert(typed(raw))
    return world


def far(name, count=2):
    return a_claim(name, count=count, constraints=[{"distinctAttribute": NUMA}])


def a_pod_with(claim, name="p"):
    return a_pod(name, claims=[{"name": "c", "resourceClaimName": claim}])


def schedule(world, pod_info):
    return schedule_pod(PROFILE, PROFILE.view(pod_info, world, 1.8e9), np.random.default_rng(1))


def test_other_tasks_run_while_the_devices_of_a_pod_are_searched(monkeypatch):
    world = a_world(far("c"))
    pod_info = world.pod_info(typed(a_pod_with("c")))
    assert prepare_and_count(PROFILE, world, pod_info) > 0
    # The cycle finds every result, and what was chosen.
    monkeypatch.setattr(Allocator, "solve_in_steps", None)
    placement = schedule(world, pod_info)
    assert isinstance(placement, Placement)
    [claim] = world.devices.claims.including_in_flight()
    assert [r.device for r in claim.status.allocation.devices.results] == ["d0", "d1"]


def test_one_long_search_is_interrupted():
    """Every combination of four devices of one NUMA node is tried, in many steps."""
    near = a_claim(
        "c",
        requests=[
            {"name": name, "exactly": {"deviceClassName": "gpu", "count": 4}} for name in ("r", "q")
        ],
        constraints=[{"requests": ["q"], "matchAttribute": NUMA}],
    )
    world = a_world(near, nodes=1, devices=10)
    pod_info = world.pod_info(typed(a_pod_with("c")))
    assert prepare_and_count(PROFILE, world, pod_info) > 10
    assert isinstance(schedule(world, pod_info), SchedulingFailure)


def test_a_device_allocated_meanwhile_is_not_allocated_again():
    world = a_world(far("c"), nodes=1)
    pod_info = world.pod_info(typed(a_pod_with("c")))
    preparation = preparation_of(PROFILE, world, pod_info)
    assert not preparation.begin()
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n0", "device": "d0"}
    status = {"allocation": {"devices": {"results": [result]}}}
    world.upsert(typed(a_claim("x", status=status)))
    while not preparation.step():
        pass
    assert isinstance(schedule(world, pod_info), Placement)
    claim = world.devices.claims.in_flight(world.devices.claims.get("default", "c").uid)
    assert [r.device for r in claim.status.allocation.devices.results] == ["d1", "d2"]


@pytest.mark.parametrize("pod", [a_pod("p"), a_pod_with("missing")])
def test_a_pod_without_claims_to_allocate_needs_no_preparation(pod):
    world = a_world()
    assert prepare_and_count(PROFILE, world, world.pod_info(typed(pod))) == 0


def test_an_error_is_left_to_the_cycle(monkeypatch):
    world = a_world(far("c"))
    pod_info = world.pod_info(typed(a_pod_with("c")))
    monkeypatch.setattr(Allocator, "solve_in_steps", None)
    prepare_and_count(PROFILE, world, pod_info)
    with pytest.raises(TypeError):
        schedule(world, pod_info)


def test_nodes_that_other_filters_reject_are_not_searched(monkeypatch):
    world = a_world(far("c"), nodes=40)
    for i in range(1, 40):
        # Every node is in another state, and one of them is left.
        made = [a_device(f"d{d}", attributes={"numa": d}) for d in range(14 + i)]
        world.upsert(typed(a_slice(f"s{i}", node=f"n{i}", devices=made)))
        world.upsert(typed(a_node(f"n{i}", unschedulable=True)))
    searched, solve = [], Allocator.solve_in_steps

    def noted(self, node, *rest):
        searched.append(node.name)
        return solve(self, node, *rest)

    monkeypatch.setattr(Allocator, "solve_in_steps", noted)
    pod_info = world.pod_info(typed(a_pod_with("c")))
    prepare_and_count(PROFILE, world, pod_info)
    assert searched == ["n0"]
    placement = schedule(world, pod_info)
    assert placement.node == "n0"
    assert searched == ["n0"]


class CountsPreparations(Plugin):
    """Prepares in three steps, each after a pause; ``begun`` counts how often it began."""

    name = "CountsPreparations"

    def __init__(self):
        self.begun = self.steps = 0

    def prepare(self, pod, view, rows):
        self.begun += 1
        for _ in range(3):
            yield
            self.steps += 1


def preparations_with(clock):
    plugin, world = CountsPreparations(), World()
    world.upsert(typed(a_node("n")))
    profile = replace(PROFILE, plugins=(plugin,), plugins_by_point={})
    queued = QueuedPodInfo(world.pod_info(typed(a_pod("p"))), since=0.0)
    return plugin, Preparations({PROFILE.name: profile}, world, clock, print), queued


def test_a_preparation_ends_with_its_first_step_if_that_is_short():
    plugin, preparations, queued = preparations_with(VirtualClock())
    assert not preparations.begin(queued)
    assert (plugin.begun, plugin.steps) == (1, 0)
    assert preparations.step().queued is queued
    # What was begun is continued; a second round computes again what changed before the step.
    assert (plugin.begun, plugin.steps) == (2, 6)
    assert not preparations


def test_a_preparation_whose_rounds_are_all_overtaken_ends():
    plugin, preparations, queued = preparations_with(ImpatientClock())
    assert not preparations.begin(queued)
    while (ended := preparations.step()) is None:
        pass
    assert ended.is_overtaken
    assert plugin.begun == 5


def test_a_pod_removed_from_the_queue_is_not_prepared():
    plugin, preparations, queued = preparations_with(VirtualClock())
    queued.removed = True
    assert preparations.begin(queued)
    assert plugin.begun == 0


def test_a_pod_with_too_long_lists_is_not_prepared():
    plugin, preparations, queued = preparations_with(VirtualClock())
    queued.pod_info = msgspec.structs.replace(queued.pod_info, excess="spec.tolerations: too many")
    assert preparations.begin(queued)
    assert plugin.begun == 0


def test_nodes_whose_devices_get_counters_are_searched_before_the_cycle(monkeypatch):
    """Few rows have changed, but they cannot be counted any more."""
    world = a_world(a_claim("c"), a_claim("d"), devices=2)
    schedule(world, world.pod_info(typed(a_pod_with("c"))))
    for name in ("n0", "n1", "n2"):
        cards = counters(f"{name}-counters", "card", pool=name, node=name, generation=2)
        halves = [part("a", "card"), part("b", "card")]
        slice_ = a_slice(f"s{name[1]}", node=name, slices=2, generation=2, devices=halves)
        world.upsert(typed(cards))
        world.upsert(typed(slice_))
    pod_info = world.pod_info(typed(a_pod_with("d", name="q")))
    prepare_and_count(PROFILE, world, pod_info)
    monkeypatch.setattr(Allocator, "solve_in_steps", None)
    assert isinstance(schedule(world, pod_info), Placement)


class OutdatedPreparation(CountsPreparations):
    """Fails after its last step, in the first round only."""

    def prepare(self, pod, view, rows):
        yield from super().prepare(pod, view, rows)
        if self.begun == 1:
            raise LookupError("what it read in the first step is gone")


def test_a_preparation_that_failed_after_a_pause_begins_again():
    plugin, world = OutdatedPreparation(), World()
    world.upsert(typed(a_node("n")))
    profile = replace(PROFILE, plugins=(plugin,), plugins_by_point={})
    pod_info = world.pod_info(typed(a_pod("p")))
    assert prepare_and_count(profile, world, pod_info)
    assert plugin.begun > 1

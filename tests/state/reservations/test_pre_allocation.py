"""Which running pods may be pre-allocated, and how they are scored."""

import pytest

from holdfast.state.columns.interner import CPU, MEMORY
from holdfast.state.reservations.pre_allocation import (
    PreAllocationResult,
    PreAllocationRules,
    choose_pods,
)
from holdfast.testing import a_pod, a_reservation, typed
from state.reservations.reserved_world import a_world, drawing, held


def pod_info(world, name="p", **more):
    return world.pod_info(typed(a_pod(name, **more)))


def test_a_pod_that_uses_a_reservation_is_allocated_elsewhere_for_others():
    r = held()
    pod = drawing("p", r)
    world = a_world(r, pod)
    assert world.reservations.is_allocated_elsewhere(pod.uid, "another")
    assert not world.reservations.is_allocated_elsewhere(pod.uid, r.uid)
    world.delete(r)
    assert not world.reservations.is_allocated_elsewhere(pod.uid, "another"), (
        "the reservation is gone"
    )


def test_a_pod_pre_allocated_by_a_pending_reservation_is_allocated_elsewhere():
    r = typed(a_reservation("r", phase="Pending"))
    world = a_world(r)
    pod = pod_info(world)
    world.reservations.pre_allocate([pod], r.uid, "n")
    assert world.reservations.is_allocated_elsewhere(pod.uid, "another")
    assert not world.reservations.is_allocated_elsewhere(pod.uid, r.uid)
    world.reservations.cancel_pre_allocation(r.uid)
    assert not world.reservations.is_allocated_elsewhere(pod.uid, "another")


@pytest.mark.parametrize(
    ("reserved", "cpu", "score"),
    [
        ({CPU: 4000}, "1", 25),
        ({CPU: 4000}, "4", 100),
        ({CPU: 4000}, "5", 0),
        ({CPU: 4000, MEMORY: 1}, "1", 12),
        ({CPU: 4000, MEMORY: 0}, "1", 25),
        ({MEMORY: 0}, "1", 0),
        ({}, "1", 0),
    ],
)
def test_a_pod_scores_the_mean_of_what_it_fills_of_each_resource(reserved, cpu, score):
    pod = pod_info(a_world(), cpu=cpu)
    assert PreAllocationRules(reserved, reserved).score(pod) == score


def test_a_node_scores_by_its_one_pod_or_by_the_number_of_pods():
    world, wanted = a_world(), {CPU: 4000}
    pods = tuple(pod_info(world, f"p{i}", cpu="1") for i in range(3))
    one, several = (
        PreAllocationRules(wanted, wanted),
        PreAllocationRules(wanted, wanted, multiple=True),
    )
    assert [PreAllocationResult(pods[:n]).score(one) for n in (0, 1)] == [0, 25]
    assert [PreAllocationResult(pods[:n]).score(several) for n in (0, 1, 3)] == [100, 50, 25]
    assert PreAllocationResult(shortfall=7).score(one) == -7


def test_the_shortfall_of_a_resource_that_the_node_does_not_have_is_all_of_it():
    wanted = {CPU: 4}
    assert choose_pods(PreAllocationRules(wanted, wanted), {}, []).shortfall == 100
    assert choose_pods(PreAllocationRules(wanted, wanted), {CPU: 3}, []).shortfall == 25

"""Which running pods have room to leave to a reservation, and how well they fill it."""

import pytest

from capacity.test_offers import a_world, drawing, held
from holdfast.capacity.pre_allocation import Inheritance, Will
from holdfast.columns.interner import CPU, MEMORY
from holdfast.testing import a_pod, a_reservation, typed


def pod_info(world, name="p", **more):
    return world.pod_info(typed(a_pod(name, **more)))


def test_a_pod_that_draws_on_a_reservation_has_no_room_for_another():
    r = held()
    pod = drawing("p", r)
    world = a_world(r, pod)
    assert world.offers.is_spoken_for(pod.uid, "another")
    assert not world.offers.is_spoken_for(pod.uid, r.uid)
    world.delete(r)
    assert not world.offers.is_spoken_for(pod.uid, "another"), "the reservation is gone"


def test_a_pod_that_leaves_its_room_to_one_still_being_placed_has_none_for_another():
    r = typed(a_reservation("r", phase="Pending"))
    world = a_world(r)
    pod = pod_info(world)
    world.offers.bequeath([pod], r.uid, "n")
    assert world.offers.is_spoken_for(pod.uid, "another")
    assert not world.offers.is_spoken_for(pod.uid, r.uid)
    world.offers.disinherit(r.uid)
    assert not world.offers.is_spoken_for(pod.uid, "another")


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
    assert Will(reserved, reserved).score(pod) == score


def test_a_node_scores_by_its_one_pod_or_by_how_few_pods_it_takes():
    world, wanted = a_world(), {CPU: 4000}
    pods = tuple(pod_info(world, f"p{i}", cpu="1") for i in range(3))
    one, several = Will(wanted, wanted), Will(wanted, wanted, multiple=True)
    assert [Inheritance(pods[:n]).score(one) for n in (0, 1)] == [0, 25]
    assert [Inheritance(pods[:n]).score(several) for n in (0, 1, 3)] == [100, 50, 25]
    assert Inheritance(lacking=7).score(one) == -7

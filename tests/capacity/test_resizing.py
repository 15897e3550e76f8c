"""What an edited reservation asks to hold, compared with what it holds."""

import pytest

from holdfast.capacity.resizing import gives_back, larger, same_amounts, wanted
from holdfast.testing import a_reservation, typed

GPU = "example.com/gpu"


def a_held(held, **more):
    """A reservation of one CPU that holds some amounts."""
    made = a_reservation("r", cpu="1")
    made["status"] = {"phase": "Available", "nodeName": "n", "allocatable": held}
    made["metadata"] |= more
    return typed(made)


def test_a_reservation_that_holds_what_it_asks_for_wants_nothing():
    assert wanted(a_held({"cpu": "1000m"})) is None


def test_what_the_template_does_not_name_stays_if_it_is_an_extended_resource():
    assert wanted(a_held({"cpu": "2", GPU: "1"})) == {"cpu": "1", GPU: "1"}
    assert wanted(a_held({"cpu": "1", "memory": "1Gi"})) == {"cpu": "1"}


def test_a_dying_reservation_and_one_that_is_not_available_keep_their_size():
    assert wanted(a_held({"cpu": "2"}, deletionTimestamp="2026-01-01T00:00:00Z")) is None
    failed = a_reservation("r", cpu="1")
    failed["status"] = {"phase": "Failed", "nodeName": "n", "allocatable": {"cpu": "2"}}
    assert wanted(typed(failed)) is None


@pytest.mark.parametrize(
    "name",
    ["scheduling.koordinator.sh/device-allocated", "scheduling.koordinator.sh/resource-status"],
)
def test_a_reservation_that_holds_things_by_name_keeps_its_size(name):
    assert wanted(a_held({"cpu": "2"}, annotations={name: "{}"})) is None


def test_nothing_held_is_the_same_as_zero_held():
    assert same_amounts({"cpu": "1", GPU: "0"}, {"cpu": "1000m"})
    assert not same_amounts({"cpu": "1"}, {"cpu": "1001m"})


def test_of_two_the_larger_counts():
    assert larger({"cpu": "1", GPU: "2"}, {"cpu": "2", GPU: "2000m", "memory": "1"}) == {
        "cpu": "2", GPU: "2", "memory": "1",
    }  # fmt: skip


def test_less_of_anything_is_given_back():
    before = a_held({"cpu": "2"})
    assert gives_back(before, a_held({"cpu": "1999m"}))
    assert gives_back(before, a_held({GPU: "1"}))
    assert not gives_back(before, a_held({"cpu": "2000m", GPU: "1"}))

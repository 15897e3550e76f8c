"""The wanted size of an edited reservation, compared with what it holds."""

import pytest

from holdfast.state.reservations.resizing import (
    larger_amounts,
    same_amounts,
    shrinks,
    wanted_amounts,
)
from holdfast.testing import a_reservation, typed

GPU = "example.com/gpu"


def a_held(held, **more):
    """Return a reservation of one CPU that holds some amounts."""
    made = a_reservation("r", cpu="1")
    made["status"] = {"phase": "Available", "nodeName": "n", "allocatable": held}
    made["metadata"] |= more
    return typed(made)


def test_a_reservation_of_the_wanted_size_is_not_resized():
    assert wanted_amounts(a_held({"cpu": "1000m"})) is None


def test_an_extended_resource_that_the_template_does_not_name_stays():
    assert wanted_amounts(a_held({"cpu": "2", GPU: "1"})) == {"cpu": "1", GPU: "1"}
    assert wanted_amounts(a_held({"cpu": "1", "memory": "1Gi"})) == {"cpu": "1"}


def test_terminating_and_unavailable_reservations_are_not_resized():
    assert wanted_amounts(a_held({"cpu": "2"}, deletionTimestamp="2026-01-01T00:00:00Z")) is None
    failed = a_reservation("r", cpu="1")
    failed["status"] = {"phase": "Failed", "nodeName": "n", "allocatable": {"cpu": "2"}}
    assert wanted_amounts(typed(failed)) is None


@pytest.mark.parametrize(
    "name",
    ["scheduling.koordinator.sh/device-allocated", "scheduling.koordinator.sh/resource-status"],
)
def test_a_reservation_of_particular_devices_is_not_resized(name):
    assert wanted_amounts(a_held({"cpu": "2"}, annotations={name: "{}"})) is None


def test_a_missing_amount_equals_zero():
    assert same_amounts({"cpu": "1", GPU: "0"}, {"cpu": "1000m"})
    assert not same_amounts({"cpu": "1"}, {"cpu": "1001m"})


def test_the_larger_amount_of_each_resource_is_taken():
    assert larger_amounts({"cpu": "1", GPU: "2"}, {"cpu": "2", GPU: "2000m", "memory": "1"}) == {
        "cpu": "2", GPU: "2", "memory": "1",
    }  # fmt: skip


def test_less_of_any_resource_is_a_shrink():
    before = a_held({"cpu": "2"})
    assert shrinks(before, a_held({"cpu": "1999m"}))
    assert shrinks(before, a_held({GPU: "1"}))
    assert not shrinks(before, a_held({"cpu": "2000m", GPU: "1"}))

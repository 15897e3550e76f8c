"""What counts for nothing in a Reservation is said to whoever writes it."""

import pytest

from holdfast.testing import a_reservation, typed
from holdfast.validation.reservation_advice import advise

ORDER, PRIORITY = "scheduling.koordinator.sh/reservation-order", "koordinator.sh/priority"
HELD = {"phase": "Available", "nodeName": "n1"}


def told(old=None, **new):
    before = None if old is None else typed(a_reservation(**old))
    return list(advise(typed(a_reservation(**new)), before))


def test_of_a_plain_reservation_nothing_is_said():
    assert told() == []
    assert told(labels={ORDER: "7", PRIORITY: "-5"}, pre_allocation=True) == []


@pytest.mark.parametrize(
    ("new", "words"),
    [
        ({"labels": {ORDER: "first"}}, f'metadata.labels[{ORDER}]: "first" is no whole number'),
        ({"labels": {PRIORITY: str(2**31)}}, f"metadata.labels[{PRIORITY}]: "),
        ({"pre_allocation_policy": {"mode": "Cluster"}}, "spec.preAllocationPolicy: counts only"),
        (
            {"template": {"priority_class_name": "low"}},
            "spec.template.spec.priorityClassName: is not looked up",
        ),
    ],
)
def test_what_counts_for_nothing_is_named(new, words):
    [said] = told(**new)
    assert said.startswith(words)
    assert told(old=new, **new) == [], "once is enough"


def test_one_that_requests_nothing_holds_nothing():
    [said] = told(cpu=None)
    assert said.startswith("spec.template.spec.containers: requests nothing, so no room is held")
    resized = "scheduling.koordinator.sh/reservation-resize-allocatable"
    assert told(cpu=None, annotations={resized: '{"resources":{"cpu":"1"}}'}) == []
    assert told(cpu=None, requests={"pods": "1"}) == []
    assert told(old={"cpu": None}, cpu=None) == [], "once is enough"


def test_a_number_beside_its_class_is_enough():
    assert told(template={"priority_class_name": "low", "priority": 5}) == []
    assert told(template={"priority_class_name": "low"}, labels={PRIORITY: "5"}) == []


@pytest.mark.parametrize("moved", [{"node": "n2"}, {"node_selector": {"a": "b"}}])
def test_one_that_has_its_node_is_not_moved(moved):
    [said] = told(old={"status": HELD}, status=HELD, template=moved)
    assert said.endswith("the reservation stays on n1; delete it and make another")
    assert told(old={}, template=moved) == []

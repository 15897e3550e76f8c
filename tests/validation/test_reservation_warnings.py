"""Warnings about parts of a Reservation that have no effect."""

import pytest

from holdfast.api.group_scheduling import NO_GANGS, NO_QUOTAS
from holdfast.api.validation.reservation_warnings import find_warnings
from holdfast.testing import a_reservation, typed

ORDER, PRIORITY = "scheduling.koordinator.sh/reservation-order", "koordinator.sh/priority"
HELD = {"phase": "Available", "nodeName": "n1"}


OWNERS = [{"object": {"namespace": "default"}}]


def warnings_of(old=None, **new):
    before = None if old is None else typed(a_reservation(owners=OWNERS, **old))
    return list(find_warnings(typed(a_reservation(owners=OWNERS, **new)), before))


def test_an_ordinary_reservation_has_no_warnings():
    assert warnings_of() == []
    assert warnings_of(labels={ORDER: "7", PRIORITY: "-5"}, pre_allocation=True) == []


@pytest.mark.parametrize(
    ("new", "words"),
    [
        ({"labels": {ORDER: "first"}}, f'metadata.labels[{ORDER}]: "first" is not a whole number'),
        ({"labels": {PRIORITY: str(2**31)}}, f"metadata.labels[{PRIORITY}]: "),
        ({"pre_allocation_policy": {"mode": "Cluster"}}, "spec.preAllocationPolicy: has no effect"),
        (
            {"template": {"priority_class_name": "low"}},
            "spec.template.spec.priorityClassName: has no effect",
        ),
    ],
)
def test_values_without_effect_are_reported(new, words):
    [said] = warnings_of(**new)
    assert said.startswith(words)
    assert warnings_of(old=new, **new) == [], "once is enough"


def test_gangs_and_elastic_quotas_are_reported_once():
    gang, quota = "gang.scheduling.koordinator.sh/name", "quota.scheduling.koordinator.sh/name"
    new = {"annotations": {gang: "g"}, "labels": {quota: "q"}}
    assert warnings_of(**new) == [
        f"metadata: {quota} is not read: {NO_QUOTAS}",
        f"metadata: {gang} is not read: {NO_GANGS}",
    ]
    assert warnings_of(old=new, **new) == []
    reservation = a_reservation(owners=OWNERS)
    reservation["spec"]["template"].setdefault("metadata", {})["labels"] = {quota: "q"}
    said = list(find_warnings(typed(reservation)))
    assert said == [f"spec.template.metadata: {quota} is not read: {NO_QUOTAS}"]


def test_a_template_without_requests_is_reported():
    [said] = warnings_of(cpu=None)
    assert said.startswith(
        "spec.template.spec.containers: requests nothing, so nothing is reserved"
    )
    resized = "scheduling.koordinator.sh/reservation-resize-allocatable"
    assert warnings_of(cpu=None, annotations={resized: '{"resources":{"cpu":"1"}}'}) == []
    assert warnings_of(cpu=None, requests={"pods": "1"}) == []
    assert warnings_of(old={"cpu": None}, cpu=None) == [], "once is enough"


def test_a_priority_beside_its_class_needs_no_warning():
    assert warnings_of(template={"priority_class_name": "low", "priority": 5}) == []
    assert warnings_of(template={"priority_class_name": "low"}, labels={PRIORITY: "5"}) == []


@pytest.mark.parametrize("moved", [{"node": "n2"}, {"node_selector": {"a": "b"}}])
def test_edits_that_would_move_a_reservation_are_reported(moved):
    [said] = warnings_of(old={"status": HELD}, status=HELD, template=moved)
    assert said.endswith("the reservation stays on n1; delete it and create another")
    assert warnings_of(old={}, template=moved) == []

"""Conditions of raw objects."""

from holdfast.controllers.conditions import set_condition


def test_the_transition_time_changes_only_with_the_status():
    found = []
    assert set_condition(found, {"type": "Ready", "status": "False", "reason": "A"}, "T0")
    assert set_condition(found, {"type": "Ready", "status": "False", "reason": "B"}, "T1")
    assert found == [
        {"lastTransitionTime": "T0", "type": "Ready", "status": "False", "reason": "B"}
    ]
    assert set_condition(found, {"type": "Ready", "status": "True"}, "T2")
    assert found[0]["lastTransitionTime"] == "T2"
    assert found[0]["reason"] == "B"


def test_an_equal_condition_changes_nothing():
    found = []
    set_condition(found, {"type": "Ready", "status": "True"}, "T0")
    assert not set_condition(found, {"type": "Ready", "status": "True"}, "T9")


def test_other_conditions_keep_their_place():
    found = [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]
    set_condition(found, {"type": "A", "status": "False"}, "T0")
    assert [(c["type"], c["status"]) for c in found] == [("A", "False"), ("B", "True")]

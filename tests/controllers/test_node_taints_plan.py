from __future__ import annotations

import pytest

from holdfast.controllers.node_lifecycle.taints import PREFIX, Evicting, plan_node_taints
from holdfast.testing import a_node, typed


def keys(node, now=0.0):
    patch = plan_node_taints(node, now)
    return None if patch is None else [t["key"] for t in patch.patch["spec"]["taints"] or []]


def a_state(ready=None, taints=(), unschedulable=None, **conditions):
    raw = a_node("n", taints=taints, unschedulable=unschedulable)
    said = {"Ready": ready, **conditions}
    raw["status"]["conditions"] = [{"type": t, "status": s} for t, s in said.items() if s]
    return typed(raw)


NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def evicts(name):
    return {"key": PREFIX + name, "effect": "NoExecute"}


OWN = {"key": "team", "value": "a", "effect": "NoSchedule"}


def test_the_not_ready_taint_of_a_ready_node_is_removed():
    assert keys(a_state("True", [NOT_READY, OWN])) == ["team"]


def test_a_node_without_a_ready_condition_keeps_its_taints():
    assert keys(a_state(None, [NOT_READY])) is None


@pytest.mark.parametrize(
    ("status", "key"),
    [("False", "node.kubernetes.io/not-ready"), ("Unknown", "node.kubernetes.io/unreachable")],
)
def test_a_node_that_is_not_ready_is_tainted(status, key):
    assert keys(a_state(status)) == [key]


def test_cordon_and_pressure_add_taints_and_uncordon_removes_its_taint():
    assert keys(a_state("True", unschedulable=True)) == ["node.kubernetes.io/unschedulable"]
    cordoned = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    assert keys(a_state("True", [cordoned])) == []
    assert keys(a_state("True", MemoryPressure="True")) == ["node.kubernetes.io/memory-pressure"]


@pytest.mark.parametrize(
    ("ready", "taints", "evicting", "expected"),
    [
        ("True", [evicts("not-ready"), evicts("own")], Evicting.KEEP, {"own"}),
        ("Unknown", [], Evicting.KEEP, set()),
        ("Unknown", [], Evicting.ADD, {"unreachable"}),
        ("Unknown", [evicts("not-ready")], Evicting.KEEP, {"unreachable"}),
        ("False", [evicts("unreachable")], Evicting.KEEP, {"not-ready"}),
        ("False", [evicts("not-ready"), evicts("own")], Evicting.REMOVE, {"own"}),
        (None, [evicts("not-ready")], Evicting.KEEP, {"not-ready"}),
    ],
)
def test_one_taint_evicts_from_a_node_that_is_not_ready(ready, taints, evicting, expected):
    node = a_state(ready, taints)
    patch = plan_node_taints(node, 0.0, evicting)
    taints = patch.patch["spec"]["taints"] or [] if patch is not None else taints
    found = {t["key"].removeprefix(PREFIX) for t in taints if t["effect"] == "NoExecute"}
    assert found == expected

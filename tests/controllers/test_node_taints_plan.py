from __future__ import annotations

import pytest

from holdfast.controllers.node_taints import plan_node_taints
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
OWN = {"key": "team", "value": "a", "effect": "NoSchedule"}


def test_a_ready_node_loses_the_taint_it_was_born_with():
    assert keys(a_state("True", [NOT_READY, OWN])) == ["team"]


def test_a_node_that_says_nothing_keeps_its_taints():
    assert keys(a_state(None, [NOT_READY])) is None


@pytest.mark.parametrize(
    ("status", "key"),
    [("False", "node.kubernetes.io/not-ready"), ("Unknown", "node.kubernetes.io/unreachable")],
)
def test_a_node_that_is_not_ready_is_tainted(status, key):
    assert keys(a_state(status)) == [key]


def test_cordon_and_pressure_taint_and_uncordon_untaints():
    assert keys(a_state("True", unschedulable=True)) == ["node.kubernetes.io/unschedulable"]
    cordoned = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    assert keys(a_state("True", [cordoned])) == []
    assert keys(a_state("True", MemoryPressure="True")) == ["node.kubernetes.io/memory-pressure"]


def test_taints_of_other_effects_belong_to_somebody_else():
    evicting = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    assert keys(a_state("True", [evicting])) is None

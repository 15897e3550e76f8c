"""When a pod is evicted from its devices: tables of taints, tolerations, claims and pods."""

from __future__ import annotations

import pytest

from holdfast.api.node import Taint
from holdfast.api.timestamps import rfc3339
from holdfast.controllers.device_taint_eviction.index import PublishedTaints
from holdfast.controllers.device_taint_eviction.plan import (
    Eviction,
    RuleProgress,
    plan_eviction,
    rule_condition,
    rule_selects,
    rule_taints,
)
from holdfast.testing import a_claim, a_device, a_pod, a_slice, a_taint_rule, typed

DRIVER = "gpu.example.com"


def taint(key="k", value="", *, at: float = 100.0, effect="NoExecute"):
    return Taint(key, value, effect, rfc3339(at))


def tolerates(seconds=None, **fields):
    return {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds} | fields


def a_user(**pod):
    return typed(a_pod("p", **{"node": "n", "claims": [USED]} | pod))


USED = {"name": "gpu", "resourceClaimName": "c"}
GENERATED = {"name": "gpu", "resourceClaimTemplateName": "t"}


def a_used_claim(pod, *tolerations, devices=1, reserved=True, **metadata):
    results = [
        {
            "request": "r",
            "driver": DRIVER,
            "pool": "n",
            "device": f"gpu-{n}",
            "tolerations": list(tolerations),
        }
        for n in range(devices)
    ]
    user = {"resource": "pods", "name": pod.name, "uid": pod.uid if reserved else "another"}
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": [user]}
    return typed(a_claim("c", status=status), **metadata)


def planned(taints, *tolerations, pod=None, **claim):
    """Return the time at which a pod is evicted whose device has these taints, or None."""
    pod = pod or a_user()
    claims = {"c": a_used_claim(pod, *tolerations, **claim)}
    found = plan_eviction(pod, claims.get, lambda _result: [(each, "") for each in taints])
    return found and found.at


@pytest.mark.parametrize(
    ("taints", "tolerations", "at"),
    [
        ([], [], None),
        ([taint()], [], 100),
        ([taint(), taint(at=50)], [], 50),
        ([taint()], [tolerates(30)], 130),
        ([taint()], [tolerates(30), tolerates(20)], 120),
        ([taint()], [tolerates(-7)], 100),
        ([taint()], [tolerates(2**63 - 1)], 100 + float(2**63 - 1)),
        ([taint()], [tolerates(30), tolerates()], None),
        ([taint()], [tolerates(effect="")], None),
        ([taint()], [tolerates(effect="NoSchedule")], 100),
        ([taint()], [tolerates(key="other")], 100),
        ([taint("k", "x")], [tolerates(key="k", operator="Equal", value="y")], 100),
        ([taint("k", "x")], [tolerates(key="k", operator="Equal", value="x")], None),
        ([taint("a"), taint("b", at=40)], [tolerates(key="b")], 100),
        ([taint("a"), taint("b", at=40)], [tolerates(90, key="b")], 100),
        ([Taint("k", "", "NoExecute", None)], [], None),
        ([Taint("k", "", "NoExecute", "yesterday"), taint(at=7)], [], 7),
    ],
)
def test_the_first_taint_that_is_not_tolerated_counts(taints, tolerations, at):
    assert planned(taints, *tolerations) == at
    assert planned(taints, *tolerations, devices=2) == at


@pytest.mark.parametrize(
    "pod",
    [
        {"node": None},
        {"status": {"phase": "Succeeded"}},
        {"status": {"phase": "Failed"}},
        {"claims": [GENERATED]},
        {
            "claims": [GENERATED],
            "status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c"}]},
        },
        {"claims": [{"name": "gpu", "resourceClaimName": "missing"}]},
        {"claims": []},
    ],
)
def test_pods_that_do_not_use_the_claim_are_not_evicted(pod):
    assert planned([taint()], pod=a_user(**pod)) is None


def test_a_claim_must_be_reserved_for_the_pod_and_a_generated_one_made_for_it():
    assert planned([taint()], reserved=False) is None
    names = [{"name": "gpu", "resourceClaimName": "c"}]
    pod = a_user(claims=[GENERATED], status={"resourceClaimStatuses": names})
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod.uid, "controller": True}
    assert planned([taint()], pod=pod, owner_references=[owner]) == 100
    special = {"resourceClaimName": "c", "requestMappings": []}
    pod = a_user(claims=[], status={"extendedResourceClaimStatus": special})
    owner |= {"uid": pod.uid}
    assert planned([taint()], pod=pod, owner_references=[owner]) == 100


def test_the_rules_that_cause_an_eviction_are_named():
    raw = [
        a_taint_rule(name, device=device, effect=effect)
        for name, device, effect in (
            ("a", "gpu-0", "NoExecute"),
            ("b", "gpu-1", "NoExecute"),
            ("c", "gpu-9", "NoExecute"),
            ("d", "gpu-0", "None"),
            ("e", "gpu-1", "Unknown"),
        )
    ]
    for rule in raw:
        rule["spec"]["taint"]["timeAdded"] = rfc3339(5)
    rules = [typed(rule) for rule in raw]
    pod = a_user()
    claims = {"c": a_used_claim(pod, devices=2)}
    found = plan_eviction(pod, claims.get, lambda result: rule_taints(rules, result))
    assert found == Eviction(5, frozenset({rules[0].uid, rules[1].uid}))


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        (None, False),
        ({}, True),
        ({"driver": DRIVER}, True),
        ({"driver": "x"}, False),
        ({"pool": "n", "device": "gpu-0"}, True),
        ({"pool": "n", "device": "gpu-1"}, False),
    ],
)
def test_a_rule_selects_by_all_of_its_criteria(selector, selected):
    rule = a_taint_rule("r")
    rule["spec"]["deviceSelector"] = selector
    assert rule_selects(typed(rule), (DRIVER, "n", "gpu-0")) is selected


def test_the_condition_counts_namespaces_and_evicted_pods():
    rule = typed(a_taint_rule("r", effect="NoExecute"))
    found = rule_condition(rule, RuleProgress(3, 2, 1), 0)
    assert found["message"] == (
        "3 pods need to be evicted in 2 different namespaces. "
        "1 pod evicted since starting the controller."
    )
    none = typed(a_taint_rule("r", effect="None"))
    found = rule_condition(none, RuleProgress(0, 0, 0, 1, 1), 0)
    assert found["message"].startswith(
        "1 published device selected. 1 allocated device selected. "
        "0 pods would be evicted in 0 different namespaces if"
    )


def test_taints_of_slices_follow_the_newest_generation_of_their_pool():
    def devices(*names):
        return [a_device(name, taints=[{"key": "k", "effect": "NoExecute"}]) for name in names]

    old = typed(a_slice("a", devices=devices("x", "y")))
    new = typed(a_slice("b", devices=devices("y"), node="n", generation=2))
    taints = PublishedTaints()
    x, y = (DRIVER, "n", "x"), (DRIVER, "n", "y")
    assert taints.update(None, old) == {x, y}
    assert taints.update(None, new) == {x}
    assert (len(taints.of(x)), len(taints.of(y))) == (0, 1)
    assert taints.update(new, None) == {x}
    assert taints.update(old, None) == {x, y}
    assert list(taints.devices()) == []

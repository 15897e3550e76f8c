"""Validation of Reservations."""

import pytest

from holdfast.api.validation.reservation import check_reservation
from holdfast.runtime.errors import aggregate_message
from holdfast.testing import a_reservation, typed

TEMPLATE = "spec.template.spec"
RESIZE = "scheduling.koordinator.sh/reservation-resize-allocatable"


def wrong(raw):
    return [f"{c.field}: {c.message}" for c in check_reservation(typed(raw))]


def with_pod(**pod):
    return a_reservation(template=pod)


def test_a_valid_reservation_needs_neither_image_nor_lifetime():
    raw = a_reservation(ttl=None)
    del raw["spec"]["template"]["spec"]["containers"][0]["image"]
    assert wrong(raw) == []
    assert wrong(a_reservation(requests={"pods": "2", "hugepages-2Mi": "4Mi", "x.io/y": "1"})) == []
    assert wrong(a_reservation(ttl="0", expires="2030-01-01T00:00:00Z", allocate_policy="")) == []


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"owners": []}, "spec.owners: Required value: the reservation misses the owner spec"),
        ({"owners": [{}]}, "spec.owners[0]: Required value: one of object, controller and"),
        ({"owners": [{"controller": {"kind": "Job"}}]}, "spec.owners[0].controller: Required"),
        (
            {"owners": [{"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}]},
            'spec.owners[0].labelSelector: Invalid value: {"matchExpressions":',
        ),
        ({"ttl": "-1s"}, 'spec.ttl: Invalid value: "-1s": must not be negative; 0 means never'),
        ({"ttl": "soon"}, 'spec.ttl: Invalid value: "soon": time: invalid duration "soon"'),
        ({"ttl": "9999999999h"}, "spec.ttl: Invalid value"),
        ({"expires": "soon"}, "spec.expires: Invalid value"),
        ({"allocate_policy": "Foo"}, "spec.allocatePolicy: Unsupported value"),
        ({"pre_allocation_policy": {"mode": "Any"}}, "spec.preAllocationPolicy.mode: Unsupported"),
        ({"taints": [{"effect": "NoSchedule"}]}, "spec.taints[0].key: Required value"),
        ({"taints": [{"key": "k", "effect": "No"}]}, "spec.taints[0].effect: Unsupported value"),
        ({"template": {"cpu": "-1"}}, f"{TEMPLATE}.containers[0].resources.requests[cpu]: Inv"),
        ({"template": {"memory": "lots"}}, f"{TEMPLATE}.containers[0].resources.requests[memory]"),
        (
            {"template": {"cpu": "2", "limits": {"cpu": "1"}}},
            f'{TEMPLATE}.containers[0].resources.requests: Invalid value: "2": must be less than',
        ),
        (
            {"requests": {"memmory": "1Gi"}},
            f'{TEMPLATE}.containers[0].resources.requests[memmory]: Invalid value: "memmory": must '
            "be a standard resource for containers",
        ),
        (
            {"template": {"limits": {"a/b/c": "1"}}},
            f"{TEMPLATE}.containers[0].resources.limits[a/b/c]: Invalid value",
        ),
        ({"template": {"overhead": {"memmory": "1"}}}, f"{TEMPLATE}.overhead[memmory]: Invalid"),
        (
            {"annotations": {RESIZE: '{"resources":{"memmory":"1Gi"}}'}},
            f"metadata.annotations[{RESIZE}].resources[memmory]: Invalid value",
        ),
        ({"template": {"overhead": {"cpu": "-1"}}}, f"{TEMPLATE}.overhead[cpu]: Invalid value"),
        (
            {"template": {"tolerations": [{"operator": "Is"}]}},
            f"{TEMPLATE}.tolerations[0].operator: Unsupported value",
        ),
        (
            {"template": {"node_selector": {"a b": "c"}}},
            f'{TEMPLATE}.nodeSelector: Invalid value: "a b": name part must consist of',
        ),
        (
            {"template": {"node_selector": {"a": "b c"}}},
            f'{TEMPLATE}.nodeSelector: Invalid value: "b c": a valid label must be',
        ),
        (
            {"template": {"containers": [{"name": "c", "ports": [{"hostPort": 65536}]}]}},
            f"{TEMPLATE}.containers[0].ports[0].hostPort: Invalid value: 65536: must be between",
        ),
        (
            {"template": {"containers": [{"name": "c", "ports": [{"protocol": "ICMP"}]}]}},
            f"{TEMPLATE}.containers[0].ports[0].protocol: Unsupported value",
        ),
        (
            {"template": {"scheduling_gates": [{"name": "g"}]}},
            f"{TEMPLATE}.schedulingGates: Forbidden",
        ),
        (
            {"annotations": {RESIZE: '{"resources":{"cpu":"-1"}}'}},
            f"metadata.annotations[{RESIZE}].resources[cpu]: Invalid value",
        ),
        ({"annotations": {RESIZE: "8"}}, f"metadata.annotations[{RESIZE}]: Invalid value"),
    ],
)
def test_an_invalid_reservation_is_reported_by_field(spec, words):
    pod = spec.pop("template", {})
    (found,) = wrong(a_reservation(cpu=pod.pop("cpu", "1"), memory=pod.pop("memory", None),
                                   template=pod, **spec))  # fmt: skip
    assert found.startswith(words)


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_selectors_inside_the_template_are_validated(kind):
    bad = {"matchExpressions": [{"key": "a", "operator": "In"}]}
    term = {"topologyKey": "zone", "labelSelector": bad}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    (found,) = wrong(with_pod(affinity={kind: required}))
    at = f"{TEMPLATE}.affinity.{kind}.requiredDuringSchedulingIgnoredDuringExecution[0]"
    assert found.startswith(f"{at}.labelSelector: Invalid value")
    spread = [{"maxSkew": 1, "topologyKey": "zone", "labelSelector": bad}]
    (found,) = wrong(with_pod(topology_spread_constraints=spread))
    assert found.startswith(f"{TEMPLATE}.topologySpreadConstraints[0].labelSelector")


def test_a_missing_template_is_reported():
    raw = a_reservation()
    del raw["spec"]["template"]
    found = list(check_reservation(typed(raw)))
    assert aggregate_message(found) == (
        "spec.template: Required value: the reservation misses the template spec"
    )
    raw["spec"]["ttl"] = "-1s"
    both = aggregate_message(list(check_reservation(typed(raw))))
    assert both.startswith("[spec.template: ")
    assert ", spec.ttl: " in both

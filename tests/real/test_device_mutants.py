"""Devices, claims and classes with one wrong field: both servers give the same answer."""

import http.client

import pytest

from apiserver.mutants import mutants
from real.test_device_objects import answered, embedded, plane, send_to_both
from validation.device_objects import (
    CLAIMS,
    CLASSES,
    SLICES,
    alternative,
    claim,
    counter_slice,
    counters,
    device,
    device_class,
    exactly,
    expression,
    first_available,
    on_nodes,
    opaque,
    per_device,
    selector,
    slice_of,
    term,
)

__all__ = ["embedded", "plane"]
pytestmark = pytest.mark.real
WRONG = (None, "x", -7, [], {}, [None], True, "", 0, 2**40, "A b", [{}], ["x", "x"])
EACH = 4
"""Of the wrong values each field gets some, the next field the ones after."""
RANGE = {"default": "2Gi", "validRange": {"min": "1Gi", "max": "9Gi", "step": "1Gi"}}
VALUES = {"default": "1", "validValues": ["1", "2"]}
DEVICE = device(
    attributes={"a": {"string": "s"}, "b": {"version": "1.0.0"}},
    allowMultipleAllocations=True,
    capacity={
        "m": {"value": "10Gi", "requestPolicy": RANGE},
        "n": {"value": "3", "requestPolicy": VALUES},
    },
    taints=[{"key": "k", "value": "v", "effect": "None", "timeAdded": "2026-01-01T00:00:00Z"}],
    consumesCounters=[{"counterSet": "s", "counters": counters()}],
    bindingConditions=["a"],
    bindingFailureConditions=["b"],
    bindsToNode=True,
)
TOLERATION = {
    "key": "k",
    "operator": "Equal",
    "value": "v",
    "effect": "NoExecute",
    "tolerationSeconds": 3,
}
FULL = {
    "slice": (SLICES, slice_of(DEVICE)),
    "slice with selector": (
        SLICES,
        on_nodes(
            {"matchExpressions": [expression()], "matchFields": [expression("metadata.name")]}
        ),
    ),
    "slice with counters": (SLICES, counter_slice({"name": "s", "counters": counters()})),
    "slice with nodes of devices": (
        SLICES,
        per_device(
            device("a", nodeName="n"),
            device("b", nodeSelector=term(matchExpressions=[expression()])),
        ),
    ),
    "claim": (
        CLAIMS,
        claim(
            exactly(
                count=2,
                selectors=[selector()],
                tolerations=[TOLERATION],
                capacity={"requests": {"m": "1"}},
            ),
            first_available(
                alternative(selectors=[selector()], tolerations=[{"operator": "Exists"}]), name="s"
            ),
            constraints=[
                {"requests": ["r", "s/a"], "matchAttribute": "a.com/x"},
                {"distinctAttribute": "a.com/x"},
            ],
            config=[{"requests": ["r"], **opaque(parameters={"x": 1})}],
        ),
    ),
    "class": (
        CLASSES,
        device_class(selectors=[selector()], config=[opaque()], extendedResourceName="a.com/b"),
    ),
}


@pytest.mark.parametrize("name", FULL)
async def test_both_servers_answer_objects_with_a_wrong_field_alike(plane, embedded, name):
    path, body = FULL[name]
    compared = 0
    for mutation, spec in mutants({"spec": body["spec"]}, WRONG, EACH):
        try:
            real, ours = await send_to_both(
                plane, embedded, "POST", f"{path}?dryRun=All", {**body, **spec}
            )
        except http.client.RemoteDisconnected:
            continue  # a step of 0 stops the request of the real server
        if (real[0], ours[0]) != (400, 400):
            pair = [without_empty_texts(answered(answer, "spec")) for answer in (real, ours)]
            assert pair[0] == pair[1], mutation
        compared += 1
    assert compared > 10


def without_empty_texts(value):
    """Return JSON without empty texts: Go leaves them out."""
    if isinstance(value, dict):
        return {k: without_empty_texts(v) for k, v in value.items() if v != ""}
    return [without_empty_texts(v) for v in value] if isinstance(value, list | tuple) else value

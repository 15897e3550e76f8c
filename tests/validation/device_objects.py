"""Good and bad objects of resource.k8s.io/v1, by what is good or bad about them.

The tests of the embedded server and the comparison with a real one use the same objects.
"""

from validation.device_builders import (
    CLAIMS,
    CLASSES,
    DRIVER,
    LABEL,
    SLICES,
    SUBDOMAIN,
    TEMPLATES,
    alternative,
    attribute,
    claim,
    counter_slice,
    counters,
    device,
    device_class,
    exactly,
    expression,
    first_available,
    in_range,
    obj,
    on_nodes,
    opaque,
    per_device,
    selector,
    shared,
    slice_of,
    template,
    term,
)
from validation.slice_objects import BAD_SLICES, GOOD_SLICES


def toleration(**parts):
    return claim(exactly(tolerations=[parts]))


def constraint(*requests, **parts):
    return claim(constraints=[{"requests": ["r"], "matchAttribute": "a.com/x", **parts}])


def expressions(text):
    return device_class(selectors=[selector(text)])


LOOPS = "[1,2,3,4,5,6,7,8,9,10].all(x{}, "
NESTED = "".join(LOOPS.format(i) for i in range(7)) + "x0 + x6 > 0" + ")" * 7

GOOD_CLASSES = {
    "empty": device_class(),
    "selectors": device_class(selectors=[selector(), selector(f'device.driver == "{DRIVER}"')]),
    "32 selectors": device_class(selectors=[selector()] * 32),
    "attribute": expressions(f'device.attributes["{DRIVER}"].model == "a"'),
    "attribute of any type": expressions(f'device.attributes["{DRIVER}"].healthy'),
    "domain of an attribute": expressions(f'"{DRIVER}" in device.attributes'),
    "capacity": expressions(f'device.capacity["{DRIVER}"].memory.compareTo(quantity("10Gi")) >= 0'),
    "version": expressions(f'device.attributes["{DRIVER}"].v.isGreaterThan(semver("1.0.0"))'),
    "shared device": expressions("device.allowMultipleAllocations"),
    "a loop over attributes": expressions(f'device.attributes["{DRIVER}"].exists(k, k == "a")'),
    "cel.bind": expressions(f'cel.bind(d, device.attributes["{DRIVER}"], d.a == 1 && d.b == 2)'),
    "config": device_class(config=[opaque(parameters={"a": [1, {"b": None}]})]),
    "parameters of 10 KiB": device_class(config=[opaque(parameters={"a": "x" * 10231})]),
    "driver in upper case": device_class(config=[opaque("GPU.Example.COM")]),
    "extended resource": device_class(extendedResourceName="example.com/gpu"),
    "long name": device_class("a" * 253),
    "nulls": device_class(selectors=None, config=None, extendedResourceName=None),
}
BAD_CLASSES = {
    "name in upper case": device_class("One"),
    "long name": device_class(SUBDOMAIN),
    "33 selectors": device_class(selectors=[{}] * 33),
    "no cel": device_class(selectors=[{}]),
    "second without cel": device_class(selectors=[selector(), {}]),
    "null cel": device_class(selectors=[{"cel": None}]),
    "empty expression": expressions(""),
    "no bool": expressions("1"),
    "text": expressions('"a"'),
    "unknown field": expressions("device.bogus"),
    "unknown variable": expressions("devices.driver"),
    "syntax": expressions("device.driver =="),
    "wrong types": expressions("device.driver == 1"),
    "function of lists": expressions(f'device.attributes["{DRIVER}"].models.includes("a")'),
    "10,241 bytes": expressions("true" + " " * 10237),
    "nested loops": expressions(NESTED),
    "33 configs": device_class(config=[{}] * 33),
    "no opaque": device_class(config=[{}]),
    "no driver": device_class(config=[{"opaque": {"parameters": {}}}]),
    "bad driver": device_class(config=[opaque("a_b")]),
    "long driver": device_class(config=[opaque("d" * 64)]),
    "no parameters": device_class(config=[{"opaque": {"driver": DRIVER}}]),
    "null parameters": device_class(config=[{"opaque": {"driver": DRIVER, "parameters": None}}]),
    "parameters a list": device_class(config=[opaque(parameters=[1])]),
    "parameters a text": device_class(config=[opaque(parameters="a")]),
    "parameters too long": device_class(config=[opaque(parameters={"a": "x" * 10241})]),
    "resource cpu": device_class(extendedResourceName="cpu"),
    "empty resource": device_class(extendedResourceName=""),
    "resource of kubernetes.io": device_class(extendedResourceName="kubernetes.io/x"),
    "implicit name": device_class(extendedResourceName="deviceclass.resource.kubernetes.io/x"),
    "resource of requests": device_class(extendedResourceName="requests.a.com/x"),
    "long resource": device_class(extendedResourceName="a.com/" + LABEL),
    "resource with two slashes": device_class(extendedResourceName="a.com/b/c"),
}
GOOD_CLAIMS = {
    "exactly": claim(),
    "no requests": obj("ResourceClaim", {"devices": {}}),
    "no devices": obj("ResourceClaim", {}),
    "count 0": claim(exactly(count=0)),
    "count 3": claim(exactly(count=3, allocationMode="ExactCount")),
    "all": claim(exactly(allocationMode="All")),
    "all with count 0": claim(exactly(allocationMode="All", count=0)),
    "huge count": claim(exactly(count=2**63 - 1)),
    "admin access false": claim(exactly(adminAccess=False)),
    "alternatives": claim(first_available(alternative(), alternative("b", count=2))),
    "32 requests": claim(*[exactly(f"r{i}") for i in range(32)]),
    "8 alternatives": claim(first_available(*[alternative(f"a{i}") for i in range(8)])),
    "empty alternatives": claim({**exactly(), "firstAvailable": []}),
    "selector": claim(exactly(selectors=[selector()])),
    "toleration of everything": toleration(operator="Exists"),
    "toleration by default equal": toleration(key="k", value="v"),
    "toleration of effect": toleration(key="k", effect="None"),
    "toleration of seconds": toleration(key="k", effect="NoExecute", tolerationSeconds=5),
    "toleration of seconds elsewhere": toleration(key="k", tolerationSeconds=5),
    "17 tolerations": claim(exactly(tolerations=[{"operator": "Exists"}] * 17)),
    "match": constraint(),
    "distinct": constraint(matchAttribute=None, distinctAttribute="a.com/x"),
    "match and distinct": constraint(distinctAttribute="a.com/x"),
    "constraint of alternative": claim(
        first_available(alternative()),
        constraints=[{"requests": ["r/a"], "matchAttribute": "a.com/x"}],
    ),
    "attribute with two slashes": constraint(matchAttribute="a/b/c"),
    "constraint of all": claim(constraints=[{"matchAttribute": "a.com/x"}]),
    "config": claim(config=[{"requests": ["r"], **opaque()}]),
    "capacity": claim(exactly(capacity={"requests": {"memory": "1024Mi"}})),
    "status is dropped": {**claim(), "status": {"reservedFor": [{"uid": "x"}]}},
}
BAD_CLAIMS = {
    "name": claim(name="a_b"),
    "count -1": claim(exactly(count=-1)),
    "all with count": claim(exactly(allocationMode="All", count=2)),
    "unknown mode": claim(exactly(allocationMode="Some")),
    "both": claim({**exactly(), "firstAvailable": [alternative()]}),
    "neither": claim({"name": "r"}),
    "null request": claim(None),
    "33 requests": claim(*[{"name": "r"}] * 33),
    "9 alternatives": claim(first_available(*[alternative()] * 9)),
    "33 selectors": claim(exactly(selectors=[{}] * 33)),
    "33 selectors of alternative": claim(first_available(alternative(selectors=[{}] * 33))),
    "no cel": claim(exactly(selectors=[{}])),
    "no bool": claim(exactly(selectors=[selector("1")])),
    "alternative with bad expression": claim(
        first_available(alternative(selectors=[selector("device.bogus")]))
    ),
    "no class": claim({"name": "r", "exactly": {}}),
    "bad class": claim(exactly(deviceClassName="A")),
    "long class": claim(exactly(deviceClassName=SUBDOMAIN)),
    "alternative without class": claim(first_available({"name": "a"})),
    "alternative count": claim(first_available(alternative(count=-5))),
    "alternative all with count": claim(
        first_available(alternative(count=1, allocationMode="All"))
    ),
    "alternative mode": claim(first_available(alternative(allocationMode="x"))),
    "no name": claim(exactly("")),
    "bad name": claim(exactly("R")),
    "dotted name": claim(exactly("a.b")),
    "long name": claim(exactly(LABEL)),
    "same names": claim(exactly(), exactly()),
    "same names of alternatives": claim(first_available(alternative(), alternative())),
    "bad name of alternative": claim(first_available(alternative("A"))),
    "admin access": claim(exactly(adminAccess=True)),
    "second with admin access": claim(exactly(), exactly("s", adminAccess=True)),
    "toleration operator": toleration(operator="Same"),
    "toleration of value": toleration(operator="Exists", value="v"),
    "toleration effect": toleration(effect="PreferNoSchedule"),
    "toleration key": toleration(key="a/b/c"),
    "toleration bad value": toleration(key="k", value="-"),
    "alternative toleration": claim(first_available(alternative(tolerations=[{"operator": "x"}]))),
    "unknown request": constraint(requests=["x"]),
    "unknown alternative": constraint(requests=["r/x"]),
    "three parts": constraint(requests=["a/b/c"]),
    "bad reference": constraint(requests=["R"]),
    "empty reference": constraint(requests=[""]),
    "same references": constraint(requests=["r", "r"]),
    "33 references": constraint(requests=["x"] * 33),
    "no attribute": constraint(matchAttribute=None),
    "empty attribute": constraint(matchAttribute=""),
    "attribute without domain": constraint(matchAttribute="x"),
    "attribute with bad domain": constraint(matchAttribute="a_b/x"),
    "attribute with empty domain": constraint(matchAttribute="/x"),
    "attribute without name": constraint(matchAttribute="a.com/"),
    "attribute with bad name": constraint(matchAttribute="a.com/x-y"),
    "attribute with long name": constraint(matchAttribute="a.com/" + "x" * 33),
    "attribute with long domain": constraint(matchAttribute="d" * 64 + "/x"),
    "distinct without domain": constraint(matchAttribute=None, distinctAttribute="x"),
    "33 constraints": claim(constraints=[{}] * 33),
    "33 configs": claim(config=[{}] * 33),
    "config without opaque": claim(config=[{"requests": ["r"]}]),
    "config of unknown request": claim(config=[{"requests": ["x"], **opaque()}]),
    "many errors": claim(exactly("", count=-1), {"name": "A"}, constraints=[{}], config=[{}]),
}
GOOD_TEMPLATES = {
    "plain": template(),
    "metadata": template(metadata={"labels": {"a": "b"}, "annotations": {"c": "d"}}),
    "empty metadata": template(metadata={"labels": {}}),
}
BAD_TEMPLATES = {
    "name in metadata": template(metadata={"name": "x"}),
    "generated name": template(metadata={"generateName": "x"}),
    "namespace": template(metadata={"namespace": "default"}),
    "finalizers": template(metadata={"finalizers": ["a.com/b"]}),
    "bad label": template(metadata={"labels": {"a b": "-"}}),
    "bad annotation": template(metadata={"annotations": {"A b": "x"}}),
    "long annotation": template(metadata={"annotations": {"a": "x" * 262144}}),
    "no class": template({"name": "r", "exactly": {}}),
    "33 requests": template(*[{"name": "r"}] * 33),
    "admin access": template(exactly(adminAccess=True)),
    "bad expression": template(exactly(selectors=[selector("device.bogus")])),
}
GOOD = {
    CLASSES: GOOD_CLASSES,
    CLAIMS: GOOD_CLAIMS,
    TEMPLATES: GOOD_TEMPLATES,
    SLICES: GOOD_SLICES,
}
BAD = {CLASSES: BAD_CLASSES, CLAIMS: BAD_CLAIMS, TEMPLATES: BAD_TEMPLATES, SLICES: BAD_SLICES}
_INCLUDES = f'device.attributes["{DRIVER}"].models.includes("a")'
_LOOP = f'device.attributes["{DRIVER}"].models.exists(m, m == "a")'
_SHARED = "device.allowMultipleAllocations"
GATED_CLASSES = {text: expressions(text) for text in (_INCLUDES, _LOOP, _SHARED)}
GATED_CLAIMS = {
    text: claim(exactly(selectors=[selector(text)]), first_available(alternative(), name="s"))
    for text in (_INCLUDES, _SHARED)
}
"""Selectors that are right or wrong by the gates, by expression."""
UNREADABLE = {
    "quantity": (SLICES, slice_of(device(capacity={"m": {"value": "200K"}}))),
    "counter": (SLICES, counter_slice({"name": "s", "counters": {"c": {"value": "x"}}})),
    "option": (SLICES, shared({"default": "1", "validValues": ["?"]})),
    "step": (SLICES, in_range(min="1", step="1.2.3")),
    "requested capacity": (CLAIMS, claim(exactly(capacity={"requests": {"m": "1 Gi"}}))),
    "count": (CLAIMS, claim(exactly(count="1"))),
    "requests": (CLAIMS, obj("ResourceClaim", {"devices": {"requests": {}}})),
    "devices": (SLICES, slice_of(nodeSelector="x")),
    "attribute": (SLICES, attribute(int=1.5)),
}
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
"""Objects with every field, by name, with their path."""

"""Good and bad objects of resource.k8s.io/v1, by what is good or bad about them.

The tests of the embedded server and the comparison with a real one use the same objects.
"""

from copy import deepcopy

API = "/apis/resource.k8s.io/v1"
CLASSES = f"{API}/deviceclasses"
SLICES = f"{API}/resourceslices"
CLAIMS = f"{API}/namespaces/default/resourceclaims"
TEMPLATES = f"{API}/namespaces/default/resourceclaimtemplates"
DRIVER = "gpu.example.com"
LABEL = "l" * 64
SUBDOMAIN = "s" * 254
TRUE = "true"


def obj(kind, spec, name="one", **metadata):
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def selector(expression=TRUE):
    return {"cel": {"expression": expression}}


def opaque(driver=DRIVER, parameters=None):
    return {"opaque": {"driver": driver, "parameters": {} if parameters is None else parameters}}


def device_class(name="one", **spec):
    return obj("DeviceClass", spec, name)


def exactly(name="r", **parts):
    return {"name": name, "exactly": {"deviceClassName": "gpu", **parts}}


def first_available(*alternatives, name="r"):
    return {"name": name, "firstAvailable": list(alternatives)}


def alternative(name="a", **parts):
    return {"name": name, "deviceClassName": "gpu", **parts}


def claim_spec(*requests, **devices):
    return {"devices": {"requests": list(requests or [exactly()]), **devices}}


def claim(*requests, name="one", **devices):
    return obj("ResourceClaim", claim_spec(*requests, **devices), name)


def template(*requests, metadata=None, **devices):
    spec = {"spec": claim_spec(*requests, **devices)}
    return obj("ResourceClaimTemplate", spec | ({"metadata": metadata} if metadata else {}))


def device(name="d", **parts):
    return {"name": name, **parts}


def slice_of(*devices, without=(), name="one", **spec):
    whole = {
        "driver": DRIVER,
        "pool": {"name": "pool", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "node",
        "devices": list(devices or [device()]),
        **spec,
    }
    return obj("ResourceSlice", {k: v for k, v in whole.items() if k not in without}, name)


def pool(**parts):
    return slice_of(pool={"name": "pool", "generation": 1, "resourceSliceCount": 1, **parts})


def term(**parts):
    return {"nodeSelectorTerms": [parts]}


def expression(key="zone", operator="In", **parts):
    values = {"values": ["a"]} if operator in ("In", "NotIn") else {}
    return {"key": key, "operator": operator, **values, **parts}


def on_nodes(*terms, **parts):
    spec = {"nodeSelector": {"nodeSelectorTerms": list(terms)}, **parts}
    return slice_of(without=("nodeName",), **spec)


def per_device(*devices, **spec):
    return slice_of(*devices, without=("nodeName",), perDeviceNodeSelection=True, **spec)


def attribute(**value):
    return slice_of(device(attributes={"a": value}))


def named_attribute(name):
    return slice_of(device(attributes={name: {"int": 1}}))


def shared(policy, value="10Gi", **parts):
    capacity = {"memory": {"value": value, "requestPolicy": policy}}
    return slice_of(device(allowMultipleAllocations=True, capacity=capacity, **parts))


def in_range(default="2Gi", **limits):
    return shared({"default": default, "validRange": limits})


def taint(**parts):
    return slice_of(device(taints=[{"key": "k", "effect": "NoSchedule", **parts}]))


def conditions(good=(), bad=()):
    parts = {"bindingConditions": list(good), "bindingFailureConditions": list(bad)}
    return slice_of(device(**{k: v for k, v in parts.items() if v}))


def counters(count=1):
    return {f"c{i}": {"value": "1"} for i in range(count)}


def counter_slice(*sets):
    return slice_of(without=("devices",), sharedCounters=list(sets))


def consuming(*consumptions):
    return slice_of(device(consumesCounters=list(consumptions)))


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
GOOD_SLICES = {
    "one device": slice_of(),
    "no devices": slice_of(without=("devices",)),
    "empty devices": slice_of(without=("devices",), sharedCounters=[]),
    "128 devices": slice_of(*[device(f"d{i}") for i in range(128)]),
    "64 devices with taints": slice_of(
        *[device(f"d{i}", taints=[{"key": "k", "effect": "None"}]) for i in range(64)]
    ),
    "pool with slashes": pool(name="a/b.c/d"),
    "generation 0": pool(generation=0),
    "all nodes": slice_of(without=("nodeName",), allNodes=True),
    "node selector": on_nodes({"matchExpressions": [expression()]}),
    "empty term": on_nodes({}),
    "field of nodes": on_nodes({"matchFields": [expression("metadata.name")]}),
    "each device": per_device(
        device("a", nodeName="n"),
        device("b", allNodes=True),
        device("c", nodeSelector=term(matchExpressions=[expression()])),
    ),
    "device with two terms": per_device(device(nodeSelector={"nodeSelectorTerms": [{}, {}]})),
    "no device selects": slice_of(without=("devices", "nodeName"), perDeviceNodeSelection=True),
    "driver in upper case": slice_of(driver="GPU.Example.COM"),
    "attributes": slice_of(
        device(
            attributes={
                "i": {"int": -1},
                "b": {"bool": False},
                "s": {"string": ""},
                "a.com/v": {"version": "1.0.0-rc.1+build.5"},
            },
            capacity={"memory": {"value": "1024Mi"}, "a.com/cores": {"value": 5}},
        )
    ),
    "64 characters": attribute(string="x" * 64),
    "name with two slashes": named_attribute("a/b/c"),
    "32 names": slice_of(device(attributes={f"a{i}": {"int": 1} for i in range(32)})),
    "empty policy": shared({}),
    "default alone": shared({"default": "20Gi"}),
    "values": shared({"default": "2Gi", "validValues": ["1Gi", "2Gi", "10Gi"]}),
    "range": in_range(min="2Gi", max="10Gi", step="2Gi"),
    "range from min": in_range(min="1Gi"),
    "taint": taint(value="v", timeAdded="2026-01-01T00:00:00Z"),
    "16 taints": slice_of(device(taints=[{"key": f"k{i}", "effect": "None"} for i in range(16)])),
    "same taints": slice_of(device(taints=[{"key": "k", "effect": "None"}] * 2)),
    "counters": counter_slice({"name": "s", "counters": counters(32)}),
    "8 counter sets": counter_slice(*[{"name": f"s{i}", "counters": counters()} for i in range(8)]),
    "consumption": consuming({"counterSet": "s", "counters": counters(32)}),
    "binding conditions": conditions(["a.com/ready"], ["failed"]),
    "binds to node": slice_of(device(bindsToNode=True)),
}
BAD_SLICES = {
    "name": slice_of(name="A"),
    "long name": slice_of(name=SUBDOMAIN),
    "no driver": slice_of(driver=""),
    "bad driver": slice_of(driver="a_b"),
    "long driver": slice_of(driver="d" * 64),
    "no pool": slice_of(without=("pool",)),
    "no pool name": pool(name=""),
    "bad pool name": pool(name="A/b//c"),
    "long pool name": pool(name=SUBDOMAIN),
    "long pool name of parts": pool(name="a/" * 126 + "bb"),
    "generation": pool(generation=-1),
    "no slices": pool(resourceSliceCount=0),
    "negative slices": pool(resourceSliceCount=-1),
    "no nodes": slice_of(without=("nodeName",)),
    "empty node": slice_of(nodeName=""),
    "bad node": slice_of(nodeName="A"),
    "two selections": slice_of(allNodes=True),
    "four selections": slice_of(allNodes=True, perDeviceNodeSelection=True, nodeSelector=term()),
    "all nodes false": slice_of(without=("nodeName",), allNodes=False),
    "all nodes false and node": slice_of(allNodes=False),
    "per device false": slice_of(perDeviceNodeSelection=False),
    "no terms": on_nodes(),
    "empty selector": slice_of(without=("nodeName",), nodeSelector={}),
    "two terms": on_nodes({}, {}),
    "operator": on_nodes({"matchExpressions": [expression(operator="Same")]}),
    "no values": on_nodes({"matchExpressions": [expression(values=[])]}),
    "values of Exists": on_nodes(
        {"matchExpressions": [expression(operator="Exists", values=["a"])]}
    ),
    "values of Gt": on_nodes({"matchExpressions": [expression(operator="Gt", values=["1", "2"])]}),
    "key": on_nodes({"matchExpressions": [expression("a b")]}),
    "bad value": on_nodes({"matchExpressions": [expression(values=["-"])]}),
    "field": on_nodes({"matchFields": [expression("metadata.uid")]}),
    "field operator": on_nodes({"matchFields": [expression("metadata.name", "Exists")]}),
    "field values": on_nodes({"matchFields": [expression("metadata.name", values=["A", "b"])]}),
    "devices and counters": slice_of(sharedCounters=[{"name": "s", "counters": counters()}]),
    "empty devices and counters": slice_of(devices=[], sharedCounters=[]),
    "129 devices": slice_of(*[device("D")] * 129),
    "65 devices with a taint": slice_of(
        device(taints=[{"key": "k", "effect": "None"}]), *[device("D")] * 64
    ),
    "65 devices with counters": slice_of(
        device(consumesCounters=[{"counterSet": "s", "counters": counters()}]), *[device()] * 64
    ),
    "same devices": slice_of(device(), device()),
    "no device name": slice_of(device("")),
    "bad device name": slice_of(device("A")),
    "long device name": slice_of(device(LABEL)),
    "33 names": slice_of(
        device(
            attributes={f"a{i}": {"int": 1} for i in range(20)},
            capacity={f"c{i}": {"value": "1"} for i in range(13)},
        )
    ),
    "49 values": slice_of(device(attributes={f"a{i}": {"int": 1} for i in range(49)})),
    "no value": attribute(),
    "two values": attribute(int=1, string="a"),
    "65 characters": attribute(string="x" * 65),
    "65 bytes": attribute(string="é" * 33),
    "version v1.0": attribute(version="v1.0"),
    "version with zeros": attribute(version="1.0.01"),
    "long version": attribute(version="1.0.0-" + "x" * 60),
    "attribute name": named_attribute("a-b"),
    "empty attribute name": named_attribute(""),
    "long attribute name": named_attribute("a" * 33),
    "attribute domain": named_attribute("a_b/c"),
    "empty attribute domain": named_attribute("/c"),
    "empty attribute id": named_attribute("a.com/"),
    "very long attribute name": named_attribute("d" * 100 + "/" + "i" * 50),
    "capacity name": slice_of(device(capacity={"a b": {"value": "1"}})),
    "policy of one allocation": slice_of(
        device(capacity={"m": {"value": "1", "requestPolicy": {"default": "1"}}})
    ),
    "values and range": shared(
        {"default": "1Gi", "validValues": ["1Gi"], "validRange": {"min": "1Gi"}}
    ),
    "values without default": shared({"validValues": ["1Gi"]}),
    "range without default": shared({"validRange": {"min": "1Gi"}}),
    "default outside values": shared({"default": "3Gi", "validValues": ["1Gi", "2Gi"]}),
    "values out of order": shared({"default": "1Gi", "validValues": ["2Gi", "1Gi"]}),
    "same values": shared({"default": "1Gi", "validValues": ["1Gi", "1024Mi"]}),
    "value too large": shared({"default": "1Gi", "validValues": ["1Gi", "11Gi"]}),
    "11 values": shared({"default": "1", "validValues": [str(i) for i in range(1, 12)]}),
    "no min": in_range(max="3Gi"),
    "min too large": in_range("20Gi", min="11Gi"),
    "default below min": in_range("1Gi", min="2Gi"),
    "min above max": in_range("2Gi", min="3Gi", max="2Gi"),
    "max too large": in_range(min="1Gi", max="11Gi"),
    "default above max": in_range("4Gi", min="1Gi", max="3Gi"),
    "step too large": in_range(min="2Gi", step="10Gi"),
    "default between steps": in_range("3Gi", min="2Gi", step="2Gi"),
    "max between steps": in_range(min="2Gi", max="5Gi", step="2Gi"),
    "taint without key": taint(key=""),
    "taint without effect": taint(effect=""),
    "taint effect": taint(effect="PreferNoSchedule"),
    "taint value": taint(value="-"),
    "17 taints": slice_of(device(taints=[{}] * 17)),
    "9 counter sets": counter_slice(*[{"name": "s"}] * 9),
    "no counter set name": counter_slice({"name": "", "counters": counters()}),
    "bad counter set name": counter_slice({"name": "A", "counters": counters()}),
    "same counter sets": counter_slice(*[{"name": "s", "counters": counters()}] * 2),
    "no counters": counter_slice({"name": "s"}),
    "33 counters": counter_slice({"name": "s", "counters": counters(33)}),
    "bad counter": counter_slice({"name": "s", "counters": {"A": {"value": "1"}}}),
    "3 consumptions": consuming(*[{}] * 3),
    "no counter set": consuming({"counters": counters()}),
    "same consumptions": consuming(*[{"counterSet": "s", "counters": counters()}] * 2),
    "nothing consumed": consuming({"counterSet": "s"}),
    "33 counters consumed": consuming({"counterSet": "s", "counters": counters(33)}),
    "device with node": slice_of(device(nodeName="n")),
    "device on all nodes": slice_of(device(allNodes=True)),
    "device without nodes": per_device(device()),
    "device with two selections": per_device(device(nodeName="n", allNodes=True)),
    "device with empty node": per_device(device(nodeName="")),
    "device not on all nodes": per_device(device(allNodes=False)),
    "device with bad node": per_device(device(nodeName="A")),
    "device with no terms": per_device(device(nodeSelector={"nodeSelectorTerms": []})),
    "5 conditions": conditions(list("abcde"), ["f"]),
    "5 failure conditions": conditions(["f"], list("abcde")),
    "bad condition": conditions(["-"], ["f"]),
    "same conditions": conditions(["a", "a"], ["f", "f"]),
    "overlapping conditions": conditions(["a"], ["a"]),
    "no failure conditions": conditions(["a"]),
    "failure conditions alone": conditions((), ["a"]),
}
GOOD = {
    CLASSES: GOOD_CLASSES,
    CLAIMS: GOOD_CLAIMS,
    TEMPLATES: GOOD_TEMPLATES,
    SLICES: GOOD_SLICES,
}
BAD = {CLASSES: BAD_CLASSES, CLAIMS: BAD_CLAIMS, TEMPLATES: BAD_TEMPLATES, SLICES: BAD_SLICES}
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


def changed(body, **spec):
    """Return a copy of an object with other fields in its spec."""
    copied = deepcopy(body)
    copied["spec"].update(spec)
    return copied

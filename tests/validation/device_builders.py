"""Builders of objects of resource.k8s.io/v1, good and bad."""

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


def changed(body, **spec):
    """Return a copy of an object with other fields in its spec."""
    copied = deepcopy(body)
    copied["spec"].update(spec)
    return copied

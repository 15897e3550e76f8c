"""Good and bad statuses of ResourceClaims and pods, by what is good or bad about them."""

from validation.device_builders import (
    CLAIMS,
    CLASSES,
    DRIVER,
    LABEL,
    SLICES,
    TEMPLATES,
    alternative,
    changed,
    claim,
    device,
    device_class,
    exactly,
    expression,
    first_available,
    opaque,
    selector,
    slice_of,
    taint,
    template,
    term,
)

SHARE = "0b6a4b4e-8f5f-4c57-9c3a-5b2f5f0c1d2e"
CLAIM = claim(exactly(), first_available(alternative(), name="s"), name="status")
"""The claim whose status is written."""


def result(**parts):
    return {"request": "r", "driver": DRIVER, "pool": "pool", "device": "d", **parts}


def consumer(uid="1", **parts):
    return {"resource": "pods", "name": "p", "uid": uid, **parts}


def allocation(*results, config=(), **parts):
    devices = {"results": list(results or [result()])}
    return {"devices": devices | ({"config": list(config)} if config else {}), **parts}


def status(*results, reserved=(), devices=(), **parts):
    found = {"allocation": allocation(*results, **parts)}
    found |= {"reservedFor": list(reserved)} if reserved else {}
    return found | ({"devices": list(devices)} if devices else {})


def device_status(**parts):
    whole = {"driver": DRIVER, "pool": "pool", "device": "d", **parts}
    return status(devices=[whole])


def condition(**parts):
    whole = {
        "type": "Ready",
        "status": "True",
        "reason": "Fine",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return device_status(conditions=[{**whole, **parts}])


def network(**parts):
    return device_status(networkData=parts)


def config(**parts):
    return status(config=[{"source": "FromClass", **opaque(), **parts}])


GOOD_STATUSES = {
    "empty": {},
    "allocated": status(),
    "no results": {"allocation": {}},
    "reserved": status(reserved=[consumer(), consumer("2", apiGroup="example.com")]),
    "256 consumers": status(reserved=[consumer(str(i)) for i in range(256)]),
    "alternative": status(result(request="s/a")),
    "request of alternatives": status(result(request="s")),
    "32 results": status(*[result()] * 32),
    "share": status(result(shareID=SHARE, consumedCapacity={"memory": "1024Mi"})),
    "binding conditions": status(result(bindingConditions=["a"], bindingFailureConditions=["b"])),
    "tolerations": status(result(tolerations=[{"key": "k", "value": "v"}])),
    "config": config(requests=["r"]),
    "node selector": status(nodeSelector=term(matchExpressions=[expression()])),
    "timestamp": status(allocationTimestamp="2026-01-01T00:00:00Z"),
    "device": device_status(data={"a": 1}),
    "conditions": condition(),
    "network": network(
        interfaceName="eth0", ips=["10.9.8.7/24", "2001:db8::1/64"], hardwareAddress="00:11"
    ),
    "device of share": status(
        result(shareID=SHARE),
        devices=[{"driver": DRIVER, "pool": "pool", "device": "d", "shareID": SHARE}],
    ),
}
BAD_STATUSES = {
    "reserved without allocation": {"reservedFor": [consumer()]},
    "257 consumers": status(reserved=[{}] * 257),
    "same consumers": status(reserved=[consumer(), consumer(name="q")]),
    "empty consumer": status(reserved=[{}]),
    "33 results": status(*[{}] * 33),
    "empty result": status({}),
    "unknown request": status(result(request="x")),
    "unknown alternative": status(result(request="s/x")),
    "three parts": status(result(request="a/b/c")),
    "driver": status(result(driver="a_b")),
    "long driver": status(result(driver=LABEL)),
    "pool": status(result(pool="A//b")),
    "device": status(result(device="A")),
    "long device": status(result(device=LABEL)),
    "share of wrong length": status(result(shareID="x")),
    "no uuid": status(result(shareID=SHARE.replace("b", "x"))),
    "share of other characters": status(result(shareID="é\u202e")),
    "share in upper case": status(result(shareID=SHARE.upper())),
    "share in braces": status(result(shareID="{" + SHARE + "}")),
    "share without dashes": status(result(shareID=SHARE.replace("-", ""))),
    "share in brackets": status(result(shareID="[" + SHARE + "]")),
    "share as urn": status(result(shareID="urn:uuid:" + SHARE)),
    "share as uri": status(result(shareID="uri:uuid:" + SHARE)),
    "admin access": status(result(adminAccess=True)),
    "5 binding conditions": status(
        result(bindingConditions=list("abcde"), bindingFailureConditions=["f"])
    ),
    "binding conditions alone": status(result(bindingConditions=["a"])),
    "65 configs": status(config=[{}] * 65),
    "no source": config(source=""),
    "source": config(source="FromNowhere"),
    "config of unknown request": config(requests=["x"]),
    "no opaque": config(opaque=None),
    "no terms": status(nodeSelector={"nodeSelectorTerms": []}),
    "bad term": status(nodeSelector=term(matchFields=[expression("metadata.uid")])),
    "unallocated device": device_status(device="e"),
    "device without allocation": {"devices": [{"driver": DRIVER, "pool": "pool", "device": "d"}]},
    "device of another share": device_status(shareID=SHARE),
    "same devices": status(devices=[{"driver": DRIVER, "pool": "pool", "device": "d"}] * 2),
    "empty device": status(devices=[{}]),
    "bad share of device": device_status(shareID="x"),
    "9 conditions": device_status(
        conditions=[
            condition()["devices"][0]["conditions"][0] | {"type": f"t{i}"} for i in range(9)
        ]
    ),
    "same conditions": device_status(conditions=condition()["devices"][0]["conditions"] * 2),
    "empty condition": device_status(conditions=[{}]),
    "condition type": condition(type="a b"),
    "condition status": condition(status="Maybe"),
    "condition reason": condition(reason="not fine"),
    "long condition reason": condition(reason="r" * 1025),
    "long condition message": condition(message="m" * 32769),
    "condition generation": condition(observedGeneration=-1),
    "data a list": device_status(data=[1]),
    "data too long": device_status(data={"a": "x" * 10241}),
    "interface": network(interfaceName="i" * 257),
    "hardware address": network(hardwareAddress="h" * 129),
    "17 addresses": network(ips=["x"] * 17),
    "same addresses": network(ips=["10.9.8.7/24"] * 2),
    "address without length": network(ips=["10.9.8.7"]),
    "no address": network(ips=["x/24"]),
    "length of address": network(ips=["10.9.8.7/33", "2001:db8::1/129", "10.9.8.7/a"]),
    "address with zeros": network(ips=["010.9.8.7/24", "2001:DB8::0:1/64", "10.9.8.7/024"]),
    "mapped address": network(ips=["::ffff:10.9.8.7/120"]),
    "zone of address": network(ips=["fe80::1%eth0/64"]),
}


def pod(name="one", *, requests=None, uses=(), annotations=None, init=(), **spec):
    container = {"name": "c", "image": "i"}
    resources = {"requests": requests, "limits": requests} if requests else {}
    resources |= {"claims": list(uses)} if uses else {}
    metadata = {"name": name} | ({"annotations": annotations} if annotations else {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "containers": [container | ({"resources": resources} if resources else {})],
            "initContainers": list(init),
            **spec,
        },
    }


def entry(name="g", **parts):
    return {"name": name, "resourceClaimName": "one", **parts}


def with_uses(*uses, claims=None):
    return pod(uses=uses, resourceClaims=[entry()] if claims is None else claims)


IMPLICIT = "deviceclass.resource.kubernetes.io/"
LONG_CLASS = ".".join(["c" * 63] * 3 + ["c" * 61])
"""The longest name of a device class: 253 characters."""


def asking(requests, limits=None):
    """Return a pod with these requests, and limits if they differ."""
    made = pod(requests=requests)
    if limits is not None:
        made["spec"]["containers"][0]["resources"]["limits"] = limits
    return made


GOOD_PODS = {
    "claim": with_uses({"name": "g"}),
    "request": with_uses({"name": "g", "request": "r"}, {"name": "g", "request": "s"}),
    "template": pod(resourceClaims=[{"name": "g", "resourceClaimTemplateName": "t"}]),
    "claim used by no container": pod(resourceClaims=[entry()]),
    "implicit name of 63 characters": asking({IMPLICIT + LABEL[:63]: "1"}),
    "implicit name with dots": asking({IMPLICIT + "gpu.example.com": "1"}),
    "explicit name": asking({"example.com/gpu": "2"}),
    "zero": asking({"example.com/gpu": "0", IMPLICIT + "gpu": "0"}),
    "implicit name without limit": asking({IMPLICIT + "gpu": "1"}, {}),
    "fraction of implicit name": asking({IMPLICIT + "gpu": "500m"}),
    "another limit of implicit name": asking({IMPLICIT + "gpu": "1"}, {IMPLICIT + "gpu": "2"}),
    "limit alone": asking({"cpu": "1"}, {"cpu": "2", "memory": "1Mi"}),
    "resource of kubernetes.io": asking({"kubernetes.io/batch-cpu": "500m"}, {}),
    "huge pages": asking({"cpu": "1", "hugepages-2Mi": "4Mi"}),
    "equal in another spelling": asking({"example.com/gpu": "1k"}, {"example.com/gpu": "1000"}),
}
BAD_PODS = {
    "no name": pod(resourceClaims=[entry("")]),
    "bad name": pod(resourceClaims=[entry("A")]),
    "long name": pod(resourceClaims=[entry(LABEL)]),
    "same names": pod(resourceClaims=[entry(), entry()]),
    "both": pod(resourceClaims=[entry(resourceClaimTemplateName="t")]),
    "neither": pod(resourceClaims=[{"name": "g"}]),
    "bad claim": pod(resourceClaims=[entry(resourceClaimName="A")]),
    "empty claim": pod(resourceClaims=[entry(resourceClaimName="")]),
    "bad template": pod(resourceClaims=[{"name": "g", "resourceClaimTemplateName": "A_b"}]),
    "unknown claim": with_uses({"name": "x"}),
    "no claims": with_uses({"name": "x"}, claims=[]),
    "no name of use": with_uses({"request": "r"}),
    "bad request": with_uses({"name": "g", "request": "R"}),
    "same uses": with_uses({"name": "g"}, {"name": "g"}),
    "same requests": with_uses({"name": "g", "request": "r"}, {"name": "g", "request": "r"}),
    "request after claim": with_uses({"name": "g"}, {"name": "g", "request": "r"}),
    "claim after requests": with_uses(
        {"name": "g", "request": "r"}, {"name": "g", "request": "s"}, {"name": "g"}
    ),
    "implicit name of 64 characters": asking({IMPLICIT + LABEL[:64]: "1"}),
    "implicit name of 253 characters": asking({IMPLICIT + LONG_CLASS: "1"}),
    "implicit name without class": asking({IMPLICIT: "1"}),
    "fraction": asking({"example.com/gpu": "500m"}),
    "request without limit": asking({"example.com/gpu": "1"}, {}),
    "another limit": asking({"example.com/gpu": "1"}, {"example.com/gpu": "2"}),
    "another limit in another spelling": asking(
        {"example.com/gpu": 1000}, {"example.com/gpu": "2000"}
    ),
    "negative": asking({"example.com/gpu": "-1"}),
    "negative fraction": asking({"example.com/gpu": "-500m"}),
    "above the limit": asking({"cpu": "2", "memory": "2Mi"}, {"cpu": "1", "memory": "1Mi"}),
    "unknown resource": asking({"gpu": "1"}),
    "resource of quotas": asking({"requests.cpu": "1", "storage": "1", "pods": "1"}),
    "resource of quotas with domain": asking({"requests.example.com/gpu": "1"}),
    "empty resource": asking({"": "1", "/": "1", "a/b/c": "1", "a b": "1"}),
    "long domain": asking({f"{LONG_CLASS}/gpu": "1"}),
    "huge pages alone": asking({"hugepages-2Mi": "2Mi"}),
    "part of a huge page": asking({"cpu": "1", "hugepages-2Mi": "3Mi"}),
    "less huge pages": asking({"cpu": "1", "hugepages-2Mi": "2Mi"}, {"hugepages-2Mi": "4Mi"}),
    "huge pages of no size": asking({"cpu": "1", "hugepages-": "2Mi", "hugepages-x": "1"}),
    "fraction in init container": pod(
        init=[
            {
                "name": "i",
                "image": "i",
                "resources": {"requests": {"example.com/gpu": "1", "example.com/a": "1m"}},
            }
        ]
    ),
    "init container": pod(
        init=[{"name": "i", "image": "i", "resources": {"claims": [{"name": "x"}]}}]
    ),
}
POD = pod("status", requests={"example.com/gpu": "1"}, resourceClaims=[entry()])
"""The pod whose status is written."""


def mapping(**parts):
    whole = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}
    return {**whole, **parts}


def special(*mappings, name="special"):
    found = {"resourceClaimName": name, "requestMappings": list(mappings)}
    return {"extendedResourceClaimStatus": found}


def claims(*entries):
    return {"resourceClaimStatuses": list(entries)}


GOOD_POD_STATUSES = {
    "special claim": special(mapping()),
    "claim": claims({"name": "g", "resourceClaimName": "one"}),
    "no claim": claims({"name": "g"}),
}
BAD_POD_STATUSES = {
    "no mappings": special(),
    "unknown container": special(mapping(containerName="x")),
    "unrequested resource": special(mapping(resourceName="example.com/x")),
    "bad request": special(mapping(requestName="R")),
    "same mappings": special(mapping(), mapping()),
    "no claim": special(mapping(), name=""),
    "bad claim": special(mapping(), name="A"),
    "unknown entry": claims({"name": "x"}),
    "same entries": claims({"name": "g"}, {"name": "g"}),
    "bad name of claim": claims({"name": "g", "resourceClaimName": "A"}),
}


def labelled(body):
    return {**body, "metadata": {**body["metadata"], "labels": {"a": "b"}}}


OTHER_POOL = {"name": "other", "generation": 2, "resourceSliceCount": 2}
CHANGES = {
    "labels of claim": (CLAIMS, claim(), labelled(claim())),
    "spec of claim": (CLAIMS, claim(), claim(exactly(count=2))),
    "bad spec of claim": (CLAIMS, claim(), claim(exactly("A"), constraints=[{}])),
    "spec of template": (TEMPLATES, template(), template(exactly(count=2))),
    "labels in template": (TEMPLATES, template(), template(metadata={"labels": {"a": "b"}})),
    "labels of template": (TEMPLATES, template(), labelled(template())),
    "driver": (SLICES, slice_of(), slice_of(driver="other.example.com")),
    "no driver": (SLICES, slice_of(), slice_of(driver="")),
    "pool": (SLICES, slice_of(), slice_of(pool=OTHER_POOL)),
    "node": (SLICES, slice_of(), slice_of(nodeName="other")),
    "no node": (SLICES, slice_of(), slice_of(without=("nodeName",), allNodes=True)),
    "devices": (SLICES, slice_of(), slice_of(device("e"))),
    "bad devices": (SLICES, slice_of(), slice_of(device(), device("A"))),
    "taint": (SLICES, taint(), taint(effect="NoExecute")),
    "bad taint": (SLICES, taint(), taint(effect="Odd")),
    "selectors": (CLASSES, device_class(), device_class(selectors=[selector()])),
    "bad selectors": (CLASSES, device_class(), device_class(selectors=[selector("1")])),
    "resource": (CLASSES, device_class(), changed(device_class(), extendedResourceName="cpu")),
}
"""By name: path, stored object, changed object."""
STATUS_CHANGES = {
    "other device": (status(), status(result(device="e"))),
    "same": (status(), status()),
    "nulls": (status(), {**status(), "reservedFor": None, "devices": []}),
    "cleared": (status(), {}),
    "reserved and cleared": (status(), {"reservedFor": [consumer()]}),
    "more": (status(), status(reserved=[consumer()], devices=device_status()["devices"])),
    "devices of a cleared claim": (device_status(), {"devices": device_status()["devices"]}),
    "timestamp": (status(), status(allocationTimestamp="2026-01-01T00:00:00Z")),
}
"""By name: stored status, changed status."""

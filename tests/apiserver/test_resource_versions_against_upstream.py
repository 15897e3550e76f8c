"""The versions of resource.k8s.io on a real kube-apiserver and on ours: the same objects."""

import shutil
import ssl
from itertools import product

import aiohttp
import pytest

from apiserver.comparable_responses import ask
from apiserver.server_fixture import start_server
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.server.kinds.resource import KINDS
from holdfast.server.verbs.conversion import object_to_requested_version
from real.control_plane import ControlPlane, program

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not (program("kube-apiserver") and program("etcd") and shutil.which("openssl")),
        reason="no upstream binaries",
    ),
]
VERSIONS = ("v1", "v1beta2", "v1beta1")
FLAGS = (
    "--runtime-config=resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true",
    "--feature-gates=DRADeviceTaintRules=true",
)
GATES = FeatureGates.parse("DRADeviceTaintRules=true")
MERGE = {"content-type": "application/merge-patch+json"}
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
DRIVER = "gpu.example.com"
CEL = {"cel": {"expression": "device.driver == 'gpu.example.com'"}}
OPAQUE = {"driver": DRIVER, "parameters": {"basic": {"exactly": [1]}}}
TERMS = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
TAINT = {
    "key": "example.com/t",
    "value": "x",
    "effect": "NoExecute",
    "timeAdded": "2026-01-01T00:00:00Z",
}
POOL = {"name": "p", "generation": 1, "resourceSliceCount": 1}
CLAIMS = {
    "small": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]},
    "all": {
        "requests": [
            {
                "name": "r",
                "exactly": {
                    "deviceClassName": "gpu",
                    "allocationMode": "All",
                    "adminAccess": False,
                },
            }
        ]
    },
    "large": {
        "requests": [
            {
                "name": "r",
                "exactly": {
                    "deviceClassName": "gpu",
                    "allocationMode": "ExactCount",
                    "count": 3,
                    "selectors": [CEL, CEL],
                    "capacity": {"requests": {"memory": "1Gi"}},
                    "tolerations": [
                        {"operator": "Exists"},
                        {
                            "key": "example.com/t",
                            "operator": "Equal",
                            "value": "x",
                            "effect": "NoExecute",
                            "tolerationSeconds": 5,
                        },
                    ],
                },
            },
            {
                "name": "q",
                "firstAvailable": [
                    {"name": "one", "deviceClassName": "large", "selectors": [CEL]},
                    {
                        "name": "two",
                        "deviceClassName": "small",
                        "count": 2,
                        "tolerations": [{"operator": "Exists"}],
                    },
                ],
            },
        ],
        "constraints": [{"requests": ["r"], "matchAttribute": "example.com/numa"}],
        "config": [{"requests": ["q/one"], "opaque": OPAQUE}],
    },
}
SLICES = {
    "small": {"nodeName": "n1", "devices": [{"name": "d"}]},
    "everywhere": {
        "allNodes": True,
        "devices": [
            {
                "name": "d",
                "attributes": {
                    "i": {"int": -1},
                    "b": {"bool": False},
                    "s": {"string": "x"},
                    "x.com/v": {"version": "1.0.0-rc.1"},
                },
                "capacity": {
                    "memory": {
                        "value": "10Gi",
                        "requestPolicy": {
                            "default": "1Gi",
                            "validRange": {"min": "1Gi", "step": "1Gi"},
                        },
                    }
                },
                "allowMultipleAllocations": True,
                "taints": [TAINT],
                "bindingConditions": ["ready"],
                "bindingFailureConditions": ["failed"],
                "bindsToNode": True,
            },
        ],
    },
    "by-device": {
        "perDeviceNodeSelection": True,
        "devices": [
            {"name": "a", "nodeName": "n1"},
            {"name": "b", "nodeSelector": TERMS},
            {
                "name": "c",
                "allNodes": True,
                "consumesCounters": [{"counterSet": "s", "counters": {"memory": {"value": "1Gi"}}}],
            },
        ],
    },
    "counters": {
        "nodeSelector": TERMS,
        "sharedCounters": [{"name": "s", "counters": {"memory": {"value": "8Gi"}}}],
    },
}
CLASSES = {
    "small": {},
    "large": {
        "selectors": [CEL],
        "config": [{"opaque": OPAQUE}],
        "extendedResourceName": "example.com/gpu",
    },
}
STATUS = {
    "allocation": {
        "devices": {
            "results": [
                {
                    "request": "r",
                    "driver": DRIVER,
                    "pool": "p",
                    "device": "d",
                    "tolerations": [{"operator": "Exists"}],
                }
            ],
            "config": [{"source": "FromClass", "opaque": OPAQUE}],
        },
        "nodeSelector": TERMS,
    },
    "reservedFor": [{"resource": "pods", "name": "a", "uid": "u"}],
}
SPECS = {
    "ResourceClaim": {name: {"devices": devices} for name, devices in CLAIMS.items()},
    "ResourceClaimTemplate": {
        name: {"metadata": {"labels": {"a": "b"}}, "spec": {"devices": devices}}
        for name, devices in CLAIMS.items()
    },
    "ResourceSlice": {
        name: {"driver": DRIVER, "pool": POOL, **spec} for name, spec in SLICES.items()
    },
    "DeviceClass": CLASSES,
    "DeviceTaintRule": {
        "small": {"taint": TAINT},
        "large": {
            "deviceSelector": {"driver": DRIVER, "pool": "a/b", "device": "d"},
            "taint": {**TAINT, "value": "y", "effect": "None"},
        },
    },
}


def paths(plural, namespaced):
    scope = "namespaces/default/" if namespaced else ""
    return {v: f"/apis/resource.k8s.io/{v}/{scope}{plural}" for v in VERSIONS}


def readable(resource):
    return VERSIONS if resource.kind != "DeviceTaintRule" else ("v1beta2",)


def steps():
    """Yield requests: each object created in every version, and read in every version."""
    strict = {"fieldValidation": "Strict"}
    for written in KINDS:
        r = written.resource
        at = paths(r.plural, r.namespaced)
        for name, spec in SPECS.get(r.kind, {}).items():
            unique = f"{name}-{r.version}"
            obj = {
                "kind": r.kind,
                "apiVersion": r.api_version,
                "metadata": {"name": unique},
                "spec": spec,
            }
            shown = object_to_requested_version(written, obj)
            yield ("POST", at[r.version], shown, {}, strict)
            if r.kind == "DeviceTaintRule":
                yield ("GET", f"{at[r.version]}/{unique}", None, TABLE, {})
            if r.kind == "ResourceClaim":
                path = f"{at[r.version]}/{unique}/status"
                yield ("PATCH", path, {"status": STATUS}, MERGE, strict)
            label = {"metadata": {"labels": {"a": "b"}}}
            yield ("PATCH", f"{at[r.version]}/{unique}", label, MERGE, strict)
            yield ("PUT", f"{at[r.version]}/{unique}", shown, {}, strict)
            for version in readable(r):
                yield ("GET", f"{at[version]}/{unique}", None, {}, {})
        for version in readable(r):
            yield ("GET", at[version], None, {}, {})
    for version in VERSIONS:
        yield ("GET", f"/apis/resource.k8s.io/{version}", None, {}, {})


def comparable(answer):
    """Return an answer without what lists and discovery show differently for all kinds."""
    status, body = answer
    for item in body.get("items", ()):
        item.pop("kind", None), item.pop("apiVersion", None)
    for row in body.get("rows", ()):
        row.pop("object", None)
        row["cells"] = row["cells"][:4]  # then come ages
    for column in body.get("columnDefinitions", ()):
        column.pop("description", None)
    if "resources" in body:
        body["resources"] = sorted(one["name"] for one in body["resources"])
    return status, body


async def test_every_version_shows_the_same_objects_as_upstream(tmp_path):
    async with start_server(tmp_path / "ours", feature_gates=GATES) as api:
        await compare(api, tmp_path)


async def compare(api, tmp_path):
    plane = ControlPlane(tmp_path / "real", flags=FLAGS).start()
    unlike, count = [], 0
    try:
        connector = aiohttp.TCPConnector(ssl=ssl._create_unverified_context())
        headers = {"authorization": f"Bearer {plane.token}"}
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
            for step in steps():
                theirs = comparable(await ask(session, plane.url, step))
                ours = comparable(await ask(api.session, api.url, step))
                assert theirs[0] in (200, 201), (step, theirs)
                count += 1
                if ours != theirs:
                    unlike.append((step[:2], ours, theirs))
            for version, kind in product(VERSIONS, ("deviceclasses", "resourceslices")):
                path = f"/apis/resource.k8s.io/{version}/{kind}"
                async with session.get(plane.url + path) as response:
                    theirs = response.headers.get("warning")
                if (ours := (await api.call("GET", path)).headers.get("warning")) != theirs:
                    unlike.append((path, ours, theirs))
    finally:
        plane.stop()
    assert not unlike, f"{len(unlike)} of {count}: {unlike[0]}"

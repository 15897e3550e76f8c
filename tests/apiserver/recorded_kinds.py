"""All kinds in discovery, each with a sample object, and a custom kind with two versions."""

from __future__ import annotations

from typing import Any

from apiserver import every_kind
from apiserver.recorded_lifecycle import Kind
from apiserver.server_fixture import RunningServer

Raw = dict[str, Any]
AGGREGATED = {"accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
_SPEC = {
    "type": "object", "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1}, "replicas": {"type": "integer", "default": 1},
        "colour": {"type": "string", "default": "red", "enum": ["red", "blue"]},
        "parts": {
            "type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"}, "weight": {"type": "integer", "default": 2}}},
        },
    },
    "x-kubernetes-validations": [
        {"rule": "self.size < 100", "message": "size must be below 100"},
        {"rule": "self.colour == oldSelf.colour", "message": "colour is immutable"},
    ],
}  # fmt: skip
_STATUS = {"type": "object", "properties": {
    "replicas": {"type": "integer"}, "phase": {"type": "string"},
    "conditions": {"type": "array", "items": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}}  # fmt: skip


def _version(name: str, *, storage: bool, **more: Any) -> Raw:
    schema = {"type": "object", "required": ["spec"],
              "properties": {"spec": _SPEC, "status": _STATUS}}  # fmt: skip
    return {"name": name, "served": True, "storage": storage,
            "schema": {"openAPIV3Schema": schema}, **more}  # fmt: skip


GADGETS: Raw = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.two.example.com"},
    "spec": {
        "group": "two.example.com", "scope": "Namespaced",
        "names": {"plural": "gadgets", "kind": "Gadget", "singular": "gadget",
                  "shortNames": ["gd"], "categories": ["all"]},
        "versions": [
            _version(
                "v1", storage=True,
                subresources={"status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas"}},
                additionalPrinterColumns=[
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
                selectableFields=[{"jsonPath": ".spec.colour"}],
            ),
            _version("v1beta1", storage=False, deprecated=True,
                     deprecationWarning="two.example.com/v1beta1 Gadget is old"),
        ],
    },
}  # fmt: skip
_GADGET: Raw = {"spec": {"size": 3, "parts": [{"name": "a"}]}}
_EXACT = {"deviceClassName": "gpu.example.com", "count": 1, "allocationMode": "ExactCount"}
_FLAT_CLAIM: Raw = {"devices": {"requests": [{"name": "gpu", **_EXACT}]}}
_BASIC_SLICE: Raw = {
    "driver": "gpu.example.com",
    "nodeName": "n1",
    "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
    "devices": [{"name": "gpu-0", "basic": {"attributes": {"model": {"string": "a"}}}}],
}
ALIAS = ("core.k8s.io", "v1")
_MORE: tuple[tuple[str, str, Raw, Raw], ...] = (
    ("two.example.com/v1", "Gadget", _GADGET, {"spec": {"size": 4}}),
    ("two.example.com/v1beta1", "Gadget", _GADGET, {"spec": {"size": 5}}),
    ("resource.k8s.io/v1beta1", "ResourceClaim", {"spec": _FLAT_CLAIM}, {}),
    ("resource.k8s.io/v1beta1", "ResourceClaimTemplate", {"spec": {"spec": _FLAT_CLAIM}}, {}),
    (
        "resource.k8s.io/v1beta1",
        "ResourceSlice",
        {"spec": _BASIC_SLICE},
        {"spec": {"devices": [{"name": "gpu-1", "basic": {"allowMultipleAllocations": True}}]}},
    ),
)


def _samples() -> dict[tuple[str, str], tuple[Raw, Raw]]:
    found = {
        (obj["apiVersion"], obj["kind"]): (obj, change)
        for obj, change in zip(every_kind.objects(), every_kind.changes(), strict=True)
    }
    request = found["certificates.k8s.io/v1", "CertificateSigningRequest"][0]
    request["spec"] = request["spec"] | {"request": "YQ=="}  # that of the sample is random
    for (api_version, kind), (obj, change) in tuple(found.items()):
        if api_version == "resource.k8s.io/v1":  # those that differ are replaced below
            for version in ("v1beta1", "v1beta2"):
                beta = f"resource.k8s.io/{version}"
                found[beta, kind] = (obj | {"apiVersion": beta}, change)
    for api_version, kind, body, change in _MORE:
        head = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "sample"}}
        found[api_version, kind] = (head | body, change)
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    change = {"spec": {"names": every_kind.WIDGETS["spec"]["names"] | {"shortNames": ["wg"]}}}
    found[crd["apiVersion"], crd["kind"]] = (crd | every_kind.WIDGETS, change)
    return found


async def read_kinds(api: RunningServer) -> list[Kind]:
    """Return all kinds in discovery that can be listed, without aliases of versions."""
    samples = _samples()
    kinds = []
    for path in ("/api", "/apis"):
        for group in (await api.call("GET", path, headers=AGGREGATED)).json["items"]:
            for version in group["versions"]:
                for one in version["resources"]:
                    name = group["metadata"].get("name", "")
                    if "list" in one["verbs"] and (name, version["version"]) != ALIAS:
                        kinds.append(_kind(name, version["version"], one, samples))
    return kinds


def _kind(
    group: str, version: str, one: Raw, samples: dict[tuple[str, str], tuple[Raw, Raw]]
) -> Kind:
    api_version = f"{group}/{version}" if group else version
    kind = (api_version, one["responseKind"]["kind"])
    assert kind in samples, f"every_kind.py has no sample and no patch of {kind}"
    sample, change = samples[kind]
    parts = tuple((p["subresource"], tuple(p["verbs"])) for p in one.get("subresources", ()))
    return Kind(group, version, one["resource"], one["scope"] == "Namespaced",
                tuple(one["verbs"]), parts, sample, change)  # fmt: skip

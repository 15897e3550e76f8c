"""Discovery: aggregated (v2, v2beta1) and legacy documents."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.api.decode import JsonObject
from holdfast.client.transport import Response
from holdfast.runtime.errors import NotFound
from holdfast.server.descriptor import KindDescriptor
from holdfast.server.registry import Registry, digest
from holdfast.server.schema.fields import Gvk
from holdfast.server.verbs.subresources import subresource_of
from holdfast.server.wire.negotiation import negotiate_discovery
from holdfast.server.wire.responses import json_response, text_response, with_headers


def subresource_kind(descriptor: KindDescriptor, subresource: str) -> tuple[Gvk, tuple[str, ...]]:
    """Return the kind of a subresource, and its verbs."""
    r, entry = descriptor.resource, subresource_of(descriptor, subresource)
    kind, verbs = (entry.kind, entry.verbs) if entry else (None, ("get",))
    return kind or (r.group, r.version, r.kind), verbs


_Responses = dict[tuple[str, str], Response]
_shared: dict[tuple[int, ...], tuple[list[KindDescriptor], _Responses]] = {}
"""The responses of servers with the same descriptors, by the ids of these, which are kept alive."""
_SHARED = 4
"""How many sets of descriptors are kept."""


def _responses_for(registry: Registry) -> _Responses:
    """Return the responses built so far for the descriptors of a registry."""
    descriptors = list(registry)
    key = tuple(map(id, descriptors))
    if key not in _shared:
        while len(_shared) >= _SHARED:
            del _shared[next(iter(_shared))]
        _shared[key] = descriptors, {}
    return _shared[key][1]


class Discovery:
    """Builds the documents, with ETags, once per change of the registry.

    Servers in one process that serve the same kinds share the documents.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._generation = -1
        self._responses: _Responses = {}

    def respond(self, path: str, headers: Mapping[str, str]) -> Response:
        """Respond to ``/api``, ``/apis`` or a path below that is not a resource."""
        if self._generation != self._registry.generation:
            self._generation = self._registry.generation
            self._responses = _responses_for(self._registry)
        version = ""
        if path in ("/api", "/apis"):
            version = negotiate_discovery(headers.get("accept", ""))
        response = self._responses.get((path, version))
        if response is None:
            try:
                response = self._responses[path, version] = self._build(path, version)
            except NotFound:
                return text_response("404 page not found\n", 404)
        tag = response.headers.get("etag", "")
        if tag and headers.get("if-none-match", "") == tag:
            return Response(304, {"etag": tag, "vary": "Accept"}, b"")
        return response

    def _build(self, path: str, version: str) -> Response:
        groups = self._registry.groups()
        if version:
            wanted = {g: v for g, v in groups.items() if bool(g) == (path == "/apis")}
            document = aggregated(wanted, version)
            content_type = (
                f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
            )
            tag = f'"{digest(document)}"'
            headers = {"content-type": content_type, "etag": tag, "vary": "Accept",
                       "cache-control": "public"}  # fmt: skip
            return with_headers(json_response(document), headers)
        return with_headers(json_response(_legacy(path, groups)), {"vary": "Accept"})


def _legacy(path: str, groups: Mapping[str, Mapping[str, list[KindDescriptor]]]) -> JsonObject:
    parts = path.split("/")[1:]
    match parts:
        case ["api"]:
            return {
                "kind": "APIVersions",
                "versions": list(groups.get("", {})),
                "serverAddressByClientCIDRs": [],
            }
        case ["apis"]:
            named = [_group(g, list(v)) for g, v in groups.items() if g]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": named}
        case ["api", version] if version in groups.get("", {}):
            return _resources("", version, groups[""][version])
        case ["apis", group] if group in groups:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, list(groups[group]))}
        case ["apis", group, version] if version in groups.get(group, {}):
            return _resources(group, version, groups[group][version])
    raise NotFound("the server could not find the requested resource")


def _group(group: str, versions: list[str]) -> JsonObject:
    listed = [{"groupVersion": f"{group}/{v}", "version": v} for v in versions]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def _resources(group: str, version: str, descriptor: list[KindDescriptor]) -> JsonObject:
    listed: list[JsonObject] = []
    for one in descriptor:
        resource = one.resource
        row = {
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(resource.verbs),
        }
        if resource.short_names:
            row["shortNames"] = list(resource.short_names)
        if resource.categories:
            row["categories"] = list(resource.categories)
        listed.append(row)
        listed += [_legacy_subresource(one, subresource) for subresource in resource.subresources]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": listed,
    }


def _legacy_subresource(descriptor: KindDescriptor, subresource: str) -> JsonObject:
    resource = descriptor.resource
    kind, verbs = subresource_kind(descriptor, subresource)
    row: JsonObject = {
        "name": f"{resource.plural}/{subresource}", "singularName": "",
        "namespaced": resource.namespaced,
    }  # fmt: skip
    if kind[:2] != (resource.group, resource.version):
        row |= {"group": kind[0], "version": kind[1]}
    return row | {"kind": kind[2], "verbs": list(verbs)}


def aggregated(
    groups: Mapping[str, Mapping[str, list[KindDescriptor]]], version: str
) -> JsonObject:
    """Return all groups as one APIGroupDiscoveryList."""
    items = [
        {
            "metadata": {"name": group, "creationTimestamp": None},
            "versions": [
                {
                    "version": name,
                    "resources": [_aggregated_resource(s) for s in descriptor],
                    "freshness": "Current",
                }
                for name, descriptor in versions.items()
            ],
        }
        for group, versions in groups.items()
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def _aggregated_resource(descriptor: KindDescriptor) -> JsonObject:
    resource = descriptor.resource
    row: JsonObject = {
        "resource": resource.plural,
        "responseKind": _kind((resource.group, resource.version, resource.kind)),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        row["shortNames"] = list(resource.short_names)
    if resource.categories:
        row["categories"] = list(resource.categories)
    if resource.subresources:
        row["subresources"] = [
            _aggregated_subresource(descriptor, p) for p in resource.subresources
        ]
    return row


def _aggregated_subresource(descriptor: KindDescriptor, subresource: str) -> JsonObject:
    kind, verbs = subresource_kind(descriptor, subresource)
    return {"subresource": subresource, "responseKind": _kind(kind), "verbs": list(verbs)}


def _kind(kind: Gvk) -> JsonObject:
    return dict(zip(("group", "version", "kind"), kind, strict=True))

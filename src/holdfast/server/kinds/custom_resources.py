"""Build the descriptors of custom resources from their CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from holdfast.api import group_scheduling, scheme
from holdfast.api.resource import Resource
from holdfast.api.validation.list_limits import RESOURCE_POLICY_TREE
from holdfast.server.descriptor import KindDescriptor, selectable_fields
from holdfast.server.kinds import (
    scheduling_koordinator_sh,
)
from holdfast.server.kinds.koordinator_checks import TOPOLOGY_WARNINGS
from holdfast.server.schema.structural import StructuralSchema
from holdfast.server.tables import columns_of, custom_printer
from holdfast.server.unimplemented_features import FULLY_IMPLEMENTED, UnimplementedFeatures

UNIMPLEMENTED_CUSTOM_RESOURCES = {
    where: UnimplementedFeatures(f"{kind}s of {where[0]} are stored but not read: {sentence}")
    for where, (kind, sentence) in group_scheduling.KINDS.items()
}
"""Resources for other schedulers that have no effect here, by group and plural."""
KNOWN_CUSTOM_RESOURCES = {
    descriptor.group_resource: descriptor
    for descriptor in (
        *scheduling_koordinator_sh.KINDS,
        KindDescriptor(scheme.RESOURCE_POLICIES, list_limits=RESOURCE_POLICY_TREE),
        KindDescriptor(scheme.NODE_RESOURCE_TOPOLOGIES, admission_plugins=(TOPOLOGY_WARNINGS,)),
    )
}
"""Checks, admission and limits of the custom resources that Holdfast ships."""


def descriptors_of_crd(definition: Mapping[str, Any]) -> list[KindDescriptor]:
    """Return the descriptors of a CRD, one per served version."""
    spec = definition["spec"]
    storage = next((v["name"] for v in spec["versions"] if v.get("storage")), "")
    descriptor = [version for version in spec["versions"] if version.get("served")]
    return [_version(spec, version, storage) for version in descriptor]


def _version(spec: Mapping[str, Any], version: Mapping[str, Any], storage: str) -> KindDescriptor:
    names, parts = spec["names"], version.get("subresources") or {}
    resource: Resource[Any] = Resource(
        spec["group"], version["name"], names["plural"], names["kind"], dict,
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(name for name in ("status", "scale") if name in parts),
    )  # fmt: skip
    schema = StructuralSchema.compile((version.get("schema") or {}).get("openAPIV3Schema") or {})
    where = (resource.group, resource.plural)
    unimplemented = UNIMPLEMENTED_CUSTOM_RESOURCES.get(where, FULLY_IMPLEMENTED)
    plain = KindDescriptor(resource, unimplemented=unimplemented)
    paths = [one["jsonPath"].lstrip(".") for one in version.get("selectableFields") or ()]
    return replace(
        KNOWN_CUSTOM_RESOURCES.get(where, plain),
        resource=resource,
        storage_api_version=f"{resource.group}/{storage}",
        list_kind=names.get("listKind") or "",
        structural_schema=schema,
        crd_name=f"{resource.plural}.{resource.group}",
        printer=custom_printer(columns_of(version)),
        selectable_fields=selectable_fields(*paths),
        scale=parts.get("scale"),
        has_generation=True,
        requires_resource_version=True,
        status_metadata=(),
    )

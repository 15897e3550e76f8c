"""The descriptors of custom resources: what a CustomResourceDefinition says, and what we know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from holdfast.api.resource import Resource
from holdfast.apiserver.descriptor import Served, selectable
from holdfast.apiserver.kinds import scheduling_koordinator_sh, scheduling_sigs_x_k8s_io
from holdfast.apiserver.schema.structural import Schema
from holdfast.apiserver.tables import columns_of, custom_printer

OWN = {
    served.id: served
    for served in (*scheduling_koordinator_sh.KINDS, *scheduling_sigs_x_k8s_io.KINDS)
}
"""What the server knows of custom resources besides their definitions."""


def served_by(definition: Mapping[str, Any]) -> list[Served]:
    """List the resources a definition describes, one a served version."""
    spec = definition["spec"]
    storage = next((v["name"] for v in spec["versions"] if v.get("storage")), "")
    served = [version for version in spec["versions"] if version.get("served")]
    return [_version(spec, version, storage) for version in served]


def _version(spec: Mapping[str, Any], version: Mapping[str, Any], storage: str) -> Served:
    names, parts = spec["names"], version.get("subresources") or {}
    resource: Resource[Any] = Resource(
        spec["group"], version["name"], names["plural"], names["kind"], dict,
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(name for name in ("status", "scale") if name in parts),
    )  # fmt: skip
    schema = Schema.compile((version.get("schema") or {}).get("openAPIV3Schema") or {})
    paths = [one["jsonPath"].lstrip(".") for one in version.get("selectableFields") or ()]
    return replace(
        OWN.get((resource.group, resource.plural)) or Served(resource),
        resource=resource,
        stored_as=f"{resource.group}/{storage}",
        list_kind=names.get("listKind") or "",
        schema=schema,
        defined_by=f"{resource.plural}.{resource.group}",
        printer=custom_printer(columns_of(version)),
        selectable=selectable(*paths),
        scale=parts.get("scale"),
        counts_generations=True,
        needs_version=True,
        status_metadata=(),
    )

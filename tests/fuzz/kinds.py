"""The served kinds, from discovery, and their schemas, from OpenAPI v3."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_GVK = "x-kubernetes-group-version-kind"
_WORD = re.compile(r"\b[A-Z][A-Za-z]{2,30}\b")
_QUOTED = re.compile(r"[\"'`]([A-Za-z][\w.:/-]{1,40})[\"'`]")


@dataclass(frozen=True)
class Kind:
    """A served resource."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    parts: tuple[str, ...] = ()
    custom: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", part: str = "") -> str:
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        space = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return "/".join(filter(None, (f"{root}{space}/{self.plural}", name, part)))


class Schemas:
    """The schemas of all kinds, by group, version and kind, with references resolved on demand."""

    def __init__(self) -> None:
        self._types: dict[str, dict[str, Any]] = {}
        self._roots: dict[tuple[str, str, str], dict[str, Any]] = {}

    def add(self, document: dict[str, Any]) -> None:
        for name, schema in document["components"]["schemas"].items():
            self._types.setdefault(name, schema)
            for gvk in schema.get(_GVK, ()):
                self._roots[gvk["group"], gvk["version"], gvk["kind"]] = schema

    def of(self, kind: Kind) -> dict[str, Any]:
        return self._roots.get((kind.group, kind.version, kind.kind), {"type": "object"})

    def define(self, kind: Kind, schema: dict[str, Any]) -> None:
        """Add the schema of a custom resource."""
        self._roots[kind.group, kind.version, kind.kind] = schema

    def resolve(self, schema: Any) -> dict[str, Any]:
        """Resolve references; return {} for a value that is not a schema."""
        while isinstance(schema, dict):
            one = schema.get("allOf")
            if isinstance(one, list) and len(one) == 1 and "properties" not in schema:
                schema = one[0]
            elif isinstance(name := schema.get("$ref"), str):
                schema = self._types.get(name.rpartition("/")[2], {})
            else:
                return schema
        return {}


@cache
def words_of(description: str) -> tuple[str, ...]:
    """Return possible values from the description of a field: quoted and capitalised words.

    >>> words_of("Valid operators are Exists and Equal.")
    ('Valid', 'Exists', 'Equal')
    """
    found = _QUOTED.findall(description) + _WORD.findall(description)
    return tuple(dict.fromkeys(found))


def read_discovery(*documents: bytes) -> list[Kind]:
    """Return the kinds in aggregated discovery documents."""
    return [
        Kind(
            group["metadata"].get("name", ""), version["version"], one["resource"],
            one["responseKind"]["kind"], one["scope"] == "Namespaced", tuple(one["verbs"]),
            tuple(part["subresource"] for part in one.get("subresources", ())),
        )
        for document in documents
        for group in msgspec.json.decode(document)["items"]
        for version in group["versions"]
        for one in version["resources"]
    ]  # fmt: skip

"""The served resources and their versions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from holdfast.runtime.errors import NotFound
from holdfast.server.descriptor import AdmissionPlugin, KindDescriptor
from holdfast.server.schema.stored_objects import register_resource


@dataclass(slots=True)
class Registry:
    """The descriptors of all served resources, by group, version and plural."""

    _descriptor: dict[tuple[str, str, str], KindDescriptor] = field(default_factory=dict)
    _versions: set[tuple[str, str]] = field(default_factory=set)
    admission_plugins: tuple[AdmissionPlugin, ...] = ()
    """The plugins of every kind; they run after those of the descriptor."""
    generation: int = 0
    """Rises with every change; discovery documents are rebuilt when it has changed."""

    @classmethod
    def of(
        cls, kinds: Iterable[KindDescriptor], admission_plugins: tuple[AdmissionPlugin, ...] = ()
    ) -> Registry:
        """Return a registry of the given kinds, all with these admission plugins."""
        registry = cls(admission_plugins=admission_plugins)
        for descriptor in kinds:
            registry.add(descriptor)
        return registry

    def add(self, descriptor: KindDescriptor) -> None:
        """Add or replace the descriptor of a resource version."""
        r = descriptor.resource
        self._descriptor[r.group, r.version, r.plural] = descriptor
        self._versions.add((r.group, r.version))
        if not descriptor.crd_name and descriptor.storage_version is None:
            register_resource(r)
        self.generation += 1

    def remove(self, group: str, plural: str) -> None:
        """Remove all versions of a resource."""
        for key in [k for k in self._descriptor if (k[0], k[2]) == (group, plural)]:
            del self._descriptor[key]
        self._versions = {key[:2] for key in self._descriptor}
        self.generation += 1

    def serves(self, group: str, version: str) -> bool:
        """Return whether a group version has resources."""
        return (group, version) in self._versions

    def find(self, group: str, version: str, plural: str) -> KindDescriptor:
        """Return the descriptor of a resource; raise NotFound if it is not served."""
        descriptor = self._descriptor.get((group, version, plural))
        if descriptor is None:
            raise NotFound("the server could not find the requested resource")
        return descriptor

    def groups(self) -> dict[str, dict[str, list[KindDescriptor]]]:
        """Return the descriptors by group, core first, and by version, in Kubernetes' order."""
        tree: dict[str, dict[str, list[KindDescriptor]]] = {}
        for descriptor in self:
            r = descriptor.resource
            tree.setdefault(r.group, {}).setdefault(r.version, []).append(descriptor)
        return {
            group: dict(sorted(versions.items(), key=_preference))
            for group, versions in tree.items()
        }

    def __iter__(self) -> Iterator[KindDescriptor]:
        return iter(self._descriptor.values())


def _preference(entry: tuple[str, list[KindDescriptor]]) -> tuple[bool, tuple[int, int, int, str]]:
    """Return the sort key of a version with its kinds; aliases are last."""
    return all(kind.is_alias for kind in entry[1]), _rank(entry)


_VERSION = re.compile(r"v([1-9]\d{0,8})(?:(alpha|beta)([1-9]\d{0,8}))?")


def _rank(entry: tuple[str, object]) -> tuple[int, int, int, str]:
    """Return the sort key of a version: stable, beta, alpha, each newest first; then others.

    >>> sorted([("foo", 0), ("v1alpha1", 0), ("v2", 0), ("v1beta2", 0), ("v10", 0)], key=_rank)
    [('v10', 0), ('v2', 0), ('v1beta2', 0), ('v1alpha1', 0), ('foo', 0)]
    """
    version = entry[0]
    match = _VERSION.fullmatch(version)
    if match is None:
        return 3, 0, 0, version
    stage = ("", "beta", "alpha").index(match[2] or "")
    return stage, -int(match[1]), -int(match[3] or 0), ""


def digest(value: Any) -> str:
    """Return a hash of a JSON value, for ETags."""
    return hashlib.sha512(msgspec.json.encode(value)).hexdigest()[:64].upper()

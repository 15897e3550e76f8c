"""Which resources are served, under which versions, and how each is kept."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from holdfast.api.resource import Resource
from holdfast.apiserver.kinds import policies
from holdfast.apiserver.schema.structural import Schema
from holdfast.errors import NotFound
from holdfast.store import Key


@dataclass(frozen=True, slots=True)
class Custom:
    """What a CustomResourceDefinition says about one of its versions."""

    schema: Schema
    scale: Mapping[str, str] | None = None
    selectable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Served:
    """One resource in one version; ``custom`` is set for custom resources only."""

    resource: Resource[Any]
    stored_as: str = ""
    """The apiVersion written to the store; another one is renamed on the way out and in."""
    custom: Custom | None = None
    list_kind: str = ""
    home: policies.Id | None = None
    """Where the objects are kept, if that is another group's collection."""
    words: Mapping[str, str] = field(default_factory=dict)
    """What stored fields are called in this version, where it calls them otherwise."""

    @property
    def id(self) -> policies.Id:
        """The group and plural, which policies and the store go by."""
        return self.home or (self.resource.group, self.resource.plural)

    @property
    def has_status(self) -> bool:
        """Whether status is written apart from the rest."""
        return "status" in self.resource.subresources

    @property
    def counts_generations(self) -> bool:
        """Whether ``metadata.generation`` rises with the spec."""
        return self.custom is not None or self.id in policies.COUNTS_GENERATIONS

    @property
    def needs_version(self) -> bool:
        """Whether a PUT must say which version it replaces."""
        return self.custom is not None or self.id in policies.NEEDS_VERSION

    def key(self, namespace: str, name: str) -> Key:
        """Name an object of this resource in the store."""
        return Key(*self.id, namespace if self.resource.namespaced else "", name)


@dataclass(slots=True)
class Registry:
    """Every served resource, found by group, version and plural."""

    _served: dict[tuple[str, str, str], Served] = field(default_factory=dict)
    _versions: set[tuple[str, str]] = field(default_factory=set)
    generation: int = 0
    """Rises with every change, so that discovery documents know when they are stale."""

    @classmethod
    def of(cls, resources: Iterable[Resource[Any]]) -> Registry:
        """Serve the given built-in resources, each in its first version."""
        registry = cls()
        for resource in resources:
            # A second version of another shape needs conversion, which is not built.
            if registry.lookup(resource.group, resource.plural) is None:
                registry.add(Served(resource, resource.api_version, None, f"{resource.kind}List"))
        return registry

    def add(self, served: Served) -> None:
        """Serve one more resource, or serve it differently."""
        r = served.resource
        self._served[r.group, r.version, r.plural] = served
        self._versions.add((r.group, r.version))
        self.generation += 1

    def remove(self, group: str, plural: str) -> None:
        """Serve no version of a resource any more."""
        for key in [k for k in self._served if (k[0], k[2]) == (group, plural)]:
            del self._served[key]
        self._versions = {key[:2] for key in self._served}
        self.generation += 1

    def serves(self, group: str, version: str) -> bool:
        """Tell whether anything of a group version is served."""
        return (group, version) in self._versions

    def find(self, group: str, version: str, plural: str) -> Served:
        """Find a served resource, or raise the 404 of an unknown path."""
        served = self._served.get((group, version, plural))
        if served is None:
            raise NotFound("the server could not find the requested resource")
        return served

    def lookup(self, group: str, plural: str) -> Served | None:
        """Find any version of a resource."""
        return next((s for s in self if s.id == (group, plural)), None)

    def groups(self) -> dict[str, dict[str, list[Served]]]:
        """Sort everything served by group, the core group first, and version, the best first."""
        tree: dict[str, dict[str, list[Served]]] = {}
        for served in self:
            r = served.resource
            tree.setdefault(r.group, {}).setdefault(r.version, []).append(served)
        return {group: dict(sorted(found.items(), key=_rank)) for group, found in tree.items()}

    def __iter__(self) -> Iterator[Served]:
        return iter(self._served.values())


_VERSION = re.compile(r"v([1-9]\d{0,8})(?:(alpha|beta)([1-9]\d{0,8}))?")


def _rank(entry: tuple[str, object]) -> tuple[int, int, int, str]:
    """Order versions as Kubernetes does: stable, beta, alpha, each newest first; then others.

    >>> sorted([("foo", 0), ("v1alpha1", 0), ("v2", 0), ("v1beta2", 0), ("v10", 0)], key=_rank)
    [('v10', 0), ('v2', 0), ('v1beta2', 0), ('v1alpha1', 0), ('foo', 0)]
    """
    version = entry[0]
    found = _VERSION.fullmatch(version)
    if found is None:
        return 3, 0, 0, version
    stage = ("", "beta", "alpha").index(found[2] or "")
    return stage, -int(found[1]), -int(found[3] or 0), ""


def digest(value: Any) -> str:
    """Name a JSON value's content, for ETags."""
    return hashlib.sha512(msgspec.json.encode(value)).hexdigest()[:64].upper()

"""Resources: REST path, kind and Python type of API objects."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """Group, version, names and Python type of a resource.

    Resources are equal if group, version and plural are.
    """

    group: str
    version: str
    plural: str
    kind: str = field(compare=False)
    type: type[T] = field(compare=False, repr=False)
    namespaced: bool = field(default=True, compare=False)
    short_names: tuple[str, ...] = field(default=(), compare=False)
    categories: tuple[str, ...] = field(default=(), compare=False)
    subresources: tuple[str, ...] = field(default=(), compare=False)
    verbs: tuple[str, ...] = field(default=VERBS, compare=False, repr=False)

    @property
    def api_version(self) -> str:
        """``group/version``, or the bare version for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        """The singular name that kubectl accepts: the lower-case kind."""
        return self.kind.lower()

    @property
    def untyped(self) -> Untyped:
        """The same resource with objects as dictionaries, which keep every field."""
        return replace(cast("Resource[Any]", self), type=dict)

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, the object or its subresource.

        >>> Resource("apps", "v1", "deployments", "Deployment", dict).path("web", "a", "scale")
        '/apis/apps/v1/namespaces/web/deployments/a/scale'
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        if name:
            tail = f"/{name}/{subresource}" if subresource else f"/{name}"
        else:
            tail = f"/{subresource}" if subresource else ""
        return f"{root}{scope}/{self.plural}{tail}"


Untyped = Resource[dict[str, Any]]

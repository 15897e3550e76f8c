"""The descriptor of a kind: its schema, admission, validation, printer, deletion and so on.

The verbs read all rules of a kind from its descriptor, so that no verb depends on a single kind.
Descriptors of built-in kinds are under ``kinds``; the descriptor of a custom resource is built from
its CRD. Every part except the Resource has a default.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from holdfast.api import names
from holdfast.api.decode import JsonObject
from holdfast.api.defaults import default_object
from holdfast.api.resource import Resource
from holdfast.api.validation.counting import Tree
from holdfast.api.validation.list_limits import ANY_TREE
from holdfast.runtime.errors import Cause
from holdfast.runtime.feature_gates import Feature
from holdfast.server.schema.fields import Gvk
from holdfast.server.schema.object_schema import (
    BuiltInSchema,
    CustomResourceSchema,
    ObjectSchema,
)
from holdfast.server.schema.structural import StructuralSchema
from holdfast.server.store import ObjectKey
from holdfast.server.tables.printer import NAME_AGE, Printer
from holdfast.server.unimplemented_features import FULLY_IMPLEMENTED, UnimplementedFeatures

if TYPE_CHECKING:
    from holdfast.server.operation import Operation
    from holdfast.server.wire.responses import ServerResponse

from holdfast.api.resource import VERBS, Untyped

GroupResource = tuple[str, str]
"""A group and the plural name of a resource."""
OperationHandler = Callable[["Operation"], Awaitable["ServerResponse"]]
ObjectCheck = Callable[[JsonObject, JsonObject | None], Iterable[Cause]]
"""Yield what is wrong with the new object; the second is the stored one, None on create."""
RequestCheck = Callable[["Operation", JsonObject, JsonObject | None], Iterable[Cause]]
"""Like ObjectCheck, for rules about the request: its user, its subresource, other objects."""
AdmissionFunction = Callable[["Operation", JsonObject, JsonObject | None], Awaitable[None] | None]
"""Change or reject a new object; the second object is the stored one, None on create.

A plugin that must wait, such as a webhook, returns an awaitable.
"""
_SCALE_PATHS: Mapping[str, str] = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
}


def new_object_check(check: Callable[[JsonObject], Iterable[Cause]]) -> ObjectCheck:
    """Return a check that looks at the new object only."""
    return lambda new, old: check(new)


@dataclass(frozen=True, slots=True)
class AdmissionPlugin:
    """An admission plugin: ``mutate`` runs before validation, ``validate`` after it.

    Both are called with the operation, the new object and the stored one (None on create), also
    for writes of subresources (see ``operation.request_info``). ``delete`` is called with the
    operation and the stored object before it is deleted or evicted. A plugin raises an exception
    to reject the request and appends to ``operation.warnings`` to warn the client.
    """

    mutate: AdmissionFunction | None = None
    validate: AdmissionFunction | None = None
    delete: Callable[[Operation, JsonObject], None] | None = None


@dataclass(frozen=True, slots=True)
class Conversion:
    """Conversion between a served version and the storage version."""

    to_stored: Callable[[JsonObject], JsonObject]
    from_stored: Callable[[JsonObject], JsonObject]
    field_path: Callable[[str], str] = str
    """Convert the path in a field selector to the path in the storage version."""


@dataclass(frozen=True, slots=True)
class SelectableField:
    """A field that a field selector may name."""

    path: tuple[str, ...]
    absent: str = ""
    """The value that an absent field counts as."""
    indexed: bool = False
    """Whether the store has an index of the field (``store.indexing``)."""


def selectable_fields(
    *paths: str, absent: str = "", indexed: bool = False
) -> dict[str, SelectableField]:
    """Return selectable fields whose names are their paths.

    >>> selectable_fields("spec.type")["spec.type"].path
    ('spec', 'type')
    """
    return {path: SelectableField(tuple(path.split(".")), absent, indexed) for path in paths}


def _set_grace(obj: JsonObject, grace_seconds: int) -> None:
    obj["metadata"]["deletionGracePeriodSeconds"] = grace_seconds


@dataclass(frozen=True, slots=True)
class DeletionStrategy:
    """How objects of a kind are deleted, besides finalizers and preconditions."""

    grace_seconds: Callable[[JsonObject, int | None], int] | None = None
    """Return the grace period, given the requested one; None: objects have no grace period."""
    mark_deleting: Callable[[JsonObject, int], None] = _set_grace
    """Change an object whose deletionTimestamp was just set."""
    blocks_removal: Callable[[JsonObject], bool] = lambda obj: False
    """Return whether something besides metadata.finalizers blocks the removal of the object."""
    finalizer: str = ""
    """A finalizer that the server adds when the deletion of an object begins."""
    has_dependents: bool = True
    """Whether objects may have the finalizers of garbage collection."""
    orphans_by_default: bool = False
    """Whether the default propagation policy is Orphan."""
    returns_object: bool = False
    """Whether the response is the deleted object instead of a Status."""
    protected_names: frozenset[str] = frozenset()
    """Names of objects that cannot be deleted."""


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource: its handlers by verb, and its kind."""

    handlers: Mapping[str, OperationHandler] = field(default_factory=dict)
    verbs: tuple[str, ...] = ()
    """The verbs in discovery."""
    kind: Gvk | None = None
    """The kind of its requests and responses, if it is not that of the parent resource."""
    unimplemented: str = ""
    """What is not implemented, for the error message; such a subresource has no handlers."""


@dataclass(frozen=True, slots=True)
class KindDescriptor:
    """One version of a kind, and all that the server needs to serve it."""

    resource: Resource[Any]
    _: KW_ONLY
    storage_version: KindDescriptor | None = None
    """The descriptor of the storage version, if this is another version.

    Admission and validation get objects in the storage version."""
    conversion: Conversion | None = None
    """None if only ``apiVersion`` differs from the storage version."""
    group_resource: GroupResource = field(init=False)
    """The group and plural under which its objects are stored."""
    storage_api_version: str = ""
    """The apiVersion written to the store; by default that of the storage version."""
    list_kind: str = ""
    feature: Feature | None = None
    """The feature gate that must be on for the kind to be served."""
    deprecation: str = ""
    """The warning that every response gets, for a deprecated version."""
    is_alias: bool = False
    """Whether the version is an alias: responses to writes have the storage version instead."""
    crd_name: str = ""
    """The name of its CustomResourceDefinition; empty for a built-in kind."""

    structural_schema: StructuralSchema | None = None
    """The schema of the CRD; None for a built-in kind, which has ``defaults`` instead."""
    defaults: Callable[[JsonObject, str], None] = default_object
    """Set defaults in place, given the time as RFC 3339."""
    object_schema: ObjectSchema = field(init=False)
    storage_schema: ObjectSchema = field(init=False)

    pod_spec: tuple[str, ...] = ()
    """The path of the spec of a pod in its objects; empty: they have none."""
    name_check: names.NameCheck = names.dns_subdomain
    list_limits: Tree = field(default_factory=lambda: ANY_TREE)
    """The limits on the lengths of lists and maps."""
    checks: tuple[ObjectCheck, ...] = ()
    """Checks that are not applied to writes of the status alone or of an unchanged object."""
    request_checks: tuple[RequestCheck, ...] = ()
    """Checks that are applied to every write."""
    immutable_fields: tuple[str, ...] = ()
    """Paths of immutable fields."""
    admission_plugins: tuple[AdmissionPlugin, ...] = ()
    unimplemented: UnimplementedFeatures = FULLY_IMPLEMENTED

    printer: Printer = NAME_AGE
    """The printer columns; the printer gets objects in this version."""
    selectable_fields: Mapping[str, SelectableField] = field(default_factory=dict)
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    """Subresources besides status and scale, which all kinds share (``verbs.subresources``)."""
    scale: Mapping[str, str] | None = field(default_factory=lambda: _SCALE_PATHS)
    deletion: DeletionStrategy = DeletionStrategy()
    has_generation: bool = False
    """Whether ``metadata.generation`` rises when the object changes."""
    requires_resource_version: bool = False
    """Whether an update must contain the resourceVersion it replaces."""
    keeps_status_on_create: bool = False
    fields_kept_on_update: tuple[str, ...] = ()
    """Top-level fields that an update does not change; a subresource writes them."""
    status_metadata: tuple[str, ...] = ("labels", "annotations")
    """The metadata fields that a write of the status changes too."""
    handler: OperationHandler | None = None
    """Handles every request for the resource; its objects are not stored."""
    is_namespace: bool = False
    """Whether this is the kind Namespace: the namespace in a path is the object itself."""
    defines_resources: bool = False
    """Whether this is the kind CustomResourceDefinition: a write changes what is served."""

    def __post_init__(self) -> None:
        r, stored = self.resource, self.storage_version
        shape = (
            BuiltInSchema(r, self.defaults)
            if self.structural_schema is None
            else CustomResourceSchema(self.structural_schema)
        )
        for name, value in (
            ("group_resource", stored.group_resource if stored else (r.group, r.plural)),
            ("storage_api_version", self.storage_api_version or r.api_version),
            ("list_kind", self.list_kind or f"{r.kind}List"),
            ("object_schema", shape),
            ("storage_schema", stored.object_schema if stored else shape),
        ):
            object.__setattr__(self, name, value)

    def in_version(
        self, resource: Resource[Any], conversion: Conversion | None = None
    ) -> KindDescriptor:
        """Return the descriptor of another version, whose storage version is this one."""
        return replace(self, resource=resource, storage_version=self, conversion=conversion)

    @property
    def has_status(self) -> bool:
        """Whether the kind has the status subresource."""
        return "status" in self.resource.subresources

    def key(self, namespace: str, name: str) -> ObjectKey:
        """Return the store key of an object."""
        return ObjectKey(*self.group_resource, namespace if self.resource.namespaced else "", name)


def untyped_resource(
    group: str,
    plural: str,
    kind: str,
    *,
    version: str = "v1",
    namespaced: bool = True,
    short: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    parts: tuple[str, ...] = (),
    verbs: tuple[str, ...] = VERBS,
) -> Untyped:
    """Return a resource whose objects are dicts; ``parts`` are its subresources.

    Resources whose objects are decoded to types are in ``api.scheme``.
    """
    return Resource(
        group,
        version,
        plural,
        kind,
        dict,
        namespaced=namespaced,
        short_names=short,
        categories=categories,
        subresources=parts,
        verbs=verbs,
    )

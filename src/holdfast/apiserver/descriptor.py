"""What the server knows of one kind: the descriptor, and the parts it is made of.

The verbs read a kind's rules here and nowhere else, so that they never ask which kind they have.
A built-in kind is an entry under ``kinds``, a custom resource makes the same descriptor from its
definition. Every part has a default: the descriptor of a kind without rules of its own is its
Resource alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from holdfast.api import names
from holdfast.api.decode import JsonObject
from holdfast.api.defaults import default_object
from holdfast.api.resource import Resource
from holdfast.apiserver.schema.object_schema import (
    BuiltInSchema,
    CustomResourceSchema,
    ObjectSchema,
)
from holdfast.apiserver.schema.structural import StructuralSchema
from holdfast.apiserver.tables.printer import NAME_AGE, Printer
from holdfast.apiserver.unimplemented_features import FULLY_IMPLEMENTED, UnimplementedFeatures
from holdfast.errors import Cause
from holdfast.store import ObjectKey
from holdfast.validation.counting import Tree
from holdfast.validation.list_limits import ANY_TREE

if TYPE_CHECKING:
    from holdfast.apiserver.operation import Operation
    from holdfast.client.transport import Response

GroupResource = tuple[str, str]
"""A group and a plural."""
Gvk = tuple[str, str, str]
"""A group, version and kind."""
Handler = Callable[["Operation"], Awaitable["Response"]]
ObjectCheck = Callable[[JsonObject, JsonObject | None], Iterable[Cause]]
"""List what is wrong with an object that is new, or that changes from the second."""
AdmissionFunction = Callable[["Operation", JsonObject, JsonObject | None], Awaitable[None] | None]
"""Take part in a write of the first object in place of the second, which a new one has not.

An admitter that must wait, such as a webhook, returns what to wait for.
"""
_SCALE_PATHS: Mapping[str, str] = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
}


def new_object_check(check: Callable[[JsonObject], Iterable[Cause]]) -> ObjectCheck:
    """Make a check of what an object says, whatever it said before."""
    return lambda new, old: check(new)


@dataclass(frozen=True, slots=True)
class AdmissionPlugin:
    """One step of admission: it may change an object before validation and refuse it after.

    Both are called with the operation, the new object and the stored one (None on create), also
    for writes of subresources; ``operation.call`` tells which. A refusal is an exception, a
    remark to the client goes to ``operation.warnings``.
    """

    mutate: AdmissionFunction | None = None
    validate: AdmissionFunction | None = None


@dataclass(frozen=True, slots=True)
class Conversion:
    """How a version that is not the stored one translates."""

    to_stored: Callable[[JsonObject], JsonObject]
    from_stored: Callable[[JsonObject], JsonObject]
    field_path: Callable[[str], str] = str
    """The path in the stored version of a field that a field selector names in this one."""


@dataclass(frozen=True, slots=True)
class SelectableField:
    """A field that ``?fieldSelector=`` may name."""

    path: tuple[str, ...]
    absent: str = ""
    """What an absent field reads as."""
    indexed: bool = False
    """Whether the store has an index of the field (``store.indexing``)."""


def selectable_fields(
    *paths: str, absent: str = "", indexed: bool = False
) -> dict[str, SelectableField]:
    """Describe selectable fields that are read where their name says.

    >>> selectable_fields("spec.type")["spec.type"].path
    ('spec', 'type')
    """
    return {path: SelectableField(tuple(path.split(".")), absent, indexed) for path in paths}


def _set_grace(obj: JsonObject, grace_seconds: int) -> None:
    obj["metadata"]["deletionGracePeriodSeconds"] = grace_seconds


@dataclass(frozen=True, slots=True)
class DeletionStrategy:
    """What happens to an object that is deleted, besides finalizers and preconditions."""

    grace_seconds: Callable[[JsonObject, int | None], int] | None = None
    """Seconds an object gets, of those a client asked for; a kind without ends at once."""
    mark_deleting: Callable[[JsonObject, int], None] = _set_grace
    """Complete an object whose deletion begins and which has its deletionTimestamp."""
    blocks_removal: Callable[[JsonObject], bool] = lambda obj: False
    """Whether something besides metadata.finalizers keeps a dying object."""
    finalizer: str = ""
    """The finalizer that the server adds to an object whose deletion begins."""
    has_dependents: bool = True
    """Whether garbage collection may put its finalizers on an object."""
    orphans_by_default: bool = False
    """Whether dependents are orphaned unless a client says otherwise."""
    returns_object: bool = False
    """Whether the answer is the deleted object, not a Status."""
    protected_names: frozenset[str] = frozenset()
    """Names that cannot be deleted."""


@dataclass(frozen=True, slots=True)
class Subresource:
    """What hangs below an object's name: who answers which verb, and with what kind."""

    handlers: Mapping[str, Handler] = field(default_factory=dict)
    verbs: tuple[str, ...] = ()
    """The verbs that discovery lists."""
    kind: Gvk | None = None
    """The kind it reads and answers with, if that is not its parent's."""
    unimplemented: str = ""
    """What is not built of it, if nothing is."""


@dataclass(frozen=True, slots=True)
class KindDescriptor:
    """One kind in one version, and everything the server knows about it."""

    resource: Resource[Any]
    _: KW_ONLY
    storage_version: KindDescriptor | None = None
    """The stored version, if this is another one; admission and validation see its objects."""
    conversion: Conversion | None = None
    """None: the version differs from the stored one in ``apiVersion`` alone, if at all."""
    group_resource: GroupResource = field(init=False)
    """The group and plural its objects are stored under."""
    storage_api_version: str = ""
    """The apiVersion written to the store: that of the stored version by default."""
    list_kind: str = ""
    crd_name: str = ""
    """The name of the CustomResourceDefinition that describes it; a built-in kind has none."""

    structural_schema: StructuralSchema | None = None
    """Fields, list types and defaults; None: the published schema of the kind, and ``defaults``."""
    defaults: Callable[[JsonObject, str], None] = default_object
    """Fill in absent fields, given the time as RFC 3339; ``default_object`` knows kinds by name."""
    object_schema: ObjectSchema = field(init=False)
    storage_schema: ObjectSchema = field(init=False)

    name_check: names.NameCheck = names.dns_subdomain
    list_limits: Tree = field(default_factory=lambda: ANY_TREE)
    """How many entries lists and maps may have."""
    checks: tuple[ObjectCheck, ...] = ()
    immutable_fields: tuple[str, ...] = ()
    """Paths of fields that cannot change."""
    admission_plugins: tuple[AdmissionPlugin, ...] = ()
    unimplemented: UnimplementedFeatures = FULLY_IMPLEMENTED

    printer: Printer = NAME_AGE
    """Sees objects in this version."""
    selectable_fields: Mapping[str, SelectableField] = field(default_factory=dict)
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    """Those that are not the same for all kinds (``verbs.subresources``)."""
    scale: Mapping[str, str] | None = field(default_factory=lambda: _SCALE_PATHS)
    deletion: DeletionStrategy = DeletionStrategy()
    has_generation: bool = False
    """Whether ``metadata.generation`` rises with the content."""
    requires_resource_version: bool = False
    """Whether a PUT must say which version it replaces."""
    keeps_status_on_create: bool = False
    fields_kept_on_update: tuple[str, ...] = ()
    """Parts that an update leaves as they are: a subresource writes them."""
    status_metadata: tuple[str, ...] = ("labels", "annotations")
    """What of the metadata a write of the status carries."""
    handler: Handler | None = None
    """Answers every call on the resource: nothing is stored."""
    is_namespace: bool = False
    """Whether the namespace in a path is the object itself."""
    defines_resources: bool = False
    """Whether a write may change what is served."""

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
        """Describe another version of the kind, stored where and as this one is."""
        return replace(self, resource=resource, storage_version=self, conversion=conversion)

    @property
    def has_status(self) -> bool:
        """Whether status is written apart from the rest."""
        return "status" in self.resource.subresources

    def key(self, namespace: str, name: str) -> ObjectKey:
        """Name an object of this resource in the store."""
        return ObjectKey(*self.group_resource, namespace if self.resource.namespaced else "", name)

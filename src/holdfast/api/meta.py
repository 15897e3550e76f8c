"""Common parts of objects: metadata, owner references, label selectors, conditions."""

from __future__ import annotations

from typing import Any

import msgspec


class Struct(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False
):
    """A read-only API value: camelCase in JSON, defaults are omitted."""


class OwnerReference(Struct, frozen=True):
    """An owner of the object; at most one owner is the controller."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Struct, frozen=True):
    """Metadata of an object."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Requirement(Struct, frozen=True):
    """One expression of a label or node selector."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True):
    """Pairs and expressions, all ANDed; empty matches everything, absent matches nothing."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()


class Condition(Struct, frozen=True):
    """A condition of an object and the time of its last transition."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_transition_time: str | None = None
    last_probe_time: str | None = None
    last_update_time: str | None = None
    last_heartbeat_time: str | None = None


class ObjectReference(Struct, frozen=True):
    """A reference to an object of any kind."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class Object(Struct, frozen=True):
    """The fields of every API object; unknown kinds are decoded as this."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        """The name, unique in its namespace."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """The namespace, empty for cluster-scoped kinds."""
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        """The uid; a recreated object has another one."""
        return self.metadata.uid

    @property
    def key(self) -> str:
        """``namespace/name``, or the bare name for cluster-scoped kinds."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


def controller_of(obj: Object) -> OwnerReference | None:
    """Return the owner reference of the object's controller, or None."""
    return next((o for o in obj.metadata.owner_references if o.controller), None)


def is_controlled_by(obj: Object, owner: Object) -> bool:
    """Return whether ``owner`` is the object's controller, by uid."""
    controller = controller_of(obj)
    return controller is not None and controller.uid == owner.uid


def owner_reference(
    api_version: str, kind: str, owner: Object, *, block: bool = True
) -> dict[str, Any]:
    """Return a raw controller reference to ``owner``."""
    reference: dict[str, Any] = {
        "apiVersion": api_version, "kind": kind, "name": owner.name, "uid": owner.uid,
        "controller": True,
    }  # fmt: skip
    return reference | {"blockOwnerDeletion": True} if block else reference


def version_guard(obj: Object) -> dict[str, str]:
    """Return the metadata of a patch that fails if the object was changed or replaced."""
    return {"uid": obj.uid, "resourceVersion": obj.metadata.resource_version}


def is_newer(obj: Object, known: Object) -> bool:
    """Return whether an object is a newer version than the known one, or another object.

    Every version of what we write is read twice: in the response and in the watch.
    """
    mine, theirs = obj.metadata.resource_version, known.metadata.resource_version
    return obj.uid != known.uid or is_later(mine, theirs)


def is_later(version: str, than: str) -> bool:
    """Return whether a resourceVersion is later than another one, or is not comparable with it."""
    return not (version.isdigit() and than.isdigit()) or int(version) > int(than)

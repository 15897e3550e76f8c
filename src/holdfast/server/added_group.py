"""What a group that is not one of Kubernetes adds to the parts of the server that know all groups.

Its kinds are descriptors in ``kinds`` like any others. ``added_groups`` lists the groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.api.decode import JsonMapping, JsonObject
from holdfast.server.wire.request_info import RequestInfo

REF = "#/components/schemas/"
"""The prefix of a reference to a published type."""
GroupResource = tuple[str, str]
Resources = tuple[tuple[str, tuple[str, ...]], ...]
"""Plurals by group."""


def policy_rule(group: str, resources: list[str], verbs: list[str]) -> JsonObject:
    """Return a rule of a role."""
    return {"verbs": verbs, "apiGroups": [group], "resources": resources}


@dataclass(frozen=True, slots=True)
class AddedFields:
    """Fields of published types, as schemas of OpenAPI."""

    properties: Mapping[str, Mapping[str, dict[str, Any]]]
    """By type and field; a type that is not published has no others."""
    descriptions: Mapping[str, str]
    """Of the types that are not published."""


@dataclass(frozen=True, slots=True)
class PodSpecForms:
    """How pod specs are changed before they are stored; both return a spec unchanged, or a copy."""

    typed: Callable[[JsonObject], JsonObject]
    """Converts the forms that are accepted to the one that is stored."""
    kept: Callable[[JsonObject, Mapping[str, Any]], JsonObject]
    """Restores from the stored spec what a client that does not know a field has dropped."""


@dataclass(frozen=True, slots=True)
class AddedRights:
    """Rights of the roles that a cluster starts with."""

    workloads: Resources
    """Resources that the users of a namespace may write."""
    read_only: Resources
    """Resources that they may only read."""
    rules: Mapping[str, Sequence[JsonObject]]
    """More rules of other roles, by the name of the role."""
    roles: Mapping[str, list[JsonObject]]
    """Roles of the group, by name."""
    bound: Mapping[str, str]
    """The group of users that gets a role, by the name of the role."""


@dataclass(frozen=True, slots=True)
class NodeObject:
    """What a node may do with the object of a kind that is its own; "" or None is no objection."""

    refusal: Callable[[str, RequestInfo], str | None]
    """Returns why a node, by name, may not make a request."""
    wrong: Callable[[str, JsonObject], str]
    """Returns why a node may not write an object."""


@dataclass(frozen=True, slots=True)
class NodeAccess:
    """What nodes may read and write."""

    referenced: Mapping[GroupResource, str]
    """Resources of which a node may read what its pods refer to, with the name of the resource in
    ``references``."""
    references: Callable[[JsonMapping], Iterable[tuple[str, str]]]
    """Returns resource and name of what a pod refers to."""
    annotations: Sequence[str]
    """Annotations of pods with such references: a node may not change them."""
    objects: Mapping[GroupResource, NodeObject]


@dataclass(frozen=True, slots=True)
class AddedGroup:
    """What a group adds."""

    fields: AddedFields
    pod_specs: PodSpecForms
    rights: AddedRights
    nodes: NodeAccess

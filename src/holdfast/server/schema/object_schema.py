"""The schema of a kind as the verbs use it: pruning, defaulting, validation, strategic merge.

A built-in kind has its published schema and a function that sets defaults; a custom resource has
its structural schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from holdfast.api.decode import JsonObject, without_nulls
from holdfast.api.resource import Resource
from holdfast.runtime.errors import BadRequest, Cause
from holdfast.server.schema import field_validation
from holdfast.server.schema.strategic_merge_patch import strategic_merge
from holdfast.server.schema.structural import StructuralSchema

MergeFunction = Callable[[JsonObject, Mapping[str, Any]], JsonObject]


class ObjectSchema(Protocol):
    """The schema of a kind."""

    def prune(self, obj: JsonObject) -> tuple[JsonObject, list[str]]:
        """Return a copy of an object without unknown fields, and their paths."""
        ...

    def default(self, obj: JsonObject, now: str) -> JsonObject:
        """Set defaults, in place or in a copy, and return the object."""
        ...

    def violations(self, new: JsonObject, old: JsonObject | None) -> list[Cause]:
        """Return the violations of the schema by a new or changed object."""
        ...

    def is_unchanged(self, new: JsonObject, old: JsonObject) -> bool:
        """Return whether an invalid write is allowed because the stored object is the same."""
        ...

    @property
    def merge(self) -> MergeFunction | None:
        """The function that applies a strategic merge patch; None if it is not supported."""
        ...


@dataclass(frozen=True, slots=True)
class BuiltInSchema:
    """The schema of a built-in kind; pruning raises BadRequest for wrong types."""

    resource: Resource[Any]
    defaults: Callable[[JsonObject, str], None]

    def prune(self, obj: JsonObject) -> tuple[JsonObject, list[str]]:
        """Return a copy of an object without unknown fields, and their paths."""
        return field_validation.prune(self.resource, obj)

    def default(self, obj: JsonObject, now: str) -> JsonObject:
        """Set defaults in place."""
        self.defaults(obj, now)
        return obj

    def violations(self, new: JsonObject, old: JsonObject | None) -> list[Cause]:
        """Return nothing: the published schemas contain types only."""
        return []

    def is_unchanged(self, new: JsonObject, old: JsonObject) -> bool:
        """Return whether a defaulted object equals the stored one after defaulting.

        Metadata and status are not compared. An object of an older server may lack defaults,
        contain nulls, or have wrong types.
        """
        before = without_nulls(old)
        with suppress(AttributeError, TypeError, BadRequest):
            self.defaults(before, "")
        return not content_changed(without_nulls(new), before)

    @property
    def merge(self) -> MergeFunction | None:
        """The strategic merge by the merge keys of the published schema."""
        return partial(strategic_merge, self.resource)


@dataclass(frozen=True, slots=True)
class CustomResourceSchema:
    """The schema of a custom resource."""

    structural_schema: StructuralSchema

    def prune(self, obj: JsonObject) -> tuple[JsonObject, list[str]]:
        """Return a copy of an object without unknown fields, and their paths."""
        return self.structural_schema.prune(obj)

    def default(self, obj: JsonObject, now: str) -> JsonObject:
        """Return a copy of an object with defaults."""
        return self.structural_schema.default(obj)

    def violations(self, new: JsonObject, old: JsonObject | None) -> list[Cause]:
        """Return the violations of the schema that the stored object does not have."""
        return self.structural_schema.validate(new, old)

    def is_unchanged(self, new: JsonObject, old: JsonObject) -> bool:
        """Return False: ``violations`` already ignores unchanged values."""
        return False

    @property
    def merge(self) -> MergeFunction | None:
        """None: as upstream, custom resources have no strategic merge."""
        return None


def content_changed(new: JsonObject, old: JsonObject) -> bool:
    """Return whether anything but metadata and status differs, as for a new generation."""
    apart = ("kind", "apiVersion", "metadata", "status")
    return {k: v for k, v in new.items() if k not in apart} != {
        k: v for k, v in old.items() if k not in apart
    }

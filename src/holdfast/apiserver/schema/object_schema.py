"""The shape of a kind's objects: which fields they have, their defaults, how their lists merge.

The shape of a built-in kind is its published schema and a function that fills in defaults, that of
a custom resource its structural schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from holdfast.api.decode import JsonObject, without_nulls
from holdfast.api.resource import Resource
from holdfast.apiserver.schema import field_validation
from holdfast.apiserver.schema.strategic_merge_patch import strategic_merge
from holdfast.apiserver.schema.structural import StructuralSchema
from holdfast.errors import BadRequest, Cause

MergeFunction = Callable[[JsonObject, Mapping[str, Any]], JsonObject]


class ObjectSchema(Protocol):
    """What the verbs ask of a kind's schema."""

    def prune(self, obj: JsonObject) -> tuple[JsonObject, list[str]]:
        """Copy an object without unknown fields; also list their paths."""
        ...

    def default(self, obj: JsonObject, now: str) -> JsonObject:
        """Fill in absent fields, in place or in a copy."""
        ...

    def violations(self, new: JsonObject, old: JsonObject | None) -> list[Cause]:
        """List what of a new or changed object breaks the schema."""
        ...

    def is_unchanged(self, new: JsonObject, old: JsonObject) -> bool:
        """Tell whether a write that is wrong may pass: it says what is stored already."""
        ...

    @property
    def merge(self) -> MergeFunction | None:
        """Apply a strategic merge patch; None if the schema declares no merge keys."""
        ...


@dataclass(frozen=True, slots=True)
class BuiltInSchema:
    """The shape of a built-in kind; what has the wrong type is refused when it is pruned."""

    resource: Resource[Any]
    defaults: Callable[[JsonObject, str], None]

    def prune(self, obj: JsonObject) -> tuple[JsonObject, list[str]]:
        """Copy an object without unknown fields; also list their paths."""
        return field_validation.prune(self.resource, obj)

    def default(self, obj: JsonObject, now: str) -> JsonObject:
        """Fill in absent fields in place."""
        self.defaults(obj, now)
        return obj

    def violations(self, new: JsonObject, old: JsonObject | None) -> list[Cause]:
        """List nothing: the published schemas say no more than types."""
        return []

    def is_unchanged(self, new: JsonObject, old: JsonObject) -> bool:
        """Tell whether a defaulted object equals the stored one once that is defaulted too.

        Metadata and status are not compared.
        What an older server stored may lack defaults, have nulls, or have any shape.
        """
        before = without_nulls(old)
        with suppress(AttributeError, TypeError, BadRequest):
            self.defaults(before, "")
        return not content_changed(without_nulls(new), before)

    @property
    def merge(self) -> MergeFunction | None:
        """Merge lists by the keys the published schema declares."""
        return partial(strategic_merge, self.resource)


@dataclass(frozen=True, slots=True)
class CustomResourceSchema:
    """The shape of a kind with a structural schema."""

    structural_schema: StructuralSchema

    def prune(self, obj: JsonObject) -> tuple[JsonObject, list[str]]:
        """Copy an object without unknown fields; also list their paths."""
        return self.structural_schema.prune(obj)

    def default(self, obj: JsonObject, now: str) -> JsonObject:
        """Copy an object with absent fields filled in."""
        return self.structural_schema.default(obj)

    def violations(self, new: JsonObject, old: JsonObject | None) -> list[Cause]:
        """List what breaks the schema and did not break it before."""
        return self.structural_schema.validate(new, old)

    def is_unchanged(self, new: JsonObject, old: JsonObject) -> bool:
        """Tell nothing: the schema lets pass by itself what is stored already."""
        return False

    @property
    def merge(self) -> MergeFunction | None:
        """Know no merge keys: upstream's custom resources declare none either."""
        return None


def content_changed(new: JsonObject, old: JsonObject) -> bool:
    """Tell whether anything but metadata and status differs: that is a new generation."""
    apart = ("kind", "apiVersion", "metadata", "status")
    return {k: v for k, v in new.items() if k not in apart} != {
        k: v for k, v in old.items() if k not in apart
    }

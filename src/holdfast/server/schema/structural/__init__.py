"""The structural schema of a custom resource: pruning, defaulting, validation, CEL rules.

Lives here: everything about an ``openAPIV3Schema``. No I/O. May not live here: names, conditions
and versions of CRDs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, islice
from typing import Any

import msgspec

from holdfast.runtime.errors import CAUSE_LIMIT, Cause, Details, Invalid
from holdfast.server import data
from holdfast.server.schema.structural.node import ABSENT, SchemaNode, compile_node
from holdfast.server.schema.structural.pruning_and_defaulting import apply_defaults, prune
from holdfast.server.schema.structural.rule_evaluation import broken_rules
from holdfast.server.schema.structural.rule_validation import rule_problems
from holdfast.server.schema.structural.schema_validation import (
    default_problems,
    structural_problems,
)
from holdfast.server.schema.structural.value_validation import duplicates, violations

__all__ = ["StructuralSchema", "shipped_crds"]


@dataclass(frozen=True, slots=True)
class StructuralSchema:
    """The compiled schema of one version."""

    root: SchemaNode
    source: bytes = field(repr=False)
    """The schema as JSON."""

    @classmethod
    def compile(cls, schema: Mapping[str, Any]) -> StructuralSchema:
        """Compile an ``openAPIV3Schema``.

        Raises Invalid if it is not structural; the paths of the causes are relative to the schema,
        such as ``properties[spec].type``.
        """
        source = msgspec.json.encode(schema)
        return cls(_compiled(source), source)

    def rule_problems(self) -> list[Cause]:
        """Return what is wrong with the CEL rules, for a new CRD: errors, and too high a cost."""
        return list(_rule_problems(self.source))

    def prune(self, obj: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Return a copy of an object without unknown fields, and their paths.

        The paths are for the messages of field validation.
        """
        dropped: list[str] = []
        return prune(self.root, dict(obj), "", dropped), dropped

    def default(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy with defaults, and without nulls in fields that are not nullable."""
        filled: dict[str, Any] = apply_defaults(self.root, dict(obj), root=True)
        return filled

    def validate(self, obj: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> list[Cause]:
        """Return all violations, with upstream's messages.

        With ``old``, invalid values that are unchanged are ignored (ratcheting).
        """
        before = ABSENT if old is None else dict(old)
        new = dict(obj)
        wrong = chain(
            violations(self.root, new, "", before), duplicates(self.root, new, "", before)
        )
        causes = list(islice(wrong, CAUSE_LIMIT + 1))
        return [*causes, *broken_rules(self.root, new, before, causes)]


@lru_cache(maxsize=32)
def _rule_problems(schema: bytes) -> tuple[Cause, ...]:
    """Find the problems of rules, cached like the schema: the estimate of costs takes long."""
    return tuple(rule_problems(_compiled(schema)))


@lru_cache(maxsize=32)
def _compiled(schema: bytes) -> SchemaNode:
    """Compile a schema, cached: admission, validation and registration of a CRD compile it."""
    read = msgspec.json.decode(schema)
    _raise_if_any(structural_problems(read))
    root = compile_node(read, root=True)
    _raise_if_any(list(default_problems(root)))
    return root


def _raise_if_any(causes: list[Cause]) -> None:
    if causes:
        message = "; ".join(map(str, causes))
        raise Invalid(f"the schema is not structural: {message}", Details(causes=tuple(causes)))


def shipped_crds() -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions that Holdfast ships."""
    return data.crds()

"""The structural schema of a custom resource: prune, default and validate by it.

Here lives everything an ``openAPIV3Schema`` means, its CEL rules included. No I/O. Not here: the
CRD's own life (names, conditions, versions).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from typing import Any

import msgspec

from holdfast.apiserver import data
from holdfast.apiserver.schema.structural.default_validation import default_problems
from holdfast.apiserver.schema.structural.node import ABSENT, SchemaNode, compile_node
from holdfast.apiserver.schema.structural.pruning_and_defaulting import apply_defaults, prune
from holdfast.apiserver.schema.structural.rule_evaluation import broken_rules
from holdfast.apiserver.schema.structural.rules import rule_problems, rules_in
from holdfast.apiserver.schema.structural.schema_validation import structural_problems
from holdfast.apiserver.schema.structural.value_validation import duplicates, violations
from holdfast.errors import CAUSE_LIMIT, Cause, Details, Invalid

__all__ = ["StructuralSchema", "shipped_crds"]


@dataclass(frozen=True, slots=True)
class StructuralSchema:
    """One version's schema, compiled once."""

    root: SchemaNode

    @classmethod
    def compile(cls, schema: Mapping[str, Any]) -> StructuralSchema:
        """Compile an ``openAPIV3Schema``.

        One that is not structural raises Invalid; its causes name paths below the schema, such as
        ``properties[spec].type``.
        """
        return cls(_compiled(msgspec.json.encode(schema)))

    @property
    def unevaluated_rules(self) -> list[str]:
        """Say which CEL rules are not evaluated, and why."""
        found = rules_in(self.root)
        return [
            f"{at} is not evaluated: {rule.not_evaluated_because}"
            for at, rule in found
            if rule.not_evaluated_because
        ]

    def prune(self, obj: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Copy the object without unknown fields; also list the paths that were dropped.

        The paths are what strict field validation complains about.
        """
        dropped: list[str] = []
        return prune(self.root, dict(obj), "", dropped), dropped

    def default(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Copy the object with the defaults filled in; nulls that are not nullable give way."""
        filled: dict[str, Any] = apply_defaults(self.root, dict(obj), root=True)
        return filled

    def validate(self, obj: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> list[Cause]:
        """List every field that is wrong, in upstream's words.

        With ``old``, a wrong value that was already there unchanged is let pass (ratcheting).
        """
        before = ABSENT if old is None else dict(old)
        new = dict(obj)
        wrong = chain(
            violations(self.root, new, "", before), duplicates(self.root, new, "", before)
        )
        found = list(islice(wrong, CAUSE_LIMIT + 1))
        return [*found, *broken_rules(self.root, new, before, found)]


@lru_cache(maxsize=32)
def _compiled(schema: bytes) -> SchemaNode:
    """Compile a schema once: admitting, checking and serving a definition all ask for it."""
    read = msgspec.json.decode(schema)
    _refuse(structural_problems(read))
    root = compile_node(read)
    _refuse(list(rule_problems(root)))
    _refuse(list(default_problems(root)))
    return root


def _refuse(found: list[Cause]) -> None:
    if found:
        words = "; ".join(map(str, found))
        raise Invalid(f"the schema is not structural: {words}", Details(causes=tuple(found)))


def shipped_crds() -> list[dict[str, Any]]:
    """Read the CustomResourceDefinitions Holdfast brings with it."""
    return data.crds()

"""The structural schema of a custom resource: prune, default and validate by it.

Here lives everything an ``openAPIV3Schema`` means. No I/O. Not here: CEL rules, which
``Schema.has_rules`` only reports, and the CRD's own life (names, conditions, versions).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.errors import Cause, NotBuilt


@dataclass(frozen=True, slots=True)
class Schema:
    """One version's schema, compiled once."""

    has_rules: bool = False

    @classmethod
    def compile(cls, schema: Mapping[str, Any]) -> Schema:
        """Compile an ``openAPIV3Schema``; one that is not structural raises Invalid."""
        raise NotBuilt("structural schemas are not built yet")

    def prune(self, obj: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Copy the object without unknown fields; also list the paths that were dropped.

        The paths are what strict field validation complains about.
        """
        raise NotBuilt("structural schemas are not built yet")

    def default(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Copy the object with the defaults filled in; nulls that are not nullable give way."""
        raise NotBuilt("structural schemas are not built yet")

    def validate(self, obj: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> list[Cause]:
        """List every field that is wrong, in upstream's words.

        With ``old``, a wrong value that was already there unchanged is let pass (ratcheting).
        """
        raise NotBuilt("structural schemas are not built yet")


def shipped_crds() -> list[dict[str, Any]]:
    """Read the CustomResourceDefinitions Holdfast brings with it."""
    raise NotBuilt("structural schemas are not built yet")

"""Strict field validation of built-in kinds: name the fields nobody knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.api.resource import Resource
from holdfast.errors import NotBuilt

# group, version, kind
Gvk = tuple[str, str, str]


def unknown_fields(kind: Resource[Any] | Gvk, obj: Mapping[str, Any]) -> list[str]:
    """List the paths of fields the kind does not have (``spec.containers[0].foo``)."""
    raise NotBuilt("strict checking is not built yet")


def duplicate_fields(body: bytes) -> list[str]:
    """List the paths of JSON fields that stand twice in one object of the body."""
    raise NotBuilt("strict checking is not built yet")


def complaints(unknown: Iterable[str], duplicate: Iterable[str] = ()) -> list[str]:
    """Word each field as upstream does: ``unknown field "spec.foo"``.

    With fieldValidation=Warn each is one warning header; with Strict they are one error,
    see ``message``.
    """
    raise NotBuilt("strict checking is not built yet")


def message(words: Iterable[str]) -> str:
    """Join complaints to the error text of fieldValidation=Strict."""
    raise NotBuilt("strict checking is not built yet")

"""Read the fields of raw objects.

The types of new objects are checked earlier, as Go's decoder does. A null, or a wrong type in a
stored object, counts as an absent field.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.api.decode import JsonMapping


def map_at(where: JsonMapping, key: str) -> dict[str, Any]:
    """Return the map under a key; empty if it is absent or not a map."""
    value = where.get(key)
    return value if isinstance(value, dict) else {}


def list_at(where: JsonMapping, key: str) -> Sequence[Any]:
    """Return the list under a key; empty if it is absent or not a list."""
    value = where.get(key)
    return value if isinstance(value, list) else ()


def maps_at(where: JsonMapping, key: str) -> list[dict[str, Any]]:
    """Return the list of maps under a key; an item that is not a map counts as empty."""
    items = list_at(where, key)
    return [item if isinstance(item, dict) else {} for item in items]


def text_at(where: JsonMapping, key: str) -> str:
    """Return the text under a key; empty if it is absent."""
    return str(where.get(key) or "")

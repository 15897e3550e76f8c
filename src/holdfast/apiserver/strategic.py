"""Strategic merge patch: merge lists by the keys the built-in kinds declare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.api.resource import Resource
from holdfast.errors import NotBuilt

# group, version, kind
Gvk = tuple[str, str, str]


def strategic_merge(
    kind: Resource[Any] | Gvk, current: Mapping[str, Any], patch: Mapping[str, Any]
) -> dict[str, Any]:
    """Apply a strategic merge patch and return the new object; the inputs stay as they are.

    A kind that declares no merge keys (custom resources) raises Unsupported (415), a patch that
    makes no sense raises BadRequest naming the path.
    """
    raise NotBuilt("strategic merge is not built yet")

"""Print objects as kubectl shows them: the server-side Table of ``meta.k8s.io/v1``.

Here lives what a row looks like, one file a family of kinds. No I/O and no clock: ``now`` is an
argument. Not here: content negotiation and where the objects come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.api.resource import Column, Resource
from holdfast.errors import NotBuilt


def table(
    resource: Resource[Any],
    objects: Iterable[Mapping[str, Any]],
    *,
    include_object: str = "Metadata",
    with_columns: bool = True,
    now: float,
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write objects as one Table, a row each.

    ``include_object`` is the query parameter: ``None``, ``Metadata`` or ``Object``.
    ``with_columns`` is False for every watch event but the first. ``metadata`` is the list's own
    (resourceVersion, continue, remainingItemCount). Custom resources are printed by
    ``resource.columns``, built-in kinds as upstream prints them, anything else as NAME and AGE.
    """
    raise NotBuilt("tables are not built yet")


def columns_of(version: Mapping[str, Any]) -> tuple[Column, ...]:
    """Read the printer columns of one entry of a CRD's ``spec.versions``.

    A version that names none gets the Age column, as upstream gives it.
    """
    raise NotBuilt("tables are not built yet")

"""Tables for ``kubectl get``: the server-side Table of ``meta.k8s.io/v1``.

Lives here: printers, the printers of custom resources, and tables. No I/O and no clock: ``now`` is
an argument. May not live here: the printers of built-in kinds (``kinds.printers``) and content
negotiation.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.runtime.errors import BadRequest
from holdfast.runtime.repeated_log import RepeatFilter
from holdfast.server.tables.custom_columns import columns_of, custom_printer
from holdfast.server.tables.printer import Printer, PrinterColumn, age_text

log = logging.getLogger(__name__)
log.addFilter(RepeatFilter())

__all__ = ["age_text", "columns_of", "custom_printer", "table"]


def table(
    printer: Printer,
    objects: Iterable[Mapping[str, Any]],
    *,
    include_object: str = "Metadata",
    with_columns: bool = True,
    now: float,
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return objects as one Table, one row per object.

    ``include_object`` is the query parameter: ``None``, ``Metadata`` or ``Object``.
    ``with_columns`` is False for all watch events except the first. ``metadata`` is that of the
    list (resourceVersion, continue, remainingItemCount).
    """
    check_include_object(include_object)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": dict(metadata or {}),
        "columnDefinitions": [_definition(c) for c in printer.columns] if with_columns else None,
        "rows": [_row(printer, obj, include_object, now) for obj in objects],
    }


def _definition(column: PrinterColumn) -> dict[str, Any]:
    described = column.description
    if not described and column.json_path:
        described = f"Custom resource definition column (in JSONPath format): {column.json_path}"
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": described,
        "priority": column.priority,
    }


def _row(printer: Printer, obj: Mapping[str, Any], include: str, now: float) -> dict[str, Any]:
    row = _cells(printer, obj, now)
    if include in ("", "Metadata"):
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": obj.get("metadata") or {},
        }
    elif include == "Object":
        row["object"] = obj
    else:
        row["object"] = None
    return row


def check_include_object(include: str) -> None:
    """Raise BadRequest for an unknown value of ``includeObject``."""
    if include not in ("", "Metadata", "Object", "None"):
        raise BadRequest(f'includeObject must be "", "None", "Metadata" or "Object", not {include}')


def _cells(printer: Printer, obj: Mapping[str, Any], now: float) -> dict[str, Any]:
    """Return the row of an object; only its name if the printer fails on it."""
    try:
        row: dict[str, Any] = {"cells": printer.cells(obj, now)}
        if printer.conditions and (conditions := printer.conditions(obj)):
            row["conditions"] = conditions
    except Exception as error:  # one invalid object must not break the whole list
        meta = obj.get("metadata")
        name = meta.get("name") if isinstance(meta, Mapping) else None
        log.error("cannot print a table row of %s %s: %r", obj.get("kind"), name, error)
        return {"cells": [name or "", *[None] * (len(printer.columns) - 1)]}
    return row

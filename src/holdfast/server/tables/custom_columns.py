"""Printer columns of custom resources, which the CRD defines by JSONPath."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.runtime.errors import HoldfastError
from holdfast.server.schema import jsonpath
from holdfast.server.schema.structural.value_checks import is_number
from holdfast.server.tables.printer import (
    Obj,
    Printer,
    PrinterColumn,
    TableCells,
    columns,
    name,
    since,
)

_AGE = PrinterColumn("Age", "date", ".metadata.creationTimestamp")


def columns_of(version: Mapping[str, Any]) -> tuple[PrinterColumn, ...]:
    """Return the printer columns of an entry of ``spec.versions`` of a CRD.

    As upstream, a version without columns gets the column Age.
    """
    listed = version.get("additionalPrinterColumns") or ()
    return tuple(
        PrinterColumn(
            one["name"],
            one["type"],
            one["jsonPath"],
            one.get("description", ""),
            one.get("format", ""),
            one.get("priority", 0),
        )
        for one in listed
    ) or (_AGE,)


def custom_printer(crd_columns: tuple[PrinterColumn, ...]) -> Printer:
    """Return the printer of a custom resource: its name, then the given columns."""

    def cells(obj: Obj, now: float) -> TableCells:
        return [name(obj), *(_cell(column, obj, now) for column in crd_columns)]

    return Printer(columns("Name") + crd_columns, cells)


def _cell(column: PrinterColumn, obj: Obj, now: float) -> Any:
    try:
        values = jsonpath.find(column.json_path, obj)
    except HoldfastError:  # an invalid path leaves its cell empty
        return None
    read = _READ.get(column.type)
    return read(values[0], now) if values and values[0] is not None and read else None


def _text(value: Any, _: float) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _integer(value: Any, _: float) -> int | None:
    return int(value) if is_number(value) else None


def _number(value: Any, _: float) -> float | None:
    return value if is_number(value) else None


def _boolean(value: Any, _: float) -> bool | None:
    return value if isinstance(value, bool) else None


def _date(value: Any, now: float) -> str | None:
    return since(value, now) if isinstance(value, str) else None


_READ: dict[str, Callable[[Any, float], Any]] = {
    "string": _text, "integer": _integer, "number": _number, "boolean": _boolean, "date": _date,
}  # fmt: skip

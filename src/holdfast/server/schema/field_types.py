"""Check JSON values against the types of built-in fields, as Go's decoder does.

One stored object with a wrong type would break all readers of the list: tables, informers, garbage
collection.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.api.timestamps import parse_rfc3339
from holdfast.runtime.errors import BadRequest
from holdfast.server.schema.fields import FieldInfo

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_INDEX = re.compile(r"\[\d+\]")
_JSON_TYPES = {dict: "object", list: "array", str: "string", bool: "bool", type(None): "null"}


def _integer(bits: int) -> Callable[[Any], bool]:
    limit = 1 << (bits - 1)
    return lambda value: type(value) is int and -limit <= value < limit


def _is_base64(value: Any) -> bool:
    try:
        base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
    except (AttributeError, ValueError):
        return False
    return True


def _is_time(value: Any) -> bool:
    if type(value) is not str or _TIME.fullmatch(value) is None:
        return False
    try:
        parse_rfc3339(value)
    except (BadRequest, OverflowError):
        return False
    return True


_MATCHES: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: type(value) is str,
    "bool": lambda value: type(value) is bool,
    "int32": _integer(32),
    "int64": _integer(64),
    "number": lambda value: type(value) in (int, float),
    "quantity": lambda value: type(value) in (str, int, float),
    "int-or-string": lambda value: type(value) is str or _MATCHES["int32"](value),
    "time": _is_time,
    "bytes": _is_base64,
}
_GO_TYPES = {
    "number": "float64",
    "quantity": "resource.Quantity",
    "bytes": "[]uint8",
    "time": "v1.Time",
    "int-or-string": "intstr.IntOrString",
}


_ZERO: Mapping[str, Any] = {
    "string": "", "bool": False, "int32": 0, "int64": 0, "number": 0, "quantity": "0", "bytes": "",
}  # fmt: skip


def fill_nulls(info: FieldInfo, value: Any) -> Any:
    """Replace each null in a list or map of scalars by the zero value of the type.

    Go does so: an empty annotation in a template is a null in JSON.
    """
    zero = _ZERO.get(info.scalar)
    if zero is None:
        return value
    if info.shape == "list" and isinstance(value, list) and None in value:
        return [zero if one is None else one for one in value]
    if info.shape == "map" and isinstance(value, dict) and None in value.values():
        return {key: zero if one is None else one for key, one in value.items()}
    return value


def check_field_type(holder: str, info: FieldInfo, value: Any, path: str) -> None:
    """Raise BadRequest if a value is not of the type of a field of scalars.

    ``holder`` is the type that has the field. A null is accepted.
    """
    if info.shape == "any" or value is None:
        return
    if info.shape == "scalar":
        if not _MATCHES[info.scalar](value):
            raise type_mismatch(holder, info, value, path)
        return
    if not isinstance(value, list if info.shape == "list" else dict):
        raise type_mismatch(holder, info, value, path)
    matches = _MATCHES.get(info.scalar)
    for one in value if isinstance(value, list) else value.values():
        if matches is not None and not matches(one) and (one, info.scalar) != (None, "time"):
            raise type_mismatch(holder, info, one, path)


def type_mismatch(holder: str, info: FieldInfo, value: Any, path: str) -> BadRequest:
    """Build Go's error for a value that is not of the type of the field."""
    json_type = _JSON_TYPES.get(type(value), "number")
    wanted = _go_type(info, inner=type(value) not in (list, dict) and bool(info.scalar))
    if info.scalar == "time" and json_type == "string":
        return BadRequest(f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse it')
    if info.scalar == "bytes" and json_type == "string":
        return BadRequest(f"illegal base64 data in {path}")
    if json_type == "number" and wanted.startswith("int"):
        json_type = f"number {value}"
    where = f"{holder.rpartition('.')[2]}.{_INDEX.sub('', path)}"
    return BadRequest(
        f"json: cannot unmarshal {json_type} into Go struct field {where} of type {wanted}"
    )


def _go_type(info: FieldInfo, *, inner: bool) -> str:
    name = _GO_TYPES.get(info.scalar, info.scalar) or ".".join(info.type.rsplit(".", 2)[-2:])
    if inner or info.shape in ("scalar", "object"):
        return name
    return f"[]{name}" if info.shape == "list" else f"map[string]{name}"

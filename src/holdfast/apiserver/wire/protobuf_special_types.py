"""Protobuf messages that are not objects in JSON: times, quantities, raw JSON, unions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.api.timestamps import rfc3339, rfc3339_micro

_MACHINERY = "k8s.io.apimachinery.pkg"
_EXTENSIONS = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1"


def _quantity(value: dict[str, Any]) -> str:
    return value.get("string") or "0"


def _time(value: dict[str, Any]) -> str | None:
    """Return the time in whole seconds, as in JSON; Go's zero time is an empty message."""
    return rfc3339(value["seconds"]) if "seconds" in value else None


def _micro_time(value: dict[str, Any]) -> str | None:
    if "seconds" not in value:
        return None
    return rfc3339_micro(value["seconds"] + value.get("nanos", 0) // 1000 / 1e6)


def _int_or_string(value: dict[str, Any]) -> int | str:
    text: str = value.get("strVal", "")
    number: int = value.get("intVal", 0)
    return text if value.get("type") else number


def _json(value: dict[str, Any]) -> Any:
    raw = value.get("raw") or value.get("Raw")
    return msgspec.json.decode(raw) if raw else None


def _schema_or_bool(value: dict[str, Any]) -> Any:
    return value["schema"] if "schema" in value else value.get("allows", False)


def _schema_or_list(value: dict[str, Any]) -> Any:
    return value["schema"] if "schema" in value else value.get("jSONSchemas", [])


def _schema_or_names(value: dict[str, Any]) -> Any:
    return value["schema"] if "schema" in value else value.get("property", [])


def _duration(value: dict[str, Any]) -> str:
    """Format a duration as Go does, with nanoseconds."""
    nanos = value.get("duration", 0)
    sign, nanos = ("-", -nanos) if nanos < 0 else ("", nanos)
    seconds, rest = divmod(nanos, 1_000_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    tail = f"{seconds}.{rest:09d}".rstrip("0").rstrip(".") if rest else str(seconds)
    head = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{head}{tail}s"


SPECIAL_TYPES: dict[str, Callable[[dict[str, Any]], Any]] = {
    f"{_MACHINERY}.api.resource.Quantity": _quantity,
    f"{_MACHINERY}.apis.meta.v1.Time": _time,
    f"{_MACHINERY}.apis.meta.v1.MicroTime": _micro_time,
    f"{_MACHINERY}.apis.meta.v1.Duration": _duration,
    f"{_MACHINERY}.apis.meta.v1.FieldsV1": _json,
    f"{_MACHINERY}.util.intstr.IntOrString": _int_or_string,
    f"{_EXTENSIONS}.JSON": _json,
    f"{_EXTENSIONS}.JSONSchemaPropsOrArray": _schema_or_list,
    f"{_EXTENSIONS}.JSONSchemaPropsOrBool": _schema_or_bool,
    f"{_EXTENSIONS}.JSONSchemaPropsOrStringArray": _schema_or_names,
}

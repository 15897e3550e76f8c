"""Validation of DeviceTaintRules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from holdfast.api import field_errors, names
from holdfast.errors import Cause

EFFECTS = ("NoExecute", "NoSchedule", "None")
_STATUSES = ("False", "True", "Unknown")
_MOST_CONDITIONS = 8
_LONGEST_DRIVER, _LONGEST_POOL = 63, 253
_Raw = Mapping[str, Any]


def check_device_taint_rule(new: _Raw, old: _Raw | None) -> Iterator[Cause]:
    """Yield what is wrong with a rule; an effect that is stored already is accepted."""
    spec = _part(new, "spec")
    yield from _check_selector(_part(spec, "deviceSelector"))
    stored = _part(_part(old or {}, "spec"), "taint")
    yield from _check_taint(_part(spec, "taint"), stored if old else None)


def check_device_taint_rule_status(new: _Raw) -> Iterator[Cause]:
    """Yield what is wrong with the status of a rule."""
    yield from _check_conditions(_part(new, "status").get("conditions") or ())


def _part(raw: _Raw, name: str) -> _Raw:
    return raw.get(name) or {}


def _check_selector(selector: _Raw) -> Iterator[Cause]:
    at = "spec.deviceSelector"
    if (driver := selector.get("driver")) is not None:
        yield from _check_name(f"{at}.driver", driver, _LONGEST_DRIVER, (driver.lower(),))
    if (pool := selector.get("pool")) is not None:
        yield from _check_name(f"{at}.pool", pool, _LONGEST_POOL, pool.split("/"))
    if (device := selector.get("device")) is not None:
        yield from _invalid(f"{at}.device", device, names.dns_label(device))


def _check_name(path: str, text: str, most: int, parts: Iterable[str]) -> Iterator[Cause]:
    """Check a name that consists of subdomains."""
    if not text:
        yield field_errors.required(path)
        return
    if len(text.encode(errors="surrogatepass")) > most:
        message = f"Too long: may not be more than {most} bytes"
        yield Cause(path, message, "FieldValueTooLong")
    for part in parts:
        yield from _invalid(path, part, names.dns_subdomain(part))


def _check_taint(taint: _Raw, stored: _Raw | None) -> Iterator[Cause]:
    at = "spec.taint"
    key, value = taint.get("key") or "", taint.get("value") or ""
    yield from _invalid(f"{at}.key", key, names.label_key(key))
    yield from _invalid(f"{at}.value", value, names.label_value(value))
    effect = taint.get("effect") or ""
    if stored is not None and stored.get("effect") == effect:
        return
    if not effect:
        yield field_errors.required(f"{at}.effect")
    elif effect not in EFFECTS:
        yield field_errors.not_supported(f"{at}.effect", effect, EFFECTS)


def _check_conditions(conditions: Iterable[_Raw]) -> Iterator[Cause]:
    at, listed = "status.conditions", list(conditions)
    if len(listed) > _MOST_CONDITIONS:
        yield field_errors.too_many(at, len(listed), _MOST_CONDITIONS)
    seen: set[str] = set()
    for i, condition in enumerate(listed):
        kind, path = condition.get("type") or "", f"{at}[{i}]"
        if kind in seen:
            yield field_errors.duplicate(f"{path}.type", kind)
        seen.add(kind)
        yield from _invalid(f"{path}.type", kind, names.label_key(kind))
        if (status := condition.get("status") or "") not in _STATUSES:
            yield field_errors.not_supported(f"{path}.status", status, _STATUSES)
        for field in ("lastTransitionTime", "reason"):
            if not condition.get(field):
                yield field_errors.required(f"{path}.{field}")


def _invalid(path: str, value: str, found: Iterable[str]) -> Iterator[Cause]:
    for message in found:
        yield field_errors.invalid(path, value, message)

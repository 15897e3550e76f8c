"""The schedule and the time zone of a CronJob, with the messages of upstream's parser."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from holdfast.api import durations
from holdfast.api.field_errors import go_quoted
from holdfast.runtime.errors import BadRequest

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_DESCRIPTORS = frozenset(
    {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
)
_EVERY = "@every "
_ZONES = ("TZ=", "CRON_TZ=")
_MAX_INT = 2**63 - 1
_MOST_DIGITS = 19
_matches_integer = re.compile(r"[-+]?[0-9]+").fullmatch


class _Bounds(NamedTuple):
    least: int
    most: int
    names: Mapping[str, int] = {}


_FIELDS = (
    _Bounds(0, 59),
    _Bounds(0, 23),
    _Bounds(1, 31),
    _Bounds(1, 12, {name: i for i, name in enumerate(_MONTHS, 1)}),
    _Bounds(0, 6, {name: i for i, name in enumerate(_DAYS)}),
)


def schedule_errors(schedule: str) -> Iterable[str]:
    """Yield what is wrong with a schedule of five fields, or with its ``@`` form.

    >>> [*schedule_errors("*/5 0-6,22 * * mon-fri")], [*schedule_errors("0 24 * * *")]
    ([], ['end of range (24) above maximum (23): 24'])
    """
    try:
        _parse(schedule)
    except BadRequest as wrong:
        yield wrong.message
    if "TZ" in schedule:
        yield "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"


def time_zone_errors(name: str) -> Iterable[str]:
    """Yield what is wrong with the name of a time zone."""
    if not name:
        yield "timeZone must be nil or non-empty string"
        return
    if name.lower() == "local":
        yield "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
    if name != "Local" and not _is_time_zone(name):
        yield f"unknown time zone {name}"


def _is_time_zone(name: str) -> bool:
    """Return whether a time zone is known; without a list of time zones, all are accepted."""
    try:
        zoneinfo.ZoneInfo(name)
    except (OSError, ValueError, zoneinfo.ZoneInfoNotFoundError):
        return not any(Path(path).is_dir() for path in zoneinfo.TZPATH)
    return True


def _parse(schedule: str) -> None:
    """Raise BadRequest with the first error of a schedule."""
    if schedule.startswith(_ZONES):
        zone, space, rest = schedule.partition("=")[2].partition(" ")
        if not space:
            # Upstream's parser panics here, and this is its text.
            raise BadRequest(
                "invalid schedule format: runtime error: slice bounds out of range [:-1]"
            )
        if zone not in ("", "Local") and not _is_time_zone(zone):
            raise BadRequest(f"provided bad location {zone}: unknown time zone {zone}")
        schedule = rest.strip()
    if schedule.startswith("@"):
        _parse_descriptor(schedule)
        return
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        raise BadRequest(
            f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]"
        )
    for field, bounds in zip(fields, _FIELDS, strict=True):
        for part in filter(None, field.split(",")):
            _parse_range(part, bounds)


def _parse_descriptor(text: str) -> None:
    if text.startswith(_EVERY):
        try:
            durations.parse(text.removeprefix(_EVERY))
        except BadRequest as wrong:
            raise BadRequest(f"failed to parse duration {text}: {wrong.message}") from wrong
    elif text not in _DESCRIPTORS:
        raise BadRequest(f"unrecognized descriptor: {text}")


def _parse_range(text: str, bounds: _Bounds) -> None:
    """Check ``low``, ``low-high`` or ``*``, each with an optional ``/step``."""
    span, *steps = text.split("/")
    low, *high = span.split("-")
    if low in ("*", "?"):
        start, end = bounds.least, bounds.most
    else:
        start = _number_or_name(low, bounds.names)
        if len(high) > 1:
            raise BadRequest(f"too many hyphens: {text}")
        end = _number_or_name(high[0], bounds.names) if high else start
    if len(steps) > 1:
        raise BadRequest(f"too many slashes: {text}")
    step = _number(steps[0]) if steps else 1
    if steps and not high:
        end = bounds.most
    if start < bounds.least:
        raise BadRequest(f"beginning of range ({start}) below minimum ({bounds.least}): {text}")
    if end > bounds.most:
        raise BadRequest(f"end of range ({end}) above maximum ({bounds.most}): {text}")
    if start > end:
        raise BadRequest(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise BadRequest(f"step of range should be a positive number: {text}")


def _number_or_name(text: str, names: Mapping[str, int]) -> int:
    known = names.get(text.lower())
    return _number(text) if known is None else known


def _number(text: str) -> int:
    problem = ""
    if not _matches_integer(text):
        problem = "invalid syntax"
    elif len(text.lstrip("+-0")) > _MOST_DIGITS or abs(int(text)) > _MAX_INT:
        problem = "value out of range"
    if problem:
        raise BadRequest(
            f"failed to parse int from {text}: strconv.Atoi: parsing {go_quoted(text)}: {problem}"
        )
    if (number := int(text)) < 0:
        raise BadRequest(f"negative number ({number}) not allowed: {text}")
    return number

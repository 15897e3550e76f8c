"""Times, durations and bytes of objects as engine values, by the format of their schema."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from holdfast.api import durations
from holdfast.runtime.errors import BadRequest

_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9})\d*)?([Zz]|[+-]\d\d:?\d\d)?", re.ASCII
)
_LONG_PIECE = re.compile(r"(\d+)\s*([A-Za-zµ]+)")
_LONG_UNITS = (
    ("ns", "nano", 1), ("us", "micro", 1_000), ("ms", "milli", 1_000_000), ("s", "sec", 10**9),
    ("m", "min", 60 * 10**9), ("h", "hour", 3600 * 10**9), ("hr", "hour", 3600 * 10**9),
    ("d", "day", 86_400 * 10**9), ("w", "week", 7 * 86_400 * 10**9),
    ("wk", "week", 7 * 86_400 * 10**9),
)  # fmt: skip


def _time(text: str) -> Timestamp:
    shape = _TIME.fullmatch(text)
    if shape is None:
        raise ValueError(text)
    day, clock, fraction, zone = shape.groups()
    offset = "+00:00" if zone in (None, "Z", "z") else zone
    moment = datetime.fromisoformat(f"{day}T{clock}{offset}").astimezone(UTC)
    nanos = int((fraction or "0").ljust(9, "0"))
    return Timestamp(seconds=int(moment.timestamp()), nanos=nanos)


def _date(text: str) -> Timestamp:
    day = date.fromisoformat(text)
    moment = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return Timestamp(seconds=int(moment.timestamp()))


def _nanoseconds(text: str) -> int:
    """Parse a duration as in Go, or in words such as ``2 days``."""
    try:
        return durations.parse(text)
    except BadRequest:
        pieces = _LONG_PIECE.findall(text)
        if not pieces or _LONG_PIECE.sub("", text).strip(" \t-"):
            raise ValueError(text) from None
    total = sum(int(count) * _unit(word.lower()) for count, word in pieces)
    return -total if text.strip().startswith("-") else total


def _unit(word: str) -> int:
    for short, long, size in _LONG_UNITS:
        if word == short or word.startswith(long):
            return size
    raise ValueError(word)


def _duration(text: str) -> Duration:
    nanos = _nanoseconds(text)
    seconds, rest = divmod(abs(nanos), 10**9)
    sign = -1 if nanos < 0 else 1
    return Duration(seconds=sign * seconds, nanos=sign * rest)


_FORMATS: Mapping[str, Callable[[str], Any]] = {
    "date-time": _time, "date": _date, "duration": _duration,
    "byte": lambda text: base64.b64decode(text, validate=True),
}  # fmt: skip
TYPES: Mapping[str, str] = {
    "date-time": "timestamp", "date": "timestamp", "duration": "duration", "byte": "bytes",
}  # fmt: skip
"""The CEL type of strings of a format; strings of other formats remain strings."""


def format_value(text: str, format_: str) -> Any:
    """Return a string of a format as an engine value, or unchanged if it cannot be read.

    >>> format_value("90m", "duration").seconds, format_value("YQ==", "byte")
    (5400, b'a')
    """
    read = _FORMATS.get(format_)
    try:
        return text if read is None else read(text)
    except (ValueError, OverflowError, binascii.Error):
        return text

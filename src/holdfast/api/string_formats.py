"""The string formats of schemas; as upstream, an unknown format is ignored."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date
from urllib.parse import urlsplit

from holdfast.api.patterns import matcher

_TIME = re.compile(r"(\d{2}):(\d{2}):(\d{2})(?:.\d+)?(?:z|[+-]\d{2}:\d{2})", re.ASCII)
_is_go_duration = matcher(r"^[-+]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)$")
_is_long_duration = matcher(
    r"(?i)^(?:\s*-?\d+\s*(?:ns|nano\w*|us|micro\w*|ms|milli\w*|s|sec\w*|m|min\w*|h|hr|hour\w*|"
    r"d|day\w*|w|wk|week\w*))+\s*$"
)
_UUID = r"[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{0}-?{1}-?[0-9a-f]{{12}}"
_ANY4 = r"[0-9a-f]{4}"
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_is_host = matcher(r"(?i)^[a-z0-9](?:[-a-z0-9]{0,62})(?:\.[a-z0-9](?:[-a-z0-9]{0,62}))*\.?$")


def _date(text: str) -> bool:
    try:
        return len(text) == len("2006-01-02") and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _datetime(text: str) -> bool:
    day, mark, time = text.lower().partition("t")
    match = _TIME.fullmatch(time) if mark and _date(day) else None
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _duration(text: str) -> bool:
    return _is_go_duration(text) or _is_long_duration(text)


def _base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return False
    return True


def _parses_as(kind: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            kind(text)
        except ValueError:
            return False
        return True

    return check


def _uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return text.startswith("/") or bool(parts.scheme)


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.ASCII | re.IGNORECASE)
    return lambda text: compiled.fullmatch(text) is not None


def _long_name(text: str) -> bool:
    return len(text) <= 253 and re.fullmatch(rf"{_LABEL}(?:\.{_LABEL})*", text) is not None


def _short_name(text: str) -> bool:
    return len(text) <= 63 and re.fullmatch(_LABEL, text) is not None


def _cidr(text: str) -> bool:
    return "/" in text and _parses_as(ipaddress.ip_interface)(text)


FORMATS: dict[str, Callable[[str], bool]] = {
    "date": _date,
    "date-time": _datetime,
    "datetime": _datetime,
    "duration": _duration,
    "byte": _base64,
    "ipv4": _parses_as(ipaddress.IPv4Address),
    "ipv6": _parses_as(ipaddress.IPv6Address),
    "cidr": _cidr,
    "mac": _matches(r"[0-9a-f]{2}(?:([:-])[0-9a-f]{2})(?:\1[0-9a-f]{2}){4,6}"),
    "uri": _uri,
    "email": _matches(r"[^@\s]+@[^@\s]+"),
    "hostname": lambda text: len(text) <= 255 and _is_host(text),
    "uuid": _matches(_UUID.format(_ANY4, _ANY4)),
    "uuid3": _matches(_UUID.format("3[0-9a-f]{3}", _ANY4)),
    "uuid4": _matches(_UUID.format("4[0-9a-f]{3}", "[89ab][0-9a-f]{3}")),
    "uuid5": _matches(_UUID.format("5[0-9a-f]{3}", "[89ab][0-9a-f]{3}")),
    "hexcolor": _matches(r"#?(?:[0-9a-f]{3}|[0-9a-f]{6})"),
    "k8s-short-name": _short_name,
    "k8s-long-name": _long_name,
}

"""Durations in Go's format: ``24h``, ``1m30s``, ``250ms``; in whole nanoseconds."""

from __future__ import annotations

import re

from holdfast.runtime.errors import BadRequest

MICROSECOND, MILLISECOND, SECOND = 10**3, 10**6, 10**9
MINUTE, HOUR = 60 * SECOND, 3600 * SECOND

_UNITS = {
    "ns": 1, "us": MICROSECOND, "µs": MICROSECOND, "μs": MICROSECOND, "ms": MILLISECOND,
    "s": SECOND, "m": MINUTE, "h": HOUR,
}  # fmt: skip
_PIECE = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]+)")
_LONGEST = 2**63
_MOST_CHARACTERS = 200


def parse(text: str) -> int:
    """Parse a duration into nanoseconds; errors are Go's.

    >>> parse("1h30m") // MINUTE, parse("-1.5s"), parse("0")
    (90, -1500000000, 0)
    """
    body = text[1:] if text[:1] in ("-", "+") else text
    if body == "0":
        return 0
    if not body or len(body) > _MOST_CHARACTERS:
        raise BadRequest(f'time: invalid duration "{text}"')
    total = position = 0
    while position < len(body):
        piece = _PIECE.match(body, position)
        total += _nanoseconds(piece, text)
        assert piece is not None
        position = piece.end()
    if total >= _LONGEST:
        raise BadRequest(f'time: invalid duration "{text}"')
    return -total if text[0] == "-" else total


def _nanoseconds(piece: re.Match[str] | None, text: str) -> int:
    if piece is None:
        raise BadRequest(f'time: missing unit in duration "{text}"')
    whole, fraction, unit = piece[1], piece[2] or "", piece[3]
    if not whole and not fraction:
        raise BadRequest(f'time: invalid duration "{text}"')
    if unit not in _UNITS:
        raise BadRequest(f'time: unknown unit "{unit}" in duration "{text}"')
    scale = _UNITS[unit]
    return int(whole or "0") * scale + int(fraction or "0") * scale // int(10 ** len(fraction))


def parse_seconds(text: str) -> float:
    """Parse a duration into seconds.

    >>> parse_seconds("24h")
    86400.0
    """
    return parse(text) / SECOND


def format_nanoseconds(nanoseconds: int) -> str:
    """Format a duration as Go does.

    >>> format_nanoseconds(90 * MINUTE), format_nanoseconds(1500), format_nanoseconds(0)
    ('1h30m0s', '1.5µs', '0s')
    """
    sign = "-" if nanoseconds < 0 else ""
    left = abs(nanoseconds)
    if left == 0:
        return "0s"
    if left < SECOND:
        unit = next(u for u in ("ms", "µs", "ns") if left >= _UNITS[u])
        return f"{sign}{_decimal(left, _UNITS[unit])}{unit}"
    hours, left = divmod(left, HOUR)
    minutes, left = divmod(left, MINUTE)
    parts = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{parts}{_decimal(left, SECOND)}s"


def _decimal(amount: int, unit: int) -> str:
    """Divide exactly; without trailing zeros."""
    whole, rest = divmod(amount, unit)
    digits = str(unit + rest)[1:].rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)

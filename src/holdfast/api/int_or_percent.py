"""Numbers that are a count or a percentage (``25%``)."""

from __future__ import annotations


def resolve_int_or_percent(value: int | str, total: int, *, up: bool) -> int:
    """Return a count, or a percentage of ``total`` rounded up or down.

    >>> resolve_int_or_percent("25%", 10, up=True), resolve_int_or_percent("25%", 10, up=False)
    (3, 2)
    """
    if isinstance(value, int):
        return value
    hundredths = int(value.removesuffix("%")) * total
    return -(-hundredths // 100) if up else hundredths // 100

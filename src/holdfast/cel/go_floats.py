"""Numbers as Go writes them."""

from __future__ import annotations

import math
from decimal import Decimal

_MOST_DIGITS, _LEAST_EXPONENT = 6, -4


def shortest_float(value: float) -> str:
    """Return the shortest text of a number: Go's ``g``, with an exponent from 10⁶ on.

    >>> shortest_float(123456.0), shortest_float(1.5), shortest_float(1e-5), shortest_float(1e6)
    ('123456', '1.5', '1e-05', '1e+06')
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    negative, digits, scale = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(scale, int)
    exponent = len(digits) + scale - 1
    if value and not _LEAST_EXPONENT <= exponent < _MOST_DIGITS:
        first, rest = digits[0], "".join(map(str, digits[1:]))
        mantissa = f"{first}.{rest}" if rest else str(first)
        return f"{'-' if negative else ''}{mantissa}e{exponent:+03d}"
    return repr(value).removesuffix(".0") if exponent >= _LEAST_EXPONENT else f"{value:.17g}"

"""Exact resource quantities: ``500m``, ``1.5Gi``, ``3e6``.

A quantity is an integer times a power of ten: no precision is lost to floating point. Parsing,
rounding and formatting follow Kubernetes: fractions of a nano are rounded away from zero, binary
quantities are at most 2^63-1, and the canonical form has the suffix family of the input. Like
upstream, some non-canonical inputs such as ``10.035M`` are formatted unchanged.

Hot paths create no ``Quantity``: they call ``milli`` and ``units``, which are cached by text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache, total_ordering

from holdfast.runtime.errors import BadRequest

# A quantity in JSON: usually a string such as "500m" or "2Gi"; numbers are accepted too.
AmountText = str | int | float

DECIMAL_SI = "DecimalSI"
BINARY_SI = "BinarySI"
DECIMAL_EXPONENT = "DecimalExponent"

NANO, MICRO, MILLI = -9, -6, -3
MAX_INT64 = 2**63 - 1
_FAR = 100  # larger exponents are rejected

_DECIMAL = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY_SUFFIX = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

_SHAPE = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*)([-+]?[0-9]*)")
_BAD_SHAPE = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_BAD_SUFFIX = "unable to parse quantity's suffix"
_BAD_NUMBER = "unable to parse numeric part of quantity"


def _divide_up(dividend: int, divisor: int) -> int:
    """Divide, rounding away from zero: a request is never rounded down.

    >>> _divide_up(-901, 100)
    -10
    """
    return -(-dividend // divisor) if dividend >= 0 else dividend // divisor


def _rescale(digits: int, scale: int, target: int) -> int:
    """Express ``digits * 10**scale`` in units of ``10**target``, rounded away from zero."""
    if scale >= target:
        return int(digits * 10 ** (scale - target))
    return _divide_up(digits, 10 ** (target - scale))


def _exponent(suffix: str, tail: str) -> tuple[int, int, str]:
    """Return the powers of two and ten of a suffix, and its format."""
    if tail:
        if suffix not in ("e", "E") or not tail[-1].isdigit():
            raise BadRequest(_BAD_SUFFIX)
        return 0, int(tail[:12]), DECIMAL_EXPONENT
    if suffix in _DECIMAL:
        return 0, _DECIMAL[suffix], DECIMAL_SI
    if suffix in _BINARY:
        return _BINARY[suffix], 0, BINARY_SI
    raise BadRequest(_BAD_SUFFIX)


def _read(text: str) -> tuple[int, int, str]:
    """Parse into digits, power of ten and format; fractions of a nano round away from zero."""
    if len(text) > _FAR:
        raise BadRequest(_BAD_NUMBER)
    shape = _SHAPE.fullmatch(text)
    if not text or shape is None:
        raise BadRequest(_BAD_SHAPE)
    sign, whole, fraction, suffix, tail = shape.groups(default="")
    twos, scale, format_ = _exponent(suffix, tail)
    if scale > _FAR:
        raise BadRequest(_BAD_NUMBER)
    digits = int((whole + fraction) or "0") << twos
    scale = max(scale - len(fraction), -3 * _FAR)  # smaller scales round to the same nano
    if scale < NANO:
        digits, scale = _rescale(digits, scale, NANO), NANO
    if format_ == BINARY_SI:
        if _rescale(digits, scale, 0) > MAX_INT64:
            digits, scale = MAX_INT64, 0
        if 0 < digits < 10**-scale:
            format_ = DECIMAL_SI
    return (-digits if sign == "-" else digits), scale, format_


def _keeps_spelling(text: str) -> bool:
    """Return whether upstream formats this quantity as it was written, not canonically."""
    shape = _SHAPE.fullmatch(text)
    assert shape is not None, "called only with parsed quantities"
    _, whole, fraction, suffix, tail = shape.groups(default="")
    twos, scale, format_ = _exponent(suffix, tail)
    whole = whole.lstrip("0") or "0"
    shifted = whole + fraction
    if format_ == BINARY_SI:
        short = not fraction and len(whole) + twos * 3 // 10 < 15
        return short and int(whole) % 8 != 0
    scale -= len(fraction)
    short = len(shifted) <= 18 and scale >= NANO
    return short and scale % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0"


def _trim(digits: int, scale: int) -> tuple[int, int]:
    """Move trailing zeros of the digits into the scale."""
    while digits and digits % 10 == 0:
        digits, scale = digits // 10, scale + 1
    return (digits, scale) if digits else (0, 0)


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """The exact quantity ``digits * 10**scale``, and its suffix family."""

    digits: int
    scale: int = 0
    format: str = DECIMAL_SI
    written: str = ""

    @classmethod
    def parse(cls, text: AmountText) -> Quantity:
        """Parse a quantity; errors are upstream's."""
        words = text if isinstance(text, str) else repr(text)
        return cls(*_read(words), words if _keeps_spelling(words) else "")

    def scaled(self, scale: int) -> int:
        """Return the number of units of ``10**scale``, rounded away from zero."""
        return _rescale(self.digits, self.scale, scale)

    def value(self) -> int:
        """Return the number of whole units, rounded away from zero."""
        return self.scaled(0)

    def round_up(self, scale: int) -> tuple[Quantity, bool]:
        """Round away from zero to a multiple of ``10**scale``; also return whether it was exact."""
        rounded = Quantity(self.scaled(scale), scale, self.format)
        return rounded, rounded == self

    def is_zero(self) -> bool:
        """Return whether the quantity is zero."""
        return self.digits == 0

    def __neg__(self) -> Quantity:
        return Quantity(-self.digits, self.scale, self.format)

    def __add__(self, other: Quantity) -> Quantity:
        # Zero has no suffix family: the sum has the family of the other operand.
        format_ = other.format if self.is_zero() else self.format
        scale = min(self.scale, other.scale)
        return Quantity(self.scaled(scale) + other.scaled(scale), scale, format_)

    def __sub__(self, other: Quantity) -> Quantity:
        return self + -other

    def __mul__(self, factor: int) -> Quantity:
        return Quantity(self.digits * factor, self.scale, self.format)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.cmp(other) == 0

    def __lt__(self, other: Quantity) -> bool:
        return self.cmp(other) < 0

    def __hash__(self) -> int:
        return hash(_trim(self.digits, self.scale))

    def cmp(self, other: Quantity) -> int:
        """Return -1, 0 or 1 if this quantity is less than, equal to or more than the other."""
        scale = min(self.scale, other.scale)
        mine, theirs = self.scaled(scale), other.scaled(scale)
        return (mine > theirs) - (mine < theirs)

    def __float__(self) -> float:
        digits, scale = _trim(self.digits, self.scale)
        return float(digits * 10**scale) if scale >= 0 else digits / 10**-scale

    def __str__(self) -> str:
        """Return the canonical form.

        >>> str(Quantity.parse("1025024Mi")), str(Quantity.parse("0.0005e6"))
        ('1001Gi', '500')
        """
        if self.written:
            return self.written
        if self.is_zero():
            return "0"
        if self.format == BINARY_SI:
            whole = self.value()
            if abs(whole) >= 1024 and Quantity(whole) == self:
                return _binary_text(whole)
        return _decimal_text(*_trim(self.digits, self.scale), self.format)


def _binary_text(whole: int) -> str:
    power = 0
    while whole % 1024 == 0 and power < len(_BINARY_SUFFIX) - 1:
        whole, power = whole // 1024, power + 1
    return f"{whole}{_BINARY_SUFFIX[power]}"


def _decimal_text(digits: int, scale: int, format_: str) -> str:
    """Format with an exponent divisible by three."""
    power = scale - scale % 3
    if format_ in (DECIMAL_SI, BINARY_SI):
        power = min(max(power, NANO), _DECIMAL["E"])
        return f"{_rescale(digits, scale, power)}{_DECIMAL_SUFFIX[power]}"
    return f"{_rescale(digits, scale, power)}{f'e{power}' if power else ''}"


@lru_cache(maxsize=65536)
def milli(text: AmountText) -> int:
    """Parse a quantity into thousandths (millicores), rounded up and capped to int64.

    >>> milli("1.5"), milli("250m"), milli(2)
    (1500, 250, 2000)
    """
    return _int64(text, MILLI)


@lru_cache(maxsize=65536)
def units(text: AmountText) -> int:
    """Parse a quantity into whole units (bytes, devices), rounded up and capped to int64.

    >>> units("1Ki"), units("1500m")
    (1024, 2)
    """
    return _int64(text, 0)


def _int64(text: AmountText, scale: int) -> int:
    digits, own_scale, _ = _read(text if isinstance(text, str) else repr(text))
    return max(-MAX_INT64 - 1, min(MAX_INT64, _rescale(digits, own_scale, scale)))

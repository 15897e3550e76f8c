"""Estimate the largest cost of a call and the largest size of its result, as upstream does.

One unit is a simple operation. Reading ten characters of a text costs one unit; a pattern counts as
one expression for each four characters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from holdfast.api.cel.ranges import MOST, NOTHING, ONE, UNKNOWN, Range, exactly
from holdfast.api.cel.static_types import StaticType
from holdfast.api.cel.syntax import Constant, Node

READING, MATCHING = 0.1, 0.25
NEW_LIST, NEW_MAP = exactly(10), exactly(30)
_FORMAT_PATTERN, _LONGEST_FORMAT, _MOST_INCLUDED = 128, 64, 48
_ADDRESS = Range(4, 16)


class Entries(NamedTuple):
    """Sizes of the keys (or indices) and values of a list or map."""

    is_list: bool
    keys: Range
    values: Range


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of a call as far as its cost matters."""

    node: Node
    cost: Range
    size: Range | None
    item_size: Range
    """The declared size of its items."""
    entries: Entries | None = None

    @property
    def most(self) -> Range:
        """Its size, or the unknown size."""
        return UNKNOWN if self.size is None else self.size

    @property
    def type(self) -> StaticType:
        """Its static type."""
        return self.node.type


class CallEstimate(NamedTuple):
    """The cost without the cost of the operands, and the size of the result if it is known."""

    cost: Range
    size: Range | None = None


_Estimator = Callable[[Sequence[Operand]], CallEstimate | None]
_SizeEstimator = Callable[[Sequence[Range]], CallEstimate]


def _reading(size: Range) -> Range:
    return size.scaled(READING)


def _read(at: int, factor: float = 1.0, *, keeps_size: bool = False) -> _Estimator:
    def estimate(operands: Sequence[Operand]) -> CallEstimate:
        size = operands[at].most
        return CallEstimate(size.scaled(factor * READING), size if keeps_size else None)

    return estimate


def _each(operands: Sequence[Operand]) -> CallEstimate:
    """Compare each item of a list, or search a text."""
    target = operands[0]
    if not target.type.parameters:
        return CallEstimate(_reading(target.most))
    item = ONE
    if target.type.parameters[0].name in ("string", "bytes"):
        item = item.plus(_reading(target.item_size))
    return CallEstimate(target.most.times(item))


def _replace(operands: Sequence[Operand]) -> CallEstimate | None:
    if len(operands) < 3:
        return None
    text, old, new = (one.most for one in operands[:3])
    if old.low == 0:
        high = min(text.high + 1, MOST) * new.high + text.high
    elif new.high <= old.low:
        high = text.high
    else:
        high = ceil(text.high / old.low) * new.high
    if old.high == 0:
        low = min(text.low + 1, MOST) * new.low + text.low
    elif old.high <= new.low:
        low = text.low
    else:
        low = ceil(text.low / old.high) * new.low
    return CallEstimate(text.scaled(2 * READING), Range(min(low, MOST), min(high, MOST)))


def _split(operands: Sequence[Operand]) -> CallEstimate:
    text = operands[0].most
    limit = operands[2].node if len(operands) > 2 else None
    parts = limit.number if isinstance(limit, Constant) else None
    high = text.high if parts is None else parts % 2**64
    return CallEstimate(text.scaled(2 * READING), Range(0, high))


def _join(operands: Sequence[Operand]) -> CallEstimate:
    items = operands[0]
    size = items.most.times(items.item_size) if items.type.parameters else NOTHING
    if len(operands) > 1:
        gaps = Range(max(items.most.low - 1, 0), max(items.most.high - 1, 0))
        size = size.plus(operands[1].most.times(gaps))
    return CallEstimate(_reading(size), size)


def _find(operands: Sequence[Operand]) -> CallEstimate:
    text = operands[0].most
    cost = _reading(text.plus(ONE)).times(operands[1].most.scaled(MATCHING))
    return CallEstimate(cost, Range(0, text.high))


def _validate(operands: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(_reading(operands[1].most).scaled(_FORMAT_PATTERN * MATCHING))


def _contained(more: Range = NOTHING, *, text: bool = False) -> _Estimator:
    """Compare an address, or the text of one, with a CIDR."""

    def estimate(operands: Sequence[Operand]) -> CallEstimate:
        read = _reading(operands[1].most) if text else NOTHING
        return CallEstimate(_reading(_ADDRESS.plus(_ADDRESS)).plus(more).plus(read))

    return estimate


_MASKED = _reading(_ADDRESS).plus(ONE)


def _equal(operands: Sequence[Operand]) -> CallEstimate | None:
    left, right = operands
    if left.type != right.type:
        return None
    match left.type.name:
        case "net.IP" | "net.CIDR" | "kubernetes.Quantity" | "kubernetes.Semver":
            return CallEstimate(ONE)
        case "kubernetes.NamedFormat":
            return CallEstimate(Range(1, _LONGEST_FORMAT).scaled(READING))
        case "kubernetes.URL":
            size = ONE if right.size is None else right.size
            return CallEstimate(Range(1, size.high).scaled(READING))
    return None


def _one(_: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(ONE)


def _includes(_: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(Range(0, _MOST_INCLUDED))


def _address(operands: Sequence[Operand]) -> CallEstimate:
    if operands[0].type.name == "net.CIDR":
        return CallEstimate(ONE)
    return CallEstimate(_reading(operands[0].most))


OF_KUBERNETES: dict[str, _Estimator] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _each),
    "url": _read(0, keeps_size=True),
    **dict.fromkeys(
        ("lowerAscii", "upperAscii", "substring", "trim"), _read(0, keeps_size=True)
    ),
    "replace": _replace,
    "split": _split,
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(
        ("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _read(0)
    ),
    "ip": _address,
    "ip.isCanonical": _read(0, 2.0),
    "cidr_contains_ip_ip": _contained(),
    "cidr_contains_ip_string": _contained(text=True),
    "cidr_contains_cidr": _contained(_MASKED),
    "cidr_contains_cidr_string": _contained(_MASKED, text=True),
    "validate": _validate,
    "_==_": _equal,
    "includes": _includes,
    **dict.fromkeys(
        (
            "masked", "prefixLength", "family", "isUnspecified", "isLoopback",
            "isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast", "format.named",
            "sign", "asInteger", "isInteger", "asApproximateFloat", "isGreaterThan", "isLessThan",
            "compareTo", "add", "sub", "major", "minor", "patch", "getScheme", "getHostname",
            "getHost", "getPort", "getEscapedPath", "getQuery",
        ),
        _one,
    ),
}  # fmt: skip
"""Kubernetes' functions, by function or overload; None where the standard rule holds."""


def _new_list(size: Range, factor: float = 1.0) -> CallEstimate:
    return CallEstimate(size.scaled(factor).plus(ONE).plus(NEW_LIST), size)


def _integer(operand: Operand, default: int) -> int:
    number = operand.node.number if isinstance(operand.node, Constant) else None
    return default if number is None else max(number, 0)


def _slice(operands: Sequence[Operand]) -> CallEstimate:
    target, start, end = operands
    size = (_integer(end, target.most.high) - _integer(start, 0)) % 2**64
    return _new_list(exactly(size))


def _range(operands: Sequence[Operand]) -> CallEstimate:
    return _new_list(exactly(_integer(operands[0], MOST)))


def _flatten(operands: Sequence[Operand]) -> CallEstimate:
    depth = _integer(operands[1], MOST) if len(operands) > 1 else 1
    return _new_list(operands[0].most, float(depth))


def _sorted(at: int) -> _Estimator:
    def estimate(operands: Sequence[Operand]) -> CallEstimate:
        by = operands[at]
        texts = by.type.parameters and by.type.parameters[0].name in ("string", "bytes")
        return _new_list(by.most.times(by.most), 2.0 + (READING if texts else 0))

    return estimate


def _distinct(operands: Sequence[Operand]) -> CallEstimate:
    return _new_list(operands[0].most.times(operands[0].most), 2.0)


def _sets(factor: float) -> _Estimator:
    def estimate(operands: Sequence[Operand]) -> CallEstimate:
        product = operands[0].most.times(operands[1].most)
        return CallEstimate(product.scaled(factor).plus(ONE))

    return estimate


OF_LISTS: dict[str, _Estimator] = {
    "slice": _slice,
    "lists.range": _range,
    "reverse": lambda operands: _new_list(operands[0].most),
    "flatten": _flatten,
    "distinct": _distinct,
    "sort": _sorted(0),
    "@sortByAssociatedKeys": _sorted(1),
    **dict.fromkeys(("sets.contains", "sets.intersects"), _sets(1.0)),
    "sets.equivalent": _sets(2.0),
}
"""Functions of CEL's libraries of lists and sets."""


def _converted(low: Callable[[int], int], high: Callable[[int], int]) -> _SizeEstimator:
    def estimate(sizes: Sequence[Range]) -> CallEstimate:
        size = Range(low(sizes[0].low), high(sizes[0].high) % 2**64)
        return CallEstimate(_reading(sizes[0]), size)

    return estimate


def _matched(sizes: Sequence[Range]) -> CallEstimate:
    return CallEstimate(_reading(sizes[0].plus(ONE)).times(sizes[1].scaled(MATCHING)))


def _searched(sizes: Sequence[Range]) -> CallEstimate:
    return CallEstimate(_reading(sizes[0]).times(_reading(sizes[1])))


def _joined_lists(sizes: Sequence[Range]) -> CallEstimate:
    return CallEstimate(ONE, sizes[0].plus(sizes[1]))


def _joined_texts(sizes: Sequence[Range]) -> CallEstimate:
    size = sizes[0].plus(sizes[1])
    return CallEstimate(_reading(size), size)


OF_OVERLOADS: dict[str, _SizeEstimator] = {
    "string_format": lambda sizes: CallEstimate(_reading(sizes[0])),
    "string_to_bytes": _converted(lambda low: low, lambda high: 4 * high),
    "bytes_to_string": _converted(lambda low: low // 4, lambda high: high),
    "strings_quote": _converted(lambda low: low + 2, lambda high: 2 * high + 2),
    "starts_with_string": lambda sizes: CallEstimate(_reading(sizes[1])),
    "ends_with_string": lambda sizes: CallEstimate(_reading(sizes[1])),
    "in_list": lambda sizes: CallEstimate(sizes[1]),
    "matches_string": _matched,
    "contains_string": _searched,
    "add_list": _joined_lists,
    "add_string": _joined_texts,
    "add_bytes": _joined_texts,
}
"""CEL's standard functions."""

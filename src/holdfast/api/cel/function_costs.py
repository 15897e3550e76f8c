"""Upper bounds of the cost of function calls and of the size of their results.

One unit of cost is about 0.1 microseconds, as measured with the engine. A bound function gets the
syntax nodes of the arguments, for the values of constants, and the size bounds of their values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import re2

from holdfast.api.cel.functions import evaluated_functions
from holdfast.api.cel.list_functions import (
    LARGEST_COMPUTED_PROGRAM,
    MAP_OF,
    MAP_SUM,
    SET_SUM,
    SUBSTRING,
)
from holdfast.api.cel.size_bounds import (
    SCALAR_BOUND,
    ComputedBound,
    CostCounter,
    SizeBound,
    ValueBound,
    concatenation_bound,
    container_bound,
    text_bound,
    union_bound,
)
from holdfast.api.cel.syntax import Constant, Node

PYTHON_CALL = 100
IN_PYTHON = frozenset(evaluated_functions())
_AGGREGATES = [n for n in IN_PYTHON if re.fullmatch(r"(@list_\w+_)?(sum|min|max)(_\w+)?", n)]
_UNBOUNDED = 1 << 40

_Bounded = tuple[int, SizeBound]
_Bound = Callable[[CostCounter, Sequence[Node], Sequence[SizeBound]], _Bounded]

CHEAP = frozenset({
    "!_", "_&&_", "_||_", "@not_strictly_false", "-_", "_-_", "_*_", "_/_", "_%_", "hasValue",
    "optional.none", "type", "startsWith", "endsWith",
})  # fmt: skip


def _concatenated(charge: CostCounter, _: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    value = concatenation_bound(seen[0], seen[1], charge)
    return value.length // 10 if value.entry is None else 2 * value.length, value


def _compared(_: CostCounter, __: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    return min(a.weight for a in seen), SCALAR_BOUND


def _searched(_: CostCounter, __: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    return _search(seen[0], seen[1]), SCALAR_BOUND


def _search(where: SizeBound, what: SizeBound) -> int:
    return where.length // 10 + where.length * what.length // 1000


def _contained(_: CostCounter, __: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    return (4 if seen[1].is_map else seen[1].weight), SCALAR_BOUND


def _measured(_: CostCounter, __: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    return seen[0].length // 10, SCALAR_BOUND


def _entry(_: CostCounter, __: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    return 4, seen[0].entry or SCALAR_BOUND


def _optional_field(_: CostCounter, nodes: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    name = nodes[1].text if isinstance(nodes[1], Constant) else None
    return 4, seen[0].field((name or b"").decode(errors="replace"))


def _any_of(charge: CostCounter, _: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    value: SizeBound = SCALAR_BOUND
    for one in seen:
        value = union_bound(value, one, charge)
    return 1, value


def _chosen(charge: CostCounter, _: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    return 1, union_bound(seen[1], seen[2], charge)


def _aggregate(_: CostCounter, __: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    return PYTHON_CALL + 2 * seen[0].weight, seen[0].entry or SCALAR_BOUND


def _matched(_: CostCounter, nodes: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    pattern = nodes[1]
    if isinstance(pattern, Constant) and pattern.text is not None:
        program = program_size(pattern.text)
    else:
        program = min(1000 * (seen[1].length + 1), LARGEST_COMPUTED_PROGRAM)
    return 10 * program + seen[0].length * program // 3, SCALAR_BOUND


@lru_cache(maxsize=1024)
def program_size(pattern: bytes) -> int:
    """Return the number of RE2 instructions of a pattern; 0 if it is invalid."""
    options = re2.Options()
    options.log_errors = False
    try:
        return int(re2.compile(pattern.decode(), options).programsize)
    except (re2.error, UnicodeDecodeError):
        return 0


def _replaced(_: CostCounter, nodes: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    where, old, new = seen[:3]
    known = len(nodes[1].text or b"") if isinstance(nodes[1], Constant) else 0
    times = where.length // max(known, 1) + 1
    size = where.length + times * new.length
    return _search(where, old) + 2 * times + size // 10, text_bound(size)


def _split(_: CostCounter, nodes: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    where, at = seen[0], nodes[1]
    cost = _search(where, seen[1]) + 4 * where.length
    if isinstance(where, ValueBound) and isinstance(at, Constant) and at.text is not None:
        return cost, where.split(at.text.decode(errors="replace"))
    return cost, container_bound(where.length + 1, text_bound(where.length))


def _joined(_: CostCounter, __: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    items = seen[0]
    between = seen[1].length if len(seen) > 1 else 0
    size = items.length * between + 10 * items.weight  # ten characters have weight one
    return items.weight + size // 10, text_bound(size)


def _formatted(_: CostCounter, __: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    template, values = seen
    # A number has up to 1,310 digits, a value inside a list up to 32.
    size = template.length + 1400 * values.length + 32 * values.weight
    return PYTHON_CALL + 4 * values.weight + size // 10, text_bound(size)


def _quoted(_: CostCounter, __: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    return seen[0].length, text_bound(2 * seen[0].length + 2)


def _matched_in_python(
    _: CostCounter, nodes: Sequence[Node], seen: Sequence[SizeBound]
) -> _Bounded:
    cost, value = _matched(_, nodes, seen)
    return PYTHON_CALL + cost, value


def _part(_: CostCounter, __: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    return PYTHON_CALL + seen[0].length // 10, text_bound(seen[0].length)


def _found(_: CostCounter, nodes: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    cost, _value = _matched(_, nodes, seen)
    return PYTHON_CALL + cost, text_bound(seen[0].length)


def _all_found(_: CostCounter, nodes: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    size = seen[0].length
    cost, _value = _matched(_, nodes, seen)
    return PYTHON_CALL + cost + 20 * size, container_bound(size + 1, text_bound(size))


def _collected(_: CostCounter, __: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    """Make a map of the entries in a list."""
    entry = seen[0].entry or SCALAR_BOUND
    length = seen[0].length * max(entry.length, 1)
    value = ComputedBound(length, seen[0].weight, entry.entry or SCALAR_BOUND, is_map=True)
    return PYTHON_CALL + 3 * seen[0].weight, value


def _merged(charge: CostCounter, _: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    value = concatenation_bound(seen[0], seen[1], charge)
    return PYTHON_CALL + 5 * value.weight, value


def _read_url(_: CostCounter, __: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    return 2 * PYTHON_CALL + seen[0].length, text_bound(3 * seen[0].length + 1)


def _query(_: CostCounter, __: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    size = seen[0].length
    values = container_bound(size, text_bound(size))
    return 2 * PYTHON_CALL + 5 * size, ComputedBound(size, values.weight, values, is_map=True)


def _problems(_: CostCounter, __: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    size = seen[1].length
    return 5 * PYTHON_CALL + size, container_bound(4, text_bound(400 + size))


def _same_items(_: CostCounter, __: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    return 4 * seen[0].length, seen[0]


def _sorted_items(_: CostCounter, __: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    by = seen[-1]
    return (by.weight + 4 * by.length) * max(by.length.bit_length(), 1), seen[0]


def _compared_items(_: CostCounter, __: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    return seen[0].weight * max(seen[0].length, 1), seen[0]


def _flat_items(_: CostCounter, __: Sequence[Node], seen: Sequence[SizeBound]) -> _Bounded:
    inner = seen[0].entry or SCALAR_BOUND
    items = container_bound(seen[0].length * max(inner.length, 1), inner.entry or inner)
    return 2 * seen[0].weight, items


def _numbers(_: CostCounter, nodes: Sequence[Node], __: Sequence[SizeBound]) -> _Bounded:
    count = nodes[0].number if isinstance(nodes[0], Constant) else None
    length = _UNBOUNDED if count is None else max(count, 0)
    return 4 * length, container_bound(length, SCALAR_BOUND)


BOUNDS: Mapping[str, _Bound] = {
    "_+_": _concatenated,
    **dict.fromkeys(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"), _compared),
    **dict.fromkeys(("contains", "indexOf", "lastIndexOf"), _searched),
    "@in": _contained,
    "size": _measured,
    **dict.fromkeys(("_[_]", "_[?_]", "first", "last"), _entry),
    "_?._": _optional_field,
    **dict.fromkeys(
        ("optional.of", "optional.ofNonZeroValue", "or", "orValue", "value", "dyn"), _any_of
    ),
    "_?_:_": _chosen,
    **dict.fromkeys(_AGGREGATES, _aggregate),
    "matches": _matched,
    "replace": _replaced,
    "split": _split,
    "join": _joined,
    "@string_format": _formatted,
    "strings.quote": _quoted,
    f"@{SUBSTRING}": _part,
    "@matches": _matched_in_python,
    **dict.fromkeys(("find", "@find"), _found),
    **dict.fromkeys(("findAll", "@findAll"), _all_found),
    MAP_OF: _collected,
    **dict.fromkeys((SET_SUM, MAP_SUM), _merged),
    **dict.fromkeys(
        ("url", "getScheme", "getHost", "getHostname", "getPort", "getEscapedPath"), _read_url
    ),
    "getQuery": _query,
    "validate": _problems,
    **dict.fromkeys(("slice", "reverse"), _same_items),
    **dict.fromkeys(("sort", "@sortByAssociatedKeys"), _sorted_items),
    "distinct": _compared_items,
    "flatten": _flat_items,
    "lists.range": _numbers,
}

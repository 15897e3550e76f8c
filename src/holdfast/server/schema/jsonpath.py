"""JSONPath for printer columns: fields, indexes, slices, wildcards and filters."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from holdfast.runtime.errors import BadRequest

# A step maps a value to the values it selects; selecting nothing is not an error.
PathStep = Callable[[Any], Iterable[Any]]

_FIELD = re.compile(r"\.((?:\\.|[^.\[\]\\(){}'\"])+)")
_QUOTED = re.compile(r"\[(?:'((?:\\.|[^'\\])*)'|\"((?:\\.|[^\"\\])*)\")\]")
_INDEX = re.compile(r"\[(-?[0-9]{1,9})\]")
_SLICE = re.compile(r"\[(-?[0-9]{1,9}|):(-?[0-9]{1,9}|)\]")
_WILDCARD = re.compile(r"\[\*\]|\.\*")
_FILTER = re.compile(r"\[\?\(\s*@(.*?)\)\]")
_OPERATOR = re.compile("==|!=|<=|>=|<|>")
_ESCAPE = re.compile(r"\\(.)")

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt,
    "<=": operator.le, ">=": operator.ge,
}  # fmt: skip
LENGTH_LIMIT = 1024
_LITERALS: dict[str, Any] = {"true": True, "false": False, "null": None}


def find(path: str, value: Any) -> list[Any]:
    r"""Return the values that a path selects.

    A missing field selects nothing; an invalid path raises BadRequest.

    >>> ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    >>> find('.conditions[?(@.type=="Ready")].status', ready)
    ['True']
    >>> find(r".labels.example\.com/a", {"labels": {"example.com/a": 1}})
    [1]
    """
    values = [value]
    for step in parse(path):
        values = [each for one in values for each in step(one)]
    return values


@lru_cache(maxsize=1024)
def parse(path: str) -> tuple[PathStep, ...]:
    """Parse a path, cached; raise BadRequest with the invalid part."""
    if len(path) > LENGTH_LIMIT:
        raise BadRequest(f"a JSONPath may have {LENGTH_LIMIT} characters at most")
    steps: list[PathStep] = []
    at = 0
    while at < len(path):
        match, step = _step(path, at)
        if match is None or step is None:
            raise BadRequest(
                f"cannot read the JSONPath {path!r} from {path[at:]!r}; use fields, "
                'indexes, [*] and filters such as [?(@.type=="Ready")]'
            )
        steps.append(step)
        at = match.end()
    return tuple(steps)


def _step(path: str, at: int) -> tuple[re.Match[str] | None, PathStep | None]:
    for pattern, make in _SYNTAX:
        if match := pattern.match(path, at):
            return match, make(match)
    return None, None


def _field(match: re.Match[str]) -> PathStep:
    raw = next(group for group in match.groups() if group is not None)
    name = _ESCAPE.sub(r"\1", raw)
    return lambda value: (value[name],) if isinstance(value, dict) and name in value else ()


def _index(match: re.Match[str]) -> PathStep:
    index = int(match[1])
    return lambda value: (
        (value[index],) if isinstance(value, list) and -len(value) <= index < len(value) else ()
    )


def _slice(match: re.Match[str]) -> PathStep:
    start, stop = (int(part) if part else None for part in match.groups())
    return lambda value: value[start:stop] if isinstance(value, list) else ()


def _every(match: re.Match[str]) -> PathStep:
    def values(value: Any) -> Iterable[Any]:
        if isinstance(value, dict):
            return value.values()
        return value if isinstance(value, list) else ()

    return values


def _filter(match: re.Match[str]) -> PathStep:
    operator_ = _OPERATOR.search(match[1])
    if operator_ is None:
        path = match[1].strip()
        return lambda value: [one for one in _items(value) if find(path, one)]
    path = match[1][: operator_.start()].strip()
    wanted = _literal(match[1][operator_.end() :].strip())
    holds = _COMPARE[operator_[0]]

    def keep(one: Any) -> bool:
        try:
            return any(holds(got, wanted) for got in find(path, one))
        except TypeError:  # values of different types do not match
            return False

    return lambda value: [one for one in _items(value) if keep(one)]


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _literal(text: str) -> Any:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return _ESCAPE.sub(r"\1", text[1:-1])
    if text in _LITERALS:
        return _LITERALS[text]
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise BadRequest(f"cannot read {text!r} in a JSONPath filter: quote it") from None


_SYNTAX: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], PathStep]], ...] = (
    (_WILDCARD, _every),
    (_FIELD, _field),
    (_QUOTED, _field),
    (_INDEX, _index),
    (_SLICE, _slice),
    (_FILTER, _filter),
)

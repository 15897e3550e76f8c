"""Label selectors: compile, match and format them.

A selector is a conjunction of requirements. ``EVERYTHING`` has no requirement; ``NOTHING`` matches
no labels, which is the meaning of an absent LabelSelector. ``parse`` reads the text of
``?labelSelector=``, ``from_selector`` the LabelSelector of a spec.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from holdfast.api import names
from holdfast.api.field_errors import child, invalid, not_supported, raise_if_any
from holdfast.api.meta import LabelSelector
from holdfast.runtime.errors import BadRequest, Cause

IN, NOT_IN, EXISTS, ABSENT = "in", "notin", "exists", "!"
EQUALS, DOUBLE_EQUALS, NOT_EQUALS = "=", "==", "!="
GREATER, LESS = "gt", "lt"

_OPERATORS = (
    IN, NOT_IN, EQUALS, DOUBLE_EQUALS, NOT_EQUALS, EXISTS, ABSENT, GREATER, LESS,
)  # fmt: skip
_BY_STRUCT_NAME = {"In": IN, "NotIn": NOT_IN, "Exists": EXISTS, "DoesNotExist": ABSENT}
_ONE_VALUE = (EQUALS, DOUBLE_EQUALS, NOT_EQUALS)
_FEW = 16
"""Up to this many values are compared one by one; more are searched by bisection."""

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """A requirement on one label; ``values`` are sorted and unique."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Return whether the labels match."""
        value = labels.get(self.key)
        match self.operator:
            case "in" | "=" | "==":
                return value is not None and self._lists(value)
            case "notin" | "!=":
                return value is None or not self._lists(value)
            case "exists":
                return value is not None
            case "!":
                return value is None
            case _:
                return value is not None and self._compares(value)

    def _lists(self, value: str) -> bool:
        values = self.values
        if len(values) <= _FEW:
            return value in values
        at = bisect_left(values, value)
        return at < len(values) and values[at] == value

    def _compares(self, value: str) -> bool:
        left, right = names.parse_integer(value), names.parse_integer(self.values[0])
        if left is None or right is None:
            return False
        return left > right if self.operator == GREATER else left < right

    def __str__(self) -> str:
        joined = ",".join(self.values)
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
            case "in" | "notin":
                return f"{self.key} {self.operator} ({joined})"
            case "gt":
                return f"{self.key}>{joined}"
            case "lt":
                return f"{self.key}<{joined}"
            case _:
                return f"{self.key}{self.operator}{joined}"


@dataclass(frozen=True, slots=True)
class Selector:
    """Requirements that must all match; ``None`` instead of a tuple matches nothing."""

    requirements: tuple[LabelRequirement, ...] | None = ()

    def matches(self, labels: Labels) -> bool:
        """Return whether the labels match.

        >>> parse("tier in (a,b),!legacy").matches({"tier": "a"})
        True
        """
        if self.requirements is None:
            return False
        # Asked for every pair of groups: `all` takes twice as long.
        for requirement in self.requirements:  # noqa: SIM110
            if not requirement.matches(labels):
                return False
        return True

    @property
    def everything(self) -> bool:
        """Whether every label map matches."""
        return self.requirements == ()

    @property
    def keys(self) -> frozenset[str]:
        """The label keys of the requirements."""
        return frozenset(r.key for r in self.requirements or ())

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements or ())


EVERYTHING = Selector(())
NOTHING = Selector(None)


def check(key: str, operator: str, values: Iterable[str], path: str = "") -> list[Cause]:
    """Return the errors of a requirement, with field paths below ``path``."""
    values = list(values)
    causes = []
    if errors := names.label_key(key):
        causes.append(invalid(child(path, "key"), key, "; ".join(errors)))
    at = child(path, "values")
    if operator not in _OPERATORS:
        causes.append(not_supported(child(path, "operator"), operator, _OPERATORS))
    elif detail := _wrong_count(operator, len(values)):
        causes.append(invalid(at, values, detail))
    if operator in (GREATER, LESS):
        causes += [
            invalid(f"{at}[{i}]", v, "for 'Gt', 'Lt' operators, the value must be an integer")
            for i, v in enumerate(values)
            if names.parse_integer(v) is None
        ]
    causes += [
        invalid(f"{at}[{i}][{key}]", value, "; ".join(errors))
        for i, value in enumerate(values)
        if (errors := names.label_value(value))
    ]
    return causes


def _wrong_count(operator: str, count: int) -> str:
    if operator in (IN, NOT_IN):
        return "" if count else "for 'in', 'notin' operators, values set can't be empty"
    if operator in (EXISTS, ABSENT):
        return "values set must be empty for exists and does not exist" if count else ""
    if count == 1:
        return ""
    if operator in _ONE_VALUE:
        return "exact-match compatibility requires one single value"
    return "for 'Gt', 'Lt' operators, exactly one value is required"


def require(
    key: str, operator: str, values: Iterable[str] = (), path: str = ""
) -> LabelRequirement:
    """Return a validated requirement; raise BadRequest with the invalid fields."""
    unique = sorted(set(values))
    raise_if_any(check(key, operator, unique, path))
    return LabelRequirement(key, operator, tuple(unique))


def conjunction(requirements: Iterable[LabelRequirement]) -> Selector:
    """Return a selector of these requirements, sorted by key."""
    return Selector(tuple(sorted(requirements, key=lambda r: r.key)))


def from_labels(labels: Labels) -> Selector:
    """Return a selector of all these labels, not validated; empty labels match everything."""
    return conjunction(LabelRequirement(k, EQUALS, (v,)) for k, v in labels.items())


def from_selector(selector: LabelSelector | None) -> Selector:
    """Compile a LabelSelector: absent matches nothing, empty matches everything."""
    if selector is None:
        return NOTHING
    requirements = [require(k, EQUALS, (v,)) for k, v in selector.match_labels.items()]
    for expression in selector.match_expressions:
        operator = _BY_STRUCT_NAME.get(expression.operator)
        if operator is None:
            raise BadRequest(f'"{expression.operator}" is not a valid label selector operator')
        requirements.append(require(expression.key, operator, expression.values))
    return conjunction(requirements)


def selector_or_nothing(selector: LabelSelector | None) -> Selector:
    """Compile a selector that may not have been validated; an invalid one matches nothing."""
    try:
        return from_selector(selector)
    except BadRequest:
        return NOTHING


_TOKEN = re.compile(r"[ \t\r\n]*(?:(==|!=|[=!(),<>])|([^ \t\r\n=!(),<>]+)|$)")
_END = ""
_SYMBOL_OPERATORS = {"=": EQUALS, "==": DOUBLE_EQUALS, "!=": NOT_EQUALS, ">": GREATER, "<": LESS}
_EXPECTED_OPERATOR = "found '{}', expected: in, notin, =, ==, !=, gt, lt"


@dataclass(slots=True)
class _Reader:
    """A cursor over the tokens of a selector: text, and whether it is a word."""

    tokens: list[tuple[str, bool]]
    at: int = 0

    def peek(self) -> tuple[str, bool]:
        return self.tokens[self.at]

    def take(self) -> tuple[str, bool]:
        token = self.tokens[self.at]
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def expect(self, wanted: Callable[[str, bool], bool], message: str) -> str:
        text, word = self.take()
        if not wanted(text, word):
            raise BadRequest(message.format(text))
        return text


def _is_word(_: str, word: bool) -> bool:
    return word


def parse(text: str) -> Selector:
    """Parse the text form; errors name what was found and what was expected.

    >>> str(parse("x in (b, a,), y != 1, !z"))
    'x in (,a,b),y!=1,!z'
    """
    tokens = [(symbol or word, bool(word)) for symbol, word in _TOKEN.findall(text)]
    reader = _Reader([*(token for token in tokens if token[0]), (_END, False)])
    requirements: list[LabelRequirement] = []
    message = "found '{}', expected: !, identifier, or 'end of string'"
    while reader.peek()[0] != _END or requirements:
        text_, word = reader.peek()
        if not word and text_ != "!":
            raise BadRequest(message.format(text_))
        try:
            requirements.append(_requirement(reader))
        except BadRequest as error:
            raise BadRequest(f"unable to parse requirement: {error}", error.details) from None
        separator, _ = reader.take()
        if separator == _END:
            break
        if separator != ",":
            raise BadRequest(f"found '{separator}', expected: ',' or 'end of string'")
        message = "found '{}', expected: identifier after ','"
    return conjunction(requirements)


def _requirement(reader: _Reader) -> LabelRequirement:
    negated = reader.peek()[0] == "!"
    if negated:
        reader.take()
    key = reader.expect(_is_word, "found '{}', expected: identifier")
    if errors := names.label_key(key):
        raise_if_any([invalid("key", key, "; ".join(errors))])
    if negated:
        return require(key, ABSENT)
    if reader.peek()[0] in (_END, ","):
        return require(key, EXISTS)
    text, word = reader.take()
    if word and text in (IN, NOT_IN):
        return require(key, text, _values(reader))
    if text not in _SYMBOL_OPERATORS:
        raise BadRequest(_EXPECTED_OPERATOR.format(text))
    value = ""
    if reader.peek()[0] not in (_END, ","):
        value = reader.expect(_is_word, "found '{}', expected: identifier")
    return require(key, _SYMBOL_OPERATORS[text], (value,))


def _values(reader: _Reader) -> list[str]:
    """Parse ``(a,b)``; nothing between commas is the empty value."""
    reader.expect(lambda text, _: text == "(", "found '{}' expected: '('")
    values = []
    while True:
        text, word = reader.peek()
        values.append(reader.take()[0] if word else "")
        text, _ = reader.take()
        if text == ")":
            return values
        if text != ",":
            raise BadRequest(f"found '{text}', expected: ',' or ')'")

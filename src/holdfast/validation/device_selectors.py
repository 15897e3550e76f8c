"""Validation of device selectors: they are compiled, and their cost is bounded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from holdfast.api import field_errors
from holdfast.cel.devices import DeviceSelectors
from holdfast.cel.errors import MAX_EXPRESSION_BYTES, CompileError
from holdfast.errors import Cause
from holdfast.validation.json_fields import Raw, check_list, map_at, text_at

_MOST_SELECTORS = 32
_MOST_COMMAS = 1024
"""The engine needs quadratic time to compile long lists and maps."""
_MOST_BYTES = 64 * 1024
"""Of all expressions of one object together: half a second to compile."""
_TOO_COMPLEX = "too complex, exceeds cost limit"
_selectors = DeviceSelectors()


def check_selectors(selectors: Sequence[Any], path: str) -> Iterator[Cause]:
    """Yield what is wrong with the selectors of a class or request."""
    return check_list(selectors, _MOST_SELECTORS, _check_selector, path)


def check_total_size(selectors: Iterable[Raw], path: str) -> Iterator[Cause]:
    """Refuse an object whose expressions together would take too long to compile."""
    expressions = {text_at(map_at(selector, "cel"), "expression") for selector in selectors}
    if sum(map(len, expressions)) > _MOST_BYTES:
        yield field_errors.forbidden(path, _TOO_COMPLEX)


def _check_selector(selector: Raw, path: str) -> Iterator[Cause]:
    cel = selector.get("cel")
    if cel is None:
        yield field_errors.required(f"{path}.cel")
    else:
        yield from _check_expression(text_at(cel, "expression"), f"{path}.cel.expression")


def _check_expression(expression: str, path: str) -> Iterator[Cause]:
    if len(expression.encode(errors="surrogatepass")) > MAX_EXPRESSION_BYTES:
        yield field_errors.too_long(path, MAX_EXPRESSION_BYTES)
    elif expression.count(",") > _MOST_COMMAS:
        yield field_errors.forbidden(path, _TOO_COMPLEX)
    elif message := _compile_error(expression):
        yield field_errors.invalid(path, expression, message)
    elif _is_too_complex(expression):
        yield field_errors.forbidden(path, _TOO_COMPLEX)


def _compile_error(expression: str) -> str:
    try:
        _selectors.compile(expression)
    except CompileError as refusal:
        return refusal.message
    return ""


@lru_cache(maxsize=512)
def _is_too_complex(expression: str) -> bool:
    return _selectors.compile(expression).is_too_complex

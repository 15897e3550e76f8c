"""Validation of device selectors: they are compiled, and their cost is bounded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

from holdfast.api import field_errors
from holdfast.api.cel.devices import DeviceSelectors
from holdfast.api.cel.errors import MAX_EXPRESSION_BYTES, CompileError
from holdfast.api.decode import JsonMapping
from holdfast.api.json_fields import map_at, text_at
from holdfast.api.validation.json_fields import check_list
from holdfast.runtime.errors import Cause

_MOST_SELECTORS = 32
_MOST_COMMAS = 1024
"""The engine needs quadratic time to compile long lists and maps."""
_MOST_BYTES = 64 * 1024
"""For all expressions of one object together: compiling these takes half a second."""
_LEAST_BYTES = 32
"""A short expression takes as long to compile as one of this length."""
_TOO_COMPLEX = "too complex, exceeds cost limit"


class SelectorRules:
    """Checks selectors, which are compiled with the features of devices that are on."""

    def __init__(self, *, shared_devices: bool, list_attributes: bool) -> None:
        self.shared_devices = shared_devices
        self._selectors = DeviceSelectors(
            shared_devices=shared_devices, list_attributes=list_attributes
        )

    def check(self, selectors: Sequence[Any], path: str) -> Iterator[Cause]:
        """Yield what is wrong with the selectors of a class or request."""
        return check_list(selectors, _MOST_SELECTORS, self._check_selector, path)

    def _check_selector(self, selector: JsonMapping, path: str) -> Iterator[Cause]:
        cel = selector.get("cel")
        if cel is None:
            yield field_errors.required(f"{path}.cel")
        else:
            yield from self._check_expression(text_at(cel, "expression"), f"{path}.cel.expression")

    def _check_expression(self, expression: str, path: str) -> Iterator[Cause]:
        if len(expression.encode(errors="surrogatepass")) > MAX_EXPRESSION_BYTES:
            yield field_errors.too_long(path, MAX_EXPRESSION_BYTES)
        elif expression.count(",") > _MOST_COMMAS:
            yield field_errors.forbidden(path, _TOO_COMPLEX)
        elif message := self._compile_error(expression):
            yield field_errors.invalid(path, expression, message)
        elif _is_too_complex(self._selectors, expression):
            yield field_errors.forbidden(path, _TOO_COMPLEX)

    def _compile_error(self, expression: str) -> str:
        try:
            self._selectors.compile(expression)
        except CompileError as refusal:
            return refusal.message
        return ""


@cache
def selector_rules(*, shared_devices: bool = True, list_attributes: bool = False) -> SelectorRules:
    """Return the checker of selectors for devices with or without these features."""
    return SelectorRules(shared_devices=shared_devices, list_attributes=list_attributes)


DEFAULT_RULES = selector_rules()


def check_total_size(selectors: Iterable[JsonMapping], path: str) -> Iterator[Cause]:
    """Refuse an object whose expressions together would take too long to compile."""
    expressions = {text_at(map_at(selector, "cel"), "expression") for selector in selectors}
    if sum(max(len(text), _LEAST_BYTES) for text in expressions) > _MOST_BYTES:
        yield field_errors.forbidden(path, _TOO_COMPLEX)


@lru_cache(maxsize=512)
def _is_too_complex(selectors: DeviceSelectors, expression: str) -> bool:
    return selectors.compile(expression).is_too_complex

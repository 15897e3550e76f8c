"""How expressions fail, in the words a Kubernetes user knows from cel-go."""

from __future__ import annotations

import re

from holdfast.errors import Refused

_STATUS = re.compile(r"^[A-Z_]+: |\[[A-Z_]+\]$")
_REWORDED = (
    (re.compile(r"undeclared reference to 'device\.(\w+)'"), r"undefined field '\1'"),
    (re.compile(r'Key not found in map : "?([^"]*)"?'), r"no such key: \1"),
    (re.compile(r"No matching overloads found : (.*)"), r"no such overload: \1"),
    (re.compile(r"Iteration budget exceeded"), "actual cost limit exceeded: too many loop steps"),
)
_BARE_DEVICE = re.compile(r"undeclared reference to 'device'")
_HINT = "; write device.attributes[...] in full, a bare `device` is not supported"


class CompileError(Refused):
    """An expression that cannot be evaluated on anything; ``expression`` is what was written."""

    def __init__(self, expression: str, message: str) -> None:
        super().__init__(message)
        self.expression = expression


class EvaluationError(Refused):
    """An expression that failed on one value; ``expression`` is what was written."""

    def __init__(self, expression: str, message: str) -> None:
        super().__init__(message)
        self.expression = expression


def in_upstreams_words(text: str) -> str:
    """Rewrite an engine message the way cel-go puts it, as far as the two can be matched.

    >>> in_upstreams_words('NOT_FOUND: Key not found in map : "memory"')
    'no such key: memory'
    """
    words = _STATUS.sub("", text).rstrip()
    if _BARE_DEVICE.search(words):
        words += _HINT
    for engine, upstream in _REWORDED:
        words = engine.sub(upstream, words)
    return words

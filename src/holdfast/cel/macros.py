"""Spellings that the engine's parser does not know, replaced by those of the same length it does.

``exists_one(k, v, p)`` is ``existsOne(k, v, p)``; ``has(device.driver)`` is ``true``, because the
fields of ``device`` are variables for the checker. Positions in messages stay the same.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""
      [rRbB]{0,2}(?:\"\"\".*?\"\"\"|'''.*?''')
    | [bB]?[rR][bB]?(?:"[^"\n]*"|'[^'\n]*')
    | [bB]?(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    | (?P<blank>\s+|//[^\n]*)
    | [A-Za-z_][A-Za-z_0-9]*
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
_OPEN, _CLOSE = ("(", "[", "{"), (")", "]", "}")
_FIELDS = ("driver", "attributes", "capacity", "allowMultipleAllocations")


def with_known_macros(expression: str) -> str:
    """Return the expression with spellings that the engine knows.

    >>> with_known_macros("a.exists_one(k, v, true) && b.exists_one(k, true)")
    'a.existsOne (k, v, true) && b.exists_one(k, true)'
    """
    if "exists_one" not in expression and "has" not in expression:
        return expression
    tokens = [m for m in _TOKEN.finditer(expression) if m["blank"] is None]
    texts = [m[0] for m in tokens]
    edits = []
    for i, text in enumerate(texts):
        if text == "exists_one" and _arguments(texts, i + 1) == 3:
            edits.append((tokens[i].start(), tokens[i].end(), "existsOne"))
        elif text == "has" and _is_device_field(texts[i + 1 : i + 6]):
            edits.append((tokens[i].start(), tokens[i + 5].end(), "true"))
    for start, end, new in reversed(edits):
        expression = expression[:start] + new.ljust(end - start) + expression[end:]
    return expression


def _is_device_field(texts: list[str]) -> bool:
    match texts:
        case ["(", "device", ".", field, ")"]:
            return field in _FIELDS
    return False


def _arguments(texts: list[str], at: int) -> int:
    """Return how many arguments the call has whose bracket is at this token."""
    depth, commas = 0, 0
    for text in texts[at:]:
        depth += (text in _OPEN) - (text in _CLOSE)
        if depth == 0:
            break
        commas += text == "," and depth == 1
    return commas + 1

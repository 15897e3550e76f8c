"""Rewrite selectors so that an unknown domain is an empty map; the engine has no default values.

``device.attributes["x"]`` and ``device.attributes.x`` become
``device.attributes[?"x"].orValue({})``; likewise for capacity. ``"x" in device.attributes`` and
``has(device.attributes.x)`` still test whether the domain exists. Only direct lookups are
rewritten: ``cel.bind(a, device.attributes, a["x"])`` stays an error for an unknown domain.
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
_MAPS = ("attributes", "capacity")
_DEFAULT = ".orValue({})"

_Tokens = list[re.Match[str]]
_Edit = tuple[int, int, str]


def with_default_domains(expression: str) -> str:
    """Rewrite every lookup of a domain in ``device.attributes`` and ``device.capacity``.

    >>> with_default_domains('has(device.attributes["a.com"].x)')
    'has(device.attributes[?"a.com"].orValue({}).x)'
    """
    if "device" not in expression:
        return expression
    tokens = [m for m in _TOKEN.finditer(expression) if m["blank"] is None]
    texts = [m[0] for m in tokens]
    edits: list[_Edit] = []
    for i in range(len(tokens) - 4):
        if texts[i : i + 2] == ["device", "."] and texts[i + 2] in _MAPS and _starts(texts, i):
            edits += _edits(tokens, texts, i + 3)
    return _apply(expression, edits)


def _starts(texts: list[str], i: int) -> bool:
    """Return whether this ``device`` is the variable, not a field of another value."""
    return i == 0 or texts[i - 1] not in (".", "?")


def _edits(tokens: _Tokens, texts: list[str], at: int) -> list[_Edit]:
    if texts[at] == "[" and texts[at + 1] != "?":
        close = _closing(texts, at)
        if close is None:
            return []
        inside = tokens[at].end()
        return [(inside, inside, "?"), (tokens[close].end(), tokens[close].end(), _DEFAULT)]
    if texts[at] == "." and texts[at + 1].isidentifier():
        following = texts[at + 2] if at + 2 < len(texts) else ""
        tests_presence = following == ")" and texts[max(at - 5, 0) : at - 3] == ["has", "("]
        if following != "(" and not tests_presence:
            lookup = f'[?"{texts[at + 1]}"]{_DEFAULT}'
            return [(tokens[at].start(), tokens[at + 1].end(), lookup)]
    return []


def _closing(texts: list[str], at: int) -> int | None:
    depth = 0
    for i in range(at, len(texts)):
        depth += (texts[i] in _OPEN) - (texts[i] in _CLOSE)
        if depth == 0:
            return i
    return None


def _apply(text: str, edits: list[_Edit]) -> str:
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text

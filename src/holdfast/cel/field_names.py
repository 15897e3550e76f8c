"""Names of fields as rules write them: those that CEL cannot express are escaped."""

from __future__ import annotations

import re

_KEYWORDS = frozenset({"true", "false", "null", "in"})
_RESERVED = frozenset({
    "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop",
    "package", "namespace", "return", "var", "void", "while",
})  # fmt: skip
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_ESCAPABLE = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")


def escape_field_name(name: str) -> str:
    """Return a field's name as rules write it; "" if they cannot.

    >>> escape_field_name("namespace"), escape_field_name("a-b"), escape_field_name("plain")
    ('__namespace__', 'a__dash__b', 'plain')
    """
    if name in _RESERVED or name in _KEYWORDS:
        return f"__{name}__"
    if not _ESCAPABLE.fullmatch(name):
        return ""
    for bad, good in _ESCAPES:
        name = name.replace(bad, good)
    return name


def field_spellings(name: str) -> list[str]:
    """Return all names under which rules may read a field: reserved words also as they are.

    >>> field_spellings("namespace"), field_spellings("a-b"), field_spellings("1")
    (['__namespace__', 'namespace'], ['a__dash__b'], [])
    """
    escaped = escape_field_name(name)
    return [escaped, *([name] if name in _RESERVED else [])] if escaped else []

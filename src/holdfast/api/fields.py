r"""Field selectors: ``metadata.name=x,spec.nodeName!=y``.

A selector only knows paths and values; which paths a kind offers and how they are read is the
caller's ``getter``. A backslash escapes ``\\``, ``,`` and ``=`` in values.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.errors import BadRequest

_TERM = re.compile(r"(?:[^\\,]|\\.?)*", re.DOTALL)
_OPERATOR = re.compile("!=|==|=")
_ESCAPED = re.compile(r"\\(.?)|([,=])", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One field compared with one value."""

    path: str
    value: str
    equal: bool = True

    def holds(self, value: str) -> bool:
        """Tell whether the field may have this value; "" stands for what is not set."""
        return (value == self.value) == self.equal

    def __str__(self) -> str:
        return f"{self.path}{'=' if self.equal else '!='}{escape(self.value)}"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Requirements on fields, all of which must hold; none matches everything."""

    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, getter: Callable[[str], str]) -> bool:
        """Tell whether an object is selected; ``getter`` answers "" for what is not set.

        >>> parse("spec.nodeName!=").matches({"spec.nodeName": "n1"}.__getitem__)
        True
        """
        return all(r.holds(getter(r.path)) for r in self.requirements)

    def exact(self, path: str) -> str | None:
        """The one value this field must have, if the selector demands one."""
        return next((r.value for r in self.requirements if r.equal and r.path == path), None)

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


EVERYTHING = FieldSelector()


def parse(text: str) -> FieldSelector:
    """Read a field selector, or refuse it in upstream's words.

    >>> str(parse("b==2,a=1"))
    'a=1,b=2'
    """
    found = []
    for term in sorted(_split(text)):
        operator = _OPERATOR.search(term)
        if operator is None:
            raise BadRequest(f"invalid selector: '{text}'; can't understand '{term}'")
        value = unescape(term[operator.end() :])
        found.append(FieldRequirement(term[: operator.start()], value, operator[0] != "!="))
    return FieldSelector(tuple(found))


def _split(text: str) -> list[str]:
    """Cut at the commas that no backslash protects, dropping empty terms."""
    return [term for term in _TERM.findall(text) if term]


def escape(value: str) -> str:
    """Protect a literal value for use in a field selector."""
    return re.sub(r"([\\,=])", r"\\\1", value)


def unescape(value: str) -> str:
    """Undo ``escape``; unknown escapes and naked separators are refused."""

    def plain(match: re.Match[str]) -> str:
        escaped, naked = match.groups()
        if naked:
            raise BadRequest(f"invalid field selector: unescaped character in value: {ord(naked)}")
        if escaped not in ("\\", ",", "="):
            raise BadRequest(f"invalid field selector: invalid escape sequence: \\{escaped}")
        return str(escaped)

    return _ESCAPED.sub(plain, value)

r"""Field selectors: ``metadata.name=x,spec.nodeName!=y``.

A selector consists of paths and values; the caller's ``getter`` returns the value of a path. A
backslash escapes ``\\``, ``,`` and ``=`` in values.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.runtime.errors import BadRequest

_TERM = re.compile(r"(?:[^\\,]|\\.?)*", re.DOTALL)
_OPERATOR = re.compile("!=|==|=")
_ESCAPED = re.compile(r"\\(.?)|([,=])", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """A field and the value it must have, or must not have."""

    path: str
    value: str
    equal: bool = True

    def holds(self, value: str) -> bool:
        """Return whether this value of the field matches; "" if the field is not set."""
        return (value == self.value) == self.equal

    def __str__(self) -> str:
        return f"{self.path}{'=' if self.equal else '!='}{escape(self.value)}"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Requirements that must all match; without requirements everything matches."""

    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, getter: Callable[[str], str]) -> bool:
        """Return whether an object matches; ``getter`` returns "" for fields that are not set.

        >>> parse("spec.nodeName!=").matches({"spec.nodeName": "n1"}.__getitem__)
        True
        """
        return all(r.holds(getter(r.path)) for r in self.requirements)

    def exact(self, path: str) -> str | None:
        """Return the value that this field must have, or None."""
        return next((r.value for r in self.requirements if r.equal and r.path == path), None)

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


EVERYTHING = FieldSelector()


def parse(text: str) -> FieldSelector:
    """Parse a field selector; errors are upstream's.

    >>> str(parse("b==2,a=1"))
    'a=1,b=2'
    """
    requirements = []
    for term in sorted(_split(text)):
        operator = _OPERATOR.search(term)
        if operator is None:
            raise BadRequest(f"invalid selector: '{text}'; can't understand '{term}'")
        value = unescape(term[operator.end() :])
        requirements.append(FieldRequirement(term[: operator.start()], value, operator[0] != "!="))
    return FieldSelector(tuple(requirements))


def _split(text: str) -> list[str]:
    """Split at unescaped commas, without empty terms."""
    return [term for term in _TERM.findall(text) if term]


def escape(value: str) -> str:
    """Escape a value for use in a field selector."""
    return re.sub(r"([\\,=])", r"\\\1", value)


def unescape(value: str) -> str:
    """Undo ``escape``; raise BadRequest for unknown escapes and unescaped separators."""

    def plain(match: re.Match[str]) -> str:
        escaped, unescaped = match.groups()
        if unescaped:
            raise BadRequest(
                f"invalid field selector: unescaped character in value: {ord(unescaped)}"
            )
        if escaped not in ("\\", ",", "="):
            raise BadRequest(f"invalid field selector: invalid escape sequence: \\{escaped}")
        return str(escaped)

    return _ESCAPED.sub(plain, value)

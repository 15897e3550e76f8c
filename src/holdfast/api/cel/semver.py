"""Semantic versions 2.0.0."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering

from holdfast.runtime.errors import BadRequest

_NUMBER = r"0|[1-9][0-9]{0,18}"  # within 64 bits
_LENGTH_LIMIT = 256
_IDENTIFIERS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_SHAPE = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_IDENTIFIERS}))?(?:\+({_IDENTIFIERS}))?"
)
_LOOSE = re.compile(r"v?([0-9]+(?:\.[0-9]+){0,2})(.*)", re.DOTALL)


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A version without its build metadata, which never matters in comparisons."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str, *, normalize: bool = False) -> Semver:
        """Parse a version; ``normalize`` accepts a leading v, missing parts and leading zeros.

        >>> str(Semver.parse("v01.4", normalize=True))
        '1.4.0'
        """
        short = len(text) <= _LENGTH_LIMIT
        shape = _SHAPE.fullmatch(_normalized(text) if normalize else text) if short else None
        if shape is None:
            raise BadRequest(f'parse semantic version: "{text}" is not of the form 1.2.3[-pre]')
        major, minor, patch, prerelease, _ = shape.groups()
        words = tuple(prerelease.split(".")) if prerelease else ()
        for word in words:
            if word.isdigit() and len(word) > 1 and word[0] == "0":
                raise BadRequest(
                    f'parse semantic version: "{text}" has leading zeros in its prerelease'
                )
        return cls(int(major), int(minor), int(patch), words)

    def _order(self) -> tuple[object, ...]:
        # A release sorts after its prereleases; numbers sort before words.
        words = tuple((0, int(w), "") if w.isdigit() else (1, 0, w) for w in self.prerelease)
        return (self.major, self.minor, self.patch, not words, words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._order() == other._order()

    def __lt__(self, other: Semver) -> bool:
        return self._order() < other._order()

    def __hash__(self) -> int:
        return hash(self._order())

    def __str__(self) -> str:
        tail = f"-{'.'.join(self.prerelease)}" if self.prerelease else ""
        return f"{self.major}.{self.minor}.{self.patch}{tail}"


def _normalized(text: str) -> str:
    shape = _LOOSE.fullmatch(text)
    if shape is None:
        return text
    numbers = [str(int(n)) for n in shape[1].split(".")]
    if len(numbers) < 3 and shape[2]:
        return text  # a short version has no prerelease
    return ".".join([*numbers, "0", "0"][:3]) + shape[2]

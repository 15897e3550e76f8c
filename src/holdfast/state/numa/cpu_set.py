"""Sets of CPUs and of NUMA nodes as bit masks: bit k is set if k is in the set.

A Python integer holds any number of CPUs; union, intersection and counting take nanoseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from holdfast.runtime.errors import BadRequest

MAX_CPUS = 8192
"""CPU ids are below this, as in Linux; a list with larger ones is refused before it is expanded."""

_RANGE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")


def parse_cpu_list(text: str) -> int:
    """Parse a Linux CPU list into a mask.

    >>> bin(parse_cpu_list("0-3,8"))
    '0b100001111'
    """
    mask = 0
    for part in text.split(",") if text.strip() else ():
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise BadRequest(_bad(text, f"{part[:20]!r} is neither a CPU nor a range of CPUs"))
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if last < first or last >= MAX_CPUS:
            problem = "ends before it begins" if last < first else f"exceeds {MAX_CPUS - 1}"
            raise BadRequest(_bad(text, f"{part[:20]!r} {problem}"))
        mask |= (1 << last + 1) - (1 << first)
    return mask


def _bad(text: str, problem: str) -> str:
    return f"not a CPU list such as 0-3,8: {text[:40]!r}: {problem}"


def format_cpu_list(mask: int) -> str:
    """Write a mask as a Linux CPU list.

    >>> format_cpu_list(0b1_1101_0000_1111)
    '0-3,8,10-12'
    """
    parts: list[str] = []
    while mask:
        first = (mask & -mask).bit_length() - 1
        run = mask >> first
        length = (~run & run + 1).bit_length() - 1
        parts.append(str(first) if length == 1 else f"{first}-{first + length - 1}")
        mask = run >> length << first + length
    return ",".join(parts)


def mask_of(members: Iterable[int]) -> int:
    """Return the mask of these members."""
    mask = 0
    for member in members:
        mask |= 1 << member
    return mask


def members_of(mask: int) -> list[int]:
    """Return the members of a mask, ascending.

    >>> members_of(0b1101)
    [0, 2, 3]
    """
    members: list[int] = []
    while mask:
        lowest = mask & -mask
        members.append(lowest.bit_length() - 1)
        mask ^= lowest
    return members


def lowest(mask: int, count: int) -> int:
    """Return the lowest members of a mask, this many or all.

    >>> bin(lowest(0b11011, 3))
    '0b1011'
    """
    rest = mask
    for _ in range(min(count, mask.bit_count())):
        rest &= rest - 1
    return mask ^ rest

"""Format output: tables, quantities in one unit per column, durations, numbers, names, JSON."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from holdfast.api.quantity import AmountText, milli, units

MAX_NAMES = 8
NOTHING = "-"
"""The text of a cell without a value."""
_BINARY = ((2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi"))
_AGES = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format rows under headings, as kubectl does.

    >>> print(format_table(["NAME", "CPU"], [["a-long-name", "1"], ["b", ""]]))
    NAME          CPU
    a-long-name   1
    b
    """
    lines = [list(head), *([escaped(cell) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) + 3 for i in range(len(head))]
    return "\n".join(
        "".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def format_filled_columns(
    head: Sequence[str], rows: Sequence[Sequence[str]], optional: Collection[str]
) -> str:
    """Format a table without the optional columns that no row fills.

    >>> print(format_filled_columns(["NAME", "LEFT"], [["a", "-"]], {"LEFT"}))
    NAME
    a
    """
    kept = [
        at
        for at, name in enumerate(head)
        if name not in optional or any(row[at] not in ("", NOTHING) for row in rows)
    ]
    return format_table([head[at] for at in kept], [[row[at] for at in kept] for row in rows])


def escaped(text: str) -> str:
    r"""Escape control characters: nodes and clients choose the text, and a terminal obeys them.

    >>> print(escaped("a\x1b[2J"))
    a\x1b[2J
    """
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )


def list_amounts(requests: Sequence[Mapping[str, AmountText]]) -> list[str]:
    """Write each set of quantities in one line, every resource in one unit over all lines.

    >>> list_amounts([{"memory": "8Gi", "cpu": "500m"}, {"memory": "1Gi", "cpu": "2"}, {}])
    ['cpu 0.5, memory 8Gi', 'cpu 2, memory 1Gi', '-']
    """
    texts: list[dict[str, str]] = [{} for _ in requests]
    for resource in sorted({name for request in requests for name in request}):
        having = [at for at, request in enumerate(requests) if resource in request]
        read = milli if resource == "cpu" else units
        written = in_one_unit(resource, [read(requests[at][resource]) for at in having])
        for at, text in zip(having, written, strict=True):
            texts[at][resource] = text
    return [", ".join(f"{name} {text}" for name, text in line.items()) or "-" for line in texts]


def in_one_unit(resource: str, amounts: Sequence[int]) -> list[str]:
    """Write amounts of a resource, given in millicores or whole units, all in the same unit.

    CPU is written in cores. Bytes are written in the largest of Ti, Gi and Mi such that every
    amount is at least one unit.

    >>> in_one_unit("cpu", [7800, 2000, 0]), in_one_unit("example.com/gpu", [3])
    (['7.8', '2', '0'], ['3'])
    >>> in_one_unit("memory", [3 * 2**30, 3 * 2**29, 0]), in_one_unit("memory", [2**30, 2**27])
    (['3Gi', '1.5Gi', '0'], ['1024Mi', '128Mi'])
    """
    if resource == "cpu":
        return [_decimal(amount / 1000, 3) for amount in amounts]
    if resource != "memory" and not resource.startswith(("ephemeral-storage", "hugepages-")):
        return [str(amount) for amount in amounts]
    least = min((abs(amount) for amount in amounts if amount), default=0)
    size, unit = next(((s, u) for s, u in _BINARY if least >= s), _BINARY[-1])
    return [f"{_decimal(amount / size, 1)}{unit}" if amount else "0" for amount in amounts]


def _decimal(value: float, digits: int) -> str:
    """Write a number without needless zeros; one too small for ``digits`` is not written as 0."""
    text = f"{value:.{digits}f}".rstrip("0").rstrip(".")
    return text if float(text) or not value else f"{value:.1g}"


def format_duration(seconds: float) -> str:
    """Write a duration with its two largest units.

    >>> format_duration(59), format_duration(3600), format_duration(90000), format_duration(-5)
    ('59s', '1h', '1d1h', '0s')
    """
    left, parts = max(0, int(seconds)), []
    for size, unit in _AGES:
        if left >= size:
            parts.append(f"{left // size}{unit}")
            left %= size
    return "".join(parts[:2]) or "0s"


def counted(count: int, noun: str) -> str:
    """Write a number of things.

    >>> counted(1, "device"), counted(0, "device")
    ('1 device', '0 devices')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def join_names(names: Sequence[str]) -> str:
    """Join names, sorted; only the first are written out.

    >>> join_names(["b", "a"]), join_names("abcdefghijk")
    ('a, b', 'a, b, c, d, e, f, g, h and 3 more')
    """
    shown = ", ".join(sorted(names)[:MAX_NAMES])
    more = len(names) - MAX_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def print_json(value: Any) -> None:
    """Print values as indented JSON."""
    import msgspec  # noqa: PLC0415 - `holdfast status` needs no JSON of values

    print(msgspec.json.format(msgspec.json.encode(value)).decode())

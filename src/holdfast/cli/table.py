"""Tables and amounts for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from holdfast.api.quantity import AmountText

_BINARY = ((2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki"))
_AGES = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Set rows under their heads, as kubectl does.

    >>> print(table(["NAME", "CPU"], [["a-long-name", "1"], ["b", ""]]))
    NAME          CPU
    a-long-name   1
    b
    """
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) + 3 for i in range(len(head))]
    return "\n".join(
        "".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def amounts(given: Mapping[str, AmountText]) -> str:
    """List amounts shortly.

    >>> amounts({"memory": "8Gi", "cpu": "500m"}), amounts({})
    ('cpu 500m, memory 8Gi', '-')
    """
    return ", ".join(f"{name} {given[name]}" for name in sorted(given)) or "-"


def shown(resource: str, amount: int) -> str:
    """Write an amount in base units (millicores for cpu) so that people can read it.

    >>> shown("cpu", 7800), shown("cpu", 2000), shown("memory", 28625036 * 1024), shown("x/y", 3)
    ('7800m', '2', '27.3Gi', '3')
    """
    if resource == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if resource != "memory" and not resource.startswith(("ephemeral-storage", "hugepages-")):
        return str(amount)
    for size, unit in _BINARY:
        if abs(amount) >= size:
            return f"{amount / size:.1f}".removesuffix(".0") + unit
    return str(amount)


def span(seconds: float) -> str:
    """Write how long something is, the two largest units at most.

    >>> span(59), span(3600), span(90000), span(-5)
    ('59s', '1h', '1d1h', '0s')
    """
    left, told = max(0, int(seconds)), []
    for size, unit in _AGES:
        if left >= size:
            told.append(f"{left // size}{unit}")
            left %= size
    return "".join(told[:2]) or "0s"

"""Amounts by quota key: sums, differences, and how messages show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.api.pod import ResourceAmounts
from holdfast.api.quantity import Quantity

Usage = dict[str, Quantity]
"""What is charged, by the key of ``spec.hard``."""
ZERO, ONE = Quantity(0), Quantity(1)


def parse_amounts(amounts: ResourceAmounts) -> Usage:
    """Parse the quantities of a quota."""
    return {key: Quantity.parse(text) for key, text in amounts.items()}


def add_usage(total: Usage, more: Mapping[str, Quantity]) -> None:
    """Add amounts to ``total``; the first amount that is not zero decides the suffix family."""
    for key, amount in more.items():
        total[key] = total.get(key, ZERO) + amount


def growth(new: Mapping[str, Quantity], old: Mapping[str, Quantity]) -> Usage:
    """Return by how much each key grows; keys that do not grow are omitted.

    >>> {key: str(q) for key, q in growth({"a": ONE, "b": ONE}, {"b": ONE}).items()}
    {'a': '1'}
    """
    grown = {key: amount - old.get(key, ZERO) for key, amount in new.items()}
    return {key: amount for key, amount in grown.items() if amount > ZERO}


def to_texts(usage: Mapping[str, Quantity]) -> dict[str, str]:
    """Return canonical quantities, sorted by key."""
    return {key: str(usage[key]) for key in sorted(usage)}


def show(usage: Mapping[str, Quantity], keys: Iterable[str]) -> str:
    """Return amounts as upstream's messages show them.

    >>> show({"pods": ONE, "cpu": Quantity(5, -1)}, ["pods", "cpu"])
    'cpu=500m,pods=1'
    """
    return ",".join(f"{key}={usage.get(key, ZERO)}" for key in sorted(keys))

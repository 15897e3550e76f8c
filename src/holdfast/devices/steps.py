"""Run to its end what is written in steps, such as a search."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

T = TypeVar("T")


def _continue() -> None:
    """Do nothing in a pause."""


def result_of(steps: Generator[None, None, T], on_pause: Callable[[], None] = _continue) -> T:
    """Return the result of a generator; ``on_pause`` is called wherever it pauses.

    An exception of ``on_pause`` ends it.
    """
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found
        on_pause()

"""How many random cases a test tries: few in ``make test``, more and others in ``make soak``."""

import os
from collections.abc import Iterable
from random import Random
from typing import TypeVar

from hypothesis import settings

Case = TypeVar("Case")

SEED = int(os.environ.get("HOLDFAST_SEED", "0"))
"""0 in ``make test``, which tries the same cases in every run."""
TIMES = int(os.environ.get("HOLDFAST_ROUNDS", "1"))
"""Factor of the number of cases; 1 in ``make test``."""


def rounds(count: int) -> int:
    """Return how many random cases to try: a quarter of ``count``, in ``make soak`` a multiple."""
    return max(1, count // 4) if TIMES == 1 else count * TIMES


def law(examples: int) -> settings:
    """Settings of a law that tries so many examples, as ``rounds`` does."""
    return settings(max_examples=rounds(examples), deadline=None)


def some_of(cases: Iterable[Case], one_in: int) -> list[Case]:
    """Choose about one in so many cases, the same in every run; ``make soak`` takes them all."""
    dice = Random(0)
    return [case for case in cases if TIMES > 1 or dice.random() * one_in < 1]

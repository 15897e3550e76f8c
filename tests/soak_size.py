"""How many random cases a test tries: few in ``make test``, more and others in ``make soak``."""

import os

from hypothesis import settings

SEED = int(os.environ.get("HOLDFAST_SEED", "0"))
"""0 in ``make test``, which tries the same cases in every run."""
TIMES = int(os.environ.get("HOLDFAST_ROUNDS", "1"))
"""How many times as many cases as in ``make test``."""


def law(examples: int) -> settings:
    """Settings of a law that ``make test`` tries with so many examples."""
    return settings(max_examples=examples * TIMES, deadline=None, derandomize=SEED == 0)

"""What victims cost: the measure by which one node is better than another."""

from __future__ import annotations

import math
from typing import NamedTuple

from holdfast.framework.plugin import Candidate

SHIFT = 2**31
"""Added to priorities, so that one victim more never costs less."""


class Loss(NamedTuple):
    """What a row's victims cost, most weighty first; smaller is better.

    Broken budgets, the most important victim's priority, all victims' priorities, how many, and
    minus the start of the most important ones: the later they started the better.
    """

    violations: int
    highest: int
    total: int
    victims: int
    minus_start: float


NOTHING = Loss(0, -SHIFT, 0, 0, -math.inf)
"""Less than this nobody loses."""


def loss_of(candidate: Candidate, now: float) -> Loss:
    """Add up what a candidate costs."""
    victims = candidate.victims
    highest = max((v.priority for v in victims), default=-SHIFT)
    starts = (v.started(now) for v in victims if v.priority == highest)
    return Loss(
        candidate.violations, highest, sum(v.priority + SHIFT for v in victims), len(victims),
        -min(starts, default=now),
    )  # fmt: skip


def at_least(loss: Loss) -> Loss:
    """The least it costs where, besides all else, there must be room, which alone costs ``loss``.

    Then the first victim comes no later in the order of importance, and those whom a budget
    guards come before all others in the order of letting back.
    """
    if loss.violations:
        return NOTHING._replace(violations=1)
    return Loss(0, loss.highest, loss.highest + SHIFT, 1, loss.minus_start)

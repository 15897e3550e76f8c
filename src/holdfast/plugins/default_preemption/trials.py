"""What is remembered about preemption in a world."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.framework.making_room import Limit
from holdfast.framework.plugin import Needs
from holdfast.framework.world import World
from holdfast.plugins.default_preemption.budgets import Budgets
from holdfast.plugins.default_preemption.trial import Trial

_MOST_TRIALS = 64
_KEY = "preemption"


class Trials:
    """The disruption budgets, and a trial for each priority and need that was asked about."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._layout = -1
        self._of: dict[tuple[Any, ...], Trial] = {}
        self.budgets = Budgets(world)

    def of(self, priority: int, needs: Needs, limits: Sequence[Limit] = ()) -> Trial:
        """The trial of pods of a priority with these needs and limits, up to date."""
        layout = self._world.nodes.epochs["layout"]
        if layout != self._layout:
            self._of, self._layout = {}, layout
        key = (priority, needs.amounts, needs.waived, *(limit.key for limit in limits))
        trial = self._of.pop(key, None)
        if trial is None:
            if len(self._of) >= _MOST_TRIALS:
                del self._of[next(iter(self._of))]
            trial = Trial(self._world, self.budgets, priority, needs)
        self._of[key] = trial
        trial.refresh(limits)
        return trial


def trials_of(world: World) -> Trials:
    """The trials of this world; a fork begins with none."""
    found: Trials | None = world.remembered.get(_KEY)
    if found is None:
        found = world.remembered[_KEY] = Trials(world)
    return found

"""Filters that say by limits which pods may stay, all of them together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.pod_facts import PodFacts
from holdfast.framework.making_room import Limit, Limits, LimitsPods
from holdfast.framework.plugin import NeedsRoom, State, implements

_MOST_LIMITS = 16
"""Beyond that many, rows are tried one by one: the bits of what is short are used up."""


class Limited:
    """``places`` tells which of the limits are whose, by the plugin's name.

    Rows that are ``apart`` the limits tell nothing about; ``crowded_by`` tells of pods nominated to
    a row whether the limits say too little there.
    """

    def __init__(self, filters: Iterable[tuple[Any, State]]) -> None:
        self.limits: tuple[Limit, ...] = ()
        self.places: dict[str, tuple[int, int]] = {}
        self.apart: list[NDArray[np.bool_]] = []
        self.crowded_by: list[Callable[[PodFacts], bool]] = []
        for plugin, state in filters:
            if implements(plugin, LimitsPods) and not implements(plugin, NeedsRoom):
                self._add(plugin.name, plugin.limits(state))

    def _add(self, name: str, more: Limits) -> None:
        begin, end = len(self.limits), len(self.limits) + len(more.limits)
        if end > _MOST_LIMITS:
            return
        self.limits += more.limits
        self.places[name] = (begin, end)
        if more.apart is not None:
            self.apart.append(more.apart)
        if more.crowded_by is not None:
            self.crowded_by.append(more.crowded_by)

"""Each row's first objection, kept for a class of pods and patched where rows moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from holdfast.columns.cells import cells
from holdfast.columns.follower import Follower
from holdfast.columns.picture import Picture
from holdfast.engine.prepared import Prepared, filters_of, in_turn, reached, states_of
from holdfast.framework.plugin import Code, GroupsReasons, Verdicts, implements
from holdfast.framework.rejection import PASSED, count_reasons
from holdfast.framework.words import Word, Words


class Objections:
    """Each row's first objection, patched where rows moved.

    For a class all of whose verdicts are kept, and which no plugin narrows to some rows.
    """

    def __init__(self, nodes: Picture, prepared: list[Prepared]) -> None:
        self.filters, self.states = filters_of(prepared), states_of(prepared)
        self.prepared = reached(prepared)
        self._nodes = nodes
        self._follower = Follower(nodes.journal)
        answers = [p.answers for p in in_turn(prepared)]
        self._verdicts = [a.verdicts for a in answers if a is not None and a.verdicts is not None]
        self._at = [cells(verdicts) for verdicts in self._verdicts]
        self._counts: list[int] = []
        self.memo: list[Mapping[str, int]] = []
        """What these objections come to, put there by the first who asks."""
        self._grouping = [implements(plugin, GroupsReasons) for plugin, _ in self.filters]
        self._steady = False
        """Whether single rows have changed since all were looked at: then keeping words pays."""
        self._said: Words | None = None
        """Why rows are rejected by plugins that group their reasons."""
        self.codes: Verdicts = np.zeros(nodes.capacity, np.int8)
        self.plugin_of: Verdicts = np.full(nodes.capacity, PASSED, np.int8)

    @staticmethod
    def possible(prepared: Iterable[Prepared]) -> bool:
        """Tell whether they can be kept for a class."""
        return all(p.narrow is None and (not p.filters or p.answers) for p in prepared)

    def refresh(self) -> None:
        """Look again at rows that moved; the answers themselves must be up to date."""
        size = self._nodes.size
        stale = self._follower.stale(size)
        if isinstance(stale, slice) or len(stale):
            self.memo = []
        if isinstance(stale, list):
            self._steady |= bool(stale)
            for row in stale:
                self._one(row)
        elif isinstance(stale, slice) or len(stale):
            self._said, self._steady = None, False
            alive = self._nodes.alive[stale]
            codes = np.zeros(len(alive), np.int8)
            plugin_of = np.full(len(alive), PASSED, np.int8)
            for index in reversed(range(len(self._verdicts))):
                verdicts = self._verdicts[index][stale]
                objects = alive & (verdicts > 0)
                codes = np.where(objects, verdicts, codes)
                plugin_of[objects] = index
            self.codes[stale], self.plugin_of[stale] = codes, plugin_of
            # The last count is of rows that pass: PASSED is -1.
            counts = np.bincount(self.plugin_of[:size] + 1, minlength=len(self._verdicts) + 1)
            self._counts = [*counts[1:].tolist(), int(counts[0])]

    def _one(self, row: int) -> None:
        code, plugin = 0, PASSED
        if self._nodes.alive[row]:
            for index, verdicts in enumerate(self._at):
                if verdicts[row]:
                    code, plugin = verdicts[row], index
                    break
        self._counts[self.plugin_of[row]] -= 1
        self._counts[plugin] += 1
        self.codes[row], self.plugin_of[row] = code, plugin
        if self._said is not None:
            grouped = plugin != PASSED and self._grouping[plugin]
            self._said.put(row, self._word(plugin, row) if grouped else None)

    def _word(self, index: int, row: int) -> Word:
        plugin, state = self.filters[index]
        return Word(plugin.name, Code.UNSCHEDULABLE, tuple(plugin.reasons(state, row)))

    def count_reasons(self) -> None:
        """Work out how many rows give each reason, unless nothing moved."""
        if self.memo:
            return
        if self._said is None and self._steady:
            self._said = self._listen()
        tally: Counter[str] = Counter() if self._said is None else self._said.tally(())
        for index in self.objectors:
            if self._said is None or not self._grouping[index]:
                plugin, state = self.filters[index]
                rows = (self.plugin_of[: self._nodes.size] == index).nonzero()[0]
                tally.update(count_reasons(plugin, state, rows))
        self.memo.append(tally)

    def _listen(self) -> Words:
        """Ask plugins that group their reasons about all rows they reject."""
        said = Words(self._nodes.capacity)
        for index in self.objectors:
            if self._grouping[index]:
                plugin, state = self.filters[index]
                rows = (self.plugin_of[: self._nodes.size] == index).nonzero()[0]
                groups = plugin.groups(state, rows)
                for group in sorted(set(groups.tolist())):
                    alike = rows[groups == group]
                    said.put_all(alike, self._word(index, int(alike[0])))
        return said

    @property
    def objectors(self) -> list[int]:
        """Which plugins object to some row, by their place."""
        return [index for index in range(len(self._verdicts)) if self._counts[index]]

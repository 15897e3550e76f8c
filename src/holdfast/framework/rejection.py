"""Why a pod fits nowhere, in codes; in upstream's words when somebody asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.pod_info import PodInfo
from holdfast.framework.extender import Agreement
from holdfast.framework.plugin import (
    Code,
    CountReasonsPlugin,
    FilterPlugin,
    Reject,
    Rows,
    State,
    implements,
)
from holdfast.framework.view import View

NO_NODES = "no nodes available to schedule pods"
EXCLUDED = -2
"""In ``plugin_of``: the row was never filtered, a plugin's ``pre_filter`` left it out."""
PASSED = -1


def available(total: int, reasons: Mapping[str, int]) -> str:
    """Write upstream's fit error: a histogram of reasons, sorted as byte strings.

    >>> available(12, {"x": 2, "Insufficient cpu": 10})
    '0/12 nodes are available: 10 Insufficient cpu, 2 x.'
    """
    listed = sorted((f"{count} {reason}" for reason, count in reasons.items()), key=str.encode)
    return f"0/{total} nodes are available:" + (f" {', '.join(listed)}." if listed else "")


@dataclass(frozen=True, slots=True)
class Word:
    """What one filter says of one row."""

    plugin: str
    code: Code
    reasons: tuple[str, ...]


class Words:
    """Verdicts on single rows that no filter's state can tell again: nominated pods were counted.

    Thousands of rows say the same few things, so each is kept once.

    ``of`` has, per row, 0 for silence or the number of the word, counted from 1.
    """

    __slots__ = ("_counts", "_numbers", "_said", "of")

    def __init__(self, size: int) -> None:
        self.of: NDArray[np.int32] = np.zeros(size, np.int32)
        self._said: list[Word] = []
        self._counts: list[int] = []
        self._numbers: dict[Word, int] = {}

    def __contains__(self, row: int) -> bool:
        return bool(row < len(self.of) and self.of[row])

    def __bool__(self) -> bool:
        return any(self._counts)

    def at(self, row: int) -> Word | None:
        """What is said of a row."""
        number = int(self.of[row]) if row < len(self.of) else 0
        return self._said[number - 1] if number else None

    def put(self, row: int, word: Word | None) -> None:
        """Say something of a row; None silences it."""
        old, new = int(self.of[row]), self._number(word)
        if old != new:
            self.of[row] = new
            if old:
                self._counts[old - 1] -= 1
            if new:
                self._counts[new - 1] += 1

    def put_all(self, rows: Rows, word: Word | None) -> None:
        """Say the same of several rows."""
        self.of[rows] = self._number(word)
        self._counts = np.bincount(self.of, minlength=len(self._said) + 1)[1:].tolist()

    def _number(self, word: Word | None) -> int:
        if word is None:
            return 0
        number = self._numbers.setdefault(word, len(self._said) + 1)
        if number > len(self._said):
            self._said.append(word)
            self._counts.append(0)
        return number

    def sized(self, size: int) -> Words:
        """An independent copy of so many rows; beyond those there are nobody says anything."""
        made = Words(size)
        made.of[: len(self.of)] = self.of[:size]
        made._said, made._counts = list(self._said), list(self._counts)
        made._numbers = dict(self._numbers)
        return made

    def write_codes(self, codes: NDArray[np.int8]) -> Rows:
        """Enter the codes of the rows of which something is said; answers those."""
        rows: Rows = (self.of != 0).nonzero()[0]
        table = np.array([0, *(word.code for word in self._said)], np.int8)
        codes[rows] = table[self.of[rows]]
        return rows

    def of_plugin(self, name: str) -> NDArray[np.bool_]:
        """Tell which rows have a word of a plugin."""
        numbers = [i for i, word in enumerate(self._said, 1) if word.plugin == name]
        found = np.zeros(len(self.of), np.bool_)
        for number in numbers:
            found |= self.of == number
        return found

    def plugins(self) -> set[str]:
        """Plugins of which something is told."""
        told = zip(self._said, self._counts, strict=True)
        return {word.plugin for word, count in told if count}

    def tally(self, silence: tuple[str, ...]) -> Counter[str]:
        """How many rows give each reason, where a word without reasons means ``silence``."""
        found: Counter[str] = Counter()
        for word, count in zip(self._said, self._counts, strict=True):
            for reason in word.reasons or silence if count else ():
                found[reason] += count
        return found


SILENCE = Words(0)


@dataclass(slots=True, eq=False)
class Rejection:
    """No node will do.

    ``codes`` and ``plugin_of`` are per row; the latter is an index into ``filters``, PASSED or
    EXCLUDED. When ``prefilter`` is set it speaks for every node. ``error`` is set when the
    attempt itself failed: then nothing can be said about the pod.
    """

    pod: PodInfo
    view: View
    nodes: int
    codes: NDArray[np.int8]
    plugin_of: NDArray[np.int8]
    filters: tuple[tuple[FilterPlugin, State], ...] = ()
    states: Mapping[str, State] = field(default_factory=dict)
    prepared: frozenset[str] = frozenset()
    prefilter: tuple[str, Reject] | None = None
    narrowed_by: tuple[str, ...] = ()
    words: Words = SILENCE
    error: str = ""
    objectors: list[int] | None = None
    """What there is in ``plugin_of`` besides PASSED, if it is known already."""
    memo: list[Mapping[str, int]] | None = None
    """Where the histogram of objections goes, shared by all who are rejected alike."""
    agreement: Agreement | None = None
    """What extenders said to evicting pods for this one, if they were asked."""

    @property
    def code(self) -> Code:
        """What the queue is to do about it."""
        if self.error:
            return Code.ERROR
        return Code.UNSCHEDULABLE if self.prefilter is None else self.prefilter[1].code

    @property
    def rejectors(self) -> frozenset[str]:
        """Plugins that had a part in it: their hints decide when to try again."""
        if self.error or not self.nodes:
            return frozenset()
        if self.prefilter is not None:
            return frozenset(self.prefilter[0].split(", "))
        used = self._objectors()
        named = {self.filters[i][0].name for i in used if i >= 0}
        if EXCLUDED in used:
            named.update(self.narrowed_by)
        return frozenset(named | self.words.plugins())

    def _objectors(self) -> list[int]:
        """Who objects to some row: places in ``filters``, or EXCLUDED."""
        if self.objectors is None:
            there: Rows = np.bincount(self.plugin_of - EXCLUDED).nonzero()[0]
            self.objectors = [i for i in (there + EXCLUDED).tolist() if i != PASSED]
        return self.objectors

    @property
    def pending_on(self) -> frozenset[str]:
        """Plugins that wait for something outside: when it comes, skip backoff."""
        return self.rejectors if self.code is Code.PENDING else frozenset()

    def rows_with(self, code: Code) -> Rows:
        """Rows rejected with this code."""
        rows: Rows = (self.codes == code).nonzero()[0]
        return rows

    def plugin_at(self, row: int) -> str:
        """The first plugin that rejected the row, or "" where none did."""
        if self.prefilter is not None:
            return self.prefilter[0]
        if word := self.words.at(row):
            return word.plugin
        index = int(self.plugin_of[row])
        return str(self.filters[index][0].name) if index >= 0 else ""

    def reasons(self, row: int) -> tuple[str, ...]:
        """All reasons the first rejecting plugin gives for a row."""
        if self.prefilter is not None:
            return self.prefilter[1].reasons
        if word := self.words.at(row):
            # Nodes that nobody says anything about upstream counts among those left out before.
            return word.reasons or self._silence
        index = int(self.plugin_of[row])
        if index == EXCLUDED:
            return (self._exclusion,)
        if index < 0:
            return ()
        plugin, state = self.filters[index]
        found: tuple[str, ...] = plugin.reasons(state, row)
        return found

    def message(self) -> str:
        """The fit error as upstream writes it, without what PostFilter adds."""
        if self.error:
            return self.error
        if not self.nodes:
            return NO_NODES
        if self.prefilter is not None:
            return f"0/{self.nodes} nodes are available: {', '.join(self.prefilter[1].reasons)}."
        return available(self.nodes, self.histogram())

    def histogram(self) -> Mapping[str, int]:
        """How many nodes give each reason; one node may give several."""
        # Rows that have a word count as passed by all filters: none is counted twice.
        tally = self.words.tally(self._silence) if self.words else Counter[str]()
        tally.update(self._objected())
        return {reason: count for reason, count in tally.items() if count}

    def _objected(self) -> Mapping[str, int]:
        """How many nodes that have no word give each reason."""
        if self.memo:
            return self.memo[0]
        tally: Counter[str] = Counter()
        for index in self._objectors():
            rows = (self.plugin_of == index).nonzero()[0]
            if index == EXCLUDED:
                tally[self._exclusion] += len(rows)
            else:
                plugin, state = self.filters[index]
                tally.update(count_reasons(plugin, state, rows))
        if self.memo is not None:
            self.memo.append(tally)
        return tally

    @property
    def _silence(self) -> tuple[str, ...]:
        return (self._exclusion,) if self.narrowed_by else ()

    @property
    def _exclusion(self) -> str:
        return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(self.narrowed_by))}]"


def count_reasons(plugin: FilterPlugin, state: State, rows: Rows) -> Mapping[str, int]:
    """Count a plugin's reasons over the rows it rejected."""
    if implements(plugin, CountReasonsPlugin):
        tally: Mapping[str, int] = plugin.count_reasons(state, rows)
        return tally
    reasons: Iterable[str] = (word for row in rows for word in plugin.reasons(state, int(row)))
    return Counter(reasons)

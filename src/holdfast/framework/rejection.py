"""Why a pod fits nowhere, in codes; in upstream's words when somebody asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.pod_info import PodInfo
from holdfast.framework.extender import ExtenderPreemption
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


def fit_error_message(total: int, reasons: Mapping[str, int]) -> str:
    """Write upstream's fit error: a histogram of reasons, sorted as byte strings.

    >>> fit_error_message(12, {"x": 2, "Insufficient cpu": 10})
    '0/12 nodes are available: 10 Insufficient cpu, 2 x.'
    """
    listed = sorted((f"{count} {reason}" for reason, count in reasons.items()), key=str.encode)
    return f"0/{total} nodes are available:" + (f" {', '.join(listed)}." if listed else "")


@dataclass(frozen=True, slots=True)
class Status:
    """What one filter says of one row."""

    plugin: str
    code: Code
    reasons: tuple[str, ...]


class RowStatuses:
    """Verdicts on single rows that no filter's state can tell again: nominated pods were counted.

    Thousands of rows say the same few things, so each is kept once.

    ``numbers`` has, per row, 0 for silence or the number of the word, counted from 1.
    """

    __slots__ = ("_counts", "_numbers", "_said", "numbers")

    def __init__(self, size: int) -> None:
        self.numbers: NDArray[np.int32] = np.zeros(size, np.int32)
        self._said: list[Status] = []
        self._counts: list[int] = []
        self._numbers: dict[Status, int] = {}

    def __contains__(self, row: int) -> bool:
        return bool(row < len(self.numbers) and self.numbers[row])

    def __bool__(self) -> bool:
        return any(self._counts)

    def at(self, row: int) -> Status | None:
        """What is said of a row."""
        number = int(self.numbers[row]) if row < len(self.numbers) else 0
        return self._said[number - 1] if number else None

    def put(self, row: int, word: Status | None) -> None:
        """Say something of a row; None silences it."""
        old, new = int(self.numbers[row]), self._number(word)
        if old != new:
            self.numbers[row] = new
            if old:
                self._counts[old - 1] -= 1
            if new:
                self._counts[new - 1] += 1

    def put_all(self, rows: Rows, word: Status | None) -> None:
        """Say the same of several rows."""
        self.numbers[rows] = self._number(word)
        self._counts = np.bincount(self.numbers, minlength=len(self._said) + 1)[1:].tolist()

    def _number(self, word: Status | None) -> int:
        if word is None:
            return 0
        number = self._numbers.setdefault(word, len(self._said) + 1)
        if number > len(self._said):
            self._said.append(word)
            self._counts.append(0)
        return number

    def resized(self, size: int) -> RowStatuses:
        """An independent copy of so many rows; beyond those there are nobody says anything."""
        made = RowStatuses(size)
        made.numbers[: len(self.numbers)] = self.numbers[:size]
        made._said, made._counts = list(self._said), list(self._counts)
        made._numbers = dict(self._numbers)
        return made

    def write_codes(self, codes: NDArray[np.int8]) -> Rows:
        """Enter the codes of the rows of which something is said; answers those."""
        rows: Rows = (self.numbers != 0).nonzero()[0]
        table = np.array([0, *(word.code for word in self._said)], np.int8)
        codes[rows] = table[self.numbers[rows]]
        return rows

    def rows_of_plugin(self, name: str) -> NDArray[np.bool_]:
        """Tell which rows have a word of a plugin."""
        numbers = [i for i, word in enumerate(self._said, 1) if word.plugin == name]
        found = np.zeros(len(self.numbers), np.bool_)
        for number in numbers:
            found |= self.numbers == number
        return found

    def plugins(self) -> set[str]:
        """Plugins of which something is told."""
        told = zip(self._said, self._counts, strict=True)
        return {word.plugin for word, count in told if count}

    def count_reasons(self, silence: tuple[str, ...]) -> Counter[str]:
        """How many rows give each reason, where a word without reasons means ``silence``."""
        found: Counter[str] = Counter()
        for word, count in zip(self._said, self._counts, strict=True):
            for reason in word.reasons or silence if count else ():
                found[reason] += count
        return found


NO_STATUSES = RowStatuses(0)


@dataclass(slots=True, eq=False)
class Rejection:
    """No node will do.

    ``codes`` and ``plugin_of`` are per row; the latter is an index into ``filters``, PASSED or
    EXCLUDED. When ``pre_filter_reject`` is set it speaks for every node. ``error`` is set when the
    attempt itself failed: then nothing can be said about the pod.
    """

    pod: PodInfo
    view: View
    nodes: int
    codes: NDArray[np.int8]
    plugin_of: NDArray[np.int8]
    filters: tuple[tuple[FilterPlugin, State], ...] = ()
    states: Mapping[str, State] = field(default_factory=dict)
    pre_filtered: frozenset[str] = frozenset()
    pre_filter_reject: tuple[str, Reject] | None = None
    restricting_plugins: tuple[str, ...] = ()
    statuses: RowStatuses = NO_STATUSES
    error: str = ""
    rejecting_filters: list[int] | None = None
    """What there is in ``plugin_of`` besides PASSED, if it is known already."""
    reason_counts: list[Mapping[str, int]] | None = None
    """Where the histogram of objections goes, shared by all who are rejected alike."""
    extender_preemption: ExtenderPreemption | None = None
    """What extenders said to evicting pods for this one, if they were asked."""

    @property
    def code(self) -> Code:
        """What the queue is to do about it."""
        if self.error:
            return Code.ERROR
        return (
            Code.UNSCHEDULABLE if self.pre_filter_reject is None else self.pre_filter_reject[1].code
        )

    @property
    def unschedulable_plugins(self) -> frozenset[str]:
        """Plugins that had a part in it: their hints decide when to try again."""
        if self.error or not self.nodes:
            return frozenset()
        if self.pre_filter_reject is not None:
            return frozenset(self.pre_filter_reject[0].split(", "))
        used = self._objectors()
        named = {self.filters[i][0].name for i in used if i >= 0}
        if EXCLUDED in used:
            named.update(self.restricting_plugins)
        return frozenset(named | self.statuses.plugins())

    def _objectors(self) -> list[int]:
        """Who objects to some row: places in ``filters``, or EXCLUDED."""
        if self.rejecting_filters is None:
            there: Rows = np.bincount(self.plugin_of - EXCLUDED).nonzero()[0]
            self.rejecting_filters = [i for i in (there + EXCLUDED).tolist() if i != PASSED]
        return self.rejecting_filters

    @property
    def pending_plugins(self) -> frozenset[str]:
        """Plugins that wait for something outside: when it comes, skip backoff."""
        return self.unschedulable_plugins if self.code is Code.PENDING else frozenset()

    def rows_with(self, code: Code) -> Rows:
        """Rows rejected with this code."""
        rows: Rows = (self.codes == code).nonzero()[0]
        return rows

    def plugin_at(self, row: int) -> str:
        """The first plugin that rejected the row, or "" where none did."""
        if self.pre_filter_reject is not None:
            return self.pre_filter_reject[0]
        if word := self.statuses.at(row):
            return word.plugin
        index = int(self.plugin_of[row])
        return str(self.filters[index][0].name) if index >= 0 else ""

    def reasons(self, row: int) -> tuple[str, ...]:
        """All reasons the first rejecting plugin gives for a row."""
        if self.pre_filter_reject is not None:
            return self.pre_filter_reject[1].reasons
        if word := self.statuses.at(row):
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
        if self.pre_filter_reject is not None:
            reasons = ", ".join(self.pre_filter_reject[1].reasons)
            return f"0/{self.nodes} nodes are available: {reasons}."
        return fit_error_message(self.nodes, self.histogram())

    def histogram(self) -> Mapping[str, int]:
        """How many nodes give each reason; one node may give several."""
        # Rows that have a word count as passed by all filters: none is counted twice.
        tally = self.statuses.count_reasons(self._silence) if self.statuses else Counter[str]()
        tally.update(self._objected())
        return {reason: count for reason, count in tally.items() if count}

    def _objected(self) -> Mapping[str, int]:
        """How many nodes that have no word give each reason."""
        if self.reason_counts:
            return self.reason_counts[0]
        tally: Counter[str] = Counter()
        for index in self._objectors():
            rows = (self.plugin_of == index).nonzero()[0]
            if index == EXCLUDED:
                tally[self._exclusion] += len(rows)
            else:
                plugin, state = self.filters[index]
                tally.update(count_reasons(plugin, state, rows))
        if self.reason_counts is not None:
            self.reason_counts.append(tally)
        return tally

    @property
    def _silence(self) -> tuple[str, ...]:
        return (self._exclusion,) if self.restricting_plugins else ()

    @property
    def _exclusion(self) -> str:
        return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(self.restricting_plugins))}]"


def count_reasons(plugin: FilterPlugin, state: State, rows: Rows) -> Mapping[str, int]:
    """Count a plugin's reasons over the rows it rejected."""
    if implements(plugin, CountReasonsPlugin):
        tally: Mapping[str, int] = plugin.count_reasons(state, rows)
        return tally
    reasons: Iterable[str] = (word for row in rows for word in plugin.reasons(state, int(row)))
    return Counter(reasons)

"""What making room would cost on every row at once, were room and limits all that counted.

For pods of one priority that need the same room, and of which the same is said about who may stay:
take everybody less important away, see whether the pod fits, then let back whom we can, the most
important first, those beyond a disruption budget before all others. Worked out over columns, kept,
and worked out again only for rows that moved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.importance import UNSTARTED, Importance
from holdfast.columns.journal import FEW, Follower
from holdfast.framework.making_room import Limit
from holdfast.framework.plugin import Needs, Rows
from holdfast.framework.world import World
from holdfast.plugins.default_preemption.budgets import Budgets, SomeRows, Standing
from holdfast.plugins.default_preemption.demand import MOST_BITS, Demand
from holdfast.plugins.default_preemption.ranking import HOW_MANY, SHIFT, Key, Leaders, Loss
from holdfast.plugins.default_preemption.victims import let_back, let_back_columns

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
NO_USE = 2**62
"""The weight of a row on which nobody could make room."""
_NO_USE: Key = (NO_USE, -1, 0.0)
_GUARDED, _ONE = 2**33, 2**16
_MOST_TRIALS = 64
_KEY = "preemption"


class Walk(NamedTuple):
    """What came of one row: what is short, and who has to go, by place."""

    lower: int
    short: int
    gone: list[int]
    beyond: set[int]


class Trial:
    """One question asked of all rows; arrays are [row].

    ``lower`` counts the pods that might go. ``short`` has a bit for each thing the row lacks even
    without them (see Demand). The loss is packed for comparing:
    ``weight`` is broken budgets and the highest priority, NO_USE where evicting does not help (or
    is not needed: ``idle``, there it is not for want of room that the row will not do); ``total``
    is the sum of priorities and the number of victims; ``start`` when the most important one
    started. ``gone`` has a bit for the place of each victim, 0 if there are more places than bits.
    """

    def __init__(self, world: World, budgets: Budgets, ceiling: int, needs: Needs) -> None:
        nodes = world.nodes
        self._world = world
        self._budgets = budgets
        self._ceiling = ceiling
        self.demand = Demand(world, ceiling, needs)
        self._follower = Follower(nodes.journal, nodes.order_journal)
        self._paid: tuple[int, tuple[Standing, ...]] = (-1, ())
        self._leaders: Leaders | None = None
        self.lower: Ints = np.zeros(nodes.capacity, np.int64)
        self.short: Ints = np.zeros(nodes.capacity, np.int64)
        self.weight: Ints = np.full(nodes.capacity, NO_USE, np.int64)
        self.total: Ints = np.zeros(nodes.capacity, np.int64)
        self.start: NDArray[np.float64] = np.zeros(nodes.capacity)
        self.gone: Ints = np.zeros(nodes.capacity, np.int64)
        self.idle: Bools = np.zeros(nodes.capacity, np.bool_)

    def refresh(self, limits: Sequence[Limit] = ()) -> None:
        """Look again at rows that moved, and where budgets or limits did."""
        size = self._world.nodes.size
        ranks = self._world.nodes.importance()
        self._budgets.refresh()
        version, standings = self._budgets.version, self._budgets.standings
        if self._paid[0] != version:
            self._follower.forget()
        stale = self._follower.stale(size)
        moved = self.demand.moved(limits, size)
        if self._paid[0] == version and self._paid[1] != standings:
            touched = self._budgets.touched(self._paid[1], ranks, size)
            moved = touched if moved is None else moved | touched
        if moved is not None and not isinstance(stale, slice):
            moved[stale] = True
            stale = moved.nonzero()[0]
            stale = stale.tolist() if len(stale) <= FEW else stale
        self._paid = (version, standings)
        if isinstance(stale, list):
            for row in stale:
                self._try_one(row, ranks)
                if self._leaders is not None:
                    self._leaders.change(row, self._key(row))
            if stale and (self._leaders is None or self._leaders.spent):
                # Asked again with little changed: keeping the cheapest begins to pay.
                self._leaders = self._lead()
        elif isinstance(stale, slice) or len(stale):
            self._leaders = None
            self._try_many(stale, ranks)

    def loss(self, row: int, now: float) -> Loss:
        """The loss of a row on which the pod would fit."""
        start, weight, total = float(self.start[row]), int(self.weight[row]), int(self.total[row])
        return Loss(
            weight // _GUARDED, weight % _GUARDED - SHIFT, total // _ONE, total % _ONE,
            -(now if start == UNSTARTED else start),
        )  # fmt: skip

    def cheapest(self, is_among: Callable[[int], bool], among: Callable[[], Bools]) -> list[int]:
        """The rows where least is lost, ascending; none if the pod would fit on none of them.

        Most times few rows need to be asked about; else all of those that are ``among`` count.
        """
        found = self._leaders.first(is_among) if self._leaders is not None else None
        return self._look_at_all(among()) if found is None else found

    def idle_rows(self) -> Bools | None:
        """Rows where nobody would have to go; None if there is no such row."""
        idle = self.idle[: self._world.nodes.size]
        return idle if idle.any() else None

    def _look_at_all(self, among: Bools) -> list[int]:
        weights = np.where(among, self.weight[: len(among)], NO_USE)
        least = weights.min(initial=NO_USE)
        if least == NO_USE:
            return []
        # Many rows are alike so far: cheaper over all of them than picking those.
        totals = np.where(weights == least, self.total[: len(among)], NO_USE)
        rows: Rows = (totals == totals.min()).nonzero()[0]
        if len(rows) > 1:
            starts = self.start[rows]
            rows = rows[starts == starts.max()]
        found: list[int] = rows.tolist()
        return found

    def _lead(self) -> Leaders:
        """Find the cheapest few of all rows."""
        size = self._world.nodes.size
        order = np.lexsort((-self.start[:size], self.total[:size], self.weight[:size]))
        leading = [(self._key(row), row) for row in order[: HOW_MANY + 1].tolist()]
        bar = min(leading.pop()[0] if len(leading) > HOW_MANY else _NO_USE, _NO_USE)
        return Leaders(sorted(pair for pair in leading if pair[0] < bar), bar)

    def _key(self, row: int) -> Key:
        return int(self.weight[row]), int(self.total[row]), -float(self.start[row])

    # --- one row, in plain numbers ------------------------------------------------------------

    def victims(self, row: int) -> tuple[list[str], int]:
        """Who has to go on a row where the pod would fit, by uid, and how many are guarded."""
        ranks = self._world.nodes.importance()
        pods, bits = ranks.pods[row], int(self.gone[row])
        if bits and not self._budgets.standings:
            return [pods[place].uid for place in _places(bits)], 0
        walk = self._walk(row, ranks)

        def order(place: int) -> tuple[int, float, bool]:
            # Among equals the guarded ones are named first.
            return (-pods[place].priority, pods[place].began, place not in walk.beyond)

        gone = sorted(walk.gone, key=order) if walk.beyond else walk.gone
        return [pods[place].uid for place in gone], len(walk.beyond.intersection(walk.gone))

    def _try_one(self, row: int, ranks: Importance) -> None:
        lower, short, gone, beyond = self._walk(row, ranks)
        self.lower[row], self.short[row] = lower, short
        self.idle[row] = lower > 0 and not short and not gone
        if not gone:
            self.weight[row] = NO_USE
            return
        priorities = ranks.priority.rows[row]
        total = sum([priorities[place] for place in gone]) + len(gone) * SHIFT
        guarded = len(beyond.intersection(gone)) if beyond else 0
        self.weight[row] = guarded * _GUARDED + priorities[gone[0]] + SHIFT
        self.total[row] = total * _ONE + len(gone)
        self.gone[row] = sum([1 << place for place in gone]) if gone[-1] < MOST_BITS else 0
        self.start[row] = ranks.started.rows[row][gone[0]]

    def _walk(self, row: int, ranks: Importance) -> Walk:
        priorities = ranks.priority.rows[row]
        begin, end = 0, len(priorities)
        while begin < end and priorities[begin] >= self._ceiling:
            begin += 1
        short, slots, columns, left = self.demand.at(row, ranks, begin, end)
        if short or begin == end:
            return Walk(end - begin, short, [], set())
        beyond = self._budgets.violating(ranks.pods[row], begin)
        gone = let_back(end - begin, beyond, columns, left, slots)
        if begin:
            gone, beyond = [begin + place for place in gone], {begin + place for place in beyond}
        return Walk(end - begin, 0, gone, beyond)

    # --- many rows, as columns ----------------------------------------------------------------

    def _try_many(self, rows: SomeRows, ranks: Importance) -> None:
        deep = int(ranks.count[rows].max(initial=0))
        lower = ranks.priority.columns()[:deep, rows] < self._ceiling
        there, short, rests = self.demand.of(rows, ranks, lower)
        beyond = self._budgets.beyond(ranks, rows, lower)
        gone = let_back_columns(lower, beyond, rests)
        self.lower[rows], self.short[rows] = there, short
        self._tell(rows, gone, beyond, ranks)
        self.idle[rows] = (short == 0) & (there > 0) & (self.total[rows] == 0)

    def _tell(self, rows: SomeRows, gone: Bools, beyond: Bools | None, ranks: Importance) -> None:
        """Add up what the victims cost, the most important one last: it has the last word."""
        size = gone.shape[1]
        priority, started = ranks.priority.columns()[:, rows], ranks.started.columns()[:, rows]
        total, count = np.zeros(size, np.int64), np.zeros(size, np.int64)
        highest, start = np.full(size, -SHIFT), np.full(size, UNSTARTED)
        guarded, bits = np.zeros(size, np.int64), np.zeros(size, np.int64)
        for place in reversed(range(len(gone))):
            going = gone[place]
            if not going.any():
                continue
            total += priority[place] * going
            count += going
            np.copyto(highest, priority[place], where=going)
            np.copyto(start, started[place], where=going)
            if beyond is not None:
                guarded += going & beyond[place]
            if len(gone) <= MOST_BITS:
                bits |= going * np.int64(1 << place)
        self.weight[rows] = np.where(count > 0, guarded * _GUARDED + highest + SHIFT, NO_USE)
        self.total[rows] = (total + count * SHIFT) * _ONE + count
        self.start[rows], self.gone[rows] = start, bits


def _places(bits: int) -> list[int]:
    """Which bits are set."""
    found = []
    while bits:
        found.append((bits & -bits).bit_length() - 1)
        bits &= bits - 1
    return found


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

"""What making room would cost on every row at once, were room and limits all that counted.

For pods of one priority that need the same room, and of which the same is said about who may stay:
take everybody less important away, see whether the pod fits, then let back whom we can, the most
important first, those beyond a disruption budget before all others. Worked out over columns, kept,
and worked out again only for rows that moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.importance import UNSTARTED, Importance
from holdfast.columns.journal import FEW, Follower
from holdfast.columns.request_fit import SomeRows
from holdfast.framework.plugin import Candidate, RequiredResources
from holdfast.framework.preemption_support import PodLimit
from holdfast.framework.world import World
from holdfast.plugins.default_preemption.budgets import Budgets, Standing
from holdfast.plugins.default_preemption.demand import MOST_BITS, Demand
from holdfast.plugins.default_preemption.ranking import NO_USE, SHIFT, LossColumns, loss_of
from holdfast.plugins.default_preemption.victims import let_back, let_back_columns

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
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

    Invariant: after ``refresh`` each row has what trying it alone comes to (``_walk``). ``lower``
    counts the pods that might go. ``short`` has a bit for each thing the row lacks even without
    them (see Demand). ``losses`` has what the victims cost. ``idle``: there are pods that might go,
    and none has to: it is not for want of room that the row will not do. ``gone`` has a bit for the
    place of each victim in the row's order of importance, or is 0 if those are too many.
    """

    def __init__(
        self, world: World, budgets: Budgets, ceiling: int, needs: RequiredResources
    ) -> None:
        nodes = world.nodes
        self._world = world
        self._budgets = budgets
        self._ceiling = ceiling
        self.demand = Demand(world, ceiling, needs)
        self._follower = Follower(nodes.journal, nodes.order_journal)
        self._paid: tuple[int, tuple[Standing, ...]] = (-1, ())
        self.losses = LossColumns(nodes.capacity)
        self.lower: Ints = np.zeros(nodes.capacity, np.int64)
        self.short: Ints = np.zeros(nodes.capacity, np.int64)
        self.gone: Ints = np.zeros(nodes.capacity, np.int64)
        self.idle: Bools = np.zeros(nodes.capacity, np.bool_)

    def refresh(self, limits: Sequence[PodLimit] = ()) -> None:
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
            if stale:
                # Asked again with little changed: keeping the cheapest begins to pay.
                self.losses.keep_leaders(size)
        elif isinstance(stale, slice) or len(stale):
            self._try_many(stale, ranks)

    def idle_rows(self) -> Bools | None:
        """Rows where nobody would have to go; None if there is no such row."""
        idle = self.idle[: self._world.nodes.size]
        return idle if idle.any() else None

    def faults(self, now: float) -> Iterator[str]:
        """Name every row that does not have what trying it alone comes to."""
        nodes, ranks = self._world.nodes, self._world.nodes.importance()
        yield from self.losses.faults(nodes.size)
        for row, name in enumerate(nodes.names):
            lower, short, gone, beyond = self._walk(row, ranks)
            idle = lower > 0 and not short and not gone
            kept = (int(self.lower[row]), int(self.short[row]), bool(self.idle[row]))
            if kept != (lower, short, idle):
                yield f"{name}: kept {kept} of making room, tried {(lower, short, idle)}"
            elif (self.losses.weight[row] != NO_USE) != bool(gone):
                yield f"{name}: kept a loss without victims, or victims without a loss"
            elif gone:
                if (bits := int(self.gone[row])) and _places(bits) != gone:
                    yield f"{name}: kept victims {_places(bits)}, tried {gone}"
                victims = tuple(ranks.pods[row][place] for place in gone)
                candidate = Candidate(name, victims, len(beyond.intersection(gone)))
                kept_loss, loss = self.losses.loss(row, now), loss_of(candidate, now)
                # Where a pod started later than now, another order counts: Search tries those rows.
                if kept_loss != loss and ranks.newest[row] < now:
                    yield f"{name}: kept {kept_loss}, tried {loss}"

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
        priorities = ranks.priority.rows[row]
        guarded = len(beyond.intersection(gone)) if beyond else 0
        start = ranks.started.rows[row][gone[0]] if gone else 0.0
        self.losses.put(row, guarded, [priorities[place] for place in gone], start)
        if gone:
            self.gone[row] = sum([1 << place for place in gone]) if gone[-1] < MOST_BITS else 0

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
        self.idle[rows] = (short == 0) & (there > 0) & (self.losses.weight[rows] == NO_USE)

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
        self.losses.put_many(rows, guarded, (highest, total), count, start)
        self.gone[rows] = bits


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

    def of(self, priority: int, needs: RequiredResources, limits: Sequence[PodLimit] = ()) -> Trial:
        """The trial of pods of a priority with these needs and limits, up to date."""
        layout = self._world.nodes.epochs["layout"]
        if layout != self._layout:
            self._of, self._layout = {}, layout
        key = (priority, needs.amounts, needs.ignored_if_absent, *(limit.key for limit in limits))
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
    found: Trials | None = world.caches.get(_KEY)
    if found is None:
        found = world.caches[_KEY] = Trials(world)
    return found

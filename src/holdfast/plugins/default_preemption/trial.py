"""What making room would cost on every row at once, were room all that counted.

For pods of one priority that need the same room: take everybody less important away, see whether
the pod fits, then let back whom we can, the most important first, those beyond a disruption budget
before all others. Worked out over columns, kept, and worked out again only for rows that moved.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.follower import Follower
from holdfast.columns.importance import NOBODY, UNSTARTED, Importance
from holdfast.columns.interner import PODS
from holdfast.columns.pod_facts import PodFacts
from holdfast.framework.plugin import Needs, Rows
from holdfast.framework.world import World
from holdfast.plugins.default_preemption.budgets import Budgets, SomeRows, Standing
from holdfast.plugins.default_preemption.losses import SHIFT, Loss

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
ENOUGH = 2**60


class Trial:
    """One question asked of all rows; arrays are [row].

    ``lower`` counts the pods that might go. ``short`` has a bit for each thing the row lacks even
    without them: bit 0 a pod slot, then the needs in order. The other columns are the loss:
    ``start`` is UNSTARTED where the most important victims have not started, or nobody has to go.
    """

    def __init__(self, world: World, budgets: Budgets, ceiling: int, needs: Needs) -> None:
        nodes = world.nodes
        self._world = world
        self._budgets = budgets
        self._ceiling = ceiling
        self._needs = needs
        self._follower = Follower(nodes.journal, nodes.order_journal)
        self._paid: tuple[int, tuple[Standing, ...]] = (-1, ())
        self.lower: Ints = np.zeros(nodes.capacity, np.int64)
        self.short: Ints = np.zeros(nodes.capacity, np.int64)
        self.violations: Ints = np.zeros(nodes.capacity, np.int64)
        self.highest: Ints = np.zeros(nodes.capacity, np.int64)
        self.total: Ints = np.zeros(nodes.capacity, np.int64)
        self.count: Ints = np.zeros(nodes.capacity, np.int64)
        self.start: NDArray[np.float64] = np.zeros(nodes.capacity)

    def refresh(self) -> None:
        """Look again at rows that moved, and where budgets did."""
        size = self._world.nodes.size
        ranks = self._world.nodes.importance()
        self._budgets.refresh()
        version, standings = self._budgets.version, self._budgets.standings
        if self._paid[0] != version:
            self._follower.forget()
        stale = self._follower.stale(size)
        if self._paid[0] == version and self._paid[1] != standings:
            moved = self._budgets.touched(self._paid[1], ranks, size)
            moved[stale] = True
            stale = moved.nonzero()[0]
        self._paid = (version, standings)
        if isinstance(stale, list):
            for row in stale:
                self._try_one(row, ranks)
        elif isinstance(stale, slice) or len(stale):
            self._try_many(stale, ranks)

    def loss(self, row: int, now: float) -> Loss:
        """The loss of a row on which the pod would fit."""
        start = float(self.start[row])
        return Loss(
            int(self.violations[row]), int(self.highest[row]), int(self.total[row]),
            int(self.count[row]), -(now if start == UNSTARTED else start),
        )  # fmt: skip

    def cheapest(self, rows: Rows) -> Rows:
        """Those of the rows, on all of which the pod would fit, where least is lost."""
        for column in (self.violations, self.highest, self.total, self.count):
            if len(rows) == 1:
                return rows
            values = column[rows]
            rows = rows[values == values.min()]
        starts = self.start[rows]
        best: Rows = rows[starts == starts.max()]
        return best

    # --- one row, in plain numbers ------------------------------------------------------------

    def victims(self, row: int) -> tuple[list[str], int]:
        """Who has to go on a row where the pod would fit, by uid, and how many are guarded."""
        lower = self._lower_on(row, self._world.nodes.importance())
        _, gone, beyond = self._walk(row, lower)
        # Among equals the guarded ones are named first.
        victims = [pod for pod in lower if pod.uid in gone]
        victims.sort(key=lambda pod: (-pod.priority, pod.began, pod.uid not in beyond))
        return [pod.uid for pod in victims], len(gone & beyond)

    def _try_one(self, row: int, ranks: Importance) -> None:
        lower = self._lower_on(row, ranks)
        self.lower[row] = len(lower)
        self.short[row], gone, beyond = self._walk(row, lower)
        victims = [pod for pod in lower if pod.uid in gone]
        self.violations[row] = len(gone & beyond)
        self.highest[row] = victims[0].priority if victims else -SHIFT
        self.total[row] = sum(pod.priority + SHIFT for pod in victims)
        self.count[row] = len(victims)
        self.start[row] = victims[0].began if victims else UNSTARTED

    def _lower_on(self, row: int, ranks: Importance) -> list[PodFacts]:
        return [pod for pod in ranks.pods[row] if pod.priority < self._ceiling]

    def _walk(self, row: int, lower: Sequence[PodFacts]) -> tuple[int, set[str], set[str]]:
        """What is short without the lower pods, who has to go, who is beyond a budget."""
        free_at, have_at = (
            self._world.nodes.amounts.free_at,
            self._world.nodes.amounts.allocatable_at,
        )
        ahead = self._world.nominations.at_least(self._ceiling, row)
        slots = free_at[PODS][row] + len(lower) - len(ahead) - 1
        left: dict[int, int] = {}
        short = int(slots < 0)
        for bit, (resource, amount) in enumerate(self._needs.amounts, 1):
            if resource in self._needs.waived and not have_at[resource][row]:
                continue
            left[resource] = free_at[resource][row] - amount
            for sign, pods in ((1, lower), (-1, ahead)):
                for pod in pods:
                    for id_, wanted in pod.request:
                        if id_ == resource:
                            left[resource] += sign * wanted
            short |= int(left[resource] < 0) << bit
        if short or not lower:
            return short, set(), set()
        beyond = self._budgets.violating(lower)
        order = [p for p in lower if p.uid in beyond] + [p for p in lower if p.uid not in beyond]
        return 0, _let_back(order, left, slots), beyond

    # --- many rows, as columns ----------------------------------------------------------------

    def _try_many(self, rows: SomeRows, ranks: Importance) -> None:
        priority = ranks.priority[:, rows]
        lower = priority < self._ceiling
        deep = int(np.count_nonzero(priority != NOBODY, axis=0).max(initial=0))
        priority, lower = priority[:deep], lower[:deep]
        there = np.count_nonzero(lower, axis=0)
        wanted = [ranks.amounts(r)[:deep, rows] * lower for r, _ in self._needs.amounts]
        left, slots = self._left(rows, wanted, there)
        short = (slots < 0).astype(np.int64)
        for bit, rest in enumerate(left, 1):
            short |= (rest < 0).astype(np.int64) << bit
        beyond = self._budgets.beyond(ranks, rows, lower)
        gone = lower & (short == 0)
        if beyond is not None:
            _walk_columns(gone, gone & beyond, wanted, left, slots)
            _walk_columns(gone, gone & ~beyond, wanted, left, slots)
        else:
            _walk_columns(gone, gone.copy(), wanted, left, slots)
        self.lower[rows], self.short[rows] = there, short
        self.violations[rows] = 0 if beyond is None else np.count_nonzero(gone & beyond, axis=0)
        self._tell(rows, gone, priority, ranks.started[:deep, rows])

    def _left(self, rows: SomeRows, wanted: list[Ints], there: Ints) -> tuple[list[Ints], Ints]:
        """What would be left of each need, and of the pod slots, beside the pod itself."""
        amounts = self._world.nodes.amounts
        slots = amounts.free[PODS][rows] + there - 1
        left = []
        for (resource, amount), given in zip(self._needs.amounts, wanted, strict=True):
            rest = amounts.free[resource][rows] - amount + given.sum(axis=0)
            if resource in self._needs.waived:
                rest = np.where(amounts.allocatable[resource][rows] == 0, ENOUGH, rest)
            left.append(rest)
        promised = np.zeros((len(left) + 1, amounts.free.shape[1]), np.int64)
        nominations = self._world.nominations
        for row in nominations.all_rows():
            pods = nominations.at_least(self._ceiling, row)
            promised[0, row] = len(pods)
            for i, (resource, _) in enumerate(self._needs.amounts, 1):
                promised[i, row] = sum(dict(pod.request).get(resource, 0) for pod in pods)
        return [rest - promised[i, rows] for i, rest in enumerate(left, 1)], slots - promised[
            0, rows
        ]

    def _tell(
        self, rows: SomeRows, gone: Bools, priority: Ints, started: NDArray[np.float64]
    ) -> None:
        """Add up what the victims cost; the first of a column is its most important one."""
        count = np.count_nonzero(gone, axis=0)
        self.count[rows] = count
        self.total[rows] = np.where(gone, priority + SHIFT, 0).sum(axis=0)
        if not len(gone):
            self.highest[rows], self.start[rows] = -SHIFT, UNSTARTED
            return
        first = gone.argmax(axis=0)[None]
        self.highest[rows] = np.where(count, np.take_along_axis(priority, first, 0)[0], -SHIFT)
        self.start[rows] = np.where(count, np.take_along_axis(started, first, 0)[0], UNSTARTED)


def _let_back(order: Sequence[PodFacts], left: dict[int, int], slots: int) -> set[str]:
    """Let back whom there is room for, in this order; answers who has to go."""
    gone: set[str] = set()
    for pod in order:
        takes = [(r, amount) for r, amount in pod.request if r in left]
        if slots < 1 or any(left[r] < amount for r, amount in takes):
            gone.add(pod.uid)
            continue
        slots -= 1
        for r, amount in takes:
            left[r] -= amount
    return gone


def _walk_columns(
    gone: Bools, asking: Bools, wanted: list[Ints], left: list[Ints], slots: Ints
) -> None:
    """Let back whom there is room for, place by place.

    Strikes them from ``gone``, and takes what they need from ``left`` and ``slots``.
    """
    for place in range(len(gone)):
        fits = asking[place] & (slots >= 1)
        for i, needed in enumerate(wanted):
            fits &= left[i] >= needed[place]
        for i, needed in enumerate(wanted):
            left[i] -= needed[place] * fits
        slots -= fits
        gone[place] &= ~fits

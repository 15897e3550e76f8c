"""Which pods must leave a row: take all lower ones away, then restore those there is room for.

``dry_run`` asks the filters about one row, pod by pod. ``reprieve`` and ``reprieve_columns`` do the
same by amounts alone, for one row and for columns of rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.pod_info import PodInfo
from holdfast.engine.nominated_pods import FilterPair, run_filter_plugins_with_nominated_pods
from holdfast.framework.plugin import Candidate, Code, PodChange, Scope
from holdfast.framework.rejection import Status
from holdfast.framework.view import View
from holdfast.plugins.default_preemption.budgets import DisruptionBudgets

NAME = "DefaultPreemption"
NO_VICTIMS = "No preemption victims found for incoming pod"
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class DryRunContext:
    """What stays the same from node to node."""

    view: View
    filters: Sequence[FilterPair]
    budgets: DisruptionBudgets
    protected_victims: Callable[[PodInfo], bool] | None = None
    """Who is never evicted for this pod."""

    def lower_on(self, row: int) -> list[PodInfo]:
        """Pods that might have to go. What stands in for a reservation is no pod."""
        ceiling = self.view.pod.priority
        there = self.view.nodes.pods_on(row).values()
        lower = [pod for pod in there if pod.priority < ceiling and not pod.is_reserve_pod]
        return (
            [p for p in lower if not self.protected_victims(p)]
            if self.protected_victims is not None
            else lower
        )

    def objection(self, row: int, gone: Sequence[PodInfo]) -> Status | None:
        """Why the row would still not do were these pods gone, or None."""
        beside = self.view.world.nominations.ahead_of(self.view.pod, row)
        return run_filter_plugins_with_nominated_pods(
            self.filters, row, beside, PodChange(removed={row: gone})
        )

    def about_pods(self) -> DryRunContext:
        """The same without the filters that look at the node alone: no eviction moves those."""
        moving = tuple(
            (plugin, state)
            for plugin, state in self.filters
            if plugin.traits.scope is not Scope.NODE
        )
        return replace(self, filters=moving)


def dry_run(context: DryRunContext, row: int) -> Candidate | Status:
    """Find the fewest and least important victims on a row, or say why it is no use."""
    nodes, now = context.view.nodes, context.view.now
    lower = context.lower_on(row)
    if not lower:
        return Status(NAME, Code.UNRESOLVABLE, (NO_VICTIMS,))
    word = context.objection(row, lower)
    if word is not None:
        return word
    lower.sort(key=lambda pod: importance_key(pod, now))
    beyond = {lower[place].uid for place in context.budgets.violating(lower)}
    order = [p for p in lower if p.uid in beyond] + [p for p in lower if p.uid not in beyond]
    gone = list(order)
    context = context.about_pods()
    for pod in order:
        without = [p for p in gone if p is not pod]
        if context.objection(row, without) is None:
            gone = without
    if not gone:
        # An extender refuses the node; that no plugin does, evicting nobody would show.
        words = f'expected at least one victim pod on node "{nodes.names[row]}"'
        return Status(NAME, Code.ERROR, (words,))
    victims = tuple(sorted(gone, key=lambda pod: importance_key(pod, now)))
    return Candidate(nodes.names[row], victims, sum(p.uid in beyond for p in victims))


def importance_key(pod: PodInfo, now: float) -> tuple[int, float]:
    """Smaller is more important: higher priority first, then whoever started earlier."""
    return (-pod.priority, pod.start_time_or(now))


def reprieve(
    count: int, first: Collection[int], asked: Sequence[Sequence[int]], left: list[int], slots: int
) -> list[int]:
    """Of so many pods, of which some come first, find those for whom no room is left.

    ``proposed`` has a list of amounts a resource, ``left`` what is left of it.

    >>> reprieve(3, (), [[2, 1, 1]], [3], 9)
    [2]
    """
    order: Sequence[int] = range(count)
    if first:
        order = [*sorted(first), *(place for place in order if place not in first)]
        asked = [[amounts[place] for place in order] for amounts in asked]
    # Most of them fit one after the other; only from where room runs out on each must be asked.
    fitting = min(count, max(0, slots))
    sums = []
    for amounts, rest in zip(asked, left, strict=True):
        total = list(accumulate(amounts))
        sums.append(total)
        fitting = min(fitting, bisect_right(total, rest))
    left = list(left)
    if fitting:
        slots -= fitting
        left = [rest - total[fitting - 1] for rest, total in zip(left, sums, strict=True)]
    gone = []
    for at in range(fitting, count):
        if slots >= 1 and _take(asked, at, left):
            slots -= 1
        else:
            gone.append(order[at])
    gone.sort()
    return gone


def _take(asked: Sequence[Sequence[int]], at: int, left: list[int]) -> bool:
    """Take what one asks for, if there is enough of everything."""
    for amounts, rest in zip(asked, left, strict=True):
        if amounts[at] > rest:
            return False
    for i, amounts in enumerate(asked):
        left[i] -= amounts[at]
    return True


class Balance(NamedTuple):
    """What is left of one sort of room on each row, and what each pod takes of it: [place, row].

    ``taken`` is 0 wherever nobody is leaving.
    """

    left: Ints
    taken: Ints


def reprieve_columns(leaving: Bools, first: Bools | None, rests: Sequence[Balance]) -> Bools:
    """The same over columns of pods, [place, row]; what is left is used up."""
    gone = leaving.copy()
    if first is None:
        begin = _let_all_back(gone, rests)
        _let_some_back(gone, leaving, rests, begin)
    else:
        _let_some_back(gone, leaving & first, rests)
        _let_some_back(gone, leaving & ~first, rests)
    return gone


def _let_all_back(gone: Bools, rests: Sequence[Balance]) -> int:
    """Let whole places back, as long as there is room on every row; answers where that ends."""
    for place in range(len(gone)):
        for i, (left, taken) in enumerate(rests):
            np.subtract(left, taken[place], out=left)
            if left.min(initial=0) < 0:
                for used, given in rests[: i + 1]:
                    np.add(used, given[place], out=used)
                return place
        gone[place] = False
    return len(gone)


def _let_some_back(gone: Bools, asking: Bools, rests: Sequence[Balance], begin: int = 0) -> None:
    """Let back, place by place, those who ask and for whom there is room on their row."""
    for place in range(begin, len(gone)):
        fits = asking[place].copy()
        for left, taken in rests:
            fits &= left >= taken[place]
        for left, taken in rests:
            np.subtract(left, taken[place] * fits, out=left)
        gone[place] &= ~fits

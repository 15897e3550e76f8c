"""Verdicts on rows with other pods there: nominated pods, and victims of preemption away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.journal import JournalReader
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.request_fit import RequestFit, short_bits, short_bits_at
from holdfast.framework.plugin import (
    NO_CHANGE,
    Code,
    FilterPlugin,
    FilterRowPlugin,
    PodChange,
    RequiredResourcesPlugin,
    Rows,
    Scope,
    State,
    implements,
)
from holdfast.framework.rejection import RowStatuses, Status
from holdfast.framework.world import World

FilterPair = tuple[FilterPlugin, State]
Bools = NDArray[np.bool_]


def run_filter_plugins(
    filters: Iterable[FilterPair], row: int, change: PodChange = NO_CHANGE
) -> Status | None:
    """The first objection to the row under a change, or None if it passes."""
    rows: Rows | None = None
    for plugin, state in filters:
        if implements(plugin, FilterRowPlugin):
            verdict = plugin.filter_row(state, row, change)
        else:
            rows = np.array([row], np.intp) if rows is None else rows
            verdict = int(plugin.filter(state, rows, change)[0])
        if verdict:
            return Status(plugin.name, Code(verdict), tuple(plugin.reasons(state, row, change)))
    return None


def run_filter_plugins_with_nominated_pods(
    filters: Sequence[FilterPair],
    row: int,
    nominated: Mapping[str, PodInfo],
    change: PodChange = NO_CHANGE,
) -> Status | None:
    """Judge a row twice if pods are nominated to it: with them there, and as it is.

    Both must pass: a nominated pod may take room, and may also go elsewhere after all and with it
    what the pod relies on (its affinity, say).
    """
    if nominated:
        added = {**change.added, row: (*change.added.get(row, ()), *nominated.values())}
        objection = run_filter_plugins(filters, row, PodChange(added, change.removed))
        if objection is not None:
            return objection
    return run_filter_plugins(filters, row, change)


class NominatedPodFilter:
    """Rows that a class of pods fits on, but not together with the pods nominated to them.

    Only for a class whose verdicts are all cached. A row is filtered again when it changes, or
    the set of pods nominated to it. For a pod that is nominated itself, its row must be filtered
    without it: see ``status``.

    Invariant after ``refresh``, until the node table or a nomination changes: ``statuses`` has for
    every feasible row the result of ``run_filter_plugins`` with its nominated pods added, and
    nothing for other rows; ``_asides`` has the same for some infeasible rows. Rows that lack the
    same resources share a status.
    """

    def __init__(
        self, world: World, priority: int, filters: Sequence[FilterPair], ok: Bools
    ) -> None:
        self._world = world
        self._priority = priority
        self._filters = filters
        self._ok = ok
        self._journal_reader = JournalReader(world.nodes.journal, world.nodes.order_journal)
        self._room = _room_alone(world, filters)
        self._wants: dict[int, Status | None] = {0: None}
        self._asides: dict[int, Status | None] = {}
        self.statuses = RowStatuses(world.nodes.capacity)

    def refresh(self) -> RowStatuses:
        """Look again at rows that moved; the class's own answers must be up to date."""
        size = self._world.nodes.size
        stale = self._journal_reader.stale(size)
        if isinstance(stale, list):
            for row in stale:
                self._asides.pop(row, None)
                self.statuses.put(row, self._word(row))
        elif isinstance(stale, slice) or len(stale):
            self._asides.clear()
            moved = np.zeros(size, np.bool_)
            moved[stale] = True
            self._many(moved)
        return self.statuses

    def status(self, row: int, but: str = "") -> Status | None:
        """What is said of a row, the pods nominated to it, but for one, being there."""
        if not self._ok[row]:
            return None
        ahead = self._world.nominations.with_priority(self._priority, row)
        ahead = [pod for pod in ahead if pod.uid != but] if but else ahead
        return (
            run_filter_plugins(self._filters, row, PodChange(added={row: ahead})) if ahead else None
        )

    def status_of_infeasible(self, row: int) -> Status | None:
        """What is said first of a row that will not do anyway, those pods being there."""
        if row not in self._asides:
            self._asides[row] = self._judge(row)
        return self._asides[row]

    def _judge(self, row: int) -> Status | None:
        ahead = self._world.nominations.with_priority(self._priority, row)
        return run_filter_plugins(self._filters, row, PodChange(added={row: ahead}))

    def faults(self) -> Iterator[str]:
        """Judge every row again and name those of which something else is kept."""
        if not self._journal_reader.current:
            return
        rows = range(self._world.nodes.size)
        found = [(row, self.statuses.at(row), self.status(row)) for row in rows]
        found += [(row, kept, self._judge(row)) for row, kept in self._asides.items()]
        for row, kept, expected in found:
            if kept != expected:
                yield f"beside nominated pods row {row} is kept as {kept}, and is {expected}"

    def _word(self, row: int) -> Status | None:
        if (
            self._room is None
            or not self._ok[row]
            or row in self._world.nominated_owner_rows.rows()
        ):
            return self.status(row)
        ahead = self._world.nominations.with_priority(self._priority, row)
        if not ahead:
            return None
        spare = zip(self._room.remaining_at(row), self._room.requests_of(ahead), strict=True)
        short = short_bits_at([left - taken for left, taken in spare])
        return self._for_want_of(short, row)

    def _for_want_of(self, short: int, row: int) -> Status | None:
        """The word for what is short; all rows that lack the same get the same."""
        if short not in self._wants:
            self._wants[short] = self.status(row)
        return self._wants[short]

    def _many(self, moved: Bools) -> None:
        if self.statuses:
            self.statuses.put_all(moved.nonzero()[0], None)
        rows = self._world.nominations.columns.rows(self._priority)
        rows = rows[moved[rows] & self._ok[rows]]
        if self._room is None:
            for row in rows.tolist():
                self.statuses.put(row, self.status(row))
            return
        if inside := self._world.nominated_owner_rows.rows():
            apart = np.isin(rows, list(inside))
            for row in rows[apart].tolist():
                self.statuses.put(row, self.status(row))
            rows = rows[~apart]
        short = self._short(rows, self._room)
        for pattern in sorted(set(short.tolist()) - {0}):
            alike = rows[short == pattern]
            self.statuses.put_all(alike, self._for_want_of(pattern, int(alike[0])))

    def _short(self, rows: Rows, room: RequestFit) -> NDArray[np.int64]:
        """What rows lack beside the pods nominated to them: a bit for each sort of room."""
        resources = [need.resource for need in room.needs[1:]]
        coming = self._world.nominations.columns.requested(self._priority, resources)
        spare = zip(room.remaining(rows), coming, strict=True)
        short = short_bits([left - taken[rows] for left, taken in spare])
        # Where nobody of that importance comes nothing changes.
        return np.where(coming[0][rows] > 0, short, 0)


def _room_alone(world: World, filters: Sequence[FilterPair]) -> RequestFit | None:
    """What must be free, if that is all pods to come have to do with the verdict."""
    looking = [pair for pair in filters if pair[0].traits.scope is not Scope.NODE]
    if len(looking) != 1:
        return None
    plugin, state = looking[0]
    if not implements(plugin, RequiredResourcesPlugin):
        return None
    needs = plugin.required_resources(state)
    if needs.unknown_rows is not None:
        return None
    return RequestFit.of(world.nodes.amounts, needs.amounts, needs.ignored_if_absent)

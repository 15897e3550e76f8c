"""Rows that can take a pod: what is kept of its class, less what others strike out every time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.pod_facts import PodFacts
from holdfast.engine.class_evaluation import Left, Record
from holdfast.engine.prepared import Prepared
from holdfast.framework.plugin import Code, Rows
from holdfast.framework.view import View
from holdfast.framework.words import SILENCE, Words


@dataclass(slots=True, eq=False)
class Feasible:
    """Rows that can take the pod.

    ``mask`` is None while it equals the class's own ``record.ok``; ``chosen`` is set when the pod
    goes to the node it is nominated to, unscored.
    """

    pod: PodFacts
    view: View
    record: Record
    active: list[Prepared]
    mask: NDArray[np.bool_] | None = None
    chosen: int | None = None
    words: Words = SILENCE
    left: Left | None = None

    @property
    def rows(self) -> Rows:
        """The feasible rows, ascending. Not to be written to."""
        if self.mask is None:
            return self.record.rows()
        if self.left is not None and self.mask is self.left.mask:
            return self.left.rows
        rows: Rows = self.mask.nonzero()[0]
        return rows

    @property
    def count(self) -> int:
        """How many rows that is."""
        return self.record.count if self.mask is None else int(np.count_nonzero(self.mask))

    @property
    def own_row(self) -> int | None:
        """The row the pod itself is nominated to."""
        return self.view.nodes.row_of.get(self.view.world.nominations.node_of(self.pod.uid))

    def only(self, rows: Rows) -> Feasible:
        """The same with fewer rows, as an extender would have it."""
        mask = np.zeros(self.view.nodes.size, np.bool_)
        mask[rows] = True
        chosen = self.chosen if self.chosen is not None and mask[self.chosen] else None
        return Feasible(self.pod, self.view, self.record, self.active, mask, chosen, self.words)


def strike_out(found: Feasible) -> str:
    """Let plugins whose answers are not kept strike out rows; answers an error, or "".

    An error on any row fails the attempt, unless the pod goes where it is nominated to.
    """
    record = found.record
    if record.sliced and found.active is record.prepared:
        size = found.view.nodes.size
        # Cheaper over all rows than picking some; such a plugin never fails.
        everywhere = slice(0, size)
        found.left = record.left_by([p.plugin.filter(p.state, everywhere) for p in record.domain])
        found.mask = found.left.mask
        return ""
    return _ask_in_turn(found)


def _ask_in_turn(found: Feasible) -> str:
    size, error = found.view.nodes.size, ""
    left = np.ones(size, np.bool_)
    for prepared in found.active:
        if prepared.answers is not None or prepared.skip:
            continue
        if prepared.narrow is not None:
            allowed = np.zeros(size, np.bool_)
            allowed[prepared.narrow] = True
            left &= allowed
        if not prepared.filters:
            continue
        if prepared.use.sliced:
            left &= prepared.plugin.filter(prepared.state, slice(0, size)) == 0
            continue
        rows = (left & _passing_until(found, prepared)).nonzero()[0]
        verdicts = prepared.plugin.filter(prepared.state, rows)
        failed = (verdicts == Code.ERROR).nonzero()[0]
        if len(failed) and not error:
            words = ", ".join(prepared.plugin.reasons(prepared.state, int(rows[failed[0]])))
            error = f'running "{prepared.plugin.name}" filter plugin: {words}'
        left[rows] = verdicts == 0
    found.mask = found.record.ok[:size] & left
    return error


def _passing_until(found: Feasible, prepared: Prepared) -> NDArray[np.bool_]:
    """Rows that pass all kept filters before this one: it may fail there, whoever rejects later."""
    size = found.view.nodes.size
    mask = found.record.ok[:size]
    turn = prepared.use.place
    kept = [p for p in found.active if p.filters and p.answers is not None]
    if all(other.use.place < turn for other in kept):
        return mask
    mask = found.view.nodes.alive[:size].copy()
    for other in kept:
        verdicts = other.answers.verdicts if other.answers is not None else None
        if verdicts is not None and other.use.place < turn:
            mask &= verdicts[:size] == 0
    return mask

"""One decision, from a pod to its node: two pure halves, ``feasible`` and ``rank``.

``feasible`` finds the rows that can take the pod, or says why there is none; ``rank`` chooses the
best of them. The caller (scheduler, what-if, a test) applies the decision. Nothing here changes the
world; what is kept between calls only makes the next one cheaper, by these invariants::

    memory.record       pods of one class are decided alike
    record.refresh      ok and total are what all kept answers add up to now
    record.left_by      the same verdicts leave the same rows
    record.best_rows    exactly the feasible rows with the highest total
    record.flat         totals hold for any part of the feasible rows
    record.objections   of each row, the first filter that rejects it
    Crowd.refresh       of each row, what filters say with its nominated pods there

``decision_check`` asserts them under ``--check-invariants``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.pod_info import PodInfo
from holdfast.engine.class_evaluation import Left, Record
from holdfast.engine.kept_scores import NOWHERE, best_of
from holdfast.engine.memory import memory_of
from holdfast.engine.nominated_pods import Crowd, judge_beside_nominated
from holdfast.engine.objections import common_rows, first_objections, refused, rejection_of
from holdfast.engine.prepared import Prepared, filters_of, in_turn
from holdfast.engine.profile import Profile
from holdfast.engine.scoring import best_tier, score_rows, total, weighted_apart
from holdfast.framework.plugin import AnyRows, Code, Placement, PreEnqueuePlugin, Reject, Rows
from holdfast.framework.rejection import SILENCE, Rejection, Words
from holdfast.framework.view import View
from holdfast.framework.world import World

LIST_LIMITS = "ListLimits"
"""What rejects a pod of which a list has too many entries; no plugin, so that no event helps."""
_FEW = 32
"""So many kept best rows are looked at one by one before all rows are."""


@dataclass(slots=True, eq=False)
class Feasible:
    """Rows that can take the pod.

    ``active`` is ``record.prepared`` itself unless a plugin that is asked for every pod has
    something to say; while it is, what the record keeps is all there is. ``mask`` is None while it
    equals the class's own ``record.ok``; ``chosen`` is set when the pod goes to the node it is
    nominated to, unscored.
    """

    pod: PodInfo
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


def closed_gate(
    profile: Profile, pod: PodInfo, world: World, now: float
) -> tuple[str, Reject] | None:
    """Which plugin keeps a pod out of the queue and why, or None; the first one speaks."""
    view = View(world, pod, now)
    for plugin in profile.having(PreEnqueuePlugin):
        refusal: Reject | None = plugin.pre_enqueue(pod, view)
        if refusal is not None:
            return plugin.name, refusal
    return None


def decide(
    profile: Profile, pod: PodInfo, world: World, now: float, rng: np.random.Generator
) -> Placement | Rejection:
    """Both halves at once."""
    found = feasible(profile, pod, world, now)
    return found if isinstance(found, Rejection) else rank(profile, found, rng)


def feasible(profile: Profile, pod: PodInfo, world: World, now: float) -> Feasible | Rejection:
    """Find the rows that can take the pod, or say why there is none.

    The record of the pod's class has what plugins prepared for it and the rows that pass every
    kept filter. Plugins that are asked for every pod prepare besides, and may refuse it. Then rows
    are struck out: by filters whose answers are not kept, and where nominated pods need the room.
    The node the pod itself is nominated to is taken unscored if it is left.
    """
    memory = memory_of(profile, world)
    view = View(world, pod, now, offers=memory.offers)
    if pod.excess or not world.nodes.row_of:
        return _rejected_unseen(view)
    record = memory.record(pod, view)
    found = Feasible(pod, view, record, record.prepared)
    if record.fresh or not record.clear:
        found.active = memory.complete(record, pod, view)
        if found.active is not record.prepared or not record.clear:
            refusal = _refusal(found.active)
            if refusal is not None:
                return refused(view, found.active, *refusal)
    record.refresh()
    error = ""
    if record.domain or found.active is not record.prepared:
        error = _strike_out(found)
    if world.nominations:
        _leave_room(found)
    if pod.pod.status.nominated_node_name or world.nominations:
        _prefer_nominated(found)
    if error and found.chosen is None:
        return rejection_of(view, found.active, error=error)
    if found.count:
        return found
    same = found.active is record.prepared
    kept, crowd = (record.objections(), record.crowd) if same else (None, None)
    return first_objections(view, found.active, found.words, kept, crowd)


def _rejected_unseen(view: View) -> Rejection:
    """Reject a pod without asking any plugin: there is no node, or a list of it is too long."""
    if not view.pod.excess:
        return rejection_of(view, ())
    too_many = Reject(Code.UNRESOLVABLE, (view.pod.excess,))
    return rejection_of(view, (), prefilter=(LIST_LIMITS, too_many))


def _refusal(active: list[Prepared]) -> tuple[str, Reject] | None:
    """What preparing came to: the first unresolvable word, else the last of the others."""
    last = None
    for prepared in active:
        if prepared.reject is not None:
            last = (prepared.plugin.name, prepared.reject)
            if prepared.reject.code is not Code.UNSCHEDULABLE:
                return last
    if last is not None:
        return last
    narrowing = [p for p in active if p.narrow is not None]
    if len(narrowing) > 1 and not len(common_rows(narrowing)):
        names = sorted(p.plugin.name for p in narrowing)
        words = f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"
        return ", ".join(names), Reject(Code.UNRESOLVABLE, (words,))
    return None


def _strike_out(found: Feasible) -> str:
    """Let plugins whose answers are not kept strike out rows; answers an error, or "".

    An error on any row fails the attempt, unless the pod goes where it is nominated to.
    """
    record = found.record
    if record.accepts_slices and found.active is record.prepared:
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
        if prepared.use.accepts_slices:
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


def _leave_room(found: Feasible) -> None:
    """Strike out rows that would not take this pod beside the pods nominated to them."""
    record = found.record
    if record.domain or found.active is not record.prepared:
        found.words = _beside_nominated(found)
    else:
        if record.crowd is None:
            record.crowd = _crowd(found, found.active)
        found.words = record.crowd.refresh()
        own = found.own_row
        if own is not None:
            found.words = found.words.sized(found.view.nodes.size)
            found.words.put(own, record.crowd.word(own, but=found.pod.uid))
    if found.words:
        size = found.view.nodes.size
        mask = record.ok[:size] if found.mask is None else found.mask
        found.mask = mask & (found.words.of[:size] == 0)


def _beside_nominated(found: Feasible) -> Words:
    """What is said of rows that would do but for the pods nominated to them."""
    record, nodes, nominations = found.record, found.view.nodes, found.view.world.nominations
    mask = record.ok[: nodes.size] if found.mask is None else found.mask
    words, filters = Words(nodes.size), filters_of(found.active)
    if found.active is record.prepared:
        # Those who have their turn before any that looks beyond the row are remembered.
        if record.leading_crowd is None:
            ahead = takewhile(lambda p: p.answers is not None, in_turn(found.active))
            record.leading_crowd = _crowd(found, [*ahead])
        words = record.leading_crowd.refresh().sized(nodes.size)
        words.put_all((~mask & (words.of != 0)).nonzero()[0], None)
        if found.own_row is not None:
            words.put(found.own_row, None)
    rows = nominations.promised.rows(found.pod.priority)
    for row in rows[mask[rows] & (words.of[rows] == 0)].tolist():
        if others := nominations.beside(found.pod, row):
            words.put(row, judge_beside_nominated(filters, row, others))
    return words


def _crowd(found: Feasible, active: Iterable[Prepared]) -> Crowd:
    return Crowd(found.view.world, found.pod.priority, filters_of(active), found.record.ok)


def _prefer_nominated(found: Feasible) -> None:
    pod, world = found.pod, found.view.world
    node = world.nominations.node_of(pod.uid) or pod.pod.status.nominated_node_name
    row = world.nodes.row_of.get(node)
    if row is not None:
        mask = found.record.ok if found.mask is None else found.mask
        if mask[row]:
            found.chosen = row


def rank(
    profile: Profile,
    found: Feasible,
    rng: np.random.Generator,
    points: NDArray[np.float64] | None = None,
) -> Placement:
    """Choose the best of the feasible rows; among equals each is as likely.

    ``points`` (one a row) are added to what the plugins give.
    """
    row = found.chosen
    if row is None:
        row = _best_row(profile, found, rng, points)
    states = found.record.states
    if found.active is not found.record.prepared:
        states = {p.plugin.name: p.state for p in found.active if not p.skip}
    return Placement(found.pod, row, found.view.nodes.names[row], states)


def _best_row(
    profile: Profile,
    found: Feasible,
    rng: np.random.Generator,
    points: NDArray[np.float64] | None,
) -> int:
    """Choose a row; among equals each is as likely. ``points`` (one a row) are added."""
    record = found.record
    known = record.simple and found.active is record.prepared and points is None
    if known and found.mask is None:
        ties: Sequence[int] | Rows = record.best_rows()
    elif known and record.flat:
        ties = _best_left(found)
    else:
        if not record.summed and len(only := found.rows) == 1:
            return int(only[0])  # unscored: what is wrong with the scores is no matter
        rows, sums = ranked(profile, found)
        if points is not None:
            sums = sums + points[rows]
        ties = best_of(sums)
        if not isinstance(rows, slice):
            ties = rows[ties]
    count = len(ties)
    return int(ties[0 if count == 1 else int(rng.random() * count)])


def _best_left(found: Feasible) -> Sequence[int] | Rows:
    """The best rows of those the mask leaves, if totals hold for any part of the rows."""
    mask, record = found.mask, found.record
    assert mask is not None
    ties = record.best_rows()
    if len(ties) <= _FEW:
        left = sorted([row for row in ties if mask[row]])
        if left:
            return left
    return best_of(np.where(mask, record.total[: len(mask)], NOWHERE))


def ranked(profile: Profile, found: Feasible) -> tuple[AnyRows, NDArray[np.float64]]:
    """The rows of the best tier and their totals; kept sums are used where they hold."""
    record = found.record
    same = record.summed and found.active is record.prepared
    if not (same and (found.mask is None or record.flat)):
        rows = best_tier(found.active, found.rows)
        return rows, total(score_rows(profile, found.active, rows), len(rows))
    size = found.view.nodes.size
    asked: AnyRows = slice(0, size) if found.count == size else found.rows
    sums = record.total[asked] if isinstance(asked, slice) else record.total.take(asked)
    if record.leading is not None:
        sums = sums + record.leading.of(asked)
    for prepared in record.apart:
        sums = sums + weighted_apart(profile, prepared, asked)
    return asked, sums

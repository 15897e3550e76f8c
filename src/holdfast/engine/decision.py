"""The one generic runner: two pure halves, ``feasible`` and ``rank``.

Together they decide: which rows can take the pod, and which of those is best. Whoever applies the
decision (scheduler, what-if, a test) stands outside. Nothing here changes the world; what is
remembered between calls only makes the next one cheaper.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.pod_facts import PodFacts
from holdfast.engine.candidates import Feasible, strike_out
from holdfast.engine.choice import best_row
from holdfast.engine.hypothesis import judge_beside_nominated
from holdfast.engine.memory import Memory
from holdfast.engine.nominated_pods import Crowd
from holdfast.engine.objections import (
    common_rows,
    first_objections,
    refused,
    rejection_of,
)
from holdfast.engine.prepared import Prepared, filters_of, in_turn
from holdfast.engine.profile import Profile
from holdfast.framework.plugin import (
    AfterRejects,
    Code,
    Effect,
    Placement,
    PreEnqueues,
    Prepares,
    Reject,
    implements,
)
from holdfast.framework.rejection import Rejection
from holdfast.framework.view import View
from holdfast.framework.words import Words
from holdfast.framework.world import World

LIST_LIMITS = "ListLimits"
"""What rejects a pod of which a list has too many entries; no plugin, so that no event helps."""


def memory_of(profile: Profile, world: World) -> Memory:
    """What is remembered for a profile in this world."""
    memory: Memory | None = world.remembered.get(profile)
    if memory is None:
        memory = world.remembered[profile] = Memory(profile)
    return memory


def closed_gate(
    profile: Profile, pod: PodFacts, world: World, now: float
) -> tuple[str, Reject] | None:
    """Which plugin keeps a pod out of the queue and why, or None; the first one speaks."""
    view = View(world, pod, now)
    for plugin in profile.having(PreEnqueues):
        refusal: Reject | None = plugin.pre_enqueue(pod, view)
        if refusal is not None:
            return plugin.name, refusal
    return None


def feasible(profile: Profile, pod: PodFacts, world: World, now: float) -> Feasible | Rejection:
    """Find the rows that can take the pod, or say why there is none."""
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
        error = strike_out(found)
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
        row = best_row(profile, found, rng, points)
    states = found.record.states
    if found.active is not found.record.prepared:
        states = {p.plugin.name: p.state for p in found.active if not p.skip}
    return Placement(found.pod, row, found.view.nodes.names[row], states)


def decide(
    profile: Profile, pod: PodFacts, world: World, now: float, rng: np.random.Generator
) -> Placement | Rejection:
    """Both halves at once."""
    found = feasible(profile, pod, world, now)
    return found if isinstance(found, Rejection) else rank(profile, found, rng)


def after_reject(profile: Profile, rejection: Rejection, world: World, now: float) -> Effect | None:
    """Ask the plugins what to do about a pod that fits nowhere (PostFilter).

    They are asked in order until one succeeds or says that nothing can help; what they say is
    joined, and the last one to say something about the nomination is heard.
    """
    if rejection.error or not rejection.nodes or rejection.pod.excess:
        return None
    view = View(world, rejection.pod, now, offers=memory_of(profile, world).offers)
    effects: list[Effect] = []
    for plugin in profile.having(AfterRejects):
        if _missed(plugin, rejection):
            # Another plugin's word ended preparing before this one's turn; upstream's says this.
            effect = Effect(plugin.name, "not found", code=Code.ERROR)
        else:
            effect = plugin.after_reject(rejection.states.get(plugin.name), rejection, view)
        effects.append(effect)
        if effect.code is not Code.UNSCHEDULABLE:
            break
    return _merged(effects) if effects else None


def _missed(plugin: Any, rejection: Rejection) -> bool:
    """Whether a plugin that needs what it prepared did not get to prepare."""
    if getattr(plugin, "asked_unprepared", False) or not implements(plugin, Prepares):
        return False
    return plugin.name not in rejection.prepared


def _merged(effects: list[Effect]) -> Effect:
    """What they want together; one that ended the asking has the only word, but writes stand."""
    last = effects[-1]
    calls = tuple([call for e in effects for call in e.calls])
    notes = tuple([note for e in effects for note in e.notes])
    if last.code is not Code.UNSCHEDULABLE:
        # Most times nobody else has anything to write.
        alone = calls == last.calls and notes == last.notes
        return last if alone else replace(last, calls=calls, notes=notes)
    return Effect(
        plugin=", ".join(e.plugin for e in effects),
        message=", ".join(e.message for e in effects if e.message),
        nominate=next((e.nominate for e in reversed(effects) if e.nominate is not None), None),
        evict=tuple(pod for e in effects for pod in e.evict),
        calls=calls,
        code=last.code,
        notes=notes,
    )


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

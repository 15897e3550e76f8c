"""What one plugin made of a pod before any node was looked at."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

import numpy as np

from holdfast.columns.pod_facts import PodFacts
from holdfast.engine.answers import Answers
from holdfast.engine.plugin_use import PluginUse
from holdfast.framework.plugin import Code, Narrow, Part, Reject, Rows, Skip, State
from holdfast.framework.view import View

_PLACE = attrgetter("use.place")


class Prepared:
    """What one plugin made of a pod: skip, a state, its answers if they are kept.

    ``filters``, ``scores`` and ``tiers`` tell whether it does so for this pod, ``kept`` whether
    its answers are remembered. ``stamp`` is when
    ``versions`` were last found true.
    """

    __slots__ = ("answers", "filters", "kept", "mistake", "narrow", "plugin", "reject", "scores",
                 "skip", "stamp", "state", "tiers", "use", "versions")  # fmt: skip

    def __init__(
        self,
        use: PluginUse,
        versions: tuple[int, ...],
        *,
        skip: bool = False,
        state: State = None,
        part: Part | None = None,
        narrow: Rows | None = None,
        reject: Reject | None = None,
    ) -> None:
        self.use = use
        self.plugin = use.plugin
        self.versions = versions
        self.stamp = -1
        self.skip = skip
        self.state = state
        self.mistake = part.mistake if part is not None else ""
        self.narrow = narrow
        self.reject = reject
        self.answers: Answers | None = None
        active = not skip and reject is None
        self.filters = active and use.filters and (part is None or part.filters)
        self.scores = active and use.scores and (part is None or part.scores)
        self.tiers = active and use.tiers
        self.kept = active and (use.kept or (use.by_row is not None and use.by_row(state)))


def ask(use: PluginUse, pod: PodFacts, view: View, versions: tuple[int, ...]) -> Prepared:
    """Let the plugin prepare; one that does not is always ready, with no state."""
    if not use.prepares:
        return Prepared(use, versions)
    return take(use, use.plugin.prepare(pod, view), versions)


def take(use: PluginUse, answer: Any, versions: tuple[int, ...]) -> Prepared:
    """Read what ``prepare`` answered; where it is off at preFilter it rules nothing out."""
    match answer:
        case Skip():
            return Prepared(use, versions, skip=True)
        case Reject():
            if not use.speaks:
                return Prepared(use, versions, skip=True)
            return Prepared(use, versions, reject=answer)
        case Narrow():
            inner = answer.state
            part = inner if isinstance(inner, Part) else None
            state = inner if part is None else part.state
            rows = np.unique(answer.rows) if use.speaks else None
            return Prepared(use, versions, state=state, part=part, narrow=rows)
        case Part():
            return Prepared(use, versions, state=answer.state, part=answer)
    return Prepared(use, versions, state=answer)


def filters_of(active: Iterable[Prepared]) -> tuple[tuple[Any, State], ...]:
    """Plugins that filter for this pod, with their states, in order."""
    return tuple((p.plugin, p.state) for p in in_turn(active))


def in_turn(active: Iterable[Prepared]) -> list[Prepared]:
    """What filters for this pod, in the order of the filters, which need not be that of active."""
    return sorted((p for p in active if p.filters), key=_PLACE)


def states_of(active: Iterable[Prepared]) -> dict[str, State]:
    """What plugins that have something to say made of the pod, by name."""
    return {p.plugin.name: p.state for p in active if not p.skip and p.reject is None}


def reached(active: Iterable[Prepared]) -> frozenset[str]:
    """Plugins that had their turn to prepare: an unresolvable word ends it."""
    names = []
    for prepared in active:
        names.append(prepared.plugin.name)
        if prepared.reject is not None and prepared.reject.code is not Code.UNSCHEDULABLE:
            break
    return frozenset(names)

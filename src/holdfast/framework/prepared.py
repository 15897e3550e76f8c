"""What one plugin made of a pod before any node was looked at."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.columns.pod_facts import PodFacts
from holdfast.framework.answers import Answers
from holdfast.framework.plugin import (
    Filters,
    Narrow,
    Part,
    Prepares,
    Reject,
    Rows,
    Scope,
    Scores,
    Skip,
    State,
    Tiers,
    implements,
)
from holdfast.framework.profile import Role
from holdfast.framework.view import View

WHOLE = Role()
"""A plugin that is on wherever it can be."""


class Prepared:
    """What one plugin made of a pod: skip, a state, its answers if they are kept.

    ``filters``, ``scores`` and ``tiers`` tell whether it does so for this pod, ``asked`` whether it
    must be asked to prepare for every single pod, ``sliced`` whether it takes all rows as a slice.
    ``place`` is its turn among the filters, ``stamp`` is when ``versions`` were last found true.
    """

    __slots__ = ("answers", "asked", "filters", "mistake", "narrow", "place", "plugin", "reject",
                 "scores", "skip", "sliced", "stamp", "state", "tiers", "versions")  # fmt: skip

    def __init__(
        self,
        plugin: Any,
        versions: tuple[int, ...],
        *,
        skip: bool = False,
        state: State = None,
        part: Part | None = None,
        narrow: Rows | None = None,
        reject: Reject | None = None,
        role: Role = WHOLE,
    ) -> None:
        self.plugin = plugin
        self.versions = versions
        self.stamp = -1
        self.skip = skip
        self.state = state
        self.mistake = part.mistake if part is not None else ""
        self.narrow = narrow
        self.reject = reject
        self.answers: Answers | None = None
        self.asked = getattr(plugin, "scope", Scope.CLUSTER) is Scope.CLUSTER
        self.sliced = getattr(plugin, "sliced", False)
        self.place = role.place
        active = not skip and reject is None
        filters = active and role.filters and (part is None or part.filters)
        scores = active and role.scores and (part is None or part.scores)
        self.filters = filters and implements(plugin, Filters)
        self.scores = scores and implements(plugin, Scores)
        self.tiers = active and role.scores and implements(plugin, Tiers)


def ask(
    plugin: Any, pod: PodFacts, view: View, versions: tuple[int, ...], role: Role = WHOLE
) -> Prepared:
    """Let the plugin prepare; one that does not is always ready, with no state."""
    if not implements(plugin, Prepares):
        return Prepared(plugin, versions, role=role)
    return take(plugin, plugin.prepare(pod, view), versions, role)


def take(plugin: Any, answer: Any, versions: tuple[int, ...], role: Role = WHOLE) -> Prepared:
    """Read what ``prepare`` answered; where it is off at preFilter it rules nothing out."""
    match answer:
        case Skip():
            return Prepared(plugin, versions, skip=True)
        case Reject():
            if not role.prepares:
                return Prepared(plugin, versions, skip=True)
            return Prepared(plugin, versions, reject=answer)
        case Narrow():
            inner = answer.state
            part = inner if isinstance(inner, Part) else None
            state = inner if part is None else part.state
            rows = np.unique(answer.rows) if role.prepares else None
            return Prepared(plugin, versions, state=state, part=part, narrow=rows, role=role)
        case Part():
            return Prepared(plugin, versions, state=answer.state, part=answer, role=role)
    return Prepared(plugin, versions, state=answer, role=role)

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
    implements,
)
from holdfast.framework.view import View


class Prepared:
    """What one plugin made of a pod: skip, a state, its answers if they are kept.

    ``filters`` and ``scores`` tell whether it does so for this pod, ``asked`` whether it must be
    asked to prepare for every single pod, ``sliced`` whether it takes all rows as a slice.
    ``stamp`` is when ``versions`` were last found true.
    """

    __slots__ = ("answers", "asked", "filters", "narrow", "part", "plugin", "reject", "scores",
                 "skip", "sliced", "stamp", "state", "versions")  # fmt: skip

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
    ) -> None:
        self.plugin = plugin
        self.versions = versions
        self.stamp = -1
        self.skip = skip
        self.state = state
        self.part = part
        self.narrow = narrow
        self.reject = reject
        self.answers: Answers | None = None
        self.asked = getattr(plugin, "scope", Scope.CLUSTER) is Scope.CLUSTER
        self.sliced = getattr(plugin, "sliced", False)
        active = not skip and reject is None
        self.filters = active and (part is None or part.filters) and implements(plugin, Filters)
        self.scores = active and (part is None or part.scores) and implements(plugin, Scores)


def ask(plugin: Any, pod: PodFacts, view: View, versions: tuple[int, ...]) -> Prepared:
    """Let the plugin prepare; one that does not is always ready, with no state."""
    if not implements(plugin, Prepares):
        return Prepared(plugin, versions)
    return take(plugin, plugin.prepare(pod, view), versions)


def take(plugin: Any, answer: Any, versions: tuple[int, ...]) -> Prepared:
    """Read what ``prepare`` answered."""
    match answer:
        case Skip():
            return Prepared(plugin, versions, skip=True)
        case Reject():
            return Prepared(plugin, versions, reject=answer)
        case Narrow():
            inner = answer.state
            part = inner if isinstance(inner, Part) else None
            state = inner if part is None else part.state
            rows = np.unique(answer.rows)
            return Prepared(plugin, versions, state=state, part=part, narrow=rows)
        case Part():
            return Prepared(plugin, versions, state=answer.state, part=answer)
    return Prepared(plugin, versions, state=answer)

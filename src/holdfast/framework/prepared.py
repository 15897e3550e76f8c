"""What one plugin made of a pod before any node was looked at."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(slots=True, eq=False)
class Prepared:
    """What one plugin made of a pod: skip, a state, its answers if they are kept."""

    plugin: Any
    versions: tuple[int, ...]
    skip: bool = False
    state: State = None
    part: Part | None = None
    answers: Answers | None = None
    narrow: Rows | None = None
    reject: Reject | None = None

    @property
    def asked(self) -> bool:
        """Whether the plugin must be asked to prepare for every single pod."""
        return getattr(self.plugin, "scope", Scope.CLUSTER) is Scope.CLUSTER

    @property
    def filters(self) -> bool:
        """Whether the plugin filters for this pod."""
        if self.skip or (self.part is not None and not self.part.filters):
            return False
        return implements(self.plugin, Filters)

    @property
    def scores(self) -> bool:
        """Whether the plugin scores for this pod."""
        if self.skip or (self.part is not None and not self.part.scores):
            return False
        return implements(self.plugin, Scores)


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

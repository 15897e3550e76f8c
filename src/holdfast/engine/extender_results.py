"""What extenders said, applied to the world as it is when their answer arrives.

They were asked about the nodes that would do a moment ago. Now other nodes may: an opinion
narrows what is feasible now, it never makes a node feasible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from holdfast.engine.decision import Feasible
from holdfast.engine.rejections import reject_by_row
from holdfast.engine.scoring import HIGHEST_SCORE
from holdfast.framework.extender import (
    EXTENDER,
    HIGHEST_PRIORITY,
    ExtenderConfig,
    ExtenderFilterResult,
)
from holdfast.framework.plugin import Code
from holdfast.framework.rejection import Rejection, Status

Points = NDArray[np.float64]


@dataclass(slots=True)
class ExtenderResults:
    """What the extenders together make of some nodes for one pod."""

    nodes: frozenset[str]
    allowed: tuple[str, ...]
    statuses: dict[str, Status] = field(default_factory=dict)
    scores: dict[str, int] = field(default_factory=dict)

    @classmethod
    def before_calls(cls, names: Sequence[str]) -> ExtenderResults:
        """The opinion before anybody was asked: every node will do."""
        return cls(frozenset(names), tuple(names))

    def add_filter_result(self, answer: ExtenderFilterResult) -> None:
        """Take in what one extender made of the nodes that were left."""
        left = frozenset(answer.allowed)
        for name in self.allowed:
            if name not in left:
                self.statuses[name] = _word(answer, name)
        self.allowed = tuple(name for name in self.allowed if name in left)

    def add_scores(self, extender: ExtenderConfig, scores: Mapping[str, int]) -> None:
        """Add one extender's points, in the measure of plugins."""
        scale = extender.weight * (HIGHEST_SCORE // HIGHEST_PRIORITY)
        for name, score in scores.items():
            self.scores[name] = self.scores.get(name, 0) + score * scale


def _word(answer: ExtenderFilterResult, name: str) -> Status:
    """Why an extender leaves a node out; about one it does not mention nothing can be done."""
    if name in answer.unresolvable:
        return Status(EXTENDER, Code.UNRESOLVABLE, (str(answer.unresolvable[name]),))
    if name in answer.failed:
        return Status(EXTENDER, Code.UNSCHEDULABLE, (str(answer.failed[name]),))
    return Status(EXTENDER, Code.UNRESOLVABLE, ())


def apply_extender_results(
    found: Feasible, opinion: ExtenderResults
) -> tuple[Feasible, Points] | Rejection | None:
    """Narrow what is feasible now to what the extenders allow.

    None if that leaves nothing but there are feasible nodes they were not asked about: the
    opinion is out of date.
    """
    names = found.view.nodes.names
    rows = found.rows.tolist()
    allowed = frozenset(opinion.allowed)
    left = [row for row in rows if names[row] in allowed]
    if left:
        points = np.zeros(found.view.nodes.size)
        points[left] = [opinion.scores.get(names[row], 0) for row in left]
        return found.restricted_to(np.array(left, np.intp)), points
    if any(names[row] not in opinion.nodes for row in rows):
        return None
    words = found.statuses.resized(found.view.nodes.size)
    for row in rows:
        words.put(row, opinion.statuses[names[row]])
    return reject_by_row(found.view, found.outcomes, words)

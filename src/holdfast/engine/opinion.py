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
from holdfast.engine.objections import first_objections
from holdfast.engine.scoring import HIGHEST_SCORE
from holdfast.framework.extender import EXTENDER, HIGHEST_PRIORITY, ExtenderConfig, Filtered
from holdfast.framework.plugin import Code
from holdfast.framework.rejection import Rejection, Word

Points = NDArray[np.float64]


@dataclass(slots=True)
class Opinion:
    """What the extenders together make of some nodes for one pod."""

    asked: frozenset[str]
    allowed: tuple[str, ...]
    words: dict[str, Word] = field(default_factory=dict)
    scores: dict[str, int] = field(default_factory=dict)

    @classmethod
    def open(cls, names: Sequence[str]) -> Opinion:
        """The opinion before anybody was asked: every node will do."""
        return cls(frozenset(names), tuple(names))

    def filter(self, answer: Filtered) -> None:
        """Take in what one extender made of the nodes that were left."""
        left = frozenset(answer.allowed)
        for name in self.allowed:
            if name not in left:
                self.words[name] = _word(answer, name)
        self.allowed = tuple(name for name in self.allowed if name in left)

    def score(self, extender: ExtenderConfig, scores: Mapping[str, int]) -> None:
        """Add one extender's points, in the measure of plugins."""
        scale = extender.weight * (HIGHEST_SCORE // HIGHEST_PRIORITY)
        for name, score in scores.items():
            self.scores[name] = self.scores.get(name, 0) + score * scale


def _word(answer: Filtered, name: str) -> Word:
    """Why an extender leaves a node out; about one it does not mention nothing can be done."""
    if name in answer.unresolvable:
        return Word(EXTENDER, Code.UNRESOLVABLE, (str(answer.unresolvable[name]),))
    if name in answer.failed:
        return Word(EXTENDER, Code.UNSCHEDULABLE, (str(answer.failed[name]),))
    return Word(EXTENDER, Code.UNRESOLVABLE, ())


def hear(found: Feasible, opinion: Opinion) -> tuple[Feasible, Points] | Rejection | None:
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
        return found.only(np.array(left, np.intp)), points
    if any(names[row] not in opinion.asked for row in rows):
        return None
    words = found.words.sized(found.view.nodes.size)
    for row in rows:
        words.put(row, opinion.words[names[row]])
    return first_objections(found.view, found.active, words)

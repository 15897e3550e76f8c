"""Apply the results of extenders to the rows that are feasible when the results arrive.

The extenders received the nodes that were feasible when the requests were sent. In the meantime
other nodes may be feasible. Results of extenders remove nodes; they never make one feasible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from holdfast.scheduling.engine.decision import all_tiers
from holdfast.scheduling.engine.feasible_rows import Feasible
from holdfast.scheduling.engine.rejections import reject_by_row
from holdfast.scheduling.engine.scoring import HIGHEST_SCORE
from holdfast.scheduling.framework.extender import (
    EXTENDER,
    HIGHEST_PRIORITY,
    ExtenderConfig,
    ExtenderFilterResult,
)
from holdfast.scheduling.framework.plugin import Code
from holdfast.scheduling.framework.rejection import Rejection, Status

Points = NDArray[np.float64]


@dataclass(slots=True)
class ExtenderResults:
    """The combined results of all extenders for one pod.

    ``nodes`` are those that were sent to them; ``allowed`` are those that no extender has rejected
    so far; ``statuses`` has the reasons for the other nodes.
    """

    nodes: frozenset[str]
    allowed: tuple[str, ...]
    statuses: dict[str, Status] = field(default_factory=dict)
    scores: dict[str, int] = field(default_factory=dict)

    @classmethod
    def before_calls(cls, names: Sequence[str]) -> ExtenderResults:
        """Return the results before the first call: all nodes are allowed."""
        return cls(frozenset(names), tuple(names))

    def add_filter_result(self, result: ExtenderFilterResult) -> None:
        """Add the filter result of one extender for the nodes that were still allowed."""
        left = frozenset(result.allowed)
        for name in self.allowed:
            if name not in left:
                self.statuses[name] = _status(result, name)
        self.allowed = tuple(name for name in self.allowed if name in left)

    def add_scores(self, extender: ExtenderConfig, scores: Mapping[str, int]) -> None:
        """Add one extender's scores, converted to the range of plugin scores."""
        scale = extender.weight * (HIGHEST_SCORE // HIGHEST_PRIORITY)
        for name, score in scores.items():
            self.scores[name] = self.scores.get(name, 0) + score * scale


def _status(result: ExtenderFilterResult, name: str) -> Status:
    """Return why an extender rejects a node; without a reason it is unresolvable, as upstream."""
    if name in result.unresolvable:
        return Status(EXTENDER, Code.UNRESOLVABLE, (str(result.unresolvable[name]),))
    if name in result.failed:
        return Status(EXTENDER, Code.UNSCHEDULABLE, (str(result.failed[name]),))
    return Status(EXTENDER, Code.UNRESOLVABLE, ())


def apply_extender_results(
    found: Feasible, results: ExtenderResults
) -> tuple[Feasible, Points] | Rejection | None:
    """Restrict the feasible rows to those that the extenders allow; return them with their scores.

    Returns None if none remain, but a feasible node was not sent to the extenders: they must be
    called again.
    """
    found = all_tiers(found)
    names = found.view.nodes.names
    rows = found.rows.tolist()
    allowed = frozenset(results.allowed)
    left = [row for row in rows if names[row] in allowed]
    if left:
        scores = np.zeros(found.view.nodes.size)
        scores[left] = [results.scores.get(names[row], 0) for row in left]
        return found.restricted_to(np.array(left, np.intp)), scores
    if any(names[row] not in results.nodes for row in rows):
        return None
    statuses = found.statuses.resized(found.view.nodes.size)
    for row in rows:
        statuses.put(row, results.statuses[names[row]])
    return reject_by_row(found.view, found.outcomes, statuses)

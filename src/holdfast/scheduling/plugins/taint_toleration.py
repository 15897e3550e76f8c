"""TaintToleration: taints reject pods, or lower scores, unless tolerated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.api.node import Node
from holdfast.api.pod import Toleration
from holdfast.api.tolerations import PREFER_NO_SCHEDULE, find_untolerated, tolerated
from holdfast.scheduling.framework.events import ActionType, EventResource
from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ClusterEvent,
    Code,
    NodeFilter,
    NodeScorer,
    Plugin,
    PodChange,
    RawScores,
    Scope,
    Traits,
    Verdicts,
)
from holdfast.scheduling.framework.view import View
from holdfast.state.columns.cells import Cells, cells
from holdfast.state.columns.node_rows import TaintSet
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo


@dataclass(slots=True)
class ToleratedTaints(NodeFilter, NodeScorer):
    """Reject and score nodes by their taint sets; nodes with equal taints share the results.

    ``verdicts`` and ``unwanted`` have one entry for each distinct taint set.
    """

    nodes: NodeTable
    tolerations: tuple[Toleration, ...]
    preferring: tuple[Toleration, ...]
    set_at: Cells[int]
    comparisons: bool
    verdicts: NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))
    unwanted: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    reason = "node(s) had untolerated taint(s)"  # kube-scheduler does not name the taint

    def filter(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject nodes with an untolerated taint as unresolvable."""
        self.update()
        verdicts: Verdicts = self.verdicts.take(self.nodes.taint_set[rows])
        return verdicts

    def filter_row(self, row: int, change: PodChange = NO_CHANGE) -> int:
        """Return the same for one row."""
        self.update()
        return int(self.verdicts[self.set_at[row]])

    def score(self, rows: AnyRows) -> RawScores:
        """Count the PreferNoSchedule taints that are not tolerated."""
        self.update()
        raw: RawScores = self.unwanted.take(self.nodes.taint_set[rows])
        return raw

    def score_row(self, row: int) -> float:
        """Return the same for one row."""
        self.update()
        return float(self.unwanted[self.set_at[row]])

    def normalize_by_range(self, raw: Any, low: float, high: float) -> Any:
        """Give the highest number 0, and 100 to rows without such taints."""
        if high == 0:
            return raw * 0 + 100.0
        return 100.0 - (100.0 * raw) // high

    def update(self) -> None:
        """Add the verdicts and scores of new taint sets."""
        known, sets = len(self.verdicts), self.nodes.taint_sets
        if known == len(sets):
            return
        new = [sets[i] for i in range(known, len(sets))]
        self.verdicts = np.append(
            self.verdicts, np.array([self._verdict(taints) for taints in new], np.int8)
        )
        self.unwanted = np.append(self.unwanted, [float(self._unwanted(taints)) for taints in new])

    def _verdict(self, taints: TaintSet) -> int:
        untolerated = find_untolerated(taints, self.tolerations, comparisons=self.comparisons)
        return int(Code.PASS if untolerated is None else Code.UNRESOLVABLE)

    def _unwanted(self, taints: TaintSet) -> int:
        return sum(
            taint.effect == PREFER_NO_SCHEDULE
            and not tolerated(self.preferring, taint, comparisons=self.comparisons)
            for taint in taints
        )


class TaintToleration(Plugin):
    """Filter by NoSchedule and NoExecute taints, score by PreferNoSchedule taints."""

    name = "TaintToleration"
    traits = Traits(
        scope=Scope.NODE,
        events_to_register={
            EventResource.NODE: (ActionType.ADD, ActionType.UPDATE_NODE_TAINT),
            EventResource.POD: (ActionType.UPDATE_POD_TOLERATION,),
        },
        ignores_requests=True,
        accepts_slices=True,
    )
    plan_classes = (ToleratedTaints,)

    def __init__(self, _args: Mapping[str, Any], *, comparisons: bool = False) -> None:
        self._comparisons = comparisons

    def reads(self, pod: PodInfo, view: View) -> tuple[Toleration, ...]:
        """Return the tolerations."""
        return pod.pod.spec.tolerations

    def pre_filter(self, pod: PodInfo, view: View) -> ToleratedTaints:
        """Select the tolerations of PreferNoSchedule taints."""
        tolerations = pod.pod.spec.tolerations
        preferring = tuple(t for t in tolerations if t.effect in ("", PREFER_NO_SCHEDULE))
        sets = cells(view.nodes.taint_set)
        return ToleratedTaints(view.nodes, tolerations, preferring, sets, self._comparisons)

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Requeue if a node is tolerated now, or the pod has other tolerations."""
        if event.resource == EventResource.NODE:
            return _passes(event.new, pod) and not (event.old and _passes(event.old, pod))
        return event.is_for_pod(pod) and event.action == ActionType.UPDATE_POD_TOLERATION


def _passes(node: Node | None, pod: PodInfo) -> bool:
    if node is None:
        return False
    return find_untolerated(node.spec.taints, pod.pod.spec.tolerations) is None

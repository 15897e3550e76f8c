"""TaintToleration: taints reject pods, or lower scores, unless tolerated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast.api.node import Node
from holdfast.api.pod import Toleration
from holdfast.api.tolerations import (
    PREFER_NO_SCHEDULE,
    find_untolerated,
    tolerated,
)
from holdfast.columns.cells import Cells, cells
from holdfast.columns.node_rows import TaintSet
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ClusterEvent,
    Code,
    PodChange,
    RawScores,
    Rows,
    Scope,
    Traits,
    Verdicts,
)
from holdfast.framework.view import View

REASON = "node(s) had untolerated taint(s)"


@dataclass(slots=True)
class _State:
    """Verdict and score for each distinct taint set; nodes with equal taints share them."""

    nodes: NodeTable
    tolerations: tuple[Toleration, ...]
    preferring: tuple[Toleration, ...]
    set_at: Cells[int]
    comparisons: bool
    verdicts: NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))
    unwanted: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

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


class TaintToleration:
    """Filter by NoSchedule and NoExecute taints, score by PreferNoSchedule taints."""

    name: ClassVar[str] = "TaintToleration"
    traits: ClassVar[Traits] = Traits(
        scope=Scope.NODE,
        events_to_register={
            "Node": ("Add", "UpdateNodeTaint"),
            "Pod": ("UpdatePodToleration",),
        },
        ignores_requests=True,
        accepts_slices=True,
    )

    def __init__(self, _args: Mapping[str, Any], *, comparisons: bool = False) -> None:
        self._comparisons = comparisons

    def reads(self, pod: PodInfo, _view: View) -> tuple[Toleration, ...]:
        """Return the tolerations."""
        return pod.pod.spec.tolerations

    def pre_filter(self, pod: PodInfo, view: View) -> _State:
        """Select the tolerations of PreferNoSchedule taints."""
        tolerations = pod.pod.spec.tolerations
        preferring = tuple(t for t in tolerations if t.effect in ("", PREFER_NO_SCHEDULE))
        sets = cells(view.nodes.taint_set)
        return _State(view.nodes, tolerations, preferring, sets, self._comparisons)

    def filter(self, state: _State, rows: AnyRows, _change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject nodes with an untolerated taint as unresolvable."""
        state.update()
        verdicts: Verdicts = state.verdicts.take(state.nodes.taint_set[rows])
        return verdicts

    def score(self, state: _State, rows: AnyRows) -> RawScores:
        """Count the PreferNoSchedule taints that are not tolerated."""
        state.update()
        raw: RawScores = state.unwanted.take(state.nodes.taint_set[rows])
        return raw

    def filter_and_score_row(self, state: _State, row: int) -> tuple[int, float]:
        """Return the same for one row."""
        state.update()
        taints = state.set_at[row]
        return int(state.verdicts[taints]), float(state.unwanted[taints])

    def normalize_by_range(self, _state: _State, raw: Any, _low: float, high: float) -> Any:
        """Give the highest number 0, and 100 to rows without such taints."""
        if high == 0:
            return raw * 0 + 100.0
        return 100.0 - (100.0 * raw) // high

    def reasons(self, _state: _State, _row: int, _change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return the only reason; kube-scheduler does not name the taint."""
        return (REASON,)

    def count_reasons(self, _state: _State, rows: Rows) -> Mapping[str, int]:
        """Count all rows under the only reason."""
        return {REASON: len(rows)}

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, _view: View) -> bool:
        """Requeue if a node is tolerated now, or the pod has other tolerations."""
        if event.resource == "Node":
            return _passes(event.new, pod) and not (event.old and _passes(event.old, pod))
        return event.is_for_pod(pod) and event.action == "UpdatePodToleration"


def _passes(node: Node | None, pod: PodInfo) -> bool:
    if node is None:
        return False
    return find_untolerated(node.spec.taints, pod.pod.spec.tolerations) is None

"""TaintToleration: taints keep pods off, or advise against, unless tolerated."""

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
    """Verdict and score per distinct taint set; nodes with equal taints share them."""

    nodes: NodeTable
    tolerations: tuple[Toleration, ...]
    preferring: tuple[Toleration, ...]
    set_at: Cells[int]
    comparisons: bool
    verdicts: NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))
    unwanted: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def learn(self) -> None:
        """Judge taint sets that were not there before."""
        known, sets = len(self.verdicts), self.nodes.taint_sets
        if known == len(sets):
            return
        new = [sets[i] for i in range(known, len(sets))]
        self.verdicts = np.append(
            self.verdicts, np.array([self._verdict(taints) for taints in new], np.int8)
        )
        self.unwanted = np.append(self.unwanted, [float(self._unwanted(taints)) for taints in new])

    def _verdict(self, taints: TaintSet) -> int:
        bad = find_untolerated(taints, self.tolerations, comparisons=self.comparisons)
        return int(Code.PASS if bad is None else Code.UNRESOLVABLE)

    def _unwanted(self, taints: TaintSet) -> int:
        return sum(
            taint.effect == PREFER_NO_SCHEDULE
            and not tolerated(self.preferring, taint, comparisons=self.comparisons)
            for taint in taints
        )


class TaintToleration:
    """Rule out NoSchedule and NoExecute taints, prefer few PreferNoSchedule ones."""

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
        """The tolerations."""
        return pod.pod.spec.tolerations

    def pre_filter(self, pod: PodInfo, view: View) -> _State:
        """Sort out the tolerations that speak about preferences."""
        tolerations = pod.pod.spec.tolerations
        preferring = tuple(t for t in tolerations if t.effect in ("", PREFER_NO_SCHEDULE))
        sets = cells(view.nodes.taint_set)
        return _State(view.nodes, tolerations, preferring, sets, self._comparisons)

    def filter(self, state: _State, rows: AnyRows, _change: PodChange = NO_CHANGE) -> Verdicts:
        """Unresolvable where a taint is not tolerated."""
        state.learn()
        verdicts: Verdicts = state.verdicts.take(state.nodes.taint_set[rows])
        return verdicts

    def score(self, state: _State, rows: AnyRows) -> RawScores:
        """How many taints advise against the node; fewer is better."""
        state.learn()
        raw: RawScores = state.unwanted.take(state.nodes.taint_set[rows])
        return raw

    def filter_and_score_row(self, state: _State, row: int) -> tuple[int, float]:
        """The same for one row."""
        state.learn()
        taints = state.set_at[row]
        return int(state.verdicts[taints]), float(state.unwanted[taints])

    def normalize_by_range(self, _state: _State, raw: Any, _low: float, high: float) -> Any:
        """The most advised against gets 0, none 100; all get 100 if nobody advises."""
        if high == 0:
            return raw * 0 + 100.0
        return 100.0 - (100.0 * raw) // high

    def reasons(self, _state: _State, _row: int, _change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """There is only one; which taint it was, upstream does not say."""
        return (REASON,)

    def count_reasons(self, _state: _State, rows: Rows) -> Mapping[str, int]:
        """There is only one."""
        return {REASON: len(rows)}

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, _view: View) -> bool:
        """A node is tolerated that was not, or the pod tolerates something else now."""
        if event.resource == "Node":
            return _passes(event.new, pod) and not (event.old and _passes(event.old, pod))
        return event.is_for_pod(pod) and event.action == "UpdatePodToleration"


def _passes(node: Node | None, pod: PodInfo) -> bool:
    if node is None:
        return False
    return find_untolerated(node.spec.taints, pod.pod.spec.tolerations) is None

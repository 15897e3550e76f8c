"""Plugins that are called for one node at a time.

Derive from ``PerNodePlugin`` and write ``fits``, or ``score``, or both. ``columnar`` converts it to
a plugin that is called with rows and returns arrays, by a Python loop over the nodes. The built-in
plugins never do that: it is simple, and fast enough for thousands of nodes, but not for thousands
of pods per second. docs/plugins.md says what to do then.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.scheduling.framework.arguments import Args
from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    Code,
    NodeFilter,
    NodeScorer,
    Plugin,
    PodChange,
    PodPlan,
    RawScores,
    Scope,
    Traits,
    Verdicts,
)
from holdfast.scheduling.framework.view import View
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo


class NodeInfo:
    """One node as a plugin sees it: the object, the pods on it, the free resources.

    Pods that are placed but not bound yet are included. While the scheduler filters with
    hypothetical pods (nominated pods, preemption), ``pods`` and ``free`` include that change.
    """

    __slots__ = ("_change", "_nodes", "row")

    def __init__(self, nodes: NodeTable, row: int, change: PodChange = NO_CHANGE) -> None:
        self._nodes = nodes
        self._change = change
        self.row = row

    @property
    def node(self) -> Node:
        """The Node object."""
        node = self._nodes.nodes[self.row]
        assert node is not None
        return node

    @property
    def name(self) -> str:
        """Its name."""
        return self._nodes.names[self.row]

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        return self.node.metadata.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations."""
        return self.node.metadata.annotations

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The pods on it, without the reserve pods of reservations."""
        removed = {pod.uid for pod in self._change.removed.get(self.row, ())}
        pods = [f for uid, f in self._nodes.pods_on(self.row).items() if uid not in removed]
        pods += self._change.added.get(self.row, ())
        return tuple(pod_info.pod for pod_info in pods if not pod_info.is_reserve_pod)

    def allocatable(self, resource: str) -> int:
        """Return the allocatable amount of a resource: cpu in millicores, others in units."""
        return self._of(self._nodes.amounts.allocatable, resource)

    def free(self, resource: str) -> int:
        """Return the amount of a resource that is neither requested nor reserved."""
        left = self._of(self._nodes.amounts.allocatable, resource)
        left -= self._of(self._nodes.amounts.requested, resource)
        freed, pod_slots = self._change.freed_resources(self.row)
        if resource == "pods":
            return left + pod_slots
        return left + freed.get(self._nodes.resources.find(resource), 0)

    def _of(self, column: Any, resource: str) -> int:
        known = self._nodes.resources.find(resource)
        return int(column[known, self.row]) if 0 <= known < len(column) else 0


class PerNodePlugin:
    """Write ``fits``, or ``score``, or both; ``args`` are those of the configuration.

    The plugin is called for every pod and node, so it may use any of their fields. It must be
    stateless: the same arguments give the same result. ``reads`` makes it faster. It has no
    default, because results are cached by row, and a change that the scheduler does not read, such
    as that of an annotation, does not count as a change of the row.
    """

    name: str = ""

    def __init__(self, args: Args | None = None) -> None:
        self.args = dict(args or {})

    def fits(self, pod: Pod, node: NodeInfo) -> str | None:
        """Return why the pod must not run on the node, or None if it may."""
        raise NotImplementedError

    def score(self, pod: Pod, node: NodeInfo) -> int:
        """Return a score from 0 to 100; higher is better."""
        raise NotImplementedError

    def reads(self, pod: Pod) -> Hashable:
        """Return everything of the pod that ``fits`` and ``score`` use; results are cached by it.

        Write it only if they use no other parts of a node than its labels, taints, allocatable and
        free resources, and the labels, requests and priorities of its pods: the plugin is called
        again when one of these changes, but not when an annotation or a condition does.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _PerNodePlan(PodPlan):
    plugin: PerNodePlugin
    nodes: NodeTable
    pod: Pod
    """One of the pods with the same ``reads``."""

    def _numbers(self, rows: AnyRows) -> list[int]:
        numbers: list[int] = np.arange(self.nodes.capacity)[rows].tolist()
        return numbers


class _PerNodeFilter(_PerNodePlan, NodeFilter):
    """Reject the nodes that ``fits`` rejects, as UNSCHEDULABLE, so preemption may help.

    The result of ``fits`` is checked: True, False or "" could mean either.
    """

    def filter(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        return np.array([self.filter_row(row, change) for row in self._numbers(rows)], np.int8)

    def filter_row(self, row: int, change: PodChange = NO_CHANGE) -> int:
        # Cached results are computed for all rows, also for those that have no node now.
        rejected = self.nodes.nodes[row] is not None and self._fits(row, change) is not None
        return Code.UNSCHEDULABLE if rejected else Code.PASS

    def reasons(self, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        return (self._fits(row, change) or f"node(s) rejected by {self.plugin.name}",)

    def _fits(self, row: int, change: PodChange) -> str | None:
        result = self.plugin.fits(self.pod, NodeInfo(self.nodes, row, change))
        if result is None or (isinstance(result, str) and result):
            return result
        raise TypeError(f"{self.plugin.name}.fits must return None or a reason, not {result!r}")


class _PerNodeScorer(_PerNodePlan, NodeScorer):
    """Score nodes by ``score``."""

    def score(self, rows: AnyRows) -> RawScores:
        return np.array([self.score_row(row) for row in self._numbers(rows)], np.float64)

    def score_row(self, row: int) -> float:
        if self.nodes.nodes[row] is None:
            return 0.0
        result = self.plugin.score(self.pod, NodeInfo(self.nodes, row))
        if isinstance(result, int) and 0 <= result <= 100:
            return result
        raise ValueError(f"{self.plugin.name}.score must return 0 to 100, not {result!r}")


class _PerNodeFilterAndScorer(_PerNodeFilter, _PerNodeScorer):
    """Filter and score."""


_PLANS: dict[tuple[bool, bool], type[_PerNodePlan]] = {
    (True, True): _PerNodeFilterAndScorer,
    (True, False): _PerNodeFilter,
    (False, True): _PerNodeScorer,
}
"""By whether the author wrote ``fits`` and ``score``."""


class _Columnar(Plugin):
    """A per-node plugin that is called with rows.

    With ``reads``, results depend on the labels of pods, including those that no selector names. A
    change of such a label is not logged for the row: before the epoch POD_LABELS existed, outdated
    results stayed. Without ``reads``, no part of the pod may be in the key of its class: the
    default result of ``reads`` was, and made a class for each pod.
    """

    def __init__(self, plugin: PerNodePlugin, plan: type[_PerNodePlan]) -> None:
        self.name = plugin.name
        self._plugin, self._plan = plugin, plan
        self._has_reads = _overrides(plugin, "reads")
        scope = Scope.ROW if self._has_reads else Scope.CLUSTER
        self.traits = Traits(
            scope=scope, epochs=(Epoch.POD_LABELS,), reads_outside_spec=self._has_reads
        )
        self.plan_classes = (plan,)

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        return self._plugin.reads(pod.pod)

    def pre_filter(self, pod: PodInfo, view: View) -> PodPlan:
        return self._plan(self._plugin, view.nodes, pod.pod)


def columnar(plugin: Plugin | PerNodePlugin) -> Plugin:
    """Convert a per-node plugin to one that is called with rows; return others unchanged."""
    if not isinstance(plugin, PerNodePlugin):
        return plugin
    plan = _PLANS.get((_overrides(plugin, "fits"), _overrides(plugin, "score")))
    if plan is None:
        raise TypeError(f"{type(plugin).__name__} has neither fits nor score: write one of them")
    return _Columnar(plugin, plan)


def _overrides(plugin: PerNodePlugin, method: str) -> bool:
    return getattr(type(plugin), method) is not getattr(PerNodePlugin, method)

"""Plugins for authors who think of one node at a time.

Derive from ``PerNodePlugin`` and write ``fits``, or ``score``, or both. ``columnar`` makes of it a
plugin as the engine wants it: asked about rows, answering with arrays. It loops over nodes in
Python, which the plugins that come with Holdfast never do: right first, fast enough for thousands
of nodes and not for thousands of pods a second. docs/plugins.md says what to do then.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.framework.arguments import Args
from holdfast.framework.plugin import (
    NO_CHANGE,
    Code,
    Plugin,
    PodChange,
    RawScores,
    Rows,
    Scope,
    Traits,
    Verdicts,
)
from holdfast.framework.view import View


class NodeInfo:
    """One node as a plugin sees it: the object, the pods on it, the room left.

    Pods that were placed and are not bound yet stand there already, and so does, while somebody
    asks what would be if, whoever would come; who would go is gone.
    """

    __slots__ = ("_change", "_nodes", "row")

    def __init__(self, nodes: NodeTable, row: int, change: PodChange = NO_CHANGE) -> None:
        self._nodes = nodes
        self._change = change
        self.row = row

    @property
    def node(self) -> Node:
        """The Node object."""
        found = self._nodes.nodes[self.row]
        assert found is not None
        return found

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
        """The pods on it; stand-ins of reservations are none."""
        gone = {pod.uid for pod in self._change.removed.get(self.row, ())}
        there = [f for uid, f in self._nodes.pods_on(self.row).items() if uid not in gone]
        there += self._change.added.get(self.row, ())
        return tuple(pod_info.pod for pod_info in there if not pod_info.is_reserve_pod)

    def allocatable(self, resource: str) -> int:
        """What it has of a resource: cpu in millicores, others in units."""
        return self._of(self._nodes.amounts.allocatable, resource)

    def free(self, resource: str) -> int:
        """What is left of it, beside everything taken or held."""
        left = self._of(self._nodes.amounts.allocatable, resource)
        left -= self._of(self._nodes.amounts.requested, resource)
        freed, slots = self._change.freed_resources(self.row)
        if resource == "pods":
            return left + slots
        return left + freed.get(self._nodes.resources.find(resource), 0)

    def _of(self, column: Any, resource: str) -> int:
        known = self._nodes.resources.find(resource)
        return int(column[known, self.row]) if 0 <= known < len(column) else 0


class PerNodePlugin:
    """Write ``fits``, or ``score``, or both; ``args`` are those of the configuration.

    A plugin that keeps no memory of its own and answers the same to the same question is asked
    anew for every pod, so nothing it looks at can be missed. That costs a call a node and pod; see
    ``reads``.
    """

    name: ClassVar[str] = ""

    def __init__(self, args: Args | None = None) -> None:
        self.args = dict(args or {})

    def fits(self, pod: Pod, node: NodeInfo) -> str | None:
        """Say why the pod must not run on the node, or None if it may."""
        raise NotImplementedError

    def score(self, pod: Pod, node: NodeInfo) -> int:
        """Say how good the node is for the pod, from 0 to 100."""
        raise NotImplementedError

    def reads(self, pod: Pod) -> Hashable:
        """Name all that ``fits`` and ``score`` look at of a pod, and answers are remembered.

        Write it only if they look at nothing of a node but its labels, taints and allocatable, its
        free room, and its pods' labels, requests and priorities: a node is asked about again when
        one of these changes, and not when an annotation or a condition does.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _State:
    nodes: NodeTable
    pod: Pod


class _Columns:
    """A per-node plugin, asked about rows."""

    def __init__(self, plugin: PerNodePlugin) -> None:
        self.plugin = plugin
        self.name = plugin.name
        self._keyed = _wrote(plugin, "reads")
        scope = Scope.ROW if self._keyed else Scope.CLUSTER
        self.traits = Traits(scope=scope, epochs=("pod_labels",), reads_outside_spec=True)

    def reads(self, pod: PodInfo, _view: View) -> Hashable:
        """What the author says, or this very version of the pod."""
        if self._keyed:
            return self.plugin.reads(pod.pod)
        return (pod.uid, pod.pod.metadata.resource_version)

    def pre_filter(self, pod: PodInfo, view: View) -> _State:
        """Keep the pod; it stands for all that read alike."""
        return _State(view.nodes, pod.pod)


class _Filtering(_Columns):
    """The part that filters."""

    def filter(self, state: _State, rows: Rows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Ask about each row; preemption may help where the answer is no."""
        verdicts = np.zeros(len(rows), np.int8)
        for i, row in enumerate(rows.tolist()):
            if state.nodes.nodes[row] is not None and self._fits(state, row, change) is not None:
                verdicts[i] = Code.UNSCHEDULABLE
        return verdicts

    def reasons(self, state: _State, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """The author's words."""
        return (self._fits(state, row, change) or f"node(s) rejected by {self.name}",)

    def _fits(self, state: _State, row: int, change: PodChange) -> str | None:
        answer = self.plugin.fits(state.pod, NodeInfo(state.nodes, row, change))
        if answer is None or (isinstance(answer, str) and answer):
            return answer
        raise TypeError(f"{self.name}.fits answers with None or with why not, not with {answer!r}")


class _Scoring(_Columns):
    """The part that scores."""

    def score(self, state: _State, rows: Rows) -> RawScores:
        """Ask about each row."""
        scores = np.zeros(len(rows))
        for i, row in enumerate(rows.tolist()):
            if state.nodes.nodes[row] is not None:
                scores[i] = self._score(state, row)
        return scores

    def _score(self, state: _State, row: int) -> int:
        answer = self.plugin.score(state.pod, NodeInfo(state.nodes, row))
        if isinstance(answer, int) and 0 <= answer <= 100:
            return answer
        raise ValueError(f"{self.name}.score answers from 0 to 100, not {answer!r}")


class _Both(_Filtering, _Scoring):
    """Filters and scores."""


def columnar(plugin: Plugin | PerNodePlugin) -> Plugin:
    """Make a per-node plugin answer in columns; any other plugin is as it was."""
    if not isinstance(plugin, PerNodePlugin):
        return plugin
    written = (_wrote(plugin, "fits"), _wrote(plugin, "score"))
    kind: dict[tuple[bool, bool], type[_Columns]] = {
        (True, True): _Both, (True, False): _Filtering, (False, True): _Scoring,
    }  # fmt: skip
    if written not in kind:
        raise TypeError(f"{type(plugin).__name__} has neither fits nor score: write one of them")
    return kind[written](plugin)


def _wrote(plugin: PerNodePlugin, method: str) -> bool:
    return getattr(type(plugin), method) is not getattr(PerNodePlugin, method)

"""Ask drivers which nodes are suitable, or to allocate; the pod waits for their answer."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.api.classic_dra.names import MAX_NODES
from holdfast.api.classic_dra.types import PodSchedulingSpec
from holdfast.scheduling.framework.plugin import (
    AnyRows,
    Code,
    NodeScorer,
    Placement,
    PreBindCalls,
    RawScores,
    Reject,
    Rows,
)
from holdfast.scheduling.plugins.classic_dynamic_resources.claim_writes import held_for_others
from holdfast.scheduling.plugins.classic_dynamic_resources.plan import ClassicClaims
from holdfast.state.classic_dra.selector_masks import rows_named
from holdfast.state.columns.node_table import NodeTable

_STEP = 2_147_483_647
"""A prime, so that as many steps as there are nodes visit each node once."""
WAITING_FOR_ALLOCATION = "waiting for resource driver to allocate resource"
WAITING_FOR_INFORMATION = "waiting for resource driver to provide information"


@dataclass(eq=False)
class Negotiation(ClassicClaims, NodeScorer):
    """The plan for a pod with claims that drivers still have to allocate."""

    fitting: Rows | None = None
    """The rows that pass every filter, if there are two or more."""
    spec: PodSchedulingSpec | None = None
    """What drivers are asked, from Reserve on."""

    def pre_score(self, feasible: AnyRows) -> None:
        """Remember the rows that drivers are asked about."""
        assert isinstance(feasible, np.ndarray), "the plugin does not accept slices"
        self.fitting = feasible

    def score(self, rows: AnyRows) -> RawScores:
        """Count the other pods that wait for an allocation on each node."""
        counts: RawScores = self.ledger.selected_nodes.column()[rows]
        own = self.own_negotiation
        selected = None if own is None else self.nodes.row_of.get(own.spec.selected_node)
        return counts if selected is None else counts - (rows == selected)

    def normalize_score(self, rows: AnyRows, raw: RawScores) -> RawScores:
        """Prefer nodes that few pods wait for, to leave the last device of others to these."""
        highest = raw.max(initial=0)
        return np.floor(100 - raw * 100 / highest) if highest > 0 else np.zeros(len(raw))

    def reserve(self, placement: Placement) -> None:
        """Decide what to ask drivers."""
        negotiation = self.own_negotiation
        before = PodSchedulingSpec() if negotiation is None else negotiation.spec
        fitting = np.array([placement.row], np.intp) if self.fitting is None else self.fitting
        kept = () if self._has_excluded(before.potential_nodes) else before.potential_nodes
        nodes = potential_nodes(self.nodes, fitting, kept, self.pod.uid)
        pending = [of_pod.entry.name for of_pod in self.pending]
        selected = ""
        if len(pending) == 1 or self.unsuitable_nodes.keys() >= set(pending):
            # Drivers may be allocating for the previous node.
            row = self.nodes.row_of.get(before.selected_node)
            stays = row is not None and bool((fitting == row).any())
            selected = before.selected_node if stays else placement.node
        self.spec = PodSchedulingSpec(selected, nodes)

    def _has_excluded(self, names: Iterable[str]) -> bool:
        """Return whether a class excludes one of these nodes."""
        listed = rows_named(self.nodes, names)
        suitable = [self.suitable_for_class(of_pod.claim) for of_pod in self.pending]
        return any(bool((listed & ~mask).any()) for mask in suitable)

    def may_end_pending(self, placement: Placement) -> bool:
        """Return True: the pod has to wait for drivers."""
        return True

    def pre_bind(self, placement: Placement) -> PreBindCalls:
        """Ask the drivers and wait for their answer."""
        spec, writes = self.spec, self.writes
        assert spec is not None, "Reserve comes first"
        yield from writes.unreserve(held_for_others(self.claims, self.pod.uid))
        yield from writes.negotiate(spec)
        reason = WAITING_FOR_ALLOCATION if spec.selected_node else WAITING_FOR_INFORMATION
        return Reject(Code.PENDING, (reason,))


def potential_nodes(
    nodes: NodeTable, fitting: Rows, before: Sequence[str], uid: str
) -> tuple[str, ...]:
    """Return nodes to ask drivers about, sorted: all that fit, or 256 that the pod's uid selects.

    ``fitting`` are the rows that fit. The previous list is kept if it has all of them, or was such
    a selection: then drivers need not answer again.
    """
    kept = np.count_nonzero(rows_named(nodes, before)[fitting])
    chosen_before = len(fitting) > MAX_NODES == len(set(before)) == kept
    if kept == len(fitting) or chosen_before:
        return tuple(before)
    if len(fitting) > MAX_NODES:
        # The product stays far below 2**63.
        steps = zlib.crc32(uid.encode()) + np.arange(MAX_NODES, dtype=np.int64) * _STEP
        fitting = fitting[steps % len(fitting)]
    return tuple(sorted(nodes.names[row] for row in fitting.tolist()))

"""NodeAffinity: node selectors and node affinity, required and preferred."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from holdfast.api.node import Node
from holdfast.api.node_selection import (
    NAME_FIELD,
    NodeTerms,
    PreferredNodes,
    RequiredNodes,
    compile_preferred,
    compile_selector,
    preferred_nodes,
    required_nodes,
)
from holdfast.api.pod import NodeAffinity, NodeSelectorTerm, Pod
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.selection import required_selected, term_selected, terms_selected
from holdfast.errors import BadRequest, Invalid
from holdfast.framework.arguments import Arguments, PluginArgs
from holdfast.framework.former_contract import PreFilterResult, PreFilterState
from holdfast.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ClusterEvent,
    Code,
    PodChange,
    RawScores,
    Reject,
    Rows,
    Scope,
    Skip,
    Traits,
    Verdicts,
)
from holdfast.framework.view import View

REASON = "node(s) didn't match Pod's node affinity/selector"
ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
CONFLICT = "pod affinity terms conflict"


@dataclass(frozen=True, slots=True)
class _State:
    nodes: NodeTable
    enforced: NodeTerms | None
    required: RequiredNodes
    preferred: PreferredNodes


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class _Args(PluginArgs, frozen=True):
    added_affinity: NodeAffinity | None = None


class NodeAffinityPlugin:
    """Filter by required node affinity, score by preferred node affinity."""

    name: ClassVar[str] = "NodeAffinity"
    traits: ClassVar[Traits] = Traits(
        scope=Scope.NODE,
        epochs=("nodes",),
        events_to_register={"Node": ("Add", "UpdateNodeLabel")},
        ignores_requests=True,
        accepts_slices=True,
    )
    # An added node may be one that matchFields name: hence the epoch of nodes.

    def __init__(self, args: Mapping[str, Any]) -> None:
        wrong = Arguments(self.name)
        added = wrong.read(_Args, args).added_affinity or NodeAffinity()
        self._enforced: NodeTerms | None = None
        self._added = PreferredNodes()
        needed = added.required_during_scheduling_ignored_during_execution
        if needed is not None:
            self._enforced = compile_selector(needed, f"addedAffinity.{_REQUIRED}")
            wrong.extend(self._enforced.mistakes)
        try:
            self._added = compile_preferred(
                added.preferred_during_scheduling_ignored_during_execution,
                f"addedAffinity.{_PREFERRED}",
            )
        except (BadRequest, Invalid) as refusal:
            wrong.extend(refusal.details.causes)
        wrong.refuse_if_wrong()

    def reads(self, pod: PodInfo, _view: View) -> Hashable:
        """Return the node selector and the node affinity."""
        spec = pod.pod.spec
        affinity = spec.affinity.node_affinity if spec.affinity else None
        return (tuple(sorted(spec.node_selector.items())), affinity)

    def pre_filter(
        self, pod: PodInfo, view: View
    ) -> Skip | Reject | PreFilterResult | PreFilterState:
        """Compile the terms; if all of them name nodes, filter only those."""
        required, mistake = required_nodes(pod.pod), ""
        try:
            preferred = preferred_nodes(pod.pod)
        except (BadRequest, Invalid) as wrong:
            preferred, mistake = PreferredNodes(), str(wrong)
        filters = not required.everything or self._enforced is not None
        scores = bool(preferred.terms or self._added.terms or mistake)
        if not filters and not scores:
            return Skip()
        preferred = PreferredNodes((*preferred.terms, *self._added.terms))
        state = _State(view.nodes, self._enforced, required, preferred)
        part = PreFilterState(state, filters, scores, mistake)
        names = named_nodes(pod.pod)
        if names is None:
            return part
        if not names:
            return Reject(Code.UNRESOLVABLE, (CONFLICT,))
        rows = [view.nodes.row_of[name] for name in names if name in view.nodes.row_of]
        return PreFilterResult(part, np.array(rows, np.intp))

    def filter(self, state: _State, rows: AnyRows, _change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject nodes that do not match as unresolvable."""
        passes = required_selected(state.nodes, state.required, rows)
        if state.enforced is not None:
            passes &= terms_selected(state.nodes, state.enforced, rows)
        return np.where(passes, Code.PASS, Code.UNRESOLVABLE).astype(np.int8)

    def score(self, state: _State, rows: AnyRows) -> RawScores:
        """Sum the weights of the preferred terms that match."""
        raw: RawScores = np.zeros(len(state.nodes.taint_set[rows]))
        for weight, term in state.preferred.terms:
            raw += weight * term_selected(state.nodes, term, rows)
        return raw

    def normalize_by_range(self, _state: _State, raw: Any, _low: float, high: float) -> Any:
        """Scale so that the highest sum gets 100."""
        return raw * 0.0 if high == 0 else (100.0 * raw) // high

    def reasons(self, state: _State, row: int, _change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return which affinity failed; the one added by the configuration comes first."""
        node = state.nodes.nodes[row]
        if state.enforced is None or node is None:
            return (REASON,)
        own = state.enforced.matches(node.metadata.labels, node.name)
        return (REASON,) if own else (ENFORCED,)

    def count_reasons(self, state: _State, rows: Rows) -> Mapping[str, int]:
        """Count the rows of both reasons."""
        if state.enforced is None:
            return {REASON: len(rows)}
        own = int(np.count_nonzero(terms_selected(state.nodes, state.enforced, rows)))
        return {REASON: own, ENFORCED: len(rows) - own}

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, _view: View) -> bool:
        """Requeue if a node matches that did not."""
        required = required_nodes(pod.pod)

        def fits(node: Node | None) -> bool:
            if node is None:
                return False
            labels, name = node.metadata.labels, node.name
            enforced = self._enforced is None or self._enforced.matches(labels, name)
            return enforced and required.matches(labels, name)

        return event.resource == "Node" and fits(event.new) and not fits(event.old)


def named_nodes(pod: Pod) -> frozenset[str] | None:
    """Return the nodes that ``matchFields`` name, or None if a term names none."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    needed = affinity and affinity.required_during_scheduling_ignored_during_execution
    if not needed or not needed.node_selector_terms:
        return None
    names: set[str] = set()
    for term in needed.node_selector_terms:
        named = _names_in(term)
        if named is None:
            return None
        names |= named
    return frozenset(names)


def _names_in(term: NodeSelectorTerm) -> frozenset[str] | None:
    named: frozenset[str] | None = None
    for field in term.match_fields:
        if field.key == NAME_FIELD and field.operator == "In":
            values = frozenset(field.values)
            named = values if named is None else named & values
    return named

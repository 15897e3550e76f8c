"""NodeAffinity: node selectors and node affinity, required and preferred."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

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
from holdfast.runtime.errors import BadRequest, Invalid
from holdfast.scheduling.framework.arguments import Arguments, PluginArgs
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
    Reject,
    Rows,
    Scope,
    Skip,
    Traits,
    Verdicts,
)
from holdfast.scheduling.framework.view import View
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.columns.selection import required_selected, term_selected, terms_selected

REASON = "node(s) didn't match Pod's node affinity/selector"
ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
CONFLICT = "pod affinity terms conflict"


@dataclass(slots=True)
class MatchingNodes(NodeFilter, NodeScorer):
    """Reject nodes that no required term matches; score by the preferred terms.

    ``enforced`` are required terms of the configuration.
    """

    nodes: NodeTable
    enforced: NodeTerms | None
    required: RequiredNodes
    preferred: PreferredNodes
    filters: bool
    scores: bool
    score_error: str
    allowed_rows: Rows | None = None

    def filter(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject nodes that do not match as unresolvable."""
        passes = required_selected(self.nodes, self.required, rows)
        if self.enforced is not None:
            passes &= terms_selected(self.nodes, self.enforced, rows)
        return np.where(passes, Code.PASS, Code.UNRESOLVABLE).astype(np.int8)

    def reasons(self, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return which affinity failed; the one added by the configuration comes first."""
        node = self.nodes.nodes[row]
        if self.enforced is None or node is None:
            return (REASON,)
        own = self.enforced.matches(node.metadata.labels, node.name)
        return (REASON,) if own else (ENFORCED,)

    def count_reasons(self, rows: Rows) -> Mapping[str, int]:
        """Count the rows of both reasons."""
        if self.enforced is None:
            return {REASON: len(rows)}
        own = int(np.count_nonzero(terms_selected(self.nodes, self.enforced, rows)))
        return {REASON: own, ENFORCED: len(rows) - own}

    def score(self, rows: AnyRows) -> RawScores:
        """Sum the weights of the preferred terms that match."""
        raw: RawScores = np.zeros(len(self.nodes.taint_set[rows]))
        for weight, term in self.preferred.terms:
            raw += weight * term_selected(self.nodes, term, rows)
        return raw

    def normalize_by_range(self, raw: Any, low: float, high: float) -> Any:
        """Scale so that the highest sum gets 100."""
        return raw * 0.0 if high == 0 else (100.0 * raw) // high


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class _Args(PluginArgs, frozen=True):
    added_affinity: NodeAffinity | None = None


class NodeAffinityPlugin(Plugin):
    """Filter by required node affinity, score by preferred node affinity."""

    name = "NodeAffinity"
    traits = Traits(
        scope=Scope.NODE,
        epochs=(Epoch.NODES,),
        events_to_register={EventResource.NODE: (ActionType.ADD, ActionType.UPDATE_NODE_LABEL)},
        ignores_requests=True,
        accepts_slices=True,
    )
    # An added node may be one that matchFields name: hence the epoch of nodes.
    plan_classes = (MatchingNodes,)

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

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return the node selector and the node affinity."""
        spec = pod.pod.spec
        affinity = spec.affinity.node_affinity if spec.affinity else None
        return (tuple(sorted(spec.node_selector.items())), affinity)

    def pre_filter(self, pod: PodInfo, view: View) -> MatchingNodes | Skip | Reject:
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
        plan = MatchingNodes(
            view.nodes, self._enforced, required, preferred, filters, scores, mistake
        )
        names = named_nodes(pod.pod)
        if names is None:
            return plan
        if not names:
            return Reject(Code.UNRESOLVABLE, (CONFLICT,))
        rows = [view.nodes.row_of[name] for name in names if name in view.nodes.row_of]
        plan.allowed_rows = np.array(rows, np.intp)
        return plan

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Requeue if a node matches that did not."""
        required = required_nodes(pod.pod)

        def fits(node: Node | None) -> bool:
            if node is None:
                return False
            labels, name = node.metadata.labels, node.name
            enforced = self._enforced is None or self._enforced.matches(labels, name)
            return enforced and required.matches(labels, name)

        return event.resource == EventResource.NODE and fits(event.new) and not fits(event.old)


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

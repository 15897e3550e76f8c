"""The plugin: a node will do if one more pod there keeps every hard constraint."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast.api.node_selection import required_nodes
from holdfast.columns.counters import DomainCount
from holdfast.columns.node_labels import LabelColumn
from holdfast.columns.picture import Picture
from holdfast.columns.pod_facts import PodFacts
from holdfast.errors import BadRequest, Invalid
from holdfast.framework.arguments import Arguments
from holdfast.framework.plugin import (
    NONE,
    AnyRows,
    Change,
    ClusterEvent,
    Code,
    Reject,
    Rows,
    Scope,
    Skip,
    Verdicts,
)
from holdfast.framework.view import View
from holdfast.plugins.pod_topology_spread.constraints import (
    Constraint,
    Eligibility,
    hard_constraints,
)

REASON = "node(s) didn't match pod topology spread constraints"
MISSING = f"{REASON} (missing required label)"
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Counted:
    """A constraint with the counters behind it."""

    constraint: Constraint
    namespace: str
    domains: DomainCount
    label: LabelColumn
    eligibility: Eligibility

    def counts(self, nodes: Picture, change: Change) -> Counts:
        """Matching pods per domain, were the change to happen."""
        self.domains.refresh()
        if not change:
            return self.domains.counts
        counts = self.domains.counts.copy()
        eligible = self.eligibility.rows(nodes)
        for sign, side in ((1, change.added), (-1, change.removed)):
            for row, pods in side.items():
                if eligible[row]:
                    counts[self.label.ids[row]] += sign * sum(map(self._counts, pods))
        return counts

    def _counts(self, pod: PodFacts) -> bool:
        same = pod.namespace == self.namespace and not pod.terminating
        return same and self.constraint.selector.matches(pod.labels)

    def too_uneven(self, counts: Counts) -> NDArray[np.bool_]:
        """Tell, per domain, whether one more pod there is one too many."""
        present = counts[self.domains.nodes > 0]
        enough = len(present) >= self.constraint.min_domains
        lowest = present.min() if len(present) and enough else 0
        skew = counts + (int(self.constraint.matches_self) - lowest)
        uneven: NDArray[np.bool_] = skew > self.constraint.max_skew
        return uneven


@dataclass(frozen=True, slots=True)
class SpreadState:
    """All hard constraints of a class of pods."""

    nodes: Picture
    counted: tuple[Counted, ...]


class PodTopologySpread:
    """Rule out nodes where the pod would make a topology too uneven."""

    name: ClassVar[str] = "PodTopologySpread"
    epochs: ClassVar[tuple[str, ...]] = ("counters",)
    scope: ClassVar[Scope] = Scope.DOMAIN
    sliced: ClassVar[bool] = True

    def __init__(self, args: Mapping[str, Any]) -> None:
        read = Arguments(self.name, args, ("defaultingType", "defaultConstraints"))
        if read.get("defaultingType", "System") not in ("System", "List"):
            read.wrong("defaultingType", "must be System or List", "FieldValueNotSupported")
        if read.get("defaultConstraints", ()):
            read.wrong("defaultConstraints", "default constraints are not built")
        read.refuse_if_wrong()

    def reads(self, pod: PodFacts, _view: View) -> Hashable:
        """The constraints, and what decides which nodes count."""
        spec = pod.pod.spec
        if not spec.topology_spread_constraints:
            return None
        try:
            constraints = hard_constraints(pod.pod)
        except (BadRequest, Invalid) as wrong:
            return str(wrong)
        return (pod.namespace, constraints, required_nodes(pod.pod), spec.tolerations)

    def prepare(self, pod: PodFacts, view: View) -> SpreadState | Skip | Reject:
        """Find the counters; nothing to say about a pod without hard constraints."""
        if not pod.pod.spec.topology_spread_constraints:
            return Skip()
        try:
            constraints = hard_constraints(pod.pod)
        except (BadRequest, Invalid) as wrong:
            return Reject(Code.UNRESOLVABLE, (f"parsing topology spread constraints: {wrong}",))
        if not constraints:
            return Skip()
        keys = tuple(sorted({c.key for c in constraints}))
        counted = tuple(self._count(c, keys, pod, view.nodes) for c in constraints)
        return SpreadState(view.nodes, counted)

    def _count(
        self, constraint: Constraint, keys: tuple[str, ...], pod: PodFacts, nodes: Picture
    ) -> Counted:
        nodes.show_labels(constraint.selector.keys | constraint.hidden_keys)
        eligibility = Eligibility(
            keys,
            required_nodes(pod.pod) if constraint.honor_affinity else None,
            pod.pod.spec.tolerations if constraint.honor_taints else None,
        )
        counter = nodes.counter(pod.namespace, constraint.counted)
        label = nodes.label_column(constraint.key)
        domains = counter.by_domain(
            constraint.key, eligibility, label, lambda: eligibility.rows(nodes), nodes.node_journal
        )
        return Counted(constraint, pod.namespace, domains, label, eligibility)

    def filter(self, state: SpreadState, rows: AnyRows, change: Change = NONE) -> Verdicts:
        """Unresolvable without the label, unschedulable where it would be too uneven."""
        verdicts: Verdicts | None = None
        for counted in state.counted:
            uneven = counted.too_uneven(counted.counts(state.nodes, change))
            table = np.empty(len(uneven) + 1, np.int8)
            table[:-1] = uneven
            table[-1] = Code.UNRESOLVABLE  # value id -1, no label, reads the last cell
            found = table.take(counted.label.ids[rows], mode="wrap")
            verdicts = found if verdicts is None else np.where(verdicts, verdicts, found)
        assert verdicts is not None
        return verdicts

    def reasons(self, state: SpreadState, row: int, change: Change = NONE) -> tuple[str, ...]:
        """Which of the two it was."""
        verdict = self.filter(state, np.array([row], np.intp), change)[0]
        return (MISSING if verdict == Code.UNRESOLVABLE else REASON,)

    def tally(self, state: SpreadState, rows: Rows) -> Mapping[str, int]:
        """Count both."""
        missing = int(np.count_nonzero(self.filter(state, rows) == Code.UNRESOLVABLE))
        return {MISSING: missing, REASON: len(rows) - missing}

    def hint(self, event: ClusterEvent, pod: PodFacts, _view: View) -> bool:
        """Pods of the namespace, nodes, and the pod's own tolerations move the counts."""
        if event.resource == "Node":
            return event.action in ("Add", "Delete", "UpdateNodeLabel", "UpdateNodeTaint")
        about = event.new or event.old
        if not event.about_pod or about is None or about.namespace != pod.namespace:
            return False
        if event.is_about(pod):
            return event.action in ("UpdatePodLabel", "UpdatePodToleration")
        return any(
            c.selector.matches(o.metadata.labels)
            for c in hard_constraints(pod.pod)
            for o in (event.old, event.new)
            if o is not None
        )

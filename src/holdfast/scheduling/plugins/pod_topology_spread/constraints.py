"""Read constraints, once per class of pods: what is counted, where, and the maximum skew."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from holdfast.api.labels import (
    EQUALS,
    EVERYTHING,
    NOTHING,
    LabelRequirement,
    Selector,
    conjunction,
    from_selector,
)
from holdfast.api.node_selection import RequiredNodes
from holdfast.api.pod import Pod, Toleration, TopologySpreadConstraint
from holdfast.api.tolerations import find_untolerated
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.selection import required_selected

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint with its defaults filled in; ``matches_self``: the pod counts itself."""

    key: str
    max_skew: int
    min_domains: int
    selector: Selector
    honor_affinity: bool
    honor_taints: bool
    matches_self: bool
    extra_keys: frozenset[str]
    """matchLabelKeys that the selector does not use, because the pod lacks the label."""

    @property
    def counted(self) -> Selector:
        """The selector for existing pods: as in kube-scheduler, an empty one counts none."""
        return NOTHING if self.selector == EVERYTHING else self.selector


@dataclass(frozen=True, slots=True)
class Constraints:
    """The constraints of a pod: ``hard`` ones filter nodes, ``soft`` ones score them.

    ``system_defaulted``: they are the system's defaults, so nodes that lack a topology key are
    scored.
    """

    hard: tuple[Constraint, ...] = ()
    soft: tuple[Constraint, ...] = ()
    system_defaulted: bool = False

    def __bool__(self) -> bool:
        return bool(self.hard or self.soft)

    @property
    def label_keys(self) -> frozenset[str]:
        """Label keys of pods that the constraints use."""
        parts = [keys for c in (*self.hard, *self.soft) for keys in (c.selector.keys, c.extra_keys)]
        return frozenset[str]().union(*parts)


NO_CONSTRAINTS = Constraints()
SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(3, "kubernetes.io/hostname", SOFT),
    TopologySpreadConstraint(5, "topology.kubernetes.io/zone", SOFT),
)


@dataclass(frozen=True, slots=True)
class Defaults:
    """Constraints for pods without constraints."""

    constraints: tuple[TopologySpreadConstraint, ...] = SYSTEM_DEFAULTS
    system: bool = True

    def apply_to(self, pod: Pod, selector: Selector) -> Constraints:
        """Return the constraints among the pods of ``selector``; none if it selects all."""
        if selector.everything or not self.constraints:
            return NO_CONSTRAINTS
        return _split(self.constraints, pod, selector, system_defaulted=self.system)


def selector_keys(constraints: Iterable[TopologySpreadConstraint]) -> frozenset[str]:
    """Return the label keys that the selectors of constraints use."""
    keys: set[str] = set()
    for constraint in constraints:
        keys.update(constraint.match_label_keys)
        if (selector := constraint.label_selector) is not None:
            keys.update(selector.match_labels)
            keys.update(expression.key for expression in selector.match_expressions)
    return frozenset(keys)


def own_constraints(pod: Pod) -> Constraints:
    """Read a pod's own constraints; raises BadRequest for a bad selector."""
    return _split(pod.spec.topology_spread_constraints, pod, None)


def _split(
    constraints: Iterable[TopologySpreadConstraint],
    pod: Pod,
    selector: Selector | None,
    *,
    system_defaulted: bool = False,
) -> Constraints:
    hard, soft = [], []
    for constraint in constraints:
        read = _read(constraint, pod, selector)
        if constraint.when_unsatisfiable == HARD:
            hard.append(read)
        elif constraint.when_unsatisfiable == SOFT:
            soft.append(read)
    return Constraints(tuple(hard), tuple(soft), system_defaulted)


def _read(
    constraint: TopologySpreadConstraint, pod: Pod, given: Selector | None = None
) -> Constraint:
    labels = pod.metadata.labels
    selector = from_selector(constraint.label_selector) if given is None else given
    keys = constraint.match_label_keys if given is None else ()
    if keys and selector != NOTHING:
        own = (LabelRequirement(k, EQUALS, (labels[k],)) for k in keys if k in labels)
        selector = _with_requirements(selector, own)
    return Constraint(
        key=constraint.topology_key,
        max_skew=constraint.max_skew,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        selector=selector,
        honor_affinity=(constraint.node_affinity_policy or "Honor") == "Honor",
        honor_taints=(constraint.node_taints_policy or "Ignore") == "Honor",
        matches_self=selector.matches(labels),
        extra_keys=frozenset(keys) - selector.keys,
    )


def _with_requirements(selector: Selector, more: Iterable[LabelRequirement]) -> Selector:
    return conjunction((*(selector.requirements or ()), *more))


@dataclass(frozen=True, slots=True)
class Eligibility:
    """The nodes that count for a constraint: those with all topology keys that pass its policies.

    The constraints of a pod share one, so that its hash and rows are computed once.
    """

    keys: tuple[str, ...]
    required: RequiredNodes | None
    tolerations: tuple[Toleration, ...] | None
    _hash: int = field(init=False, repr=False, compare=False)
    _found: list[tuple[NodeTable, int, NDArray[np.bool_]]] = field(
        default_factory=list, repr=False, compare=False
    )
    """The last result of ``rows``, with its node table and the change at which it was computed."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.keys, self.required, self.tolerations)))

    def __hash__(self) -> int:
        return self._hash

    def rows(self, nodes: NodeTable) -> NDArray[np.bool_]:
        """Return which rows are eligible, over the whole capacity. Do not modify the result."""
        seq = nodes.node_journal.seq
        for node_table, seen, mask in self._found:
            if node_table is nodes and seen == seq and len(mask) == nodes.capacity:
                return mask
        self._found[:] = [(nodes, seq, self._compute(nodes))]
        return self._found[0][2]

    def _compute(self, nodes: NodeTable) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = nodes.alive & nodes.labels.has_all(self.keys)
        everywhere = slice(0, nodes.capacity)
        if self.required is not None and not self.required.everything:
            mask &= required_selected(nodes, self.required, everywhere)
        if self.tolerations is not None:
            sets = nodes.taint_sets
            tolerated = [find_untolerated(taints, self.tolerations) is None for taints in sets]
            mask &= np.array(tolerated, np.bool_)[nodes.taint_set]
        return mask

"""Constraints, read once per class of pods: what to count, where, and how even it must be."""

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
from holdfast.columns.node_table import NodeTable
from holdfast.columns.selection import required_selected

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint with everything filled in; ``matches_self``: the pod counts itself."""

    key: str
    max_skew: int
    min_domains: int
    selector: Selector
    honor_affinity: bool
    honor_taints: bool
    matches_self: bool
    extra_keys: frozenset[str]
    """Label keys the pod was looked up under that the selector does not mention."""

    @property
    def counted(self) -> Selector:
        """What existing pods are counted by: upstream counts none of them for an empty one."""
        return NOTHING if self.selector == EVERYTHING else self.selector


@dataclass(frozen=True, slots=True)
class Constraints:
    """What applies to a pod: ``hard`` ones rule nodes out, ``soft`` ones score them.

    ``lenient``: these are the system's own defaults, so a node lacking a key is not set aside.
    """

    hard: tuple[Constraint, ...] = ()
    soft: tuple[Constraint, ...] = ()
    system_defaulted: bool = False

    def __bool__(self) -> bool:
        return bool(self.hard or self.soft)

    @property
    def label_keys(self) -> frozenset[str]:
        """Label keys of pods that some constraint looks at."""
        parts = [one for c in (*self.hard, *self.soft) for one in (c.selector.keys, c.extra_keys)]
        return frozenset[str]().union(*parts)


NO_CONSTRAINTS = Constraints()
SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(3, "kubernetes.io/hostname", SOFT),
    TopologySpreadConstraint(5, "topology.kubernetes.io/zone", SOFT),
)


@dataclass(frozen=True, slots=True)
class Defaults:
    """Constraints of pods that have none of their own."""

    constraints: tuple[TopologySpreadConstraint, ...] = SYSTEM_DEFAULTS
    system: bool = True

    def apply_to(self, pod: Pod, selector: Selector) -> Constraints:
        """Apply them among the pods that ``selector`` finds; nobody selected, nothing applies."""
        if selector.everything or not self.constraints:
            return NO_CONSTRAINTS
        return _parted(self.constraints, pod, selector, system_defaulted=self.system)


def own_constraints(pod: Pod) -> Constraints:
    """Read a pod's own constraints; raises BadRequest for a bad selector."""
    return _parted(pod.spec.topology_spread_constraints, pod, None)


def _parted(
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
        selector = _joined(selector, own)
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


def _joined(selector: Selector, more: Iterable[LabelRequirement]) -> Selector:
    return conjunction((*(selector.requirements or ()), *more))


@dataclass(frozen=True, slots=True)
class Eligibility:
    """Which nodes count for a constraint: those with every key that pass its policies.

    Constraints of a pod share one: hash and rows are worked out once for all of them.
    """

    keys: tuple[str, ...]
    required: RequiredNodes | None
    tolerations: tuple[Toleration, ...] | None
    _hash: int = field(init=False, repr=False, compare=False)
    _found: list[tuple[NodeTable, int, NDArray[np.bool_]]] = field(
        default_factory=list, repr=False, compare=False
    )
    """What ``rows`` found last, and as of which change of which picture."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.keys, self.required, self.tolerations)))

    def __hash__(self) -> int:
        return self._hash

    def rows(self, nodes: NodeTable) -> NDArray[np.bool_]:
        """Tell which rows are eligible, over the whole capacity; not to be written to."""
        seq = nodes.node_journal.seq
        for node_table, seen, mask in self._found:
            if node_table is nodes and seen == seq and len(mask) == nodes.capacity:
                return mask
        self._found[:] = [(nodes, seq, self._work_out(nodes))]
        return self._found[0][2]

    def _work_out(self, nodes: NodeTable) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = nodes.alive & nodes.labels.has_all(self.keys)
        everywhere = slice(0, nodes.capacity)
        if self.required is not None and not self.required.everything:
            mask &= required_selected(nodes, self.required, everywhere)
        if self.tolerations is not None:
            sets = nodes.taint_sets
            fine = [find_untolerated(taints, self.tolerations) is None for taints in sets]
            mask &= np.array(fine, np.bool_)[nodes.taint_set]
        return mask

"""Pods that violate a rule on their node: node affinity, taints, anti-affinity, topology spread."""

from __future__ import annotations

from typing import ClassVar

from holdfast.api.node import Taint
from holdfast.api.node_selection import preferred_nodes, required_nodes
from holdfast.api.tolerations import NO_SCHEDULE, PREFER_NO_SCHEDULE, find_untolerated
from holdfast.controllers.descheduler.policies.policy import (
    ALWAYS_FITS,
    CandidatePod,
    Candidates,
    DeschedulerPolicy,
    PolicyArgs,
    SelectingArgs,
    check_values,
    in_order,
)
from holdfast.controllers.descheduler.simulation import STEP, Simulation
from holdfast.runtime.errors import BadRequest
from holdfast.scheduling.configuration.problems import Problems
from holdfast.scheduling.framework.plugin import PodChange
from holdfast.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from holdfast.scheduling.plugins.inter_pod_affinity.affinity_rules import (
    ANTI_AFFINITY,
    EXISTING_ANTI_AFFINITY,
    AffinityRules,
)
from holdfast.scheduling.plugins.pod_topology_spread import PodTopologySpread
from holdfast.scheduling.plugins.pod_topology_spread.hard_constraints import HardConstraints
from holdfast.state.columns.pod_info import PodInfo

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HARD = "DoNotSchedule"


class ViolationPolicy(DeschedulerPolicy):
    """Moves pods for which ``find_violation`` finds something on their node."""

    balances = False

    def __init__(self, args: PolicyArgs, cluster: Simulation, rows: list[int]) -> None:
        super().__init__(args, cluster, rows)
        assert isinstance(args, SelectingArgs)
        self.args = args

    @property
    def node_fit(self) -> bool:
        """Whether a pod moves only if it fits on another node."""
        return self.args.node_fit or self.args.must_fit

    def find_violation(self, pod: PodInfo, row: int) -> str:
        """Return what is violated if the pod is on a row, "" for nothing."""
        raise NotImplementedError

    def candidates(self) -> Candidates:
        """Return the pods that violate something, row by row."""
        for row in self.rows:
            candidates = []
            for count, pod in enumerate(self.cluster.pods_on(row)):
                if self.args.selects(pod.pod) and (reason := self.find_violation(pod, row)):
                    candidates.append(CandidatePod(pod, row, reason))
                if count % STEP == 0:
                    yield None
            for candidate in in_order(candidates):
                # An earlier move may have resolved it.
                if self.find_violation(candidate.pod, row):
                    yield candidate

    def improves(self, candidate: CandidatePod, target: int) -> bool:
        """Return whether nothing is violated on the target."""
        return not self.find_violation(candidate.pod, target)


class NodeAffinityArgs(SelectingArgs, frozen=True, dict=True):
    """The arguments of RemovePodsViolatingNodeAffinity."""

    must_fit = True
    node_affinity_type: tuple[str, ...] = (REQUIRED,)

    def check(self, path: str, problems: Problems) -> None:
        """Report wrong values."""
        SelectingArgs.check(self, path, problems)
        at = f"{path}.nodeAffinityType"
        check_values(self.node_affinity_type, (REQUIRED, PREFERRED), at, problems)


class NodeAffinityViolations(ViolationPolicy):
    """Moves pods whose node does not match their node selector or affinity any more.

    With the preferred type, it also moves pods for which a node with a higher weight is free.
    """

    name: ClassVar[str] = "RemovePodsViolatingNodeAffinity"
    Args: ClassVar[type[PolicyArgs]] = NodeAffinityArgs
    args: NodeAffinityArgs

    def find_violation(self, pod: PodInfo, row: int) -> str:
        """Return that the node does not match, or that another one may match better."""
        node, spec = self.cluster.node(row), pod.pod.spec
        affinity = spec.affinity.node_affinity if spec.affinity else None
        if not (spec.node_selector or affinity):
            return ""
        if REQUIRED in self.args.node_affinity_type and not self._matches(pod, row):
            return f"node {node.name} does not match the pod's node affinity"
        if PREFERRED in self.args.node_affinity_type and self._weight(pod, row) < self._most(pod):
            return f"another node than {node.name} matches the pod's node affinity better"
        return ""

    def _most(self, pod: PodInfo) -> int:
        return max((self._weight(pod, row) for row in self.rows), default=0)

    def _weight(self, pod: PodInfo, row: int) -> int:
        affinity = pod.pod.spec.affinity
        if affinity is None or affinity.node_affinity is None:
            return 0
        node = self.cluster.node(row)
        try:
            return preferred_nodes(pod.pod).score(node.metadata.labels, node.name)
        except BadRequest:
            return 0

    def improves(self, candidate: CandidatePod, target: int) -> bool:
        """Return whether the target matches, or matches better."""
        pod, row = candidate.pod, candidate.row
        better = not self._matches(pod, row) or self._weight(pod, target) > self._weight(pod, row)
        return better and self._matches(pod, target)

    def _matches(self, pod: PodInfo, row: int) -> bool:
        node = self.cluster.node(row)
        return required_nodes(pod.pod).matches(node.metadata.labels, node.name)


class NodeTaintsArgs(SelectingArgs, frozen=True, dict=True):
    """The arguments of RemovePodsViolatingNodeTaints; taints are ``key`` or ``key=value``."""

    include_prefer_no_schedule: bool = False
    excluded_taints: tuple[str, ...] = ()
    included_taints: tuple[str, ...] = ()


class NodeTaintViolations(ViolationPolicy):
    """Moves pods that do not tolerate a taint of their node with the effect NoSchedule."""

    name: ClassVar[str] = "RemovePodsViolatingNodeTaints"
    Args: ClassVar[type[PolicyArgs]] = NodeTaintsArgs
    args: NodeTaintsArgs

    def find_violation(self, pod: PodInfo, row: int) -> str:
        """Return the first taint that the pod does not tolerate."""
        node = self.cluster.node(row)
        taint = find_untolerated(node.spec.taints, pod.pod.spec.tolerations, self._counts)
        if taint is None:
            return ""
        return f"the pod does not tolerate taint {_shown(taint)}:{taint.effect} of {node.name}"

    def _counts(self, taint: Taint) -> bool:
        args, names = self.args, (taint.key, _shown(taint))
        if any(name in args.excluded_taints for name in names):
            return False
        if args.included_taints and not any(name in args.included_taints for name in names):
            return False
        return taint.effect == NO_SCHEDULE or (
            args.include_prefer_no_schedule and taint.effect == PREFER_NO_SCHEDULE
        )


def _shown(taint: Taint) -> str:
    return f"{taint.key}={taint.value}" if taint.value else taint.key


class AntiAffinityViolations(ViolationPolicy):
    """Moves pods that their own required anti-affinity keeps away from a pod near them."""

    name: ClassVar[str] = "RemovePodsViolatingInterPodAntiAffinity"
    Args: ClassVar[type[PolicyArgs]] = SelectingArgs
    _plugin = InterPodAffinity({})

    def find_violation(self, pod: PodInfo, row: int) -> str:
        """Return why the scheduler's plugin rejects the row; the pod itself is not counted."""
        if not pod.affinity_terms.required_anti_affinity:
            return ""
        rules = self._plugin.pre_filter(pod, self.cluster.view(pod))
        if not isinstance(rules, AffinityRules):
            return ""
        placed = self.cluster.nodes.pod(pod.uid)
        change = PodChange(removed={placed[1]: [pod]} if placed is not None else {})
        (reason,) = rules.reasons(row, change)
        return reason if reason in (ANTI_AFFINITY, EXISTING_ANTI_AFFINITY) else ""


class TopologySpreadArgs(SelectingArgs, frozen=True, dict=True):
    """The arguments of RemovePodsViolatingTopologySpreadConstraint."""

    must_fit = True
    constraints: tuple[str, ...] = (HARD,)
    include_soft_constraints: bool = False
    topology_balance_node_fit: bool = True

    def check(self, path: str, problems: Problems) -> None:
        """Report wrong values."""
        SelectingArgs.check(self, path, problems)
        if not self.topology_balance_node_fit:
            problems.add_warning(f"{path}.topologyBalanceNodeFit {ALWAYS_FITS}")
        soft = [at for at, each in enumerate(self.constraints) if each != HARD]
        for at in soft:
            message = f"only constraints with {HARD} are evened out"
            problems.add_not_built(f"{path}.constraints[{at}]", message)
        if self.include_soft_constraints:
            message = f"only constraints with {HARD} are evened out"
            problems.add_not_built(f"{path}.includeSoftConstraints", message)


class TopologySpreadViolations(ViolationPolicy):
    """Moves pods out of domains that have more pods than a hard constraint allows."""

    name: ClassVar[str] = "RemovePodsViolatingTopologySpreadConstraint"
    Args: ClassVar[type[PolicyArgs]] = TopologySpreadArgs
    balances = True
    _plugin = PodTopologySpread({})

    def find_violation(self, pod: PodInfo, row: int) -> str:
        """Return that too many pods are in a domain of the row."""
        hard = self._constraints(pod)
        if hard is None or not hard.violated_rows()[row]:
            return ""
        node = self.cluster.node(row).name
        return f"the topology domain of {node} has more pods than maxSkew allows"

    def _constraints(self, pod: PodInfo) -> HardConstraints | None:
        if not any(c.when_unsatisfiable == HARD for c in pod.pod.spec.topology_spread_constraints):
            return None
        plan = self._plugin.pre_filter(pod, self.cluster.view(pod))
        return plan if isinstance(plan, HardConstraints) else None

    def improves(self, candidate: CandidatePod, target: int) -> bool:
        """Return whether the move breaks no constraint, and none is broken on the target."""
        hard = self._constraints(candidate.pod)
        return hard is not None and _stays_even(hard, candidate, target)

    def permits(self, candidate: CandidatePod, target: int) -> bool:
        """Return whether no domain gets more pods than the constraints allow."""
        hard = self._constraints(candidate.pod)
        return hard is None or _stays_even(hard, candidate, target)


def _stays_even(hard: HardConstraints, candidate: CandidatePod, target: int) -> bool:
    pods = [candidate.pod]
    change = PodChange(added={target: pods}, removed={candidate.row: pods})
    before, after = hard.violated_rows(), hard.violated_rows(change)
    return not (after & ~before).any() and not after[target]

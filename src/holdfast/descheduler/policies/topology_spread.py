"""RemovePodsViolatingTopologySpreadConstraint: even out the domains of hard spread constraints."""

from __future__ import annotations

from typing import ClassVar

from holdfast.columns.pod_info import PodInfo
from holdfast.configuration.problems import Problems
from holdfast.descheduler.policies.pod_selection import ALWAYS_FITS, PolicyArgs, SelectingArgs
from holdfast.descheduler.policies.policy import CandidatePod
from holdfast.descheduler.policies.violations import ViolationPolicy
from holdfast.framework.plugin import PodChange
from holdfast.plugins.pod_topology_spread import PodTopologySpread
from holdfast.plugins.pod_topology_spread.hard_constraints import HardConstraints

HARD = "DoNotSchedule"


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


class TopologySpread(ViolationPolicy):
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
        found = self._plugin.pre_filter(pod, self.cluster.view(pod))
        return found if isinstance(found, HardConstraints) else None

    def improves(self, candidate: CandidatePod, target: int) -> bool:
        """Return whether the pod is not in excess on the target, nor are others because of it."""
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

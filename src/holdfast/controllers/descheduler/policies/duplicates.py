"""RemoveDuplicates: at most an equal share of the pods of one owner on each node."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import ClassVar

from holdfast.api.meta import controller_of
from holdfast.api.node_selection import required_nodes
from holdfast.api.tolerations import find_untolerated
from holdfast.controllers.descheduler.policies.policy import (
    CandidatePod,
    Candidates,
    DeschedulerPolicy,
    PolicyArgs,
    SelectingArgs,
    in_order,
)
from holdfast.controllers.descheduler.simulation import STEP, Simulation
from holdfast.state.columns.pod_info import PodInfo

DuplicateKey = tuple[str, str, tuple[str, ...]]
"""Namespace, uid of the controller, and images: pods with equal ones are duplicates."""


class RemoveDuplicatesArgs(SelectingArgs, frozen=True, dict=True):
    """The arguments of RemoveDuplicates."""

    must_fit = True
    exclude_owner_kinds: tuple[str, ...] = ()


class RemoveDuplicates(DeschedulerPolicy):
    """Moves pods of an owner that has more pods on a node than an even spread would give."""

    name: ClassVar[str] = "RemoveDuplicates"
    balances = True
    Args: ClassVar[type[PolicyArgs]] = RemoveDuplicatesArgs

    def __init__(self, args: PolicyArgs, cluster: Simulation, rows: list[int]) -> None:
        super().__init__(args, cluster, rows)
        assert isinstance(args, RemoveDuplicatesArgs)
        self.args = args
        self._fair_shares: dict[DuplicateKey, int] = {}
        self._totals: Counter[DuplicateKey] = Counter()
        for pod, _row in cluster.nodes.pods():
            if (owner := self._owner(pod)) is not None:
                self._totals[owner] += 1

    def _owner(self, pod: PodInfo) -> DuplicateKey | None:
        controller = controller_of(pod.pod)
        if controller is None or controller.kind in self.args.exclude_owner_kinds:
            return None
        images = tuple(sorted(container.image for container in pod.pod.spec.containers))
        return pod.namespace, controller.uid, images

    def _count(self, owner: DuplicateKey, row: int) -> int:
        return sum(self._owner(pod) == owner for pod in self.cluster.nodes.pods_on(row).values())

    def _fair_share(self, owner: DuplicateKey, pod: PodInfo) -> int:
        """Return how many pods of an owner a node has if they are spread evenly, rounded up."""
        fair_share = self._fair_shares.get(owner)
        if fair_share is None:
            nodes = max(sum(self._may_use(pod, row) for row in self.rows), 1)
            fair_share = self._fair_shares[owner] = -(-self._totals[owner] // nodes)
        return fair_share

    def _may_use(self, pod: PodInfo, row: int) -> bool:
        node = self.cluster.node(row)
        return (
            not node.spec.unschedulable
            and find_untolerated(node.spec.taints, pod.pod.spec.tolerations) is None
            and required_nodes(pod.pod).matches(node.metadata.labels, node.name)
        )

    def candidates(self) -> Candidates:
        """Return the pods beyond the fair share of their row, row by row."""
        for row in self.rows:
            yield None
            groups: defaultdict[DuplicateKey, list[PodInfo]] = defaultdict(list)
            for pod in self.cluster.pods_on(row):
                if self.args.selects(pod.pod) and (owner := self._owner(pod)) is not None:
                    groups[owner].append(pod)
            for count, (owner, pods) in enumerate(sorted(groups.items())):
                if count % STEP == 0:
                    yield None
                if len(pods) > 1 and self._count(owner, row) > self._fair_share(owner, pods[0]):
                    yield from self._excess(owner, pods, row)

    def _excess(self, owner: DuplicateKey, pods: list[PodInfo], row: int) -> Candidates:
        share, node = self._fair_share(owner, pods[0]), self.cluster.node(row).name
        for candidate in in_order([CandidatePod(pod, row, "") for pod in pods]):
            if (count := self._count(owner, row)) <= share:
                return
            reason = f"{count} pods of one owner are on {node}, an equal share is {share}"
            yield candidate._replace(reason=reason)

    def improves(self, candidate: CandidatePod, target: int) -> bool:
        """Return whether the target has fewer pods of the owner than its share."""
        owner = self._owner(candidate.pod)
        return owner is not None and self._count(owner, target) < self._fair_share(
            owner, candidate.pod
        )

    def permits(self, candidate: CandidatePod, target: int) -> bool:
        """Return whether the target does not get more pods of the owner than its share."""
        if self._owner(candidate.pod) is None or not self.args.selects(candidate.pod.pod):
            return True
        return self.improves(candidate, target)

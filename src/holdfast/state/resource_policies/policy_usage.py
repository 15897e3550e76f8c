"""Count the pods and resources in the units of a resource policy, from API objects.

For the status of policies and for commands. The scheduler counts in the node table instead, where
assumed and nominated pods count as well; for bound pods the two are equal.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.requests import pod_request
from holdfast.state.resource_policies.policies import (
    MatchLabelGroup,
    Policy,
    PolicyUnit,
    counts_for,
)


@dataclass(frozen=True, slots=True)
class GroupUsage:
    """The pods that count against the caps of a unit for one group; ``resources`` is their sum."""

    group: MatchLabelGroup
    pods: tuple[Pod, ...]
    resources: Mapping[str, int]


@dataclass(frozen=True)
class UnitUsage:
    """The nodes of a unit and the pods that count there.

    ``members`` has the pods by exactly their matchLabelKeys.
    """

    unit: PolicyUnit
    nodes: tuple[str, ...]
    pods: tuple[Pod, ...]
    members: Mapping[MatchLabelGroup, GroupUsage]

    @cached_property
    def groups(self) -> tuple[GroupUsage, ...]:
        """The groups that have pods in the unit, the one with the most pods first."""
        usages: Iterable[GroupUsage] = self.members.values()
        if len({tuple([name for name, _ in key]) for key in self.members}) > 1:
            usages = self._merged_groups()
        return tuple(sorted(usages, key=lambda usage: (-len(usage.pods), usage.group)))

    def _merged_groups(self) -> Iterable[GroupUsage]:
        """Return ``group`` of every member, in one pass for each combination of keys."""
        parts: defaultdict[MatchLabelGroup, list[GroupUsage]] = defaultdict(list)
        for names in {frozenset(dict(key)) for key in self.members}:
            for key, part in self.members.items():
                shared = tuple([item for item in key if item[0] in names])
                if len(shared) == len(names):
                    parts[shared].append(part)
        for key in self.members:
            usages = parts[key]
            yield usages[0] if len(usages) == 1 else _merge(key, self.unit, usages)

    @property
    def fullest(self) -> GroupUsage:
        """The group with the most pods."""
        return self.groups[0] if self.groups else _merge((), self.unit, ())

    def group(self, key: MatchLabelGroup) -> GroupUsage:
        """Return the pods that count for a pod of this group."""
        parts = [part for other, part in self.members.items() if counts_for(other, key)]
        if len(parts) == 1 and parts[0].group == key:
            return parts[0]
        return _merge(key, self.unit, parts)

    @property
    def resources(self) -> Mapping[str, int]:
        """What all pods of the unit request of the resources in maxResources."""
        return _merge((), self.unit, self.members.values()).resources

    @property
    def headroom(self) -> int | None:
        """How many more pods ``maxCount`` allows for the fullest group; None without a cap.

        0 if a group has used up one of maxResources; else these are ignored, because how many pods
        they allow depends on the pods.
        """
        caps = self.unit.max_resources.items()
        if any(g.resources[name] >= cap for g in self.groups for name, cap in caps):
            return 0
        return self.unit.places_left(len(self.fullest.pods))

    @property
    def over_cap(self) -> bool:
        """Whether a group has more pods than ``maxCount``, or requests more than maxResources."""
        most, caps = self.unit.max_count, self.unit.max_resources
        return any(
            (most is not None and len(group.pods) > most)
            or any(group.resources[resource] > cap for resource, cap in caps.items())
            for group in self.groups
        )


@dataclass(frozen=True, slots=True)
class PolicyUsage:
    """The pods of a policy: in each unit, on nodes of no unit, and without a node."""

    policy: Policy
    units: tuple[UnitUsage, ...]
    outside: tuple[Pod, ...]
    outside_nodes: tuple[str, ...]
    pending: tuple[Pod, ...]

    @property
    def headroom(self) -> int | None:
        """How many more pods the caps of all units allow; None if a unit has no ``maxCount``."""
        left = [unit.headroom for unit in self.units]
        return None if None in left else sum(n for n in left if n is not None)

    @property
    def overlapping_nodes(self) -> tuple[str, ...]:
        """The nodes that belong to more than one unit."""
        times = Counter(name for unit in self.units for name in unit.nodes)
        return tuple(sorted(name for name, count in times.items() if count > 1))


def usage_of(policy: Policy, nodes: Iterable[Node], pods: Iterable[Pod]) -> PolicyUsage:
    """Count the pods of a policy; a pod on a node that does not exist is in no unit."""
    units_of = _units_of_nodes(policy, nodes)
    members: list[list[Pod]] = [[] for _ in policy.units]
    outside, pending = [], []
    selected = [
        pod
        for pod in pods
        if not pod.finished and policy.selects(pod.namespace, pod.metadata.labels)
    ]
    for pod in sorted(selected, key=lambda pod: pod.name):
        if not pod.spec.node_name:
            pending.append(pod)
        elif policy.counts_pod(pod):
            indexes = units_of.get(pod.spec.node_name, ())
            for index in indexes:
                members[index].append(pod)
            if not indexes:
                outside.append(pod)
    nodes_of: list[list[str]] = [[] for _ in policy.units]
    outside_nodes = []
    for name in sorted(units_of):
        for index in units_of[name]:
            nodes_of[index].append(name)
        if not units_of[name]:
            outside_nodes.append(name)
    units = [
        _unit(policy, unit, tuple(nodes_of[at]), tuple(members[at]))
        for at, unit in enumerate(policy.units)
    ]
    return PolicyUsage(policy, tuple(units), tuple(outside), tuple(outside_nodes), tuple(pending))


def _units_of_nodes(policy: Policy, nodes: Iterable[Node]) -> dict[str, tuple[int, ...]]:
    """Return the units of each node; nodes that agree in the selectors' labels are matched once."""
    keys = sorted({key for unit in policy.units for key in unit.selector.keys})
    known: dict[tuple[str | None, ...], tuple[int, ...]] = {}
    by_node = {}
    for node in nodes:
        labels = node.metadata.labels
        values = tuple([labels.get(key) for key in keys])
        if values not in known:
            known[values] = policy.units_of(labels)
        by_node[node.name] = known[values]
    return by_node


def usage_text(usage: PolicyUsage) -> str:
    """Write the pods of each unit and its cap, such as ``od 2/2, spot 1``.

    Where matchLabelKeys make groups, the numbers are those of the fullest group.
    """
    return ", ".join(
        f"{unit.unit.name} {count_text(len(unit.fullest.pods), unit.unit.max_count)}"
        for unit in usage.units
    )


def headroom_text(usage: PolicyUsage) -> str:
    """Write how many more pods the caps allow: a number, or ``unlimited``."""
    return "unlimited" if usage.headroom is None else str(usage.headroom)


def count_text(count: int, most: int | None) -> str:
    """Write a count, with its cap if there is one."""
    return str(count) if most is None else f"{count}/{most}"


def _unit(
    policy: Policy, unit: PolicyUnit, nodes: tuple[str, ...], pods: tuple[Pod, ...]
) -> UnitUsage:
    members: defaultdict[MatchLabelGroup, list[Pod]] = defaultdict(list)
    for pod in pods:
        members[policy.group_key(pod.metadata.labels)].append(pod)
    groups = {
        key: GroupUsage(key, tuple(some), _sum(unit, map(partial(capped_requests, unit), some)))
        for key, some in members.items()
    }
    return UnitUsage(unit, nodes, pods, groups)


def capped_requests(unit: PolicyUnit, pod: Pod) -> Mapping[str, int]:
    """Return what a pod requests of the resources in maxResources, as the scheduler counts it."""
    return capped_amounts(unit, pod_request(pod).amounts) if unit.max_resources else {}


def capped_amounts(unit: PolicyUnit, amounts: Mapping[str, int]) -> Mapping[str, int]:
    """Return the amounts of the resources in maxResources; 0 for those that are absent."""
    return {name: amounts.get(name, 0) for name in unit.max_resources}


def _merge(key: MatchLabelGroup, unit: PolicyUnit, parts: Iterable[GroupUsage]) -> GroupUsage:
    parts = tuple(parts)
    pods = tuple([pod for part in parts for pod in part.pods])
    return GroupUsage(key, pods, _sum(unit, [part.resources for part in parts]))


def _sum(unit: PolicyUnit, requests: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total = dict.fromkeys(unit.max_resources, 0)
    if total:
        for amounts in requests:
            for name, amount in amounts.items():
                total[name] += amount
    return total

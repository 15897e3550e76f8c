"""Compute the headroom of the units of policies from the node table, for metrics.

The same pods count by the same rules as in ``unit_totals``, also assumed ones. They are added up by
label groups, without counters: counters of groups that are never scheduled would displace others
and cost time at every placement.

A scrape runs in the scheduler's process and stops everything else. Label groups are indexed by one
label that all pods of a policy have, so that each policy is not compared with each group. Pods that
count alike are added up before the units of their node are looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from holdfast.api.labels import EQUALS
from holdfast.state.columns.label_groups import LabelGroup
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.resource_policies.policies import (
    MatchLabelGroup,
    Policy,
    PolicyUnit,
    counts_for,
)
from holdfast.state.resource_policies.unit_totals import UnitRows, limited_resources, measure_of


@dataclass(frozen=True, slots=True)
class UnitHeadroom:
    """The counted pods of a unit, and how much more its caps allow.

    Where matchLabelKeys make groups, ``pods`` are those of all groups, and what is left is that of
    the group with the least, of those that have pods in the unit. A cap that is exceeded leaves 0.
    ``pods_left`` is None without ``maxCount``; ``resources_left`` has the resources of
    ``maxResources``, cpu in millicores.
    """

    unit: PolicyUnit
    pods: int
    pods_left: int | None
    resources_left: Mapping[str, int]


class UnitHeadrooms:
    """Counts the pods of policies; keeps which nodes belong to which units."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._rows: dict[str, tuple[Policy, UnitRows]] = {}

    def of(self, policies: Iterable[Policy]) -> Iterator[tuple[Policy, list[UnitHeadroom]]]:
        """Return the headroom of the units of each policy, by namespace and name."""
        ordered = sorted(policies, key=lambda policy: policy.key)
        self._rows = {p.uid: (p, self._unit_rows(p)) for p in ordered}
        candidates: dict[Hashable, list[LabelGroup]] = {_index_key(p): [] for p in ordered}
        names = {key[1] for key in map(_index_key, ordered)}
        for group in self._nodes.label_groups() if ordered else ():
            for name in names:
                key = (group.namespace, name, group.labels.get(name, ""))
                if key in candidates:
                    candidates[key].append(group)
        for policy in ordered:
            used = self._used(policy, candidates[_index_key(policy)])
            parts = zip(policy.units, used, strict=True)
            yield policy, [_headroom(unit, part) for unit, part in parts]

    def _unit_rows(self, policy: Policy) -> UnitRows:
        known = self._rows.get(policy.uid)
        if known is None or known[0].units is not policy.units:
            return UnitRows(self._nodes, policy)
        known[1].refresh()
        return known[1]

    def _used(
        self, policy: Policy, candidates: Iterable[LabelGroup]
    ) -> list[dict[MatchLabelGroup, Counter[str]]]:
        """Return per unit what the pods of each group use: resources by name, and "" for pods."""
        nodes, rows = self._nodes, self._rows[policy.uid][1]
        resources = limited_resources(policy, nodes.resources)
        names = ("", *[nodes.resources[resource] for resource in resources])
        measure, number_of = measure_of(policy, resources), rows.of_row.tolist()
        alike: Counter[tuple[MatchLabelGroup, int, tuple[int, ...]]] = Counter()
        for group in candidates:
            if policy.selector.matches(group.labels):
                key = policy.group_key(group.labels)
                pods = nodes.pods_in_group(group)
                alike.update([(key, number_of[row], measure(pod)) for pod, row in pods])
        used: list[dict[MatchLabelGroup, Counter[str]]] = [{} for _ in policy.units]
        for (key, number, amounts), times in alike.items():
            for unit in rows.combinations[number]:
                total = used[unit].setdefault(key, Counter())
                # The last of the amounts, the terminating pods, has no name.
                for name, amount in zip(names, amounts, strict=False):
                    total[name] += times * amount
        return used


def _index_key(policy: Policy) -> tuple[str, str, str]:
    """Return namespace, key and value of a label that all selected pods have, "" for none."""
    for requirement in policy.selector.requirements or ():
        if requirement.operator == EQUALS:
            return policy.object.namespace, requirement.key, requirement.values[0]
    return policy.object.namespace, "", ""


def _headroom(unit: PolicyUnit, used: Mapping[MatchLabelGroup, Counter[str]]) -> UnitHeadroom:
    most: Counter[str] = Counter()
    keys = max([len(key) for key in used], default=0)
    for key, total in used.items():
        most |= total
        if len(key) < keys:
            # A pod that lacks one of the keys counts together with the pods of every value of it.
            # Groups are compared only then: each of 2,000 with each took 3 s in ``policy_usage``.
            parts = [part for other, part in used.items() if counts_for(other, key)]
            most |= sum(parts, Counter())
    left = {name: max(0, cap - most[name]) for name, cap in unit.max_resources.items()}
    pods = sum([total[""] for total in used.values()])
    return UnitHeadroom(unit, pods, unit.places_left(most[""]), left)

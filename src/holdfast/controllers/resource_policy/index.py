"""The pods of resource policies by unit and group, updated event by event.

The cost of a pod event depends on the policies that select the pod; the cost of a node event
depends on the pods on the node. The rules are in ``resource_policies``; this module only counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple
from weakref import WeakValueDictionary

from holdfast.api.deletion_cost import MANAGED_DELETION_COST, POLICY_UID
from holdfast.api.labels import Selector
from holdfast.api.pod import Pod
from holdfast.api.requests import pod_request
from holdfast.api.resource_policy import ResourcePolicy
from holdfast.controllers.planned_writes import Plan
from holdfast.controllers.resource_policy.plan import PolicyConflict, plan_deletion_cost
from holdfast.runtime.errors import HoldfastError
from holdfast.state.resource_policies.policies import (
    MatchLabelGroup,
    Policy,
    compile_policy,
    means_the_same,
)
from holdfast.state.resource_policies.policy_usage import (
    GroupUsage,
    PolicyUsage,
    UnitUsage,
    capped_amounts,
)

MAX_CACHED_LABELS = 4096
Labels = Mapping[str, str]


class UnitNodes:
    """The nodes of each unit, shared by all policies with the same node selectors."""

    def __init__(self, policy: Policy, nodes: Mapping[str, Labels]) -> None:
        self._policy = policy
        self._units: dict[str, tuple[int, ...]] = {}
        self._listed: tuple[tuple[str, ...], ...] | None = None
        for name, labels in nodes.items():
            self.put(name, labels)

    def units(self, node: str) -> tuple[int, ...]:
        """Return the indexes of the units of a node."""
        return self._units.get(node, ())

    def put(self, node: str, labels: Labels | None) -> tuple[int, ...] | None:
        """Set the labels of a node, None if it is deleted.

        Returns the units it had before if they have changed, None if not.
        """
        old = self.units(node)
        new = () if labels is None else self._policy.units_of(labels)
        if old == new:
            return None
        self._listed = None
        if new:
            self._units[node] = new
        else:
            del self._units[node]
        return old

    def names(self) -> tuple[tuple[str, ...], ...]:
        """Return the nodes of each unit, sorted."""
        if self._listed is None:
            names: list[list[str]] = [[] for _ in self._policy.units]
            for name in sorted(self._units):
                for unit in self._units[name]:
                    names[unit].append(name)
            self._listed = tuple(map(tuple, names))
        return self._listed


@dataclass(slots=True)
class _GroupPods:
    """The pods of one group in one unit, and the sum of their requests."""

    pods: dict[str, Pod] = field(default_factory=dict)
    resources: dict[str, int] = field(default_factory=dict)

    def add(self, pod: Pod, requests: Mapping[str, int], sign: int) -> None:
        if sign > 0:
            self.pods[pod.uid] = pod
        else:
            self.pods.pop(pod.uid, None)
        for name, amount in requests.items():
            self.resources[name] = self.resources.get(name, 0) + sign * amount


class _Counted(NamedTuple):
    """The properties of a pod that are counted."""

    pod: Pod
    node: str
    group: MatchLabelGroup
    terminating: bool
    requests: tuple[Mapping[str, int], ...]
    """For each unit, the requests of its maxResources; empty if no unit has any."""

    def is_same(self, other: _Counted | None) -> bool:
        """Return whether another version of the pod counts the same."""
        return other is not None and self[1:] == other[1:]


class PolicyEntry:
    """A policy that can be used, and the pods it selects."""

    def __init__(self, policy: Policy, nodes: UnitNodes) -> None:
        self.policy = policy
        self.nodes = nodes
        self.excess: Mapping[str, str] = {}
        """The keys of the pods above the caps, by uid, if the policy drains excess."""
        self._caps_resources = any(unit.max_resources for unit in policy.units)
        self._counted: dict[str, _Counted] = {}
        self._units: list[dict[MatchLabelGroup, _GroupPods]] = [{} for _ in policy.units]
        self._conflicts: dict[str, tuple[str, tuple[PolicyEntry, ...]]] = {}

    def put(self, pod: Pod, selecting: tuple[PolicyEntry, ...]) -> bool:
        """Count a pod that these policies select; return whether it counts differently."""
        new = self._count(pod)
        old = self._counted.get(pod.uid)
        changed = not (new is old if new is None else new.is_same(old))
        if changed:
            self._remove(old)
        if changed and new is not None:
            self._counted[pod.uid] = new
            self._add(new, self.nodes.units(new.node), 1)
        return self._set_conflict(pod, selecting) or changed

    def remove(self, uid: str) -> bool:
        """Remove a pod; return whether it was counted or in conflict."""
        old = self._counted.get(uid)
        self._remove(old)
        return (self._conflicts.pop(uid, None) is not None) or old is not None

    def move(self, node: str, before: tuple[int, ...], pods: Iterable[Pod]) -> None:
        """Count the pods of a node in its present units instead of those it had before."""
        for pod in pods:
            counted = self._counted.get(pod.uid)
            if counted is not None and counted.node == node:
                self._add(counted, before, -1)
                self._add(counted, self.nodes.units(node), 1)

    def usage(self) -> PolicyUsage:
        """Return the usage of the units; pods on nodes of no unit are omitted."""
        units = tuple(
            UnitUsage(
                unit,
                nodes,
                tuple(chain.from_iterable(part.pods.values() for part in members.values())),
                {
                    key: GroupUsage(key, tuple(part.pods.values()), dict(part.resources))
                    for key, part in members.items()
                },
            )
            for unit, nodes, members in zip(
                self.policy.units, self.nodes.names(), self._units, strict=True
            )
        )
        return PolicyUsage(self.policy, units, (), (), ())

    def conflict(self) -> PolicyConflict | None:
        """Return the other policies that select some of these pods; None if there are none."""
        if not self._conflicts:
            return None
        by_id = {id(entries): entries for _, entries in self._conflicts.values()}
        names = {e.policy.object.name for entries in by_id.values() for e in entries}
        others = tuple(sorted(names - {self.policy.object.name}))
        return PolicyConflict(others, min(name for name, _ in self._conflicts.values()))

    def _count(self, pod: Pod) -> _Counted | None:
        node = pod.spec.node_name
        if not node or not self.policy.counts_pod(pod):
            return None
        requests: tuple[Mapping[str, int], ...] = ()
        if self._caps_resources:
            amounts = pod_request(pod).amounts
            requests = tuple([capped_amounts(unit, amounts) for unit in self.policy.units])
        group = self.policy.group_key(pod.metadata.labels)
        return _Counted(pod, node, group, pod.terminating, requests)

    def _remove(self, old: _Counted | None) -> None:
        if old is not None:
            del self._counted[old.pod.uid]
            self._add(old, self.nodes.units(old.node), -1)

    def _add(self, counted: _Counted, units: Iterable[int], sign: int) -> None:
        for unit in units:
            members = self._units[unit]
            part = members.get(counted.group)
            if part is None:
                part = members[counted.group] = _GroupPods()
            part.add(counted.pod, counted.requests[unit] if counted.requests else {}, sign)
            if not part.pods:
                del members[counted.group]

    def _set_conflict(self, pod: Pod, selecting: tuple[PolicyEntry, ...]) -> bool:
        if len(selecting) < 2 or pod.finished:
            return self._conflicts.pop(pod.uid, None) is not None
        old = self._conflicts.get(pod.uid)
        self._conflicts[pod.uid] = (pod.name, selecting)
        return old is None or old[1] is not selecting


class _NamespacePolicies:
    """The policies of one namespace, with a cache of which of them select pods."""

    def __init__(self) -> None:
        self.entries: dict[str, PolicyEntry] = {}
        self.errors: dict[str, tuple[ResourcePolicy, str]] = {}
        """Policies that cannot be compiled, with the errors."""
        self.unusable: frozenset[str] = frozenset()
        """The uids of the policies in ``errors``."""
        self._keys: tuple[str, ...] = ()
        self._selecting: dict[tuple[str | None, ...], tuple[PolicyEntry, ...]] = {}

    def known(self, name: str) -> ResourcePolicy | None:
        """Return the version of a policy that is used, or cannot be used."""
        if name in self.entries:
            return self.entries[name].policy.object
        return self.errors[name][0] if name in self.errors else None

    def changed(self) -> None:
        """Clear the cache, after a change of the policies."""
        key_sets = [entry.policy.selector.keys for entry in self.entries.values()]
        self._keys = tuple(sorted(frozenset[str]().union(*key_sets)))
        self._selecting.clear()
        self.unusable = frozenset([obj.uid for obj, _ in self.errors.values()])

    def selecting(self, pod: Pod) -> tuple[PolicyEntry, ...]:
        """Return the policies that select a pod, by name."""
        labels = pod.metadata.labels
        visible = tuple([labels.get(key) for key in self._keys])
        known = self._selecting.get(visible)
        if known is None:
            if len(self._selecting) >= MAX_CACHED_LABELS:
                self._selecting.clear()
            known = self._selecting[visible] = tuple(
                [e for e in self.entries.values() if e.policy.selects(pod.namespace, labels)]
            )
        return known


class PolicyIndex:
    """All policies with their pods; policies are identified by ``namespace/name``."""

    def __init__(self) -> None:
        self._nodes: dict[str, Labels] = {}
        self._unit_nodes: WeakValueDictionary[tuple[Selector, ...], UnitNodes] = (
            WeakValueDictionary()
        )
        self._namespaces: dict[str, _NamespacePolicies] = {}
        self._selected: dict[str, tuple[str, tuple[PolicyEntry, ...]]] = {}
        """The node and the policies of each pod that a policy selects, by uid."""
        self._on_node: dict[str, dict[str, Pod]] = {}
        """The pods that a policy selects, by node."""

    def entry(self, obj: ResourcePolicy) -> PolicyEntry | None:
        """Return a policy with its pods; None if it cannot be used or is not known."""
        policies = self._namespaces.get(obj.namespace)
        return policies.entries.get(obj.name) if policies else None

    def entries(self, namespace: str) -> Iterable[PolicyEntry]:
        """Return the policies of a namespace that can be used."""
        policies = self._namespaces.get(namespace)
        return policies.entries.values() if policies else ()

    def error(self, obj: ResourcePolicy) -> str:
        """Return why a policy cannot be used, or ""."""
        policies = self._namespaces.get(obj.namespace)
        return policies.errors[obj.name][1] if policies and obj.name in policies.errors else ""

    def knows(self, namespace: str, name: str, obj: ResourcePolicy | None) -> bool:
        """Return whether a policy is used with its present spec; None is a deleted policy."""
        policies = self._namespaces.get(namespace)
        known = policies.known(name) if policies else None
        return known is obj if known is None or obj is None else means_the_same(known, obj)

    def set_policies(self, namespace: str, objects: Iterable[ResourcePolicy]) -> None:
        """Set all policies of a namespace; the caller must then put all its pods again."""
        old = self._namespaces.pop(namespace, None)
        new = _NamespacePolicies()
        for obj in sorted(objects, key=lambda obj: obj.name):
            entry = old.entries.get(obj.name) if old else None
            if entry is not None and means_the_same(entry.policy.object, obj):
                new.entries[obj.name] = entry
                continue
            try:
                new.entries[obj.name] = self._entry(compile_policy(obj))
            except HoldfastError as error:
                new.errors[obj.name] = (obj, error.message)
        new.changed()
        if new.entries or new.errors:
            self._namespaces[namespace] = new

    def put_pod(self, pod: Pod) -> list[PolicyEntry]:
        """Add or update a pod; return the policies that count differently now."""
        if not self._namespaces and not self._selected:
            return []
        policies = self._namespaces.get(pod.namespace)
        selecting = policies.selecting(pod) if policies else ()
        node, before = self._selected.get(pod.uid, ("", ()))
        if not selecting and not before:
            return []
        if node and (node != pod.spec.node_name or not selecting):
            self._leave(node, pod.uid)
        if selecting:
            self._selected[pod.uid] = (pod.spec.node_name, selecting)
            if pod.spec.node_name:
                self._on_node.setdefault(pod.spec.node_name, {})[pod.uid] = pod
        else:
            del self._selected[pod.uid]
        still = {id(entry) for entry in selecting}
        changed = [e for e in before if id(e) not in still and e.remove(pod.uid)]
        return changed + [e for e in selecting if e.put(pod, selecting)]

    def remove_pod(self, pod: Pod) -> list[PolicyEntry]:
        """Remove a pod; return the policies that count differently now."""
        node, selecting = self._selected.pop(pod.uid, ("", ()))
        if node:
            self._leave(node, pod.uid)
        return [entry for entry in selecting if entry.remove(pod.uid)]

    def put_node(self, node: str, labels: Labels | None) -> tuple[list[PolicyEntry], list[Pod]]:
        """Set the labels of a node, None if it is deleted.

        Returns the policies with units that have changed, and the pods on the node.
        """
        if labels is None:
            self._nodes.pop(node, None)
        else:
            self._nodes[node] = labels
        before = {
            id(nodes): old
            for nodes in tuple(self._unit_nodes.values())
            if (old := nodes.put(node, labels)) is not None
        }
        pods = list(self._on_node.get(node, {}).values())
        changed = []
        for policies in self._namespaces.values() if before else ():
            for entry in policies.entries.values():
                if id(entry.nodes) in before:
                    entry.move(node, before[id(entry.nodes)], pods)
                    changed.append(entry)
        return changed, pods

    def may_change(self, pod: Pod) -> bool:
        """Return whether a pod has policies in its namespace, or annotations of a policy."""
        meta = pod.metadata
        return (
            meta.namespace in self._namespaces
            or MANAGED_DELETION_COST in meta.annotations
            or POLICY_UID in meta.annotations
        )

    def plan(self, pod: Pod) -> Plan:
        """Plan the deletion cost of a pod."""
        policies = self._namespaces.get(pod.namespace)
        selecting = policies.selecting(pod) if policies else ()
        node = pod.spec.node_name
        known = len(selecting) == 1 and node in self._nodes
        return plan_deletion_cost(
            pod,
            [entry.policy for entry in selecting],
            selecting[0].nodes.units(node) if known else None,
            excess=len(selecting) == 1 and pod.uid in selecting[0].excess,
            unusable=policies.unusable if policies else (),
        )

    def _entry(self, policy: Policy) -> PolicyEntry:
        selectors = tuple([unit.selector for unit in policy.units])
        nodes = self._unit_nodes.get(selectors)
        if nodes is None:
            nodes = self._unit_nodes[selectors] = UnitNodes(policy, self._nodes)
        return PolicyEntry(policy, nodes)

    def _leave(self, node: str, uid: str) -> None:
        there = self._on_node.get(node, {})
        there.pop(uid, None)
        if not there:
            self._on_node.pop(node, None)

"""Resource policies: which pods they select, and how many of those are in which node pool.

Nothing is counted here: the node table counts the pods of a selector, also assumed ones. Pools are
derived from node labels: when a node is relabelled, its pods count in another pool.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.api.labels import LabelRequirement, Selector, conjunction, from_selector
from holdfast.api.resource_policy import ResourcePolicy, Unit
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.selection import selected
from holdfast.errors import HoldfastError


@dataclass(frozen=True, slots=True)
class NodePool:
    """One unit of a policy: its nodes, its priority and the number of pods it may have."""

    name: str
    priority: int
    limit: int | None
    selector: Selector


@dataclass(frozen=True, slots=True)
class Policy:
    """A resource policy with its selectors compiled."""

    object: ResourcePolicy
    selector: Selector
    pools: tuple[NodePool, ...]

    @property
    def key(self) -> str:
        """``namespace/name``, for messages."""
        return self.object.key

    @property
    def strict(self) -> bool:
        """Whether nodes outside every pool are rejected; only the strategy `prefer` allows them."""
        return self.object.spec.strategy != "prefer"

    @property
    def counts_terminating(self) -> bool:
        """Whether terminating pods count."""
        return not self.object.spec.match_policy.ignore_terminating_pod

    def group_selector(self, labels: Mapping[str, str]) -> Selector:
        """Return a selector of the pods with the same values of matchLabelKeys.

        A key the pod lacks is ignored, as in topology spread.
        """
        pinned = [
            LabelRequirement(key, "=", (labels[key],))
            for key in self.object.spec.match_label_keys
            if key in labels
        ]
        return conjunction((*(self.selector.requirements or ()), *pinned))


class Policies:
    """All resource policies of the cluster."""

    takes = (ResourcePolicy,)

    def __init__(self, node_table: NodeTable) -> None:
        self._node_table = node_table
        self._by_uid: dict[str, Policy] = {}
        self._in_namespace: dict[str, dict[str, Policy]] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    def __iter__(self) -> Iterator[Policy]:
        return iter(self._by_uid.values())

    def upsert(self, obj: ResourcePolicy) -> None:
        """Store a policy; one with a malformed selector selects no pods."""
        self.delete(obj)
        try:
            selector = from_selector(obj.spec.pod_selector)
            pools = tuple(_pool(i, unit) for i, unit in enumerate(obj.spec.units))
        except HoldfastError:
            # Holdfast's API server rejects such an object; others may not.
            return
        policy = Policy(obj, selector, pools)
        self._by_uid[obj.uid] = policy
        self._in_namespace.setdefault(obj.namespace, {})[obj.uid] = policy
        self._node_table.add_selector_keys(selector.keys | frozenset(obj.spec.match_label_keys))
        self._node_table.epochs.bump("policies")

    def delete(self, obj: ResourcePolicy) -> None:
        """Remove a policy."""
        policy = self._by_uid.pop(obj.uid, None)
        if policy is None:
            return
        of_namespace = self._in_namespace[policy.object.namespace]
        del of_namespace[obj.uid]
        if not of_namespace:
            del self._in_namespace[policy.object.namespace]
        self._node_table.epochs.bump("policies")

    def governing(self, pod_info: PodInfo) -> list[Policy]:
        """Return the policies that select this pod, by name; more than one is a conflict."""
        candidates = self._in_namespace.get(pod_info.namespace)
        if not candidates or pod_info.is_reserve_pod:
            return []
        found = [p for p in candidates.values() if p.selector.matches(pod_info.labels)]
        return sorted(found, key=lambda policy: policy.object.name)

    def fork(self, node_table: NodeTable) -> Policies:
        """Return a copy over a fork of the node table."""
        copy = Policies(node_table)
        copy._by_uid = dict(self._by_uid)
        copy._in_namespace = {ns: dict(found) for ns, found in self._in_namespace.items()}
        return copy


def rows_of_pool(node_table: NodeTable, pool: NodePool) -> NDArray[np.bool_]:
    """Return a mask of the rows that belong to a pool."""
    mask = selected(node_table, pool.selector, slice(0, node_table.capacity))
    mask &= node_table.alive
    return mask


def _pool(index: int, unit: Unit) -> NodePool:
    selector = from_selector(unit.node_selector)
    return NodePool(unit.name or f"unit-{index}", unit.priority, unit.max_count, selector)

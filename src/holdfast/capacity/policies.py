"""Resource policies: which pods they govern, and how many of those stand in which node pool.

Nothing is counted here: a policy's pods are found by a selector, and the columns count what a
selector finds, assumed pods included. Pools are derived from node labels, never stored on pods:
relabel a node and its pods move to another pool.
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
    """One unit of a policy: its nodes, its rank, how many pods it takes."""

    name: str
    priority: int
    limit: int | None
    selector: Selector


@dataclass(frozen=True, slots=True)
class Policy:
    """A resource policy, ready to be asked."""

    object: ResourcePolicy
    selector: Selector
    pools: tuple[NodePool, ...]

    @property
    def key(self) -> str:
        """namespace/name, for messages."""
        return self.object.key

    @property
    def strict(self) -> bool:
        """Whether a node outside every pool is out of the question; only `prefer` is not."""
        return self.object.spec.strategy != "prefer"

    @property
    def counts_terminating(self) -> bool:
        """Whether a pod on its way out still takes its place."""
        return not self.object.spec.match_policy.ignore_terminating_pod

    def group_selector(self, labels: Mapping[str, str]) -> Selector:
        """Find the pods that share a pod's group: its values of matchLabelKeys.

        A key the pod lacks is ignored, as topology spread does.
        """
        pinned = [
            LabelRequirement(key, "=", (labels[key],))
            for key in self.object.spec.match_label_keys
            if key in labels
        ]
        return conjunction((*(self.selector.requirements or ()), *pinned))


class Policies:
    """Every resource policy of the cluster."""

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
        """Take in a policy; one with a malformed selector governs nobody."""
        self.delete(obj)
        try:
            selector = from_selector(obj.spec.pod_selector)
            pools = tuple(_pool(i, unit) for i, unit in enumerate(obj.spec.units))
        except HoldfastError:
            # Admission refuses such an object; a foreign server may not have.
            return
        policy = Policy(obj, selector, pools)
        self._by_uid[obj.uid] = policy
        self._in_namespace.setdefault(obj.namespace, {})[obj.uid] = policy
        self._node_table.add_selector_keys(selector.keys | frozenset(obj.spec.match_label_keys))
        self._node_table.epochs.bump("policies")

    def delete(self, obj: ResourcePolicy) -> None:
        """Forget a policy."""
        policy = self._by_uid.pop(obj.uid, None)
        if policy is None:
            return
        of_namespace = self._in_namespace[policy.object.namespace]
        del of_namespace[obj.uid]
        if not of_namespace:
            del self._in_namespace[policy.object.namespace]
        self._node_table.epochs.bump("policies")

    def governing(self, pod_info: PodInfo) -> list[Policy]:
        """The policies that select this pod, by name; more than one is a conflict."""
        candidates = self._in_namespace.get(pod_info.namespace)
        if not candidates or pod_info.is_reserve_pod:
            return []
        found = [p for p in candidates.values() if p.selector.matches(pod_info.labels)]
        return sorted(found, key=lambda policy: policy.object.name)

    def fork(self, node_table: NodeTable) -> Policies:
        """An independent copy over a fork of the picture."""
        copy = Policies(node_table)
        copy._by_uid = dict(self._by_uid)
        copy._in_namespace = {ns: dict(found) for ns, found in self._in_namespace.items()}
        return copy


def rows_of_pool(node_table: NodeTable, pool: NodePool) -> NDArray[np.bool_]:
    """Tell which rows belong to a pool."""
    mask = selected(node_table, pool.selector, slice(0, node_table.capacity))
    mask &= node_table.alive
    return mask


def _pool(index: int, unit: Unit) -> NodePool:
    selector = from_selector(unit.node_selector)
    return NodePool(unit.name or f"unit-{index}", unit.priority, unit.max_count, selector)

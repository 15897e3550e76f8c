"""Resource policies: how many pods of a policy stand in which of its node pools.

A pod counts in a pool from the moment it is assumed on one of the pool's nodes until it is gone.
Pools are derived from node labels, never stored on pods: relabel a node and its pods move.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from holdfast.api.labels import Selector, from_selector
from holdfast.api.resource_policy import ResourcePolicy, Unit
from holdfast.columns.picture import Picture
from holdfast.columns.pod_facts import PodFacts
from holdfast.errors import HoldfastError

Group = tuple[str | None, ...]
"""A pod's values of the policy's matchLabelKeys, None where it lacks the label."""


@dataclass(frozen=True, slots=True)
class Pool:
    """One unit of a policy, ready to be asked about nodes."""

    index: int
    name: str
    priority: int
    limit: int | None
    selector: Selector


@dataclass(slots=True)
class Counted:
    """A policy and the pods it counts."""

    policy: ResourcePolicy
    selector: Selector
    pools: tuple[Pool, ...]
    standing: dict[str, tuple[Group, int]] = field(default_factory=dict)
    """Where each counted pod stands, by uid: its group and its node row."""
    per_row: dict[Group, dict[int, int]] = field(default_factory=dict)
    """How many pods of a group stand on each row."""

    @property
    def key(self) -> str:
        """namespace/name, for messages."""
        return self.policy.key

    @property
    def uid(self) -> str:
        """The policy's uid."""
        return self.policy.uid

    def group_of(self, labels: Mapping[str, str]) -> Group:
        """The group a pod with these labels belongs to."""
        return tuple(labels.get(key) for key in self.policy.spec.match_label_keys)

    def add(self, facts: PodFacts, row: int) -> None:
        """Count a pod on a row; counting it twice is counting it once."""
        self.remove(facts.uid)
        group = self.group_of(facts.labels)
        self.standing[facts.uid] = (group, row)
        rows = self.per_row.setdefault(group, {})
        rows[row] = rows.get(row, 0) + 1

    def remove(self, uid: str) -> None:
        """Stop counting a pod."""
        if (where := self.standing.pop(uid, None)) is None:
            return
        group, row = where
        rows = self.per_row[group]
        rows[row] -= 1
        if not rows[row]:
            del rows[row]
            if not rows:
                del self.per_row[group]

    def rows_of(self, group: Group) -> Iterator[tuple[int, int]]:
        """(row, count) of the pods that share the group; a label absent on it is ignored."""
        for other, rows in self.per_row.items():
            if all(
                mine is None or mine == theirs for mine, theirs in zip(group, other, strict=True)
            ):
                yield from rows.items()


class Policies:
    """Every resource policy, and the pods each one counts."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._by_uid: dict[str, Counted] = {}
        self._in_namespace: dict[str, dict[str, Counted]] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    def upsert(self, policy: ResourcePolicy) -> None:
        """Take in a policy and count the pods that stand already."""
        self.delete(policy.uid)
        try:
            selector = from_selector(policy.spec.pod_selector)
            pools = tuple(_pool(i, unit) for i, unit in enumerate(policy.spec.units))
        except HoldfastError:
            # A malformed selector selects nobody; admission refuses it, a foreign server may not.
            return
        counted = Counted(policy, selector, pools)
        self._by_uid[policy.uid] = counted
        self._in_namespace.setdefault(policy.namespace, {})[policy.uid] = counted
        self._picture.see_labels(selector.keys | set(policy.spec.match_label_keys))
        for facts, row in self._picture.standing():
            if self._counts(counted, facts):
                counted.add(facts, row)
        self._picture.epochs.bump("policies")

    def delete(self, uid: str) -> None:
        """Forget a policy."""
        counted = self._by_uid.pop(uid, None)
        if counted is None:
            return
        of_namespace = self._in_namespace[counted.policy.namespace]
        del of_namespace[uid]
        if not of_namespace:
            del self._in_namespace[counted.policy.namespace]
        self._picture.epochs.bump("policies")

    def pod_stands(self, facts: PodFacts, row: int) -> None:
        """Count a pod that was assumed on, or bound to, a row."""
        for counted in self._in_namespace.get(facts.namespace, {}).values():
            if self._counts(counted, facts):
                counted.add(facts, row)
            else:
                counted.remove(facts.uid)

    def pod_left(self, facts: PodFacts) -> None:
        """Stop counting a pod that is gone or was never bound after all."""
        for counted in self._in_namespace.get(facts.namespace, {}).values():
            counted.remove(facts.uid)

    def governing(self, facts: PodFacts) -> list[Counted]:
        """The policies that select this pod, by name; more than one is a conflict."""
        found = [
            counted
            for counted in self._in_namespace.get(facts.namespace, {}).values()
            if counted.selector.matches(facts.labels)
        ]
        return sorted(found, key=lambda counted: counted.policy.name)

    def in_pools(self, counted: Counted) -> NDArray[np.bool_]:
        """Which rows belong to which pool: (pools, rows)."""
        masks = [self._picture.rows_matching(pool.selector) for pool in counted.pools]
        return np.stack(masks) if masks else np.zeros((0, self._picture.size), np.bool_)

    def fork(self, picture: Picture) -> Policies:
        """An independent copy over a fork of the picture."""
        copy = Policies(picture)
        for counted in self._by_uid.values():
            copy.upsert(counted.policy)
        return copy

    @staticmethod
    def _counts(counted: Counted, facts: PodFacts) -> bool:
        if facts.reserve_for:
            return False
        if facts.terminating and counted.policy.spec.match_policy.ignore_terminating_pod:
            return False
        return counted.selector.matches(facts.labels)


def _pool(index: int, unit: Unit) -> Pool:
    selector = from_selector(unit.node_selector)
    return Pool(index, unit.name or f"unit-{index}", unit.priority, unit.max_count, selector)

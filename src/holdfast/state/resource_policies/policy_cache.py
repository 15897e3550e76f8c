"""All resource policies of the cluster, and the rows of their units.

The rules of a policy are in ``policies``: ``holdfast controllers`` needs nothing else, and without
this module it does not import NumPy (46 MiB at its start instead of 62).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from holdfast.api import resource_policy as names
from holdfast.api.resource_policy import ResourcePolicy
from holdfast.runtime.errors import HoldfastError
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.columns.selection import selected
from holdfast.state.resource_policies.policies import (
    Policy,
    PolicyUnit,
    compile_policy,
    means_the_same,
)

log = logging.getLogger(__name__)
_NO_POLICIES: Mapping[str, Policy] = {}


class Policies:
    """All resource policies of the cluster that can be compiled."""

    takes = (ResourcePolicy,)

    def __init__(self, node_table: NodeTable) -> None:
        self._node_table = node_table
        self._by_uid: dict[str, Policy] = {}
        self._in_namespace: dict[str, dict[str, Policy]] = {}
        self._errors: dict[str, str] = {}
        self.timeout_namespaces: frozenset[str] = frozenset()
        """The namespaces with a policy that waits for a time-out."""
        self.device_namespaces: frozenset[str] = frozenset()
        """The namespaces with a policy whose maxResources may name devices."""

    def __len__(self) -> int:
        return len(self._by_uid)

    def __iter__(self) -> Iterator[Policy]:
        return iter(self._by_uid.values())

    def upsert(self, obj: ResourcePolicy) -> None:
        """Store a policy; one that cannot be compiled governs no pods, and is logged once."""
        # Policies of a file may have no uid; when they were identified by it, they replaced each
        # other.
        uid = obj.uid or obj.key
        known = self._by_uid.get(uid)
        if known is not None and means_the_same(known.object, obj):
            # Its status was written, up to once a second while pods come and go. Moving the epoch
            # would make the classes of all its pods outdated.
            self._store(replace(known, object=obj))
            return
        self._remove(obj)
        try:
            policy = compile_policy(obj)
        except HoldfastError as error:
            if self._errors.get(uid) != error.message:
                self._errors[uid] = error.message
                log.warning("the policy governs no pods: %s", error.message)
            return
        self._errors.pop(uid, None)
        self._store(policy)
        keys = policy.selector.keys | frozenset(obj.spec.match_label_keys)
        self._node_table.add_selector_keys(keys)
        self._changed()

    def _store(self, policy: Policy) -> None:
        self._by_uid[policy.uid] = policy
        self._in_namespace.setdefault(policy.object.namespace, {})[policy.uid] = policy

    def delete(self, obj: ResourcePolicy) -> None:
        """Remove a policy."""
        self._errors.pop(obj.uid or obj.key, None)
        self._remove(obj)

    def _remove(self, obj: ResourcePolicy) -> None:
        uid = obj.uid or obj.key
        policy = self._by_uid.pop(uid, None)
        if policy is None:
            return
        of_namespace = self._in_namespace[policy.object.namespace]
        del of_namespace[uid]
        if not of_namespace:
            del self._in_namespace[policy.object.namespace]
        self._changed()

    def _changed(self) -> None:
        self.timeout_namespaces = frozenset(
            policy.object.namespace
            for policy in self._by_uid.values()
            if policy.next_units == names.TIMEOUT_OR_EXCEED_MAX
        )
        self.device_namespaces = frozenset(
            policy.object.namespace for policy in self._by_uid.values() if policy.caps_devices
        )
        self._node_table.epochs.bump(Epoch.POLICIES)

    def in_namespace(self, namespace: str) -> Collection[Policy]:
        """Return the policies of a namespace."""
        return self._in_namespace.get(namespace, _NO_POLICIES).values()

    def governing(self, pod_info: PodInfo) -> list[Policy]:
        """Return the policies that select this pod, by name; more than one is a conflict."""
        candidates = self._in_namespace.get(pod_info.namespace)
        if not candidates or pod_info.is_reserve_pod:
            return []
        policies = [p for p in candidates.values() if p.selector.matches(pod_info.labels)]
        return sorted(policies, key=lambda policy: policy.object.name)

    def fork(self, node_table: NodeTable) -> Policies:
        """Return a copy over a fork of the node table."""
        copy = Policies(node_table)
        copy._by_uid = dict(self._by_uid)
        copy._in_namespace = {ns: dict(policies) for ns, policies in self._in_namespace.items()}
        copy._errors = dict(self._errors)
        copy.timeout_namespaces = self.timeout_namespaces
        copy.device_namespaces = self.device_namespaces
        return copy


def rows_of_unit(node_table: NodeTable, unit: PolicyUnit) -> NDArray[np.bool_]:
    """Return a mask of the rows that belong to a unit."""
    mask = selected(node_table, unit.selector, slice(0, node_table.capacity))
    mask &= node_table.alive
    return mask

"""The selectors of Services and workloads, for default topology spread constraints.

A pod without spread constraints is spread among the pods that match the Services that select it,
and the ReplicaSet, StatefulSet or ReplicationController that owns it.
"""

from __future__ import annotations

from typing import ClassVar

from holdfast.api.labels import (
    EVERYTHING,
    NOTHING,
    LabelRequirement,
    Selector,
    conjunction,
    from_labels,
    from_selector,
)
from holdfast.api.meta import Object
from holdfast.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from holdfast.runtime.errors import BadRequest, Invalid
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo

Owner = tuple[str, str, str]
"""Kind, namespace and name of a workload; Services are stored apart."""
_MAX_CACHED = 8192
_VERSIONS = {"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "ReplicationController": "v1"}


class WorkloadSelectors:
    """Selectors of Services and workloads; a change of any increases the epoch ``selectors``."""

    takes: ClassVar[tuple[type[Object], ...]] = (
        Service, ReplicationController, ReplicaSet, StatefulSet,
    )  # fmt: skip

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._owners: dict[Owner, Selector] = {}
        self._services: dict[str, dict[str, Selector]] = {}
        self._cached: dict[tuple[int, Owner | None], tuple[Selector, int]] = {}
        self._numbers: dict[Selector, int] = {}

    def upsert(self, obj: Object) -> None:
        """Add or update a Service or workload, of which only the selector is stored."""
        self._set(obj, _selector_of(obj))

    def delete(self, obj: Object) -> None:
        """Remove a Service or workload, if it is there."""
        self._set(obj, None)

    def _set(self, obj: Object, selector: Selector | None) -> None:
        namespace, name = obj.metadata.namespace, obj.metadata.name
        if isinstance(obj, Service):
            selectors, key = self._services.setdefault(namespace, {}), name
            old = selectors.pop(key, None)
            if selector is not None and selector != NOTHING:
                selectors[key] = selector
                self._nodes.add_selector_keys(selector.keys)
        else:
            owner = (type(obj).__name__, namespace, name)
            old = self._owners.pop(owner, None)
            if selector is not None:
                self._owners[owner] = selector
        if old != selector:
            self._cached.clear()
            self._nodes.epochs.bump(Epoch.SELECTORS)

    def of(self, pod: PodInfo) -> Selector:
        """Return the combined selector for a pod; EVERYTHING if there is none."""
        return self._lookup(pod)[0]

    def number_of(self, pod: PodInfo) -> int:
        """Return a number for the selector of a pod, which is cheaper to compare."""
        return self._lookup(pod)[1]

    def of_controller(self, pod: PodInfo) -> Selector:
        """Return the selector of the workload that controls a pod; NOTHING if it is not known."""
        owner = self._owner_of(pod)
        return NOTHING if owner is None else self._owners[owner]

    def _lookup(self, pod: PodInfo) -> tuple[Selector, int]:
        key = (self._nodes.label_group_of(pod).id, self._owner_of(pod))
        entry = self._cached.get(key)
        if entry is None:
            if len(self._cached) >= _MAX_CACHED:
                self._cached.clear()
            selector = self._combine(pod, key[1])
            number = self._numbers.setdefault(selector, len(self._numbers))
            entry = self._cached[key] = (selector, number)
        return entry

    def _owner_of(self, pod: PodInfo) -> Owner | None:
        for reference in pod.pod.metadata.owner_references:
            if reference.controller:
                if _VERSIONS.get(reference.kind) != reference.api_version:
                    return None
                owner = (reference.kind, pod.namespace, reference.name)
                return owner if owner in self._owners else None
        return None

    def _combine(self, pod: PodInfo, owner: Owner | None) -> Selector:
        # Services and ReplicationControllers have label maps: as upstream, the last one of a key
        # counts.
        requirements_by_key: dict[str, tuple[LabelRequirement, ...]] = {}
        for selector in self._services.get(pod.namespace, {}).values():
            if selector.matches(pod.labels):
                requirements_by_key.update({r.key: (r,) for r in selector.requirements or ()})
        if owner is not None:
            requirements = self._owners[owner].requirements or ()
            if owner[0] == "ReplicationController":
                requirements_by_key.update({r.key: (r,) for r in requirements})
            else:
                for requirement in requirements:
                    requirements_by_key[requirement.key] = (
                        *requirements_by_key.get(requirement.key, ()),
                        requirement,
                    )
        return (
            conjunction(r for group in requirements_by_key.values() for r in group)
            if requirements_by_key
            else EVERYTHING
        )

    def fork(self, nodes: NodeTable) -> WorkloadSelectors:
        """Return an independent copy over a forked node table."""
        copy = WorkloadSelectors(nodes)
        copy._owners = dict(self._owners)
        copy._numbers = dict(self._numbers)
        copy._services = {
            namespace: dict(selectors) for namespace, selectors in self._services.items()
        }
        return copy


def _selector_of(obj: Object) -> Selector:
    if isinstance(obj, Service | ReplicationController):
        return NOTHING if obj.spec.selector is None else from_labels(obj.spec.selector)
    assert isinstance(obj, ReplicaSet | StatefulSet)
    try:
        return from_selector(obj.spec.selector)
    except (BadRequest, Invalid):
        return NOTHING  # as upstream, for an invalid selector

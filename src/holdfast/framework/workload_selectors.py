"""Which labels the pods of a workload share: what Services and owners select them by.

A pod that says nothing about spreading is spread among its like: the pods found by the Services
that find it and by the ReplicaSet, StatefulSet or ReplicationController that owns it.
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
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.errors import BadRequest, Invalid

Owner = tuple[str, str, str]
"""Kind, namespace and name; Services are looked through, never looked up."""
_MOST_ANSWERS = 8192
_VERSIONS = {"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "ReplicationController": "v1"}


class WorkloadSelectors:
    """Selectors of Services and owners; the epoch ``selectors`` moves when one of them does."""

    takes: ClassVar[tuple[type[Object], ...]] = (
        Service, ReplicationController, ReplicaSet, StatefulSet,
    )  # fmt: skip

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._owners: dict[Owner, Selector] = {}
        self._services: dict[str, dict[str, Selector]] = {}
        self._answers: dict[tuple[int, Owner | None], tuple[Selector, int]] = {}
        self._numbers: dict[Selector, int] = {}

    def upsert(self, obj: Object) -> None:
        """Take in a workload; only its selector matters, not its status."""
        self._set(obj, _selector_of(obj))

    def delete(self, obj: Object) -> None:
        """Let one go; an unknown one is fine."""
        self._set(obj, None)

    def _set(self, obj: Object, selector: Selector | None) -> None:
        namespace, name = obj.metadata.namespace, obj.metadata.name
        if isinstance(obj, Service):
            there, key = self._services.setdefault(namespace, {}), name
            old = there.pop(key, None)
            if selector is not None and selector != NOTHING:
                there[key] = selector
                self._nodes.add_selector_keys(selector.keys)
        else:
            owner = (type(obj).__name__, namespace, name)
            old = self._owners.pop(owner, None)
            if selector is not None:
                self._owners[owner] = selector
        if old != selector:
            self._answers.clear()
            self._nodes.epochs.bump("selectors")

    def of(self, pod: PodInfo) -> Selector:
        """Select the pod's like; everything means that nobody selects it."""
        return self._answer(pod)[0]

    def number_of(self, pod: PodInfo) -> int:
        """A number that pods with the same selector share, cheaper to compare than that."""
        return self._answer(pod)[1]

    def _answer(self, pod: PodInfo) -> tuple[Selector, int]:
        key = (self._nodes.label_group_of(pod).id, self._owner_of(pod))
        found = self._answers.get(key)
        if found is None:
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
            selector = self._work_out(pod, key[1])
            number = self._numbers.setdefault(selector, len(self._numbers))
            found = self._answers[key] = (selector, number)
        return found

    def _owner_of(self, pod: PodInfo) -> Owner | None:
        for reference in pod.pod.metadata.owner_references:
            if reference.controller:
                if _VERSIONS.get(reference.kind) != reference.api_version:
                    return None
                owner = (reference.kind, pod.namespace, reference.name)
                return owner if owner in self._owners else None
        return None

    def _work_out(self, pod: PodInfo, owner: Owner | None) -> Selector:
        # Services and a ReplicationController give labels, of which each key counts once.
        found: dict[str, tuple[LabelRequirement, ...]] = {}
        for selector in self._services.get(pod.namespace, {}).values():
            if selector.matches(pod.labels):
                found.update({r.key: (r,) for r in selector.requirements or ()})
        if owner is not None:
            its = self._owners[owner].requirements or ()
            if owner[0] == "ReplicationController":
                found.update({r.key: (r,) for r in its})
            else:
                for requirement in its:
                    found[requirement.key] = (*found.get(requirement.key, ()), requirement)
        return conjunction(r for group in found.values() for r in group) if found else EVERYTHING

    def fork(self, nodes: NodeTable) -> WorkloadSelectors:
        """An independent copy over a forked picture."""
        copy = WorkloadSelectors(nodes)
        copy._owners = dict(self._owners)
        copy._numbers = dict(self._numbers)
        copy._services = {namespace: dict(found) for namespace, found in self._services.items()}
        return copy


def _selector_of(obj: Object) -> Selector:
    if isinstance(obj, Service | ReplicationController):
        return NOTHING if obj.spec.selector is None else from_labels(obj.spec.selector)
    assert isinstance(obj, ReplicaSet | StatefulSet)
    try:
        return from_selector(obj.spec.selector)
    except (BadRequest, Invalid):
        return NOTHING  # of a selector nobody can read, upstream makes nothing either

"""Intern equal parts of pods and nodes, to save memory.

Pods of one workload have equal specs, and nodes list the same images. Interned, a pod takes a third
and a node a sixth of the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from holdfast.api.meta import Condition, ObjectMeta
from holdfast.api.node import Node
from holdfast.api.pod import Pod, PodSpec, PodStatus, Volume

_encode = msgspec.msgpack.Encoder().encode
_replace = msgspec.structs.replace
_MAX_PARTS = 100_000
_READY = "Ready"
_KUBELET_CONDITIONS = frozenset(("PodReadyToStartContainers", "Initialized", "ContainersReady"))
"""Conditions that the kubelet sets and no scheduler reads on bound pods. The status of Ready is
kept: pods that act as reservations, and migrations, depend on it. PodScheduled is kept: resource
policies with ignorePreviousPod read from it when the pod was bound."""


class ObjectInterner:
    """Replaces parts of objects with equal parts seen before.

    It is for schedulers: conditions and volumes that a scheduler does not read are removed.
    """

    def __init__(self) -> None:
        self._parts: dict[Any, Any] = {}
        self._share: Callable[[Any, Any], Any] = self._parts.setdefault
        """Returns the value stored under a key; if there is none, stores the second argument. It is
        a method of ``_parts``, which is cleared and never replaced."""

    def pod(self, pod: Pod) -> Pod:
        """Return the pod with interned parts, without volumes that have only a name here."""
        self._limit_parts()
        return _replace(
            pod,
            api_version=self._share(pod.api_version, pod.api_version),
            kind=self._share(pod.kind, pod.kind),
            metadata=self._metadata(pod.metadata),
            spec=self._spec(pod.spec),
            status=self._status(pod.status, bound=bool(pod.spec.node_name)),
        )

    def node(self, node: Node) -> Node:
        """Return the node with interned parts."""
        self._limit_parts()
        status = node.status
        return _replace(
            node,
            api_version=self._share(node.api_version, node.api_version),
            kind=self._share(node.kind, node.kind),
            metadata=self._metadata(node.metadata),
            status=_replace(
                status,
                capacity=self._mapping(status.capacity),
                allocatable=self._mapping(status.allocatable),
                images=tuple([self._share(image, image) for image in status.images]),
                conditions=tuple([self._condition(c) for c in status.conditions]),
            ),
        )

    def _metadata(self, meta: ObjectMeta) -> ObjectMeta:
        return _replace(
            meta,
            generate_name=self._share(meta.generate_name, meta.generate_name),
            namespace=self._share(meta.namespace, meta.namespace),
            labels=self._mapping(meta.labels),
            annotations=self._mapping(meta.annotations),
            owner_references=self._share(meta.owner_references, meta.owner_references),
        )

    def _spec(self, spec: PodSpec) -> PodSpec:
        node_name, volumes = spec.node_name, spec.volumes
        if node_name or volumes:
            volumes = tuple([volume for volume in volumes if volume != Volume(name=volume.name)])
            spec = _replace(spec, node_name="", volumes=volumes)
        shared: PodSpec = self._share(_encode(spec), spec)
        if not node_name:
            return shared
        return _replace(shared, node_name=self._share(node_name, node_name))

    def _status(self, status: PodStatus, *, bound: bool) -> PodStatus:
        conditions = status.conditions
        if bound:
            kept = tuple(
                [
                    Condition(type=c.type, status=c.status) if c.type == _READY else c
                    for c in conditions
                    if c.type not in _KUBELET_CONDITIONS
                ]
            )
            conditions = self._share(kept, kept) if kept else ()
        statuses = status.container_statuses
        return _replace(
            status,
            phase=self._share(status.phase, status.phase),
            conditions=conditions,
            container_statuses=self._share(_encode(statuses), statuses) if statuses else (),
        )

    def _condition(self, condition: Condition) -> Condition:
        return _replace(
            condition,
            type=self._share(condition.type, condition.type),
            status=self._share(condition.status, condition.status),
            reason=self._share(condition.reason, condition.reason),
            message=self._share(condition.message, condition.message),
        )

    def _mapping(self, pairs: Mapping[str, Any]) -> Any:
        if not pairs:
            return pairs
        key = tuple(pairs.items())
        mapping = self._parts.get(key)
        if mapping is None:
            mine = {self._share(k, k): self._share(v, v) for k, v in key}
            mapping = self._share(key, mine)
        return mapping

    def _limit_parts(self) -> None:
        if len(self._parts) > _MAX_PARTS:
            self._parts.clear()

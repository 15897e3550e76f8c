"""Equal parts of many objects, kept once.

A thousand pods of a workload say the same things in a thousand copies of the same text; a node
lists fifty images that are on a hundred other nodes too. What we keep of them in memory is made of
shared parts: a pod then costs a third, a node a sixth of what it would.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from holdfast.api.meta import Condition, ObjectMeta
from holdfast.api.node import Node
from holdfast.api.pod import Pod, PodSpec, PodStatus, Volume

T = TypeVar("T")
_encode = msgspec.msgpack.Encoder().encode
_replace = msgspec.structs.replace
_MANY = 100_000
_WELL = frozenset(
    ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
)
"""What a kubelet says of every pod; of a pod on a node the scheduler reads none of it."""


class SharedParts:
    """Rebuilds objects of parts seen before.

    For a scheduler: what is said of every pod that runs, and no scheduler reads, is left out.
    """

    def __init__(self) -> None:
        self._parts: dict[Any, Any] = {}

    def pod(self, pod: Pod) -> Pod:
        """The same pod, of shared parts; without volumes of which we read but the name."""
        return _replace(
            pod,
            api_version=self._word(pod.api_version),
            kind=self._word(pod.kind),
            metadata=self._metadata(pod.metadata),
            spec=self._spec(pod.spec),
            status=self._status(pod.status, bound=bool(pod.spec.node_name)),
        )

    def node(self, node: Node) -> Node:
        """The same node, of shared parts."""
        status = node.status
        return _replace(
            node,
            api_version=self._word(node.api_version),
            kind=self._word(node.kind),
            metadata=self._metadata(node.metadata),
            status=_replace(
                status,
                capacity=self._mapping(status.capacity),
                allocatable=self._mapping(status.allocatable),
                images=tuple([self._part(image, image) for image in status.images]),
                conditions=tuple([self._condition(c) for c in status.conditions]),
            ),
        )

    def _metadata(self, meta: ObjectMeta) -> ObjectMeta:
        return _replace(
            meta,
            generate_name=self._word(meta.generate_name),
            namespace=self._word(meta.namespace),
            labels=self._mapping(meta.labels),
            annotations=self._mapping(meta.annotations),
            owner_references=self._part(meta.owner_references, meta.owner_references),
        )

    def _spec(self, spec: PodSpec) -> PodSpec:
        kept = tuple([volume for volume in spec.volumes if volume != Volume(name=volume.name)])
        anywhere = _replace(spec, node_name="", volumes=kept)
        shared = self._part(_encode(anywhere), anywhere)
        return _replace(shared, node_name=self._word(spec.node_name)) if spec.node_name else shared

    def _status(self, status: PodStatus, *, bound: bool) -> PodStatus:
        conditions = status.conditions
        if bound:
            conditions = tuple([c for c in conditions if c.type not in _WELL])
        statuses = status.container_statuses
        return _replace(
            status,
            phase=self._word(status.phase),
            conditions=conditions,
            container_statuses=self._part(_encode(statuses), statuses) if statuses else (),
        )

    def _condition(self, condition: Condition) -> Condition:
        return _replace(
            condition,
            type=self._word(condition.type),
            status=self._word(condition.status),
            reason=self._word(condition.reason),
            message=self._word(condition.message),
        )

    def _mapping(self, pairs: Mapping[str, Any]) -> Any:
        if not pairs:
            return pairs
        key = tuple(pairs.items())
        found = self._parts.get(key)
        if found is None:
            mine = {self._word(k): self._word(v) for k, v in key}
            found = self._part(key, mine)
        return found

    def _word(self, word: T) -> T:
        return self._part(word, word) if word else word

    def _part(self, key: Any, value: T) -> T:
        parts = self._parts
        if len(parts) > _MANY:
            parts.clear()
        shared: T = parts.setdefault(key, value)
        return shared

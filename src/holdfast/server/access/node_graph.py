"""The objects that are related to a node: those that the pods bound to it refer to.

The index of a node is made when the node first asks, and brought up to date when it asks again: a
pod is read again only if it has changed. Nodes that never ask, such as simulated ones, cost
nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice

from holdfast.api.json_fields import map_at, text_at
from holdfast.server.access.node_references import (
    SECRETS,
    VOLUME_CLAIMS,
    Reference,
    pod_references,
    volume_secrets,
)
from holdfast.server.schema.stored_objects import decode
from holdfast.server.store import ObjectKey, Store

_NODES = 10_000
"""The most nodes that have an index."""
_PODS, _VOLUMES = ("", "pods"), ("", "persistentvolumes")
_WITH_NODE_NAME = {
    "resourceslices": ("resource.k8s.io", "resourceslices"),
    "volumeattachments": ("storage.k8s.io", "volumeattachments"),
}


@dataclass(slots=True)
class _NodeIndex:
    """The objects that the pods of one node refer to.

    Invariant: ``counts`` has, for each object, the number of the node's pods that referred to it at
    revision ``last_change``.
    """

    last_change: int = -1
    pods: dict[str, tuple[int, frozenset[Reference]]] = field(default_factory=dict)
    """The revision and the references of each pod, by its path."""
    counts: Counter[Reference] = field(default_factory=Counter)


class NodeGraph:
    """Answers whether an object is related to a node, from committed objects."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._indexes: dict[str, _NodeIndex] = {}

    def relates(self, node: str, plural: str, namespace: str, name: str) -> bool:
        """Return whether a node may read an object: its pods refer to it, or it names the node.

        A secret may also belong to a volume that is bound to a claim of a pod of the node.
        """
        if plural == "pods":
            pod = self._store.get(ObjectKey(*_PODS, namespace, name))
            return pod is not None and pod.index.fields.get("spec.nodeName") == node
        if plural in _WITH_NODE_NAME:
            return self._names_node(ObjectKey(*_WITH_NODE_NAME[plural], "", name), node)
        counts = self._index(node).counts
        if plural == "persistentvolumes":
            volume = self._store.get(ObjectKey(*_VOLUMES, "", name))
            claim = volume.index.fields.get("spec.claimRef", "") if volume else ""
            return (VOLUME_CLAIMS, *claim.partition("/")[::2]) in counts
        if (plural, namespace, name) in counts:
            return True
        return plural == SECRETS and any(
            (namespace, name) in volume_secrets(decode(volume))
            for kind, *claim in counts
            if kind == VOLUME_CLAIMS
            for volume in self._store.list(*_VOLUMES, fields={"spec.claimRef": "/".join(claim)})
        )

    def _names_node(self, key: ObjectKey, node: str) -> bool:
        stored = self._store.get(key)
        return stored is not None and text_at(map_at(decode(stored), "spec"), "nodeName") == node

    def _index(self, node: str) -> _NodeIndex:
        """Return the up-to-date index of a node."""
        index = self._indexes.pop(node, None) or _NodeIndex()
        self._indexes[node] = index  # now the most recently used
        for oldest in tuple(islice(self._indexes, max(0, len(self._indexes) - _NODES))):
            del self._indexes[oldest]
        last_change = self._store.last_change(*_PODS)
        if index.last_change != last_change:
            self._update(index, node)
            index.last_change = last_change
        return index

    def _update(self, index: _NodeIndex, node: str) -> None:
        stored = {
            pod.key.path: pod for pod in self._store.list(*_PODS, fields={"spec.nodeName": node})
        }
        for path, (revision, references) in tuple(index.pods.items()):
            if path not in stored or stored[path].revision != revision:
                del index.pods[path]
                _subtract(index.counts, references)
        for path, pod in stored.items():
            if path not in index.pods:
                references = pod_references(decode(pod))
                index.pods[path] = (pod.revision, references)
                index.counts.update(references)


def _subtract(counts: Counter[Reference], references: frozenset[Reference]) -> None:
    for reference in references:
        counts[reference] -= 1
        if not counts[reference]:
            del counts[reference]

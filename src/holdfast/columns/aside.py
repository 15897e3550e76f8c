"""Pods bound to nodes that nobody has told us about, kept aside until one appears."""

from __future__ import annotations

from holdfast.columns.pod_facts import PodFacts


class Aside:
    """Pods by the node they wait for, and whether they are only assumed to be there."""

    __slots__ = ("_node_of", "_of_node")

    def __init__(self) -> None:
        self._of_node: dict[str, dict[str, tuple[PodFacts, bool]]] = {}
        self._node_of: dict[str, str] = {}

    def put(self, facts: PodFacts, node: str, *, assumed: bool) -> None:
        """Keep a pod until its node appears."""
        self._of_node.setdefault(node, {})[facts.uid] = (facts, assumed)
        self._node_of[facts.uid] = node

    def drop(self, uid: str) -> None:
        """Keep a pod no longer; one that is not here is fine."""
        node = self._node_of.pop(uid, None)
        if node is not None:
            del self._of_node[node][uid]
            if not self._of_node[node]:
                del self._of_node[node]

    def take(self, node: str) -> list[tuple[PodFacts, bool]]:
        """Hand out the pods of a node that appeared."""
        there = self._of_node.pop(node, {})
        for uid in there:
            del self._node_of[uid]
        return list(there.values())

    def is_assumed(self, uid: str) -> bool:
        """Tell whether a pod is here that was placed and not yet confirmed."""
        node = self._node_of.get(uid)
        return node is not None and self._of_node[node][uid][1]

    def fork(self) -> Aside:
        """An independent copy."""
        copy = Aside()
        copy._of_node = {node: dict(pods) for node, pods in self._of_node.items()}
        copy._node_of = dict(self._node_of)
        return copy

"""Who was promised a node and is waiting for it to become free."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence

from holdfast.columns.picture import Picture
from holdfast.columns.pod_facts import PodFacts
from holdfast.framework.promised import Promised

_NONE: Mapping[int, Mapping[str, PodFacts]] = {}


class Nominations:
    """Pods nominated to nodes, by uid and by node name."""

    __slots__ = ("_moved", "_node_of", "_nodes", "_of_node", "promised")

    def __init__(self, nodes: Picture) -> None:
        self._nodes = nodes
        self._node_of: dict[str, str] = {}
        self._of_node: dict[str, dict[str, PodFacts]] = {}
        self.promised = Promised(nodes)
        self._moved: set[str] | None = None

    def __bool__(self) -> bool:
        return bool(self._node_of)

    def set(self, facts: PodFacts, node: str) -> None:
        """Nominate a pod to a node instead of any other; "" withdraws it."""
        self.clear(facts.uid)
        if node:
            # Others are asked whether they go beside it, by the labels its terms look at.
            self._nodes.show_labels(facts.terms.label_keys)
            self._node_of[facts.uid] = node
            self._of_node.setdefault(node, {})[facts.uid] = facts
            self.promised.put(facts, node)
            self._log(facts.uid, node)

    def clear(self, uid: str) -> None:
        """Withdraw a nomination; none is fine."""
        node = self._node_of.pop(uid, None)
        if node is not None:
            del self._of_node[node][uid]
            if not self._of_node[node]:
                del self._of_node[node]
            self.promised.drop(uid)
            self._log(uid, node)

    @property
    def uids(self) -> Collection[str]:
        """Who is nominated."""
        return self._node_of.keys()

    def moved(self) -> Collection[str]:
        """Who was nominated, or is no longer, since this was last asked; at first everybody."""
        moved, self._moved = self._moved, set()
        return self.uids if moved is None else moved

    def _log(self, uid: str, node: str) -> None:
        if self._moved is not None:
            self._moved.add(uid)
        row = self._nodes.row_of.get(node)
        if row is not None:
            self._nodes.order_journal.log(row)

    def keep_only(self, schedulers: Container[str]) -> None:
        """Withdraw nominations of pods that other schedulers wait with."""
        there = [facts for pods in self._of_node.values() for facts in pods.values()]
        for facts in there:
            if facts.scheduler_name not in schedulers:
                self.clear(facts.uid)

    def node_of(self, uid: str) -> str:
        """The node a pod is nominated to, or ""."""
        return self._node_of.get(uid, "")

    def on(self, node: str) -> Mapping[str, PodFacts]:
        """Pods nominated to a node, by uid."""
        return self._of_node.get(node, {})

    def beside(self, pod: PodFacts, row: int) -> Mapping[str, PodFacts]:
        """Pods of at least this pod's priority, itself aside, nominated to a row."""
        there = self.at_least(pod.priority, row)
        return {other.uid: other for other in there if other.uid != pod.uid}

    def at_least(self, priority: int, row: int) -> Sequence[PodFacts]:
        """Pods of at least this priority nominated to a row."""
        there = self._of_node.get(self._nodes.names[row])
        if there is None:
            return ()
        return [other for other in there.values() if other.priority >= priority]

    def rows(self, pod: PodFacts) -> Mapping[int, Mapping[str, PodFacts]]:
        """Pods of at least this pod's priority, itself aside, per row they are nominated to."""
        if not self._of_node:
            return _NONE
        found: dict[int, Mapping[str, PodFacts]] = {}
        for row in self.promised.rows().tolist():
            if ahead := self.beside(pod, row):
                found[row] = ahead
        return found

    def fork(self, nodes: Picture) -> Nominations:
        """An independent copy over a forked picture."""
        copy = Nominations(nodes)
        copy._node_of = dict(self._node_of)
        copy._of_node = {node: dict(pods) for node, pods in self._of_node.items()}
        for node, pods in self._of_node.items():
            for facts in pods.values():
                copy.promised.put(facts, node)
        return copy

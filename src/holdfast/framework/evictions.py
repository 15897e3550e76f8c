"""Who waits until its victims have been asked to leave."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.columns.node_table import NodeTable


class Evictions:
    """Preemptions under way, by the uid of the pod they make room for.

    One is over once every victim was asked to leave *and* the picture shows it: a preemptor tried
    before that would choose victims anew, and evict twice.
    """

    __slots__ = ("_nodes", "_victims", "_writing")

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._victims: dict[str, frozenset[str]] = {}
        self._writing: set[str] = set()

    def begin(self, preemptor: str, victims: Iterable[str]) -> None:
        """These victims are about to be asked to leave."""
        self._victims[preemptor] = frozenset(victims)
        self._writing.add(preemptor)

    def requests_sent(self, preemptor: str) -> None:
        """Every victim was asked; from here on the picture tells."""
        self._writing.discard(preemptor)

    def end(self, preemptor: str) -> None:
        """Forget it: it failed, or the preemptor waits no longer. None going on is fine."""
        self._writing.discard(preemptor)
        self._victims.pop(preemptor, None)

    def in_progress(self, preemptor: str) -> bool:
        """Tell whether a pod still waits for victims to be asked to leave."""
        victims = self._victims.get(preemptor)
        if victims is None:
            return False
        return preemptor in self._writing or any(map(self._stays, victims))

    def _stays(self, victim: str) -> bool:
        standing = self._nodes.pod(victim)
        return standing is not None and not standing[0].terminating

    def fork(self, nodes: NodeTable) -> Evictions:
        """An independent copy over a forked picture."""
        copy = Evictions(nodes)
        copy._victims = dict(self._victims)
        copy._writing = set(self._writing)
        return copy

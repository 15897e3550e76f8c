"""Preemptors whose victims are still being deleted."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.state.columns.node_table import NodeTable


class Evictions:
    """Preemptions in progress, by the uid of the preemptor.

    A preemption is in progress until the deletion of all victims is requested *and* the node table
    shows them as terminating: a preemptor that is tried earlier would choose more victims.
    """

    __slots__ = ("_nodes", "_requesting", "_victims")

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._victims: dict[str, frozenset[str]] = {}
        self._requesting: set[str] = set()

    def begin(self, preemptor: str, victims: Iterable[str]) -> None:
        """Start: the deletion of these victims is about to be requested."""
        self._victims[preemptor] = frozenset(victims)
        self._requesting.add(preemptor)

    def requests_sent(self, preemptor: str) -> None:
        """All deletions are requested; from now on the state of the victims decides."""
        self._requesting.discard(preemptor)

    def end(self, preemptor: str) -> None:
        """Forget the preemption: it failed, or the preemptor waits no longer. Idempotent."""
        self._requesting.discard(preemptor)
        self._victims.pop(preemptor, None)

    def in_progress(self, preemptor: str) -> bool:
        """Return whether a victim of the pod is not yet terminating."""
        victims = self._victims.get(preemptor)
        if victims is None:
            return False
        return preemptor in self._requesting or any(map(self._is_running, victims))

    def preemptors_of(self, victim: str) -> list[str]:
        """Return the preemptors that chose a pod as a victim."""
        return [preemptor for preemptor, victims in self._victims.items() if victim in victims]

    def _is_running(self, victim: str) -> bool:
        pod_and_row = self._nodes.pod(victim)
        return pod_and_row is not None and not pod_and_row[0].terminating

    def fork(self, nodes: NodeTable) -> Evictions:
        """Return an independent copy over a forked node table."""
        copy = Evictions(nodes)
        copy._victims = dict(self._victims)
        copy._requesting = set(self._requesting)
        return copy

"""Who stands where: pods on rows, by uid, with the counters and ports they move.

The reserve pods of reservations that hold room are *seated* here too: they move counters, ports,
volumes and terms like any pod, but nobody finds them among the pods of a row.

A pod is *assumed* from the decision until the API server confirms it. Confirming changes nothing
a plugin could see, so it is not logged; that matters, because every placement is confirmed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.columns.counters import SelectorCount
from holdfast.columns.held import HeldTerms
from holdfast.columns.kinds import Kind, Kinds
from holdfast.columns.mounts import MountIndex
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.ports import PortIndex
from holdfast.columns.terms import PodChoice

_MOST_COUNTERS = 1024
_NOBODY: Mapping[str, PodInfo] = {}
Choices = tuple[PodChoice, ...]
Namespaces = dict[str, Mapping[str, str]]


@dataclass(slots=True, eq=False)
class PlacedPod:
    """One pod on one row."""

    pod_info: PodInfo
    row: int
    kind: Kind
    assumed: bool


class Roster:
    """Pods by uid and by row; ``namespaces`` are the labels of those that have any."""

    __slots__ = ("_asked", "_capacity", "_counters", "_of_row", "by_uid", "held", "kinds", "mounts",
                 "namespaces", "ports", "priorities", "seated")  # fmt: skip

    def __init__(self, capacity: int, held: HeldTerms) -> None:
        self._capacity = capacity
        self._counters: dict[tuple[Choices, bool], SelectorCount] = {}
        self.held = held
        self.namespaces: Namespaces = {}
        self._of_row: dict[int, dict[str, PodInfo]] = {}
        self.by_uid: dict[str, PlacedPod] = {}
        self.seated: dict[str, PlacedPod] = {}
        """Reserve pods, by uid."""
        self.kinds = Kinds()
        self._asked: tuple[PodInfo, Kind] | None = None
        self.ports = PortIndex()
        self.mounts = MountIndex()
        self.priorities: dict[int, int] = {}
        """How many pods have each priority there is."""

    def on(self, row: int) -> Mapping[str, PodInfo]:
        """Pods on the row, by uid."""
        return self._of_row.get(row, _NOBODY)

    def kind_of(self, pod_info: PodInfo) -> Kind:
        """The kind of a pod, standing or not."""
        # A decision asks several times about one pod.
        asked = self._asked
        if asked is not None and asked[0] is pod_info:
            return asked[1]
        counters = self._counters.values()
        kind = self.kinds.of(pod_info.namespace, pod_info.labels, counters, self.namespaces)
        self._asked = (pod_info, kind)
        return kind

    def enter(self, pod_info: PodInfo, row: int, *, assumed: bool) -> None:
        """Put a pod on the row; it must stand nowhere."""
        kind = self.kind_of(pod_info)
        uid = pod_info.uid
        self.by_uid[uid] = PlacedPod(pod_info, row, kind, assumed)
        there = self._of_row.get(row)
        if there is None:
            there = self._of_row[row] = {}
        there[uid] = pod_info
        self.priorities[pod_info.priority] = self.priorities.get(pod_info.priority, 0) + 1
        self._appear(pod_info, row, kind)

    def _appear(self, pod_info: PodInfo, row: int, kind: Kind) -> None:
        kind.rows[pod_info.uid] = row
        if pod_info.host_ports:
            self.ports.add(row, pod_info.host_ports)
        if pod_info.mounts:
            self.mounts.add(row, pod_info)
        if pod_info.terms:
            self.held.enter(pod_info.terms, row)
        for counter in kind.counters:
            if not (counter.real and pod_info.stands_in):
                counter.move(row, 1, live=not pod_info.terminating)

    def seat(self, pod_info: PodInfo, row: int) -> None:
        """Let a reserve pod be seen on the row; it must be seated nowhere."""
        kind = self.kind_of(pod_info)
        self.seated[pod_info.uid] = PlacedPod(pod_info, row, kind, assumed=False)
        self._appear(pod_info, row, kind)

    def unseat(self, uid: str) -> PlacedPod | None:
        """Let a reserve pod be seen no more; answers what it was."""
        standing = self.seated.pop(uid, None)
        if standing is not None:
            self._vanish(standing)
        return standing

    def leave(self, uid: str) -> PlacedPod:
        """Take a pod off its row."""
        standing = self.by_uid.pop(uid)
        pod_info, row = standing.pod_info, standing.row
        there = self._of_row[row]
        del there[uid]
        if not there:
            del self._of_row[row]
        self.priorities[pod_info.priority] -= 1
        if not self.priorities[pod_info.priority]:
            del self.priorities[pod_info.priority]
        self._vanish(standing)
        return standing

    def _vanish(self, standing: PlacedPod) -> None:
        pod_info, row = standing.pod_info, standing.row
        del standing.kind.rows[pod_info.uid]
        if pod_info.host_ports:
            self.ports.remove(row, pod_info.host_ports)
        if pod_info.mounts:
            self.mounts.remove(row, pod_info)
        if pod_info.terms:
            self.held.leave(pod_info.terms, row)
        for counter in standing.kind.counters:
            if not (counter.real and pod_info.stands_in):
                counter.move(row, -1, live=not pod_info.terminating)

    def same(self, standing: PlacedPod, pod_info: PodInfo) -> bool:
        """Tell whether nobody can tell newer facts of a pod from those we have.

        Labels nobody looks at do not count: Kubernetes copies the node's zone onto every pod it
        binds.
        """
        was = standing.pod_info
        return was.weighs_like(pod_info) and (
            was.labels == pod_info.labels or self.kind_of(pod_info) is standing.kind
        )

    def confirm(self, standing: PlacedPod, pod_info: PodInfo) -> None:
        """Replace a pod's facts by newer ones that weigh the same."""
        standing.pod_info = pod_info
        standing.assumed = False
        self._of_row[standing.row][pod_info.uid] = pod_info

    def show(self, keys: frozenset[str]) -> bool:
        """Make label keys visible; tell whether that gave pods new kinds.

        No counter moves: those that exist never looked at the new keys.
        """
        if not self.kinds.show(keys):
            return False
        self._asked = None
        for standings in (self.by_uid, self.seated):
            for uid, standing in standings.items():
                standing.kind = self.kind_of(standing.pod_info)
                standing.kind.rows[uid] = standing.row
        return True

    def counter(self, choices: Choices, *, real: bool = False) -> tuple[SelectorCount, bool]:
        """The counter of pods that all choices mean, and whether an old one was dropped for it.

        The keys of the selectors must be visible already. ``real`` leaves reserve pods out.
        """
        found = self._counters.pop((choices, real), None)
        dropped = False
        if found is None:
            if len(self._counters) >= _MOST_COUNTERS:
                self._drop(next(iter(self._counters)))
                dropped = True
            found = self._count(SelectorCount(choices, self._capacity, real=real))
        self._counters[choices, real] = found
        return found, dropped

    def _count(self, counter: SelectorCount) -> SelectorCount:
        for kind in self.kinds:
            if counter.selects(kind.namespace, self._labels_of(kind), kind.labels):
                kind.counters.append(counter)
                self._move_all(counter, kind, 1)
        return counter

    def _labels_of(self, kind: Kind) -> Mapping[str, str]:
        return self.namespaces.get(kind.namespace, {})

    def _move_all(self, counter: SelectorCount, kind: Kind, by: int) -> None:
        for uid, row in kind.rows.items():
            pod_info = (self.by_uid.get(uid) or self.seated[uid]).pod_info
            if not (counter.real and pod_info.stands_in):
                counter.move(row, by, live=not pod_info.terminating)

    def _drop(self, key: tuple[Choices, bool]) -> None:
        counter = self._counters.pop(key)
        for kind in self.kinds:
            if counter in kind.counters:
                kind.counters.remove(counter)

    def relabel_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Give a namespace other labels; pods in it enter and leave counters that read them."""
        if labels is None:
            self.namespaces.pop(name, None)
        else:
            self.namespaces[name] = labels
        self.held.namespaces_changed()
        reading = [c for c in self._counters.values() if c.by_namespace_labels]
        for kind in self.kinds:
            if kind.namespace != name:
                continue
            for counter in reading:
                was = counter in kind.counters
                if was is counter.selects(name, self._labels_of(kind), kind.labels):
                    continue
                self._move_all(counter, kind, -1 if was else 1)
                if was:
                    kind.counters.remove(counter)
                else:
                    kind.counters.append(counter)

    def grow(self, capacity: int) -> None:
        """Make room for more rows; counters are made anew when next asked for."""
        self._capacity = capacity
        self._counters = {}
        self.held.grow(capacity)
        for kind in self.kinds:
            kind.counters = []

    def fork(self, held: HeldTerms) -> Roster:
        """An independent copy over forked held terms; counters are made anew when asked for."""
        copy = Roster(self._capacity, held)
        copy.namespaces = dict(self.namespaces)
        copy.kinds.show(self.kinds.keys)
        copy.ports = self.ports.fork()
        copy.mounts = self.mounts.fork()
        copy.priorities = dict(self.priorities)
        for olds, news in ((self.by_uid, copy.by_uid), (self.seated, copy.seated)):
            for uid, old in olds.items():
                kind = copy.kind_of(old.pod_info)
                kind.rows[uid] = old.row
                news[uid] = PlacedPod(old.pod_info, old.row, kind, old.assumed)
        copy._of_row = {row: dict(pods) for row, pods in self._of_row.items()}
        return copy


class Aside:
    """Pods bound to nodes that are not known, kept until their node appears.

    Each stands under the node it waits for, with whether it is only assumed to be there.
    """

    __slots__ = ("_node_of", "_of_node")

    def __init__(self) -> None:
        self._of_node: dict[str, dict[str, tuple[PodInfo, bool]]] = {}
        self._node_of: dict[str, str] = {}

    def put(self, pod_info: PodInfo, node: str, *, assumed: bool) -> None:
        """Keep a pod until its node appears."""
        self._of_node.setdefault(node, {})[pod_info.uid] = (pod_info, assumed)
        self._node_of[pod_info.uid] = node

    def drop(self, uid: str) -> None:
        """Keep a pod no longer; one that is not here is fine."""
        node = self._node_of.pop(uid, None)
        if node is not None:
            del self._of_node[node][uid]
            if not self._of_node[node]:
                del self._of_node[node]

    def take(self, node: str) -> list[tuple[PodInfo, bool]]:
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

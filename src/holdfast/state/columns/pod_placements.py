"""Pods on rows, by uid, with the counters, ports, volumes and terms they change.

The reserve pods of reservations are stored here too. They change counters, ports, volumes and
terms like any pod, but are not among the pods of a row.

A pod is *assumed* from the decision until the API server confirms it. Confirming is not logged,
because plugins see no difference and every placement is confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping
from itertools import islice

import msgspec

from holdfast.runtime.shared_cache import SharedCache
from holdfast.state.columns.counters import PodSelectors, PodSum, SelectorCount, selects
from holdfast.state.columns.existing_terms import ExistingTerms
from holdfast.state.columns.label_groups import LabelGroup, LabelGroups
from holdfast.state.columns.mounts import MountIndex
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.columns.ports import PortIndex

_MAX_COUNTERS = 1024
_MAX_SUMS = 4
_MATCHES_A_STEP = 512
_NO_PODS: Mapping[str, PodInfo] = {}
LabelsByNamespace = dict[str, Mapping[str, str]]


class PlacedPod(msgspec.Struct, eq=False):
    """One pod on one row."""

    pod_info: PodInfo
    row: int
    group: LabelGroup
    assumed: bool
    ours: bool = False
    """Whether it was assumed on this row first."""


class PodPlacements:
    """Pods by uid and by row; ``namespaces`` has the labels of namespaces."""

    __slots__ = (
        "_capacity", "_counters", "_last_group", "_of_row", "_relabelled", "by_uid",
        "existing_terms", "label_groups", "mounts", "namespaces", "pinned", "ports",
        "priorities", "reserve_pods",
    )  # fmt: skip

    def __init__(self, capacity: int, existing_terms: ExistingTerms) -> None:
        self._capacity = capacity
        self._counters = SharedCache[SelectorCount](_MAX_COUNTERS)
        self.pinned: frozenset[tuple[PodSelectors, bool]] = frozenset()
        """Selectors whose counters are not dropped, and whether those leave reserve pods out."""
        self.existing_terms = existing_terms
        self.namespaces: LabelsByNamespace = {}
        self._relabelled = 0
        """How often the labels of a namespace have changed."""
        self._of_row: dict[int, dict[str, PodInfo]] = {}
        self.by_uid: dict[str, PlacedPod] = {}
        self.reserve_pods: dict[str, PlacedPod] = {}
        """Reserve pods, by uid."""
        self.label_groups = LabelGroups()
        self._last_group: tuple[PodInfo, LabelGroup] | None = None
        self.ports = PortIndex()
        self.mounts = MountIndex()
        self.priorities: dict[int, int] = {}
        """The number of pods by priority."""

    def on(self, row: int) -> Mapping[str, PodInfo]:
        """Return the pods on the row, by uid."""
        return self._of_row.get(row, _NO_PODS)

    def label_group_of(self, pod_info: PodInfo) -> LabelGroup:
        """Return the label group of a pod, which need not be on a row."""
        # One decision needs the group of its pod several times.
        known = self._last_group
        if known is not None and known[0] is pod_info:
            return known[1]
        group = self.label_groups.of(
            pod_info.namespace, pod_info.labels, self._counters, self.namespaces
        )
        self._last_group = (pod_info, group)
        return group

    def add(self, pod_info: PodInfo, row: int, *, assumed: bool) -> None:
        """Add a pod to the row; it must not be on a row yet."""
        group = self.label_group_of(pod_info)
        uid = pod_info.uid
        self.by_uid[uid] = PlacedPod(pod_info, row, group, assumed, assumed)
        there = self._of_row.get(row)
        if there is None:
            there = self._of_row[row] = {}
        there[uid] = pod_info
        self.priorities[pod_info.priority] = self.priorities.get(pod_info.priority, 0) + 1
        self._count_pod(pod_info, row, group)

    def _count_pod(self, pod_info: PodInfo, row: int, group: LabelGroup) -> None:
        group.rows[pod_info.uid] = row
        if pod_info.host_ports:
            self.ports.add(row, pod_info.host_ports)
        if pod_info.mounts:
            self.mounts.add(row, pod_info)
        if pod_info.affinity_terms:
            self.existing_terms.add(pod_info.affinity_terms, row)
        for counter in group.counters:
            if not (counter.real and pod_info.is_reserve_pod):
                counter.move(row, 1, live=not pod_info.terminating)
                if counter.sums:
                    counter.move_sums(pod_info, row, 1)

    def add_reserve_pod(self, pod_info: PodInfo, row: int) -> None:
        """Add a reserve pod to the row; it must not be on a row yet."""
        group = self.label_group_of(pod_info)
        self.reserve_pods[pod_info.uid] = PlacedPod(pod_info, row, group, assumed=False)
        self._count_pod(pod_info, row, group)

    def remove_reserve_pod(self, uid: str) -> PlacedPod | None:
        """Remove a reserve pod and return it, or None if it is unknown."""
        placed = self.reserve_pods.pop(uid, None)
        if placed is not None:
            self._uncount_pod(placed)
        return placed

    def remove(self, uid: str) -> PlacedPod:
        """Remove a pod from its row and return it."""
        placed = self.by_uid.pop(uid)
        pod_info, row = placed.pod_info, placed.row
        there = self._of_row[row]
        del there[uid]
        if not there:
            del self._of_row[row]
        self.priorities[pod_info.priority] -= 1
        if not self.priorities[pod_info.priority]:
            del self.priorities[pod_info.priority]
        self._uncount_pod(placed)
        return placed

    def _uncount_pod(self, placed: PlacedPod) -> None:
        pod_info, row = placed.pod_info, placed.row
        del placed.group.rows[pod_info.uid]
        if pod_info.host_ports:
            self.ports.remove(row, pod_info.host_ports)
        if pod_info.mounts:
            self.mounts.remove(row, pod_info)
        if pod_info.affinity_terms:
            self.existing_terms.remove(pod_info.affinity_terms, row)
        for counter in placed.group.counters:
            if not (counter.real and pod_info.is_reserve_pod):
                counter.move(row, -1, live=not pod_info.terminating)
                if counter.sums:
                    counter.move_sums(pod_info, row, -1)

    def is_unchanged(self, placed: PlacedPod, pod_info: PodInfo) -> bool:
        """Return whether a newer version of a pod makes no difference to scheduling.

        Labels under keys that no selector uses do not count: Kubernetes copies the node's zone to
        every pod it binds.
        """
        was = placed.pod_info
        return was.is_equivalent_to(pod_info) and (
            was.labels == pod_info.labels or self.label_group_of(pod_info) is placed.group
        )

    def confirm(self, placed: PlacedPod, pod_info: PodInfo) -> bool:
        """Store a newer, equivalent version of a pod and mark it as confirmed.

        Return whether a sum over pods changed nevertheless.
        """
        was, changed = placed.pod_info, False
        placed.pod_info = pod_info
        placed.assumed = False
        self._of_row[placed.row][pod_info.uid] = pod_info
        for counter in placed.group.counters:
            if counter.sums:
                for total in counter.sums.values():
                    changed |= total.replace(was, pod_info, placed.row)
        return changed

    def add_selector_keys(self, keys: frozenset[str]) -> bool:
        """Add selector keys; return whether pods were regrouped.

        Counters stay as they are: existing ones do not read the new keys.
        """
        groups = self.label_groups
        if keys <= groups.complete_keys:
            return False
        self.begin_selector_keys(keys)
        while not self.has_groups_of(keys):
            self.regroup(len(self.by_uid) + len(self.reserve_pods))
        return True

    def begin_selector_keys(self, keys: frozenset[str]) -> None:
        """Add selector keys; ``regroup`` moves the pods to their groups."""
        if self.label_groups.add_selector_keys(keys):
            self._last_group = None

    def has_groups_of(self, keys: frozenset[str]) -> bool:
        """Return whether all pods are grouped by these keys."""
        return keys <= self.label_groups.complete_keys

    def regroup(self, count: int) -> None:
        """Move up to ``count`` pods of one outdated group to their groups.

        Until all are moved, groups by the previous keys can be used and may be split already.
        """
        groups = self.label_groups
        outdated = groups.outdated[-1]
        for uid in [*islice(outdated.rows, count)]:
            placed = self.by_uid.get(uid) or self.reserve_pods[uid]
            placed.group = self.label_group_of(placed.pod_info)
            placed.group.rows[uid] = placed.row
            del outdated.rows[uid]
        groups.drop_empty()

    def counter(
        self,
        pod_selectors: PodSelectors,
        owner: str,
        *,
        real: bool = False,
        matched: Mapping[LabelGroup, bool] | None = None,
    ) -> tuple[SelectorCount, bool]:
        """Return the counter of pods that match all selectors, and whether an old one was dropped.

        The selectors' keys must be selector keys already. ``owner`` is the namespace that the
        counter is for; ``real`` leaves reserve pods out. ``matched`` has the result for groups that
        were compared already.
        """
        key = pod_selectors, real
        known_counter = self._counters.get(key, owner)
        if known_counter is not None:
            return known_counter, False
        counter = SelectorCount(pod_selectors, self._capacity, real=real)
        self._count(counter, matched or {})
        dropped = self._counters.put(key, counter, owner, kept=self.pinned)
        for old in dropped:
            for group in self.label_groups:
                if old in group.counters:
                    group.counters.remove(old)
        return counter, bool(dropped)

    def has_counter(self, pod_selectors: PodSelectors, owner: str) -> bool:
        """Return whether there is a counter of the pods that match all selectors."""
        return self._counters.get((pod_selectors, False), owner) is not None

    def count_in_steps(
        self, pod_selectors: PodSelectors, owner: str
    ) -> Generator[None, None, bool]:
        """Make a counter, with pauses in which pods, groups and namespaces may change.

        Only the groups are matched in steps; pods are counted at once, in the last one. Return
        whether an old counter was dropped.
        """
        if self.has_counter(pod_selectors, owner):
            return False
        yield
        matched: dict[LabelGroup, bool] = {}
        relabelled, compared = self._relabelled, 0
        for group in [*self.label_groups]:
            labels = self._labels_of(group)
            matched[group] = selects(pod_selectors, group.namespace, labels, group.labels)
            compared += len(pod_selectors)
            if compared >= _MATCHES_A_STEP:
                compared = 0
                yield
        if relabelled != self._relabelled:
            matched.clear()
        return self.counter(pod_selectors, owner, matched=matched)[1]

    def _count(self, counter: SelectorCount, matched: Mapping[LabelGroup, bool]) -> None:
        """Count all matching pods with a new counter; in lists, as there may be very many."""
        rows: list[int] = []
        live: list[int] = []
        for group in self.label_groups:
            known = matched.get(group)
            if known is None:
                known = counter.selects(group.namespace, self._labels_of(group), group.labels)
            if not known:
                continue
            group.counters.append(counter)
            for uid, row in group.rows.items():
                pod_info = (self.by_uid.get(uid) or self.reserve_pods[uid]).pod_info
                if not (counter.real and pod_info.is_reserve_pod):
                    rows.append(row)
                    if not pod_info.terminating:
                        live.append(row)
        counter.add_pods(rows, live)

    def pod_sum(
        self, counter: SelectorCount, key: Hashable, make: Callable[[int], PodSum]
    ) -> tuple[PodSum, bool]:
        """Return sums over a counter's pods, and whether old ones were dropped.

        ``make`` makes them for a number of rows.
        """
        pod_sum, dropped = counter.sums.pop(key, None), False
        if pod_sum is None:
            if len(counter.sums) >= _MAX_SUMS:
                del counter.sums[next(iter(counter.sums))]
                dropped = True
            pod_sum = make(self._capacity)
            for group in self.label_groups:
                if counter in group.counters:
                    self._sum_up(pod_sum, counter, group)
        counter.sums[key] = pod_sum
        return pod_sum, dropped

    def _sum_up(self, total: PodSum, counter: SelectorCount, group: LabelGroup) -> None:
        for uid, row in group.rows.items():
            pod_info = (self.by_uid.get(uid) or self.reserve_pods[uid]).pod_info
            if not (counter.real and pod_info.is_reserve_pod):
                total.move(pod_info, row, 1)

    def _labels_of(self, group: LabelGroup) -> Mapping[str, str]:
        return self.namespaces.get(group.namespace, {})

    def _move_all(self, counter: SelectorCount, group: LabelGroup, by: int) -> None:
        for uid, row in group.rows.items():
            pod_info = (self.by_uid.get(uid) or self.reserve_pods[uid]).pod_info
            if not (counter.real and pod_info.is_reserve_pod):
                counter.move(row, by, live=not pod_info.terminating)
                if counter.sums:
                    counter.move_sums(pod_info, row, by)

    def relabel_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Set a namespace's labels; counters that read them are updated."""
        if labels is None:
            self.namespaces.pop(name, None)
        else:
            self.namespaces[name] = labels
        self._relabelled += 1
        self.existing_terms.namespaces_changed()
        reading = [c for c in self._counters if c.by_namespace_labels]
        for group in self.label_groups:
            if group.namespace != name:
                continue
            for counter in reading:
                was = counter in group.counters
                if was is counter.selects(name, self._labels_of(group), group.labels):
                    continue
                self._move_all(counter, group, -1 if was else 1)
                if was:
                    group.counters.remove(counter)
                else:
                    group.counters.append(counter)

    def grow(self, capacity: int) -> None:
        """Make space for more rows; counters are made again on demand."""
        self._capacity = capacity
        self._counters.clear()
        self.existing_terms.grow(capacity)
        for group in self.label_groups:
            group.counters = []

    def fork(self, existing_terms: ExistingTerms) -> PodPlacements:
        """Return an independent copy over forked terms; counters are made again on demand."""
        copy = PodPlacements(self._capacity, existing_terms)
        copy.namespaces = dict(self.namespaces)
        copy.label_groups.add_selector_keys(self.label_groups.selector_keys)
        copy.ports = self.ports.fork()
        copy.mounts = self.mounts.fork()
        copy.priorities = dict(self.priorities)
        for sources, targets in (
            (self.by_uid, copy.by_uid),
            (self.reserve_pods, copy.reserve_pods),
        ):
            for uid, old in sources.items():
                group = copy.label_group_of(old.pod_info)
                group.rows[uid] = old.row
                targets[uid] = PlacedPod(old.pod_info, old.row, group, old.assumed, old.ours)
        copy._of_row = {row: dict(pods) for row, pods in self._of_row.items()}
        return copy


class PodsOfUnknownNodes:
    """Pods bound to unknown nodes, and whether they are only assumed to be there."""

    __slots__ = ("_node_of", "_of_node")

    def __init__(self) -> None:
        self._of_node: dict[str, dict[str, tuple[PodInfo, bool]]] = {}
        self._node_of: dict[str, str] = {}

    def put(self, pod_info: PodInfo, node: str, *, assumed: bool) -> None:
        """Store a pod until its node is added."""
        self._of_node.setdefault(node, {})[pod_info.uid] = (pod_info, assumed)
        self._node_of[pod_info.uid] = node

    def drop(self, uid: str) -> None:
        """Remove a pod; an unknown one is ignored."""
        node = self._node_of.pop(uid, None)
        if node is not None:
            del self._of_node[node][uid]
            if not self._of_node[node]:
                del self._of_node[node]

    def take(self, node: str) -> list[tuple[PodInfo, bool]]:
        """Remove and return the pods of a node that was added."""
        there = self._of_node.pop(node, {})
        for uid in there:
            del self._node_of[uid]
        return list(there.values())

    def is_assumed(self, uid: str) -> bool:
        """Return whether the pod is stored here and only assumed."""
        node = self._node_of.get(uid)
        return node is not None and self._of_node[node][uid][1]

    def fork(self) -> PodsOfUnknownNodes:
        """Return an independent copy."""
        copy = PodsOfUnknownNodes()
        copy._of_node = {node: dict(pods) for node, pods in self._of_node.items()}
        copy._node_of = dict(self._node_of)
        return copy

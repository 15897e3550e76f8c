"""The node table: one row per node, with the pods on it, and journals of what changed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple

from holdfast.api.labels import Selector
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.state.columns.affinity_terms import PodSelector
from holdfast.state.columns.counter_steps import CounterSteps
from holdfast.state.columns.counters import (
    ClaimingPodSum,
    Measure,
    OfClaims,
    PodSelectors,
    PodSum,
    SelectorCount,
)
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.existing_terms import ExistingTerm, ExistingTerms
from holdfast.state.columns.interner import CPU, MEMORY, ResourceNames
from holdfast.state.columns.journal import Journal
from holdfast.state.columns.label_groups import LabelGroup
from holdfast.state.columns.mounts import MountIndex
from holdfast.state.columns.node_rows import NodeRows
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.columns.pod_placements import PodPlacements, PodsOfUnknownNodes
from holdfast.state.columns.ports import PortIndex
from holdfast.state.columns.ranked_pods import RankedPods


class Hold(NamedTuple):
    """Resources of a row that are held by something other than a pod.

    ``amounts`` are (resource id, amount); ``pod_slots`` is how many of the allowed pods it takes.
    """

    row: int
    amounts: tuple[tuple[int, int], ...]
    pod_slots: int


class NodeTable(NodeRows):
    """Nodes as rows, and the pods on them.

    The arrays are in ``NodeRows`` (labels, taints, flags), in ``amounts`` (allocatable, requested)
    and in ``_placements`` (the pods and what selectors count).

    Callers report every change; the table reads nothing itself. ``journal`` logs a row at any
    change. ``node_journal`` logs it only if the node changed (labels, taints, flags, added,
    deleted), so that results which do not depend on pods stay valid after placements: with one
    journal, updating them for the changed row was most of a cycle (decision 0004).
    ``device_journal`` logs the same and what the ledger of devices changes on a node.
    ``mount_journal`` logs rows where a pod with volumes was added or removed; if it has claims, the
    ``mounts`` epoch is increased too. ``order_journal`` logs changed start times and nominations,
    for preemption and for filters with nominated pods. Pods bound to an unknown node are stored
    until that node is added.
    """

    def __init__(self, resources: ResourceNames | None = None) -> None:
        super().__init__(resources)
        self.mount_journal = Journal(self.capacity)
        self.order_journal = Journal(self.capacity)
        self._ranked_pods: RankedPods | None = None
        self._placements = PodPlacements(
            self.capacity, ExistingTerms(self.labels, self.node_journal, self.capacity)
        )
        self._counter_steps = CounterSteps(self._placements, self.epochs)
        self._unknown_node_pods = PodsOfUnknownNodes()
        self._holds: dict[str, Hold] = {}
        self._unlogged = 0

    # --- reading ----------------------------------------------------------------------------

    @property
    def ports(self) -> PortIndex:
        """Host ports in use."""
        return self._placements.ports

    @property
    def mounts(self) -> MountIndex:
        """The pods that mount volumes, by row, claim and disk."""
        return self._placements.mounts

    def pods_on(self, row: int) -> Mapping[str, PodInfo]:
        """Return the pods on the row, by uid."""
        return self._placements.on(row)

    def has_pods_below(self, priority: int) -> bool:
        """Return whether any pod has a lower priority.

        Without this check, a rejected pod looked for victims on 5,000 full nodes for 44 ms.
        """
        priorities = self._placements.priorities
        return bool(priorities) and min(priorities) < priority

    def ranked_pods(self) -> RankedPods:
        """Return the pods of each row in order of importance, refreshed."""
        ranked = self._ranked_pods or self._rank_from_scratch()
        ranked.refresh()
        return ranked

    def ranked_pods_in_steps(self) -> Generator[None, None, RankedPods]:
        """Return them after pauses, in which the table may change."""
        ranked = self._ranked_pods or self._rank_from_scratch()
        yield from ranked.refresh_in_steps()
        return ranked

    def _rank_from_scratch(self) -> RankedPods:
        self._ranked_pods = RankedPods(self)
        return self._ranked_pods

    def pod(self, uid: str) -> tuple[PodInfo, int] | None:
        """Return a pod and its row, or None if it is on no row."""
        placed = self._placements.by_uid.get(uid)
        return None if placed is None else (placed.pod_info, placed.row)

    def pods(self) -> list[tuple[PodInfo, int]]:
        """Return every pod that is on a row, with the row."""
        return [(s.pod_info, s.row) for s in self._placements.by_uid.values()]

    def is_assumed(self, uid: str) -> bool:
        """Return whether the pod is assumed and not yet confirmed."""
        placed = self._placements.by_uid.get(uid)
        return self._unknown_node_pods.is_assumed(uid) if placed is None else placed.assumed

    def is_ours(self, uid: str) -> bool:
        """Return whether the pod was assumed on its row before it was confirmed."""
        placed = self._placements.by_uid.get(uid)
        return placed is not None and placed.ours and not placed.assumed

    def pod_info(self, pod: Pod, *, is_reserve_pod: bool = False) -> PodInfo:
        """Return a pod's information in this table's resource ids; new resources get columns.

        For a pod that is on a row, it is taken over from its known version if possible.
        """
        placed = None if is_reserve_pod else self._placements.by_uid.get(pod.uid)
        if placed is not None and (known := placed.pod_info.for_version(pod)) is not None:
            return known
        pod_info = PodInfo.of(pod, self.resources, is_reserve_pod=is_reserve_pod)
        # Filters read the columns of the request, also those of names that no node has.
        if pod_info.request:
            self._widen_to(pod_info.request[-1][0])
        return pod_info

    @property
    def pods_version(self) -> tuple[int, int]:
        """Changes with every change of a pod on a row, even one that no plugin can see.

        Assuming, confirming and annotations are not in the journal; this counts them. Candidates
        for pre-allocation depend on them, and were outdated when only the journal was compared.
        """
        return self.journal.seq, self._unlogged

    def label_group_of(self, pod_info: PodInfo) -> LabelGroup:
        """Return the pod's group: its namespace and labels under selector keys."""
        return self._placements.label_group_of(pod_info)

    def label_groups(self) -> list[LabelGroup]:
        """Return the label groups that have pods on rows, including reserve pods."""
        return [group for group in self._placements.label_groups if group.rows]

    def pods_in_group(self, group: LabelGroup) -> list[tuple[PodInfo, int]]:
        """Return the pods of a label group with their rows, without reserve pods."""
        placed = self._placements.by_uid
        return [(placed[uid].pod_info, row) for uid, row in group.rows.items() if uid in placed]

    def label_group_ids(self, pods: Iterable[PodInfo]) -> list[int]:
        """Return the label group ids of pods that are on rows."""
        placed = self._placements.by_uid
        return [placed[pod.uid].group.id for pod in pods]

    def add_selector_keys(self, keys: frozenset[str]) -> None:
        """Include these label keys in label groups, because a selector uses them."""
        if self._placements.add_selector_keys(keys):
            self.epochs.bump(Epoch.LABELS)

    def add_selector_keys_in_steps(self, keys: frozenset[str]) -> Iterator[None]:
        """Do the same, with pauses in which the table may change."""
        return self._counter_steps.add_selector_keys(keys)

    def counter(self, namespace: str, selector: Selector, *, real: bool = False) -> SelectorCount:
        """Return the counter of pods that a selector matches.

        Depends on the epochs layout and counters.
        """
        pod_selector = PodSelector(frozenset((namespace,)), selector)
        return self.count((pod_selector,), namespace, real=real)

    def count(
        self, pod_selectors: PodSelectors, owner: str, *, real: bool = False
    ) -> SelectorCount:
        """Return the counter of pods that match all selectors; ``real`` leaves reserve pods out.

        Namespaces share the space for counters; ``owner`` is the one that this is for. Depends on
        the epochs layout and counters.
        """
        self.add_selector_keys(
            frozenset(key for pod_selector in pod_selectors for key in pod_selector.selector.keys)
        )
        counter, dropped = self._placements.counter(pod_selectors, owner, real=real)
        if dropped:
            self._counter_steps.counters_dropped()
        return counter

    def has_counted(self, key: Hashable) -> bool:
        """Return whether ``count_in_steps`` has nothing to do, until the epoch COUNTERS changes."""
        return self._counter_steps.has_counted(key)

    def count_in_steps(
        self, key: Hashable, owner: str, wanted: Callable[[], Iterable[PodSelectors]]
    ) -> Iterator[None]:
        """Make the counters of these selectors, with pauses in which the table may change.

        ``key`` identifies these selectors: until a counter is dropped, a second call does nothing.
        """
        return self._counter_steps.count(key, owner, wanted)

    def pod_sum(
        self,
        counter: SelectorCount,
        key: Hashable,
        measure: Measure,
        width: int,
        of_claims: OfClaims | None = None,
    ) -> PodSum:
        """Return the sums of a measure, ``width`` amounts, over the pods of a counter.

        Measures with equal keys must be equal. Depends on the epochs layout and counters.
        """

        def make(capacity: int) -> PodSum:
            if of_claims is None:
                return PodSum(measure, width, capacity)
            return ClaimingPodSum(measure, width, capacity, of_claims, self.journal)

        pod_sum, dropped = self._placements.pod_sum(counter, key, make)
        if dropped:
            self.epochs.bump(Epoch.COUNTERS)
        return pod_sum

    @property
    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """The labels of all known namespaces."""
        return self._placements.namespaces

    def existing_terms_for(self, pod_info: PodInfo) -> tuple[ExistingTerm, ...]:
        """Return the existing pods' terms that match this pod.

        Depends on the epochs existing_terms and namespaces.
        """
        group = self.label_group_of(pod_info)
        namespace_labels = self.namespaces.get(group.namespace, {})
        return self._placements.existing_terms.matching(
            group.id, group.namespace, namespace_labels, group.labels
        )

    def match_existing_terms_in_steps(self, pod_info: PodInfo) -> Iterator[None]:
        """Find what ``existing_terms_for`` will return, with pauses in which pods may change."""
        while not self._match_few_terms(pod_info):
            yield

    def has_few_new_terms(self, pod_info: PodInfo) -> bool:
        """Return whether ``existing_terms_for`` needs no steps before; compares those few."""
        return not self._placements.existing_terms or self._match_few_terms(pod_info)

    def _match_few_terms(self, pod_info: PodInfo) -> bool:
        group = self.label_group_of(pod_info)
        namespace_labels = self.namespaces.get(group.namespace, {})
        return self._placements.existing_terms.match_few(
            group.id, group.namespace, namespace_labels, group.labels
        )

    def set_namespace_labels(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Set a namespace's labels; None deletes the namespace."""
        if self.namespaces.get(name) != labels:
            self._placements.relabel_namespace(name, labels)
            self.epochs.bump(Epoch.NAMESPACES)

    # --- nodes ------------------------------------------------------------------------------

    def upsert_node(self, node: Node) -> int:
        """Add or update a node; pods already bound to it are placed. Return its row."""
        row = super().upsert_node(node)
        for pod_info, assumed in self._unknown_node_pods.take(node.name):
            self._place(pod_info, row, assumed=assumed)
        return row

    def delete_node(self, name: str) -> None:
        """Delete a node; its pods are stored in case it is added again."""
        row = self.row_of.get(name)
        if row is None:
            return
        for uid in list(self._placements.on(row)):
            placed = self._placements.by_uid[uid]
            self._remove(uid)
            self._unknown_node_pods.put(placed.pod_info, name, assumed=placed.assumed)
        for key in [k for k, hold in self._holds.items() if hold.row == row]:
            self.release(key)
        for uid in [u for u, placed in self._placements.reserve_pods.items() if placed.row == row]:
            self.remove_reserve_pod(uid)
        super().delete_node(name)

    # --- pods -------------------------------------------------------------------------------

    def add_pod(self, pod_info: PodInfo, node_name: str) -> None:
        """Add or update a bound pod; an assumed pod becomes confirmed."""
        uid = pod_info.uid
        self._unknown_node_pods.drop(uid)
        row = self.row_of.get(node_name)
        placed = self._placements.by_uid.get(uid)
        if placed is not None:
            if placed.row == row and self._placements.is_unchanged(placed, pod_info):
                if placed.pod_info.pod.status.start_time != pod_info.pod.status.start_time:
                    self.order_journal.log(row)
                if self._is_relabelled(placed.pod_info, pod_info, row):
                    self.epochs.bump(Epoch.POD_LABELS)
                if self._placements.confirm(placed, pod_info):
                    self.journal.log(placed.row)
                self._unlogged += 1
                return
            self._remove(uid)
        ours = placed is not None and placed.ours and placed.row == row
        if row is None:
            self._unknown_node_pods.put(pod_info, node_name, assumed=False)
        else:
            self._place(pod_info, row, assumed=False)
            self._placements.by_uid[uid].ours = ours

    def _is_relabelled(self, was: PodInfo, pod_info: PodInfo, row: int) -> bool:
        """Return whether labels changed, other than by the node's labels copied to the pod.

        Kubernetes copies these to every bound pod: otherwise each placement would move an epoch.
        """
        if was.labels == pod_info.labels:
            return False
        node = self.nodes[row]
        assert node is not None
        changed = pod_info.labels.items() ^ was.labels.items()
        return not changed <= node.metadata.labels.items()

    def remove_pod(self, uid: str) -> None:
        """Remove a pod; an unknown one is ignored."""
        self._unknown_node_pods.drop(uid)
        if uid in self._placements.by_uid:
            self._remove(uid)

    def assume(self, pod_info: PodInfo, row: int) -> None:
        """Place a pod on a row before the API server knows about it."""
        assert pod_info.uid not in self._placements.by_uid, (
            f"pod {pod_info.key} is on a row already"
        )
        self._place(pod_info, row, assumed=True)

    def forget(self, uid: str) -> None:
        """Remove a pod that is only assumed; a confirmed pod stays."""
        if self.is_assumed(uid):
            self.remove_pod(uid)

    def _place(self, pod_info: PodInfo, row: int, *, assumed: bool) -> None:
        request = pod_info.request
        if request and request[-1][0] >= self.amounts.width:
            self._widen_to(request[-1][0])
        cpu, memory = pod_info.nonzero_millicores, pod_info.nonzero_bytes
        self.amounts.add_request(row, request, pod_info.pod_slots, cpu, memory)
        terms_version = self._placements.existing_terms.version
        if pod_info.affinity_terms:
            self.add_selector_keys(pod_info.affinity_terms.label_keys)
        self._placements.add(pod_info, row, assumed=assumed)
        self._moved(pod_info, row, terms_version)

    def _remove(self, uid: str) -> None:
        terms_version = self._placements.existing_terms.version
        placed = self._placements.remove(uid)
        pod_info, row = placed.pod_info, placed.row
        cpu, memory = pod_info.nonzero_millicores, pod_info.nonzero_bytes
        self.amounts.remove_request(row, pod_info.request, pod_info.pod_slots, cpu, memory)
        self._moved(pod_info, row, terms_version)

    def _moved(self, pod_info: PodInfo, row: int, terms_version: int) -> None:
        """Log that a pod was added or removed; ``terms_version`` was the version before."""
        if self._placements.existing_terms.version != terms_version:
            self.epochs.bump(Epoch.EXISTING_TERMS)
        self.journal.log(row)
        if pod_info.mounts:
            self.mount_journal.log(row)
            if pod_info.mounts.claims:
                self.epochs.bump(Epoch.MOUNTS)

    # --- resources held by reservations -----------------------------------------------------

    def add_reserve_pod(self, pod_info: PodInfo, row: int) -> None:
        """Add a reserve pod without its resources: those are held separately."""
        self.remove_reserve_pod(pod_info.uid)
        terms_version = self._placements.existing_terms.version
        if pod_info.affinity_terms:
            self.add_selector_keys(pod_info.affinity_terms.label_keys)
        self._placements.add_reserve_pod(pod_info, row)
        self._moved(pod_info, row, terms_version)

    def remove_reserve_pod(self, uid: str) -> None:
        """Remove a reserve pod; an unknown one is ignored."""
        terms_version = self._placements.existing_terms.version
        placed = self._placements.remove_reserve_pod(uid)
        if placed is not None:
            self._moved(placed.pod_info, placed.row, terms_version)

    def hold(self, key: str, row: int, amounts: Mapping[int, int], pod_slots: int = 0) -> bool:
        """Hold resources of a row under a key, replacing what the key held before.

        Return whether anything changed.
        """
        new = Hold(row, tuple([pair for pair in amounts.items() if pair[1]]), pod_slots)
        old = self._holds.get(key)
        if old == new:
            return False
        more = amounts
        if old is not None:
            if old.row == row:
                # Add the difference in one step: most of the amount may be held already.
                more = dict(amounts)
                for resource, amount in old.amounts:
                    more[resource] = more.get(resource, 0) - amount
                pod_slots -= old.pod_slots
            else:
                self.release(key)
        self._widen_to(max(more, default=0))
        self._holds[key] = new
        self.amounts.add_request(
            row, more.items(), pod_slots, more.get(CPU, 0), more.get(MEMORY, 0)
        )
        self.journal.log(row)
        return True

    def release(self, key: str) -> None:
        """Release what is held under the key; an unknown key is ignored."""
        old = self._holds.pop(key, None)
        if old is not None:
            self._give_back(old)
            self.journal.log(old.row)

    def _give_back(self, hold: Hold) -> None:
        amounts = dict(hold.amounts)
        cpu, memory = amounts.get(CPU, 0), amounts.get(MEMORY, 0)
        self.amounts.remove_request(hold.row, hold.amounts, hold.pod_slots, cpu, memory)

    # --- growing and forking ----------------------------------------------------------------

    def _resize(self, width: int, capacity: int) -> None:
        grows = capacity != self.capacity
        super()._resize(width, capacity)
        if grows:
            self.mount_journal.grow(capacity)
            self.order_journal.grow(capacity)
            self._placements.grow(capacity)
            self._counter_steps.counters_dropped()
        self._ranked_pods = None

    def fork(self) -> NodeTable:
        """Return an independent copy."""
        copy = NodeTable(self.resources.fork())
        self._copy_nodes_to(copy)
        copy.mount_journal = self.mount_journal.fork()
        copy.order_journal = self.order_journal.fork()
        terms = self._placements.existing_terms.fork(copy.labels, copy.node_journal)
        copy._placements = self._placements.fork(terms)
        copy._counter_steps = CounterSteps(copy._placements, copy.epochs)
        copy._unknown_node_pods = self._unknown_node_pods.fork()
        copy._holds = dict(self._holds)
        return copy

"""The picture: one row a node, what it has, who stands on it, and what changed when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from holdfast.api.labels import Selector
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.columns.counters import SelectorCount
from holdfast.columns.held import HeldTerm, HeldTerms
from holdfast.columns.importance import Importance
from holdfast.columns.interner import CPU, MEMORY, ResourceNames
from holdfast.columns.journal import Journal
from holdfast.columns.kinds import Kind
from holdfast.columns.mounts import MountIndex
from holdfast.columns.node_rows import NodeRows
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.ports import PortIndex
from holdfast.columns.roster import Aside, Choices, Roster
from holdfast.columns.terms import PodChoice


class Hold(NamedTuple):
    """Room on a row that is held by something other than a pod."""

    row: int
    amounts: tuple[tuple[int, int], ...]
    slots: int


class NodeTable(NodeRows):
    """Nodes as rows, and who stands on them.

    Mutable and pure: the caller says what happened, nothing is looked up.

    Journals: ``journal`` logs a row for any change, ``node_journal`` only when the node
    itself changed (labels, taints, flags, its coming and going), so that answers which do not
    depend on pods survive placements, ``mount_journal`` when a pod with volumes came or went; the
    ``mounts`` epoch moves when one with claims did. ``order_journal`` tells what only preemption
    looks at: a pod's start, a nomination to the row. Pods bound to a node nobody has told us about
    are kept aside until it appears.
    """

    def __init__(self, resources: ResourceNames | None = None) -> None:
        super().__init__(resources)
        self.mount_journal = Journal(self.capacity)
        self.order_journal = Journal(self.capacity)
        self._importance: Importance | None = None
        self._roster = Roster(
            self.capacity, HeldTerms(self.labels, self.node_journal, self.capacity)
        )
        self._aside = Aside()
        self._holds: dict[str, Hold] = {}
        self._unlogged = 0

    # --- what others read -------------------------------------------------------------------

    @property
    def ports(self) -> PortIndex:
        """Host ports in use."""
        return self._roster.ports

    @property
    def mounts(self) -> MountIndex:
        """Who mounts what where."""
        return self._roster.mounts

    def pods_on(self, row: int) -> Mapping[str, PodInfo]:
        """Pods on the row, by uid."""
        return self._roster.on(row)

    def pods_below(self, priority: int) -> bool:
        """Tell whether any pod anywhere is less important, without looking at them."""
        return any(given < priority for given in self._roster.priorities)

    def importance(self) -> Importance:
        """The pods of each row in order of importance, up to date."""
        if self._importance is None:
            self._importance = Importance(self)
        self._importance.refresh()
        return self._importance

    def pod(self, uid: str) -> tuple[PodInfo, int] | None:
        """A pod that stands on a row, and which."""
        standing = self._roster.by_uid.get(uid)
        return None if standing is None else (standing.pod_info, standing.row)

    def pods(self) -> list[tuple[PodInfo, int]]:
        """Every pod that stands on a row."""
        return [(s.pod_info, s.row) for s in self._roster.by_uid.values()]

    def is_assumed(self, uid: str) -> bool:
        """Tell whether the pod was placed and not yet confirmed."""
        standing = self._roster.by_uid.get(uid)
        return self._aside.is_assumed(uid) if standing is None else standing.assumed

    def digest(self, pod: Pod, *, stands_in: bool = False) -> PodInfo:
        """Digest a pod in this picture's resource ids, each of which then has its column."""
        pod_info = PodInfo.of(pod, self.resources, stands_in=stands_in)
        if pod_info.request:
            self._widen_to(pod_info.request[-1][0])
        return pod_info

    @property
    def news(self) -> tuple[int, int]:
        """Stays the same while nothing at all is heard of pods on rows.

        For those few who look at what makes no difference to plugins, and so is not logged: who is
        assumed, what annotations say.
        """
        return self.journal.seq, self._unlogged

    def kind_of(self, pod_info: PodInfo) -> Kind:
        """The kind of a pod: its namespace and visible labels."""
        return self._roster.kind_of(pod_info)

    def kinds(self) -> list[Kind]:
        """The kinds of pods that stand on rows, reserve pods among them."""
        return [kind for kind in self._roster.kinds if kind.rows]

    def pods_of(self, kind: Kind) -> list[tuple[PodInfo, int]]:
        """The pods of a kind that stand on rows."""
        standing = self._roster.by_uid
        return [(standing[uid].pod_info, row) for uid, row in kind.rows.items() if uid in standing]

    def kinds_of(self, pods: Iterable[PodInfo]) -> list[int]:
        """The kinds, by number, of pods that stand on rows."""
        standings = self._roster.by_uid
        return [standings[pod.uid].kind.id for pod in pods]

    def show_labels(self, keys: frozenset[str]) -> None:
        """Make pod label keys visible, because some selector looks at them."""
        if self._roster.show(keys):
            self.epochs.bump("labels")

    def counter(self, namespace: str, selector: Selector, *, real: bool = False) -> SelectorCount:
        """Count the pods a selector finds, from now on; depends on epochs layout and counters."""
        return self.count((PodChoice(frozenset((namespace,)), selector),), real=real)

    def count(self, choices: Choices, *, real: bool = False) -> SelectorCount:
        """Count the pods that all of the choices mean, or the real ones alone.

        Depends on layout and counters.
        """
        self.show_labels(frozenset(key for choice in choices for key in choice.selector.keys))
        counter, dropped = self._roster.counter(choices, real=real)
        if dropped:
            self.epochs.bump("counters")
        return counter

    @property
    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """Labels of the namespaces we were told about."""
        return self._roster.namespaces

    def held_about(self, pod_info: PodInfo) -> tuple[HeldTerm, ...]:
        """Terms of standing pods that speak of this one; depends on held and namespaces."""
        kind = self.kind_of(pod_info)
        its = self.namespaces.get(kind.namespace, {})
        return self._roster.held.matching(kind.id, kind.namespace, its, kind.labels)

    def label_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Take in a namespace's labels; None lets it go."""
        if self.namespaces.get(name) != labels:
            self._roster.relabel_namespace(name, labels)
            self.epochs.bump("namespaces")

    # --- nodes ------------------------------------------------------------------------------

    def upsert_node(self, node: Node) -> int:
        """Take in a node, new or changed; pods that waited for it find their place."""
        row = super().upsert_node(node)
        for pod_info, assumed in self._aside.take(node.name):
            self._place(pod_info, row, assumed=assumed)
        return row

    def delete_node(self, name: str) -> None:
        """Forget a node; its pods are kept aside in case it comes back."""
        row = self.row_of.get(name)
        if row is None:
            return
        for uid in list(self._roster.on(row)):
            standing = self._roster.by_uid[uid]
            self._remove(uid)
            self._aside.put(standing.pod_info, name, assumed=standing.assumed)
        for key in [k for k, hold in self._holds.items() if hold.row == row]:
            self.release(key)
        for uid in [u for u, seat in self._roster.seated.items() if seat.row == row]:
            self.unseat(uid)
        super().delete_node(name)

    # --- pods -------------------------------------------------------------------------------

    def add_pod(self, pod_info: PodInfo, node_name: str) -> None:
        """Take in a bound pod, new or changed; an assumption of it is confirmed in silence."""
        uid = pod_info.uid
        self._aside.drop(uid)
        row = self.row_of.get(node_name)
        standing = self._roster.by_uid.get(uid)
        if standing is not None:
            if standing.row == row and self._roster.same(standing, pod_info):
                if standing.pod_info.pod.status.start_time != pod_info.pod.status.start_time:
                    self.order_journal.log(row)
                if self._is_relabelled(standing.pod_info, pod_info, row):
                    self.epochs.bump("pod_labels")
                self._roster.confirm(standing, pod_info)
                self._unlogged += 1
                return
            self._remove(uid)
        if row is None:
            self._aside.put(pod_info, node_name, assumed=False)
        else:
            self._place(pod_info, row, assumed=False)

    def _is_relabelled(self, was: PodInfo, pod_info: PodInfo, row: int) -> bool:
        """Tell whether labels changed, other than by the node's own being copied onto the pod."""
        if was.labels == pod_info.labels:
            return False
        node = self.nodes[row]
        assert node is not None
        changed = pod_info.labels.items() ^ was.labels.items()
        return not changed <= node.metadata.labels.items()

    def remove_pod(self, uid: str) -> None:
        """Take a pod off; one that is not there is fine."""
        self._aside.drop(uid)
        if uid in self._roster.by_uid:
            self._remove(uid)

    def assume(self, pod_info: PodInfo, row: int) -> None:
        """Put a pod on a row before the API server knows of it."""
        assert pod_info.uid not in self._roster.by_uid, (
            f"pod {pod_info.key} is in the picture already"
        )
        self._place(pod_info, row, assumed=True)

    def forget(self, uid: str) -> None:
        """Withdraw an assumption; a confirmed pod stays."""
        if self.is_assumed(uid):
            self.remove_pod(uid)

    def _place(self, pod_info: PodInfo, row: int, *, assumed: bool) -> None:
        request = pod_info.request
        if request and request[-1][0] >= self.amounts.width:
            self._widen_to(request[-1][0])
        cpu, memory = pod_info.nonzero_millicores, pod_info.nonzero_bytes
        self.amounts.take(row, request, pod_info.slots, cpu, memory)
        held = self._roster.held.version
        if pod_info.terms:
            self.show_labels(pod_info.terms.label_keys)
        self._roster.enter(pod_info, row, assumed=assumed)
        self._moved(pod_info, row, held)

    def _remove(self, uid: str) -> None:
        held = self._roster.held.version
        standing = self._roster.leave(uid)
        pod_info, row = standing.pod_info, standing.row
        cpu, memory = pod_info.nonzero_millicores, pod_info.nonzero_bytes
        self.amounts.give(row, pod_info.request, pod_info.slots, cpu, memory)
        self._moved(pod_info, row, held)

    def _moved(self, pod_info: PodInfo, row: int, held: int) -> None:
        """Tell whoever must know that a pod came or went; ``held`` was the version before."""
        if self._roster.held.version != held:
            self.epochs.bump("held")
        self.journal.log(row)
        if pod_info.mounts:
            self.mount_journal.log(row)
            if pod_info.mounts.claims:
                self.epochs.bump("mounts")

    # --- room held by something that is not a pod -------------------------------------------

    def seat(self, pod_info: PodInfo, row: int) -> None:
        """Let a reserve pod be seen on the row, without its amounts: those are held apart."""
        self.unseat(pod_info.uid)
        held = self._roster.held.version
        if pod_info.terms:
            self.show_labels(pod_info.terms.label_keys)
        self._roster.seat(pod_info, row)
        self._moved(pod_info, row, held)

    def unseat(self, uid: str) -> None:
        """Let a reserve pod be seen no more; one that is not seated is fine."""
        held = self._roster.held.version
        standing = self._roster.unseat(uid)
        if standing is not None:
            self._moved(standing.pod_info, standing.row, held)

    def hold(self, key: str, row: int, amounts: Mapping[int, int], slots: int = 0) -> bool:
        """Hold room on a row under a key, instead of what that key held before; tell if news."""
        new = Hold(row, tuple([pair for pair in amounts.items() if pair[1]]), slots)
        old = self._holds.get(key)
        if old == new:
            return False
        more = amounts
        if old is not None:
            if old.row == row:
                # One step: what it held before may be most of what it holds now.
                more = dict(amounts)
                for resource, amount in old.amounts:
                    more[resource] = more.get(resource, 0) - amount
                slots -= old.slots
            else:
                self.release(key)
        self._widen_to(max(more, default=0))
        self._holds[key] = new
        self.amounts.take(row, more.items(), slots, more.get(CPU, 0), more.get(MEMORY, 0))
        self.journal.log(row)
        return True

    def release(self, key: str) -> None:
        """Give back what was held under the key; holding nothing is fine."""
        old = self._holds.pop(key, None)
        if old is not None:
            self._let_go(old)
            self.journal.log(old.row)

    def _let_go(self, hold: Hold) -> None:
        amounts = dict(hold.amounts)
        cpu, memory = amounts.get(CPU, 0), amounts.get(MEMORY, 0)
        self.amounts.give(hold.row, hold.amounts, hold.slots, cpu, memory)

    # --- growing and forking ----------------------------------------------------------------

    def _resize(self, width: int, capacity: int) -> None:
        grows = capacity != self.capacity
        super()._resize(width, capacity)
        if grows:
            self.mount_journal.grow(capacity)
            self.order_journal.grow(capacity)
            self._roster.grow(capacity)
        self._importance = None

    def fork(self) -> NodeTable:
        """An independent copy: what happens to one never shows in the other."""
        copy = NodeTable(self.resources.fork())
        self._copy_nodes_to(copy)
        copy.mount_journal = self.mount_journal.fork()
        copy.order_journal = self.order_journal.fork()
        held = self._roster.held.fork(copy.labels, copy.node_journal)
        copy._roster = self._roster.fork(held)
        copy._aside = self._aside.fork()
        copy._holds = dict(self._holds)
        return copy

"""The picture: one row a node, what it has, who stands on it, and what changed when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from holdfast.api.labels import Selector
from holdfast.api.node import Node, Taint
from holdfast.api.pod import Pod
from holdfast.api.quantity import milli, units
from holdfast.columns.amounts import MOST, Amounts
from holdfast.columns.counters import SelectorCount
from holdfast.columns.derived import Derived
from holdfast.columns.epochs import Epochs
from holdfast.columns.held import HeldTerm, HeldTerms
from holdfast.columns.images import ImageIndex
from holdfast.columns.importance import Importance
from holdfast.columns.interner import CPU, MEMORY, Interner, ResourceNames
from holdfast.columns.journal import Journal
from holdfast.columns.kinds import Kind
from holdfast.columns.mounts import MountIndex
from holdfast.columns.node_labels import Ids, LabelColumn, NodeLabels
from holdfast.columns.pod_facts import PodFacts
from holdfast.columns.ports import PortIndex
from holdfast.columns.roster import Choices, Roster
from holdfast.columns.terms import PodChoice

_FIRST_ROWS = 64
_FIRST_RESOURCES = 12
Rows = NDArray[np.intp]
TaintSet = tuple[Taint, ...]


class Hold(NamedTuple):
    """Room on a row that is held by something other than a pod."""

    row: int
    amounts: tuple[tuple[int, int], ...]
    slots: int


class Picture:
    """Nodes as rows. Mutable and pure: the caller says what happened, nothing is looked up.

    Journals: ``journal`` logs a row for any change, ``node_journal`` only when the node
    itself changed (labels, taints, flags, its coming and going), so that answers which do not
    depend on pods survive placements, ``mount_journal`` when a pod with volumes came or went; the
    ``mounts`` epoch moves when one with claims did. ``order_journal`` tells what only preemption
    looks at: a pod's start, a nomination to the row. Pods bound to a node nobody has told us about
    are kept aside until it appears.
    """

    def __init__(self, resources: ResourceNames | None = None) -> None:
        self.resources = resources or ResourceNames()
        self.epochs = Epochs()
        self.names: list[str] = []
        self.row_of: dict[str, int] = {}
        self.nodes: list[Node | None] = []
        self.size = 0
        """How many rows are in use, dead ones among them."""
        self.capacity = _FIRST_ROWS
        self.amounts = Amounts(_FIRST_RESOURCES, self.capacity)
        self.alive: NDArray[np.bool_] = np.zeros(self.capacity, np.bool_)
        self.unschedulable: NDArray[np.bool_] = np.zeros(self.capacity, np.bool_)
        self.taint_set: NDArray[np.int32] = np.zeros(self.capacity, np.int32)
        self.taint_sets: Interner[TaintSet] = Interner(((),))
        self.feature_set: NDArray[np.int32] = np.zeros(self.capacity, np.int32)
        self.feature_sets: Interner[frozenset[str]] = Interner((frozenset(),))
        self.labels = NodeLabels(self.capacity)
        self.journal = Journal(self.capacity)
        self.node_journal = Journal(self.capacity)
        self.mount_journal = Journal(self.capacity)
        self.order_journal = Journal(self.capacity)
        self._importance: Importance | None = None
        self.derived: dict[object, Derived] = {}
        self.images = ImageIndex()
        self._roster = Roster(
            self.capacity, HeldTerms(self.labels, self.node_journal, self.capacity)
        )
        self._free_rows: list[int] = []
        self._aside: dict[str, dict[str, tuple[PodFacts, bool]]] = {}
        self._node_of_aside: dict[str, str] = {}
        self._holds: dict[str, Hold] = {}

    # --- what others read -------------------------------------------------------------------

    @property
    def node_count(self) -> int:
        """How many nodes there are."""
        return len(self.row_of)

    @property
    def seq(self) -> int:
        """The journal's position."""
        return self.journal.seq

    @property
    def allocatable(self) -> NDArray[np.int64]:
        """What each node has: [resource, row]."""
        return self.amounts.allocatable

    @property
    def requested(self) -> NDArray[np.int64]:
        """Everything taken or held: [resource, row]; PODS counts pods."""
        return self.amounts.requested

    @property
    def nonzero_millicores(self) -> NDArray[np.float64]:
        """Cpu requested per row, where asking for nothing counts as 100m."""
        column: NDArray[np.float64] = self.amounts.nonzero[CPU]
        return column

    @property
    def nonzero_bytes(self) -> NDArray[np.float64]:
        """Memory requested per row, where asking for nothing counts as 200Mi."""
        column: NDArray[np.float64] = self.amounts.nonzero[MEMORY]
        return column

    @property
    def ports(self) -> PortIndex:
        """Host ports in use."""
        return self._roster.ports

    @property
    def mounts(self) -> MountIndex:
        """Who mounts what where."""
        return self._roster.mounts

    @property
    def rows(self) -> Rows:
        """Rows that are nodes, ascending."""
        rows: Rows = self.alive[: self.size].nonzero()[0]
        return rows

    def label(self, key: str) -> Ids:
        """The value id of each row under a label key, -1 where it has none."""
        return self.labels.column(key).ids

    def label_column(self, key: str) -> LabelColumn:
        """The column of a label key with its values."""
        return self.labels.column(key)

    def value(self, key: str, id_: int) -> str:
        """The label value an id stands for."""
        return self.labels.column(key).values[id_]

    def pods_on(self, row: int) -> Mapping[str, PodFacts]:
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

    def pod(self, uid: str) -> tuple[PodFacts, int] | None:
        """A pod that stands on a row, and which."""
        standing = self._roster.by_uid.get(uid)
        return None if standing is None else (standing.facts, standing.row)

    def pods(self) -> list[tuple[PodFacts, int]]:
        """Every pod that stands on a row."""
        return [(s.facts, s.row) for s in self._roster.by_uid.values()]

    def is_assumed(self, uid: str) -> bool:
        """Tell whether the pod was placed and not yet confirmed."""
        standing = self._roster.by_uid.get(uid)
        if standing is not None:
            return standing.assumed
        node = self._node_of_aside.get(uid)
        return node is not None and self._aside[node][uid][1]

    def digest(self, pod: Pod, reserve_for: str = "") -> PodFacts:
        """Digest a pod in this picture's resource ids, each of which then has its column."""
        facts = PodFacts.of(pod, self.resources, reserve_for)
        if facts.request:
            self._widen_to(facts.request[-1][0])
        return facts

    def kind_of(self, facts: PodFacts) -> Kind:
        """The kind of a pod: its namespace and visible labels."""
        return self._roster.kind_of(facts)

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

    def held_about(self, facts: PodFacts) -> tuple[HeldTerm, ...]:
        """Terms of standing pods that speak of this one; depends on held and namespaces."""
        kind = self.kind_of(facts)
        its = self.namespaces.get(kind.namespace, {})
        return self._roster.held.matching(kind.id, kind.namespace, its, kind.labels)

    def label_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Take in a namespace's labels; None lets it go."""
        if self.namespaces.get(name) != labels:
            self._roster.relabel_namespace(name, labels)
            self.epochs.bump("namespaces")

    # --- nodes ------------------------------------------------------------------------------

    def upsert_node(self, node: Node) -> int:
        """Take in a node, new or changed; rows move in the journals only if something did."""
        provided = {self.resources.id(n): _amount(n, a) for n, a in node.status.allocatable.items()}
        row = self.row_of.get(node.name)
        new = row is None
        if row is None:
            row = self._open(node.name)
        old = self.nodes[row]
        self.nodes[row] = node
        self._widen_to(max(provided, default=0))
        news = self.amounts.provide(row, provided)
        if old is None or _looks_different(old, node):
            self.labels.set(row, node.metadata.labels)
            self.unschedulable[row] = node.spec.unschedulable
            taints = tuple(msgspec.structs.replace(t, time_added=None) for t in node.spec.taints)
            self.taint_set[row] = self.taint_sets.id(taints)
            features = frozenset(node.status.declared_features)
            self.feature_set[row] = self.feature_sets.id(features)
            self.node_journal.log(row)
            news = True
        if news:
            self.journal.log(row)
        had = () if old is None else old.status.images
        if self.images.change(row, had, node.status.images):
            self.epochs.bump("images")
        if new:
            self.epochs.bump("nodes")
            self._settle(node.name, row)
        return row

    def delete_node(self, name: str) -> None:
        """Forget a node; its pods are kept aside in case it comes back."""
        row = self.row_of.pop(name, None)
        if row is None:
            return
        for uid in list(self._roster.on(row)):
            standing = self._roster.by_uid[uid]
            self._remove(uid)
            self._put_aside(standing.facts, name, assumed=standing.assumed)
        for key in [k for k, hold in self._holds.items() if hold.row == row]:
            self.release(key)
        for uid in [u for u, seat in self._roster.seated.items() if seat.row == row]:
            self.unseat(uid)
        self.amounts.close(row)
        self.labels.clear(row)
        gone = self.nodes[row]
        if gone is not None and self.images.change(row, gone.status.images, ()):
            self.epochs.bump("images")
        self.names[row] = ""
        self.nodes[row] = None
        self.alive[row] = False
        self.unschedulable[row] = False
        self.taint_set[row] = self.feature_set[row] = 0
        self._free_rows.append(row)
        self.node_journal.log(row)
        self.journal.log(row)
        self.epochs.bump("nodes")

    def _open(self, name: str) -> int:
        if self._free_rows:
            row = self._free_rows.pop()
            self.names[row] = name
        else:
            row = len(self.names)
            if row == self.capacity:
                self._resize(self.amounts.width, self.capacity * 2)
            self.names.append(name)
            self.nodes.append(None)
            self.size = len(self.names)
        self.row_of[name] = row
        self.alive[row] = True
        self.amounts.open(row)
        return row

    def _settle(self, name: str, row: int) -> None:
        for uid, (facts, assumed) in self._aside.pop(name, {}).items():
            del self._node_of_aside[uid]
            self._place(facts, row, assumed=assumed)

    # --- pods -------------------------------------------------------------------------------

    def add_pod(self, facts: PodFacts, node_name: str) -> None:
        """Take in a bound pod, new or changed; an assumption of it is confirmed in silence."""
        uid = facts.uid
        self._drop_aside(uid)
        row = self.row_of.get(node_name)
        standing = self._roster.by_uid.get(uid)
        if standing is not None:
            if standing.row == row and self._roster.same(standing, facts):
                if standing.facts.pod.status.start_time != facts.pod.status.start_time:
                    self.order_journal.log(row)
                self._roster.confirm(standing, facts)
                return
            self._remove(uid)
        if row is None:
            self._put_aside(facts, node_name, assumed=False)
        else:
            self._place(facts, row, assumed=False)

    def remove_pod(self, uid: str) -> None:
        """Take a pod off; one that is not there is fine."""
        self._drop_aside(uid)
        if uid in self._roster.by_uid:
            self._remove(uid)

    def assume(self, facts: PodFacts, row: int) -> None:
        """Put a pod on a row before the API server knows of it."""
        assert facts.uid not in self._roster.by_uid, f"pod {facts.key} is in the picture already"
        self._place(facts, row, assumed=True)

    def forget(self, uid: str) -> None:
        """Withdraw an assumption; a confirmed pod stays."""
        if self.is_assumed(uid):
            self.remove_pod(uid)

    def _place(self, facts: PodFacts, row: int, *, assumed: bool) -> None:
        request = facts.request
        if request and request[-1][0] >= self.amounts.width:
            self._widen_to(request[-1][0])
        cpu, memory = facts.nonzero_millicores, facts.nonzero_bytes
        self.amounts.take(row, request, facts.slots, cpu, memory)
        held = self._roster.held.version
        if facts.terms:
            self.show_labels(facts.terms.label_keys)
        self._roster.enter(facts, row, assumed=assumed)
        self._moved(facts, row, held)

    def _remove(self, uid: str) -> None:
        held = self._roster.held.version
        standing = self._roster.leave(uid)
        facts, row = standing.facts, standing.row
        cpu, memory = facts.nonzero_millicores, facts.nonzero_bytes
        self.amounts.give(row, facts.request, facts.slots, cpu, memory)
        self._moved(facts, row, held)

    def _moved(self, facts: PodFacts, row: int, held: int) -> None:
        """Tell whoever must know that a pod came or went; ``held`` was the version before."""
        if self._roster.held.version != held:
            self.epochs.bump("held")
        self.journal.log(row)
        if facts.mounts:
            self.mount_journal.log(row)
            if facts.mounts.claims:
                self.epochs.bump("mounts")

    def _put_aside(self, facts: PodFacts, node_name: str, *, assumed: bool) -> None:
        self._aside.setdefault(node_name, {})[facts.uid] = (facts, assumed)
        self._node_of_aside[facts.uid] = node_name

    def _drop_aside(self, uid: str) -> None:
        node = self._node_of_aside.pop(uid, None)
        if node is not None:
            del self._aside[node][uid]
            if not self._aside[node]:
                del self._aside[node]

    # --- room held by something that is not a pod -------------------------------------------

    def seat(self, facts: PodFacts, row: int) -> None:
        """Let a reserve pod be seen on the row, without its amounts: those are held apart."""
        self.unseat(facts.uid)
        held = self._roster.held.version
        if facts.terms:
            self.show_labels(facts.terms.label_keys)
        self._roster.seat(facts, row)
        self._moved(facts, row, held)

    def unseat(self, uid: str) -> None:
        """Let a reserve pod be seen no more; one that is not seated is fine."""
        held = self._roster.held.version
        standing = self._roster.unseat(uid)
        if standing is not None:
            self._moved(standing.facts, standing.row, held)

    def hold(self, key: str, row: int, amounts: Mapping[int, int], slots: int = 0) -> None:
        """Hold room on a row under a key, instead of what that key held before."""
        new = Hold(row, tuple(sorted((r, a) for r, a in amounts.items() if a)), slots)
        old = self._holds.get(key)
        if old == new:
            return
        if old is not None:
            self._let_go(self._holds.pop(key))
            if old.row != row:
                self.journal.log(old.row)
        self._widen_to(max(amounts, default=0))
        self._holds[key] = new
        self.amounts.take(row, new.amounts, slots, amounts.get(CPU, 0), amounts.get(MEMORY, 0))
        self.journal.log(row)

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

    def _widen_to(self, resource: int) -> None:
        if resource >= self.amounts.width:
            self._resize(max(resource + 1, self.amounts.width * 2), self.capacity)

    def _resize(self, width: int, capacity: int) -> None:
        """Replace every array by a larger one; whoever holds on to one must let go (layout)."""
        self.amounts = self.amounts.resized(width, capacity)
        if capacity != self.capacity:
            for name in ("alive", "unschedulable", "taint_set", "feature_set"):
                old = getattr(self, name)
                wider = np.zeros(capacity, old.dtype)
                wider[: len(old)] = old
                setattr(self, name, wider)
            self.labels.grow(capacity)
            self.journal.grow(capacity)
            self.node_journal.grow(capacity)
            self.mount_journal.grow(capacity)
            self.order_journal.grow(capacity)
            self._roster.grow(capacity)
            self.capacity = capacity
        self.derived = {}
        self._importance = None
        self.epochs.bump("layout")

    def fork(self) -> Picture:
        """An independent copy: what happens to one never shows in the other."""
        copy = Picture(self.resources.fork())
        copy.epochs = self.epochs.fork()
        copy.names, copy.row_of = list(self.names), dict(self.row_of)
        copy.nodes = list(self.nodes)
        copy.capacity, copy.size = self.capacity, self.size
        copy.amounts = self.amounts.resized(self.amounts.width, self.capacity)
        copy.alive, copy.unschedulable = self.alive.copy(), self.unschedulable.copy()
        copy.taint_set, copy.taint_sets = self.taint_set.copy(), self.taint_sets.fork()
        copy.feature_set, copy.feature_sets = self.feature_set.copy(), self.feature_sets.fork()
        copy.labels = self.labels.fork()
        copy.journal, copy.node_journal = self.journal.fork(), self.node_journal.fork()
        copy.mount_journal = self.mount_journal.fork()
        copy.order_journal = self.order_journal.fork()
        copy.images = self.images.fork()
        held = self._roster.held.fork(copy.labels, copy.node_journal)
        copy._roster = self._roster.fork(held)
        copy._free_rows = list(self._free_rows)
        copy._aside = {node: dict(pods) for node, pods in self._aside.items()}
        copy._node_of_aside = dict(self._node_of_aside)
        copy._holds = dict(self._holds)
        return copy


def _amount(name: str, text: str | float) -> int:
    return min(MOST, milli(text) if name == "cpu" else units(text))


def _looks_different(old: Node, new: Node) -> bool:
    return (
        old.metadata.labels != new.metadata.labels
        or old.spec.taints != new.spec.taints
        or old.spec.unschedulable != new.spec.unschedulable
        or old.status.declared_features != new.status.declared_features
    )

"""Nodes as rows: their resources, labels, taints, flags and images, and what changed."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from holdfast.api.node import Node, Taint
from holdfast.api.quantity import milli, units
from holdfast.api.validation.list_limits import NODE_TREE, first_excess
from holdfast.runtime.errors import BadRequest
from holdfast.state.columns.amounts import MAX_AMOUNT, NodeAmounts
from holdfast.state.columns.epochs import Epoch, Epochs
from holdfast.state.columns.images import ImageIndex
from holdfast.state.columns.interner import CPU, MEMORY, Interner, ResourceNames
from holdfast.state.columns.journal import DerivedColumn, Journal
from holdfast.state.columns.node_labels import Ids, LabelColumn, NodeLabels

_FIRST_ROWS = 64
_FIRST_RESOURCES = 12
Rows = NDArray[np.intp]
TaintSet = tuple[Taint, ...]
_NOTHING: Mapping[str, int] = {}


class NodeRows:
    """The columns of ``NodeTable`` that describe nodes, without pods.

    A set of taints, for example, is stored once, in ``taint_sets``; ``taint_set`` has its number
    for each row.
    """

    def __init__(self, resources: ResourceNames | None = None) -> None:
        self.resources = resources or ResourceNames()
        self.epochs = Epochs()
        self.names: list[str] = []
        self.row_of: dict[str, int] = {}
        self.nodes: list[Node | None] = []
        self.size = 0
        """The number of rows in use, including those of deleted nodes."""
        self.capacity = _FIRST_ROWS
        self.amounts = NodeAmounts(_FIRST_RESOURCES, self.capacity)
        self.alive: NDArray[np.bool_] = np.zeros(self.capacity, np.bool_)
        """Which rows are nodes; a row of a deleted node is not, until a new node gets it."""
        self.unschedulable: NDArray[np.bool_] = np.zeros(self.capacity, np.bool_)
        self.taint_set: NDArray[np.int32] = np.zeros(self.capacity, np.int32)
        self.taint_sets: Interner[TaintSet] = Interner(((),))
        self.feature_set: NDArray[np.int32] = np.zeros(self.capacity, np.int32)
        self.feature_sets: Interner[frozenset[str]] = Interner((frozenset(),))
        self.labels = NodeLabels(self.capacity)
        self.images = ImageIndex()
        self.journal = Journal(self.capacity)
        self.node_journal = Journal(self.capacity)
        self.device_journal = Journal(self.capacity)
        self.derived_columns: dict[object, DerivedColumn] = {}
        self.additional_amounts: dict[str, Mapping[str, int]] = {}
        """Amounts that nodes have but do not list, by node name; also of unknown nodes."""
        self._free_rows: list[int] = []

    @property
    def node_count(self) -> int:
        """The number of nodes."""
        return len(self.row_of)

    @property
    def seq(self) -> int:
        """The journal's position."""
        return self.journal.seq

    @property
    def allocatable(self) -> NDArray[np.int64]:
        """Allocatable amounts: [resource, row]."""
        return self.amounts.allocatable

    @property
    def requested(self) -> NDArray[np.int64]:
        """Amounts requested by pods or held: [resource, row]; PODS counts pods."""
        return self.amounts.requested

    @property
    def nonzero_millicores(self) -> NDArray[np.float64]:
        """Cpu requested per row; a container without a request counts 100m."""
        column: NDArray[np.float64] = self.amounts.nonzero[CPU]
        return column

    @property
    def nonzero_bytes(self) -> NDArray[np.float64]:
        """Memory requested per row; a container without a request counts 200Mi."""
        column: NDArray[np.float64] = self.amounts.nonzero[MEMORY]
        return column

    @property
    def rows(self) -> Rows:
        """Rows that are nodes, ascending."""
        rows: Rows = self.alive[: self.size].nonzero()[0]
        return rows

    def label(self, key: str) -> Ids:
        """Return the value id of each row for a label key, -1 without the label."""
        return self.labels.column(key).ids

    def label_column(self, key: str) -> LabelColumn:
        """Return the column of a label key with its values."""
        return self.labels.column(key)

    def value(self, key: str, id_: int) -> str:
        """Return the label value of an id."""
        return self.labels.column(key).values[id_]

    def upsert_node(self, node: Node) -> int:
        """Add or update a node and return its row; the journals log it only if it changed.

        Raises BadRequest for amounts that cannot be parsed and for lists that are too long.
        """
        if excess := first_excess(NODE_TREE, node):
            raise BadRequest(excess)
        allocatable = self._amounts_of(node)
        row = self.row_of.get(node.name)
        new = row is None
        if row is None:
            row = self._open(node.name)
        old = self.nodes[row]
        self.nodes[row] = node
        self._widen_to(max(allocatable, default=0))
        changed = self.amounts.set_allocatable(row, allocatable)
        if old is None or _is_changed(old, node):
            self.labels.set(row, node.metadata.labels)
            self.unschedulable[row] = node.spec.unschedulable
            taints = tuple(msgspec.structs.replace(t, time_added=None) for t in node.spec.taints)
            self.taint_set[row] = self.taint_sets.id(taints)
            features = frozenset(node.status.declared_features)
            self.feature_set[row] = self.feature_sets.id(features)
            self.node_journal.log(row)
            self.device_journal.log(row)
            changed = True
        if changed:
            self.journal.log(row)
        had = () if old is None else old.status.images
        if self.images.change(row, had, node.status.images):
            self.epochs.bump(Epoch.IMAGES)
        if new:
            self.epochs.bump(Epoch.NODES)
        return row

    def set_additional_amounts(self, name: str, amounts: Mapping[str, int]) -> None:
        """Set what a node has but does not list, by resource name; cpu in millicores.

        An amount that the node lists takes precedence, even 0. The amounts are kept while there is
        no such node.
        """
        if self.additional_amounts.get(name, _NOTHING) == amounts:
            return
        if amounts:
            self.additional_amounts[name] = dict(amounts)
        else:
            del self.additional_amounts[name]
        row = self.row_of.get(name)
        node = None if row is None else self.nodes[row]
        if row is None or node is None:
            return
        allocatable = self._amounts_of(node)
        self._widen_to(max(allocatable, default=0))
        if self.amounts.set_allocatable(row, allocatable):
            self.journal.log(row)

    def completed(self, node: Node) -> Node:
        """Return a node that lists its additional amounts too."""
        listed = node.status.allocatable
        amounts = self.additional_amounts.get(node.name, _NOTHING)
        more = {n: f"{a}m" if n == "cpu" else str(a) for n, a in amounts.items() if n not in listed}
        if not more:
            return node
        status = msgspec.structs.replace(node.status, allocatable={**listed, **more})
        return msgspec.structs.replace(node, status=status)

    def _amounts_of(self, node: Node) -> dict[int, int]:
        listed = node.status.allocatable
        amounts = {self.resources.id(n): _amount(n, a) for n, a in listed.items()}
        for name, amount in self.additional_amounts.get(node.name, _NOTHING).items():
            if name not in listed:
                amounts[self.resources.id(name)] = max(0, min(MAX_AMOUNT, amount))
        return amounts

    def delete_node(self, name: str) -> None:
        """Delete a node; its pods must be removed already."""
        row = self.row_of.pop(name)
        self.amounts.remove_row(row)
        self.labels.clear(row)
        deleted = self.nodes[row]
        if deleted is not None and self.images.change(row, deleted.status.images, ()):
            self.epochs.bump(Epoch.IMAGES)
        self.names[row] = ""
        self.nodes[row] = None
        self.alive[row] = False
        self.unschedulable[row] = False
        self.taint_set[row] = self.feature_set[row] = 0
        self._free_rows.append(row)
        self.node_journal.log(row)
        self.device_journal.log(row)
        self.journal.log(row)
        self.epochs.bump(Epoch.NODES)

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
        self.amounts.add_row(row)
        return row

    def _widen_to(self, resource: int) -> None:
        if resource >= self.amounts.width:
            self._resize(max(resource + 1, self.amounts.width * 2), self.capacity)

    def _resize(self, width: int, capacity: int) -> None:
        """Replace every array by a larger one and move the ``layout`` epoch."""
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
            self.device_journal.grow(capacity)
            self.capacity = capacity
        self.derived_columns = {}
        self.epochs.bump(Epoch.LAYOUT)

    def _copy_nodes_to(self, copy: NodeRows) -> None:
        """Copy all nodes to a new, empty table."""
        copy.epochs = self.epochs.fork()
        copy.names, copy.row_of = list(self.names), dict(self.row_of)
        copy.nodes = list(self.nodes)
        copy.capacity, copy.size = self.capacity, self.size
        copy.amounts = self.amounts.resized(self.amounts.width, self.capacity)
        copy.alive, copy.unschedulable = self.alive.copy(), self.unschedulable.copy()
        copy.taint_set, copy.taint_sets = self.taint_set.copy(), self.taint_sets.fork()
        copy.feature_set, copy.feature_sets = self.feature_set.copy(), self.feature_sets.fork()
        copy.labels, copy.images = self.labels.fork(), self.images.fork()
        copy.journal, copy.node_journal = self.journal.fork(), self.node_journal.fork()
        copy.device_journal = self.device_journal.fork()
        copy.additional_amounts = dict(self.additional_amounts)
        copy._free_rows = list(self._free_rows)


def _amount(name: str, text: str | float) -> int:
    return min(MAX_AMOUNT, milli(text) if name == "cpu" else units(text))


def _is_changed(old: Node, new: Node) -> bool:
    return (
        old.metadata.labels != new.metadata.labels
        or old.spec.taints != new.spec.taints
        or old.spec.unschedulable != new.spec.unschedulable
        or old.status.declared_features != new.status.declared_features
    )

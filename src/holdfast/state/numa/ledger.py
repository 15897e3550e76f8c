"""The ledger of CPUs and NUMA nodes: what pods and reservations hold of them.

Everything is read from the API: NodeResourceTopology, labels of Nodes, ``resource-status`` of bound
pods and active reservations. A pod that is not bound yet is entered by ``reserve``.

The state of a node is interned to a number, and one trial serves all nodes with that number
(decision 0018). States are numbered when they are read, in steps before the cycle if many have
changed: the trials and numbers of 5,000 nodes, all different, took 556 ms inside the first cycle of
a class. Now the longest step is 11 ms.

A reservation that is being bound has two sources that contradict each other: ``reserve`` has
entered its CPUs, and its object is still Pending without them. ``_assumed`` marks that the first is
right.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.api.annotations import allocated_reservation, restricted_names
from holdfast.api.koordinator_names import RESOURCE_SPEC
from holdfast.api.meta import Object
from holdfast.api.node import Node
from holdfast.api.node_resource_topology import NodeResourceTopology
from holdfast.api.reservation import PENDING, Reservation
from holdfast.runtime.errors import BadRequest
from holdfast.state.columns.cells import Cells, cells
from holdfast.state.columns.claimants import assumed_claimant, claimant_of
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.interner import CPU, Interner
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.numa.node_holdings import ClaimedHolding, NodeHoldings
from holdfast.state.numa.node_policies import read_node
from holdfast.state.numa.node_state import (
    NO_OFFER,
    NO_SHAPE,
    NodeState,
    NumaOffer,
    PodHolding,
    ReservationHolding,
    node_shape,
)
from holdfast.state.numa.pod_request import NumaRequest
from holdfast.state.numa.pod_trials import NumaOptions, PodTrials, request_of
from holdfast.state.numa.resource_status import (
    NOTHING,
    NumaAllocation,
    read_allocation,
    within_request,
)
from holdfast.state.numa.topology import NO_TOPOLOGY, NodeTopology, read_topology
from holdfast.state.numa.topology_hints import HintProvider
from holdfast.state.numa.trial import Situation

log = logging.getLogger(__name__)
RESTRICTED_POLICY = "Restricted"
_MOST_SIGNATURES = 100_000
"""If more states than this are known, all are forgotten; those in use get new numbers."""
_NODES_A_STEP = 128
_DEFAULTS = NumaOptions()
_CPU_ONLY = frozenset((CPU,))


class NumaLedger:
    """CPUs and amounts of NUMA nodes that pods and reservations hold, by node.

    A *signature* is the number of a node's state, 0 for a node without topology, policies and
    holders. ``signatures`` has one per row. Every change of a state is logged in the journal.
    """

    takes: tuple[type[Object], ...] = (NodeResourceTopology, Node, Reservation)

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._on_node: dict[str, NodeHoldings] = {}
        self._node_of: dict[str, str] = {}
        """The nodes of pods and reservations, by uid."""
        self._assumed: set[str] = set()
        """Reservations that are being bound, by uid."""
        self.hint_providers: tuple[HintProvider, ...] = ()
        self.options: dict[str, NumaOptions] = {}
        """The arguments of the plugin, by the name of the profile."""
        self._states: Interner[NodeState] = Interner((NodeState(),))
        self.generation = 0
        """Signatures of different generations cannot be compared."""
        self._signatures: NDArray[np.int32] = np.zeros(nodes.capacity, np.int32)
        self._signature_at: Cells[int] = cells(self._signatures)
        self.on_dispute: Callable[[str], object] = lambda _uid: None
        """Called with the uid of a pod that lost CPUs to one that was scheduled earlier."""
        self._stale: set[str] = set()
        self._concerning: set[str] = set()

    # --- reading ------------------------------------------------------------------------------

    @property
    def concerns_all_pods(self) -> bool:
        """Whether some node binds every pod, has a NUMA policy or amplified CPUs."""
        return bool(self._concerning)

    def signatures(self) -> NDArray[np.int32]:
        """Return the signature of each row; valid until the next change."""
        self._refresh()
        return self._signatures

    def number_in_steps(self) -> Iterator[None]:
        """Compute the ``signatures``, with pauses in which the world may change."""
        self._renumber_if_necessary()
        while len(self._stale) > _NODES_A_STEP and len(self._signatures) == self._nodes.capacity:
            yield
            names = [*islice(self._stale, _NODES_A_STEP)]
            if len(self._signatures) == self._nodes.capacity:
                self._number(names)
                self._stale.difference_update(names)

    def signature(self, row: int) -> int:
        """Return the signature of a row."""
        self._refresh()
        return self._signature_at[row]

    @property
    def signature_count(self) -> int:
        """All signatures are less than this."""
        return len(self._states)

    def state(self, signature: int) -> NodeState:
        """Return the state of a signature."""
        return self._states[signature]

    def holdings(self, row: int) -> NodeHoldings | None:
        """Return what is held on a row, None if it has neither topology nor holders."""
        return self._on_node.get(self._nodes.names[row])

    def holding(self, uid: str) -> NumaAllocation:
        """Return what a pod or reservation has."""
        holdings = self._on_node.get(self._node_of.get(uid, ""))
        if holdings is None:
            return NOTHING
        if uid in holdings.pods:
            return holdings.pods[uid].allocation
        return holdings.reservations[uid].allocation if uid in holdings.reservations else NOTHING

    def changed_state(
        self,
        row: int,
        removed: Collection[str] = (),
        added: Iterable[PodHolding] = (),
        *,
        without_reservations: bool = False,
    ) -> NodeState:
        """Return the state of a row as if pods were removed and added.

        ``without_reservations``: for a pod that ignores reservations.
        """
        holdings = self.holdings(row) or NodeHoldings()
        return holdings.state(removed, tuple(added), without_reservations=without_reservations)

    def offer(
        self,
        row: int,
        reservation: str,
        removed: Collection[str] = (),
        added: Iterable[PodHolding] = (),
    ) -> NumaOffer:
        """Return what a pod may use of a reservation on a row; nothing of an unknown one."""
        holdings = self.holdings(row)
        return NO_OFFER if holdings is None else holdings.offer(reservation, removed, tuple(added))

    def rows_with_pods(self) -> NDArray[np.bool_]:
        """Return a mask of the rows where pods hold CPUs or amounts of NUMA nodes."""
        mask = np.zeros(self._nodes.capacity, np.bool_)
        rows = (self._nodes.row_of.get(name) for name, of in self._on_node.items() if of.pods)
        mask[[row for row in rows if row is not None]] = True
        return mask

    def request_of(self, pod: PodInfo) -> NumaRequest:
        """Return the CPUs that a pod requests, and how; raise BadRequest for a bad annotation."""
        options = self.options.get(pod.scheduler_name, _DEFAULTS)
        return request_of(pod, self._nodes.resources, options.default_bind_policy)

    def identified_resources(self, pod: PodInfo, row: int) -> frozenset[int]:
        """Return cpu if the pod is bound to specific CPUs on the row."""
        try:
            on = Situation(self.request_of(pod), self.state(self.signature(row)))
        except BadRequest:
            return frozenset()
        return _CPU_ONLY if on.bound else frozenset()

    def trials_of(self, pod: PodInfo, request: NumaRequest) -> PodTrials:
        """Return the trials of a pod; pods with the same request may share them."""
        options = self.options.get(pod.scheduler_name, _DEFAULTS)
        return PodTrials(self, request, pod, options.trial)

    # --- changes ------------------------------------------------------------------------------

    def upsert(self, obj: Any) -> None:
        """Store a topology, a Node's labels or what an active reservation holds."""
        match obj:
            case NodeResourceTopology():
                self._set_topology(obj)
            case Node():
                self._set_shape(obj.name, obj)
            case Reservation():
                self._set_reservation(obj)

    def delete(self, obj: Any) -> None:
        """Remove a topology, a Node or a reservation; what pods hold is kept until they go."""
        match obj:
            case NodeResourceTopology():
                self._change_topology(obj.name, NO_TOPOLOGY)
            case Node():
                self._set_shape(obj.name, None)
                self._clear_unused_rows()
            case Reservation():
                self._assumed.discard(obj.uid)
                self._drop(obj.uid)

    def pod_set(self, pod_info: PodInfo, node: str) -> None:
        """Read what a bound pod has from its annotations."""
        annotations = pod_info.pod.metadata.annotations
        allocation = read_allocation(annotations) if annotations else NOTHING
        if allocation:
            allocation = self._within_request(allocation, pod_info)
        if not allocation:
            if pod_info.uid in self._node_of:
                self._drop(pod_info.uid)
            return
        allocated = allocated_reservation(pod_info.pod)
        uid = "" if allocated is None else allocated.uid
        of = self._on_node.get(node)
        known = None if of is None else of.claims.get(pod_info.uid)
        claimant = claimant_of(pod_info, None if known is None else known.claimant)
        self._hold_pod(pod_info.uid, node, ClaimedHolding(PodHolding(allocation, uid), claimant))

    def pod_removed(self, uid: str) -> None:
        """Release what a pod had."""
        if uid in self._node_of:
            self._drop(uid)

    def reserve(
        self, pod: PodInfo, row: int, allocation: NumaAllocation, reservation: str = ""
    ) -> None:
        """Enter what a pod, or a reservation by its reserve pod, gets before it is bound."""
        node = self._nodes.names[row]
        if pod.is_reserve_pod:
            self._assumed.add(pod.uid)
            holding = ReservationHolding(allocation)
            self._hold_reservation(pod.uid, node, holding, yields=True)
        else:
            claim = ClaimedHolding(PodHolding(allocation, reservation), assumed_claimant(pod))
            self._hold_pod(pod.uid, node, claim)

    def unreserve(self, uid: str) -> None:
        """Undo ``reserve`` for a pod or reservation that was not bound."""
        self._assumed.discard(uid)
        self._drop(uid)

    def fork(self, nodes: NodeTable) -> NumaLedger:
        """Return an independent copy over a forked node table."""
        copy = NumaLedger(nodes)
        copy._on_node = {name: of.fork() for name, of in self._on_node.items()}
        copy._node_of, copy._assumed = dict(self._node_of), set(self._assumed)
        copy.options = self.options
        copy._concerning = set(self._concerning)
        copy._stale = set(copy._on_node)
        return copy

    # --- internals ----------------------------------------------------------------------------

    def _within_request(self, allocation: NumaAllocation, pod: PodInfo) -> NumaAllocation:
        """Return the part of an allocation that the pod requests: less if it was made smaller."""
        resources = self._nodes.resources
        return within_request(allocation, {resources[id_]: amount for id_, amount in pod.request})

    def _set_topology(self, obj: NodeResourceTopology) -> None:
        topology = read_topology(obj)
        for fault in topology.faults:
            log.warning("NodeResourceTopology %s: %s", obj.name, fault)
        self._change_topology(obj.name, topology)

    def _change_topology(self, name: str, topology: NodeTopology) -> None:
        of = self._of(name)
        if of.topology != topology:
            of.topology = topology
        row = self._nodes.row_of.get(name)
        self._set_shape(name, None if row is None else self._nodes.nodes[row])

    def _set_shape(self, name: str, node: Node | None) -> None:
        of = self._on_node.get(name)
        topology = NO_TOPOLOGY if of is None else of.topology
        meta = None if node is None else node.metadata
        labels, annotations = ({}, {}) if meta is None else (meta.labels, meta.annotations)
        policies = read_node(labels, annotations, topology)
        shape = node_shape(topology, policies)
        if node is not None and (shape.concerns_all_pods != (name in self._concerning)):
            self._set_concerning(name, concerns=shape.concerns_all_pods)
        elif node is None and name in self._concerning:
            self._set_concerning(name, concerns=False)
        self._note_row(name)
        if of is None and shape is NO_SHAPE:
            return
        of = self._of(name)
        if of.shape is not shape:
            of.shape = shape
            self._changed(name)
        self._forget_if_empty(name)

    def _note_row(self, name: str) -> None:
        """Note that a signature must be computed again if the node may have another row."""
        row = self._nodes.row_of.get(name)
        known = 0 if row is None or row >= len(self._signatures) else self._signature_at[row]
        if known or name in self._on_node:
            self._stale.add(name)

    def _clear_unused_rows(self) -> None:
        """Set the signature of rows without a node to 0.

        One row is tried for all rows in its state. When a deleted node kept its number, its row was
        the one that was tried, and decided about the nodes that are left.
        """
        # A table that has grown is numbered again in any case.
        if len(self._signatures) == self._nodes.capacity:
            self._signatures[~self._nodes.alive] = 0

    def _set_concerning(self, name: str, *, concerns: bool) -> None:
        before = bool(self._concerning)
        (self._concerning.add if concerns else self._concerning.discard)(name)
        if bool(self._concerning) != before:
            self._nodes.epochs.bump(Epoch.NUMA)

    def _set_reservation(self, obj: Reservation) -> None:
        if not obj.active:
            if obj.phase != PENDING:
                self._assumed.discard(obj.uid)
            if obj.uid not in self._assumed:
                self._drop(obj.uid)
            return
        self._assumed.discard(obj.uid)
        allocation = read_allocation(_annotations(obj))
        if allocation:
            names: frozenset[str] = frozenset()
            if obj.spec.allocate_policy == RESTRICTED_POLICY:
                reserved = frozenset(obj.status.allocatable)
                names = frozenset(restricted_names(obj)) & reserved or reserved
            holding = ReservationHolding(allocation, names)
            self._hold_reservation(obj.uid, obj.status.node_name, holding, yields=obj.is_pod)
        else:
            self._drop(obj.uid)

    def _hold_pod(self, uid: str, node: str, claim: ClaimedHolding) -> None:
        """Enter what a pod claims, if it claims anything."""
        if self._node_of.get(uid, node) != node or not claim.holding.allocation:
            self._drop(uid)
        if not claim.holding.allocation:
            return
        self._node_of[uid] = node
        of = self._of(node)
        known = of.claims.get(uid)
        if known == claim:
            return
        lost = of.set_pod(uid, claim)
        if known is None or known.holding != claim.holding or of.disputed:
            self._changed(node, lost)

    def _hold_reservation(
        self, uid: str, node: str, holding: ReservationHolding, *, yields: bool
    ) -> None:
        """Enter what a reservation has, if it has anything."""
        if self._node_of.get(uid, node) != node or not holding.allocation:
            self._drop(uid)
        if not holding.allocation:
            return
        self._node_of[uid] = node
        of = self._of(node)
        known, yielded = of.reservations.get(uid), uid in of.yielding
        if known == holding and yielded == yields:
            return
        lost = of.set_reservation(uid, holding, yields=yields)
        if known != holding or lost:
            self._changed(node, lost)

    def _drop(self, uid: str) -> None:
        node = self._node_of.pop(uid, None)
        if node is None:
            return
        self._on_node[node].remove(uid)
        self._changed(node)
        self._forget_if_empty(node)

    def _of(self, name: str) -> NodeHoldings:
        holdings = self._on_node.get(name)
        if holdings is None:
            holdings = self._on_node[name] = NodeHoldings()
        return holdings

    def _forget_if_empty(self, name: str) -> None:
        if self._on_node[name].empty:
            del self._on_node[name]

    def _changed(self, name: str, lost: Iterable[str] = ()) -> None:
        """Compute the signature of a node again; ``lost`` are pods that have less than before."""
        for uid in lost:
            self.on_dispute(uid)
        self._stale.add(name)
        row = self._nodes.row_of.get(name)
        if row is not None:
            self._nodes.journal.log(row)

    def _refresh(self) -> None:
        """Compute the signatures of the nodes that changed."""
        self._renumber_if_necessary()
        if self._stale:
            self._number(self._stale)
            self._stale.clear()

    def _renumber_if_necessary(self) -> None:
        """Number all states again if the table grew, or if most of them are outdated."""
        capacity = self._nodes.capacity
        if len(self._signatures) != capacity or len(self._states) > _MOST_SIGNATURES:
            self._states = Interner((NodeState(),))
            self.generation += 1
            self._signatures = np.zeros(capacity, np.int32)
            self._signature_at = cells(self._signatures)
            self._stale = set(self._on_node)

    def _number(self, names: Iterable[str]) -> None:
        for name in names:
            row = self._nodes.row_of.get(name)
            if row is not None:
                of = self._on_node.get(name)
                state = NodeState() if of is None else of.state()
                self._signature_at[row] = self._states.id(state)


def _annotations(reservation: Reservation) -> Mapping[str, str]:
    """Return the annotations of a reservation, with the resource-spec of its template.

    When only its own annotations were read, the CPUs of a reservation were no longer exclusive once
    its status was written.
    """
    own, template = reservation.metadata.annotations, reservation.spec.template
    asked = None if template is None else template.metadata.annotations.get(RESOURCE_SPEC)
    return own if asked is None else {RESOURCE_SPEC: asked, **own}

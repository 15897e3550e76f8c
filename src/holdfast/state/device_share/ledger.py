"""The ledger of shared devices: what nodes have, and what pods and reservations hold.

It is built from the API alone: Device objects, and the annotation ``device-allocated`` of bound
pods and of active reservations. ``reserve`` of the plugin enters a pod before it is bound. What
pods use is kept when a Device is deleted, and counts again for a new Device of the same node.

The state of a node is interned to a number, its signature, and plugins search once for each number
(decision 0018). A change only notes the row. The numbers are computed when they are read, or in
steps before the cycle if many rows have changed.

Users may write annotations, so nothing here relies on them. Types that a pod does not request do
not count: a pod that requested none could block the devices for all others. States are limited by
the number of their parts, not by their count: one running pod whose annotation names thousands of
minors and changes all the time would have filled gigabytes. ``node_holders`` decides which of two
claimants has a device (decision 0022).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.api.annotations import allocated_reservation
from holdfast.api.koordinator_names import DEVICE_ALLOCATED, GPU_MEMORY
from holdfast.api.meta import Object
from holdfast.api.node import Node
from holdfast.api.reservation import PENDING, Reservation
from holdfast.api.shared_device import SharedDevices
from holdfast.runtime.errors import BadRequest
from holdfast.state.columns.claimants import LATEST, Claimant, claimant_of
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.interner import Interner
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.device_share.allocation_annotation import read_allocations
from holdfast.state.device_share.allocations import UNUSED, DeviceUse, use_of
from holdfast.state.device_share.node_devices import (
    NO_DEVICES,
    NodeDeviceInventory,
    NodeDeviceState,
    device_ids,
    inventory_of,
)
from holdfast.state.device_share.node_holders import ClaimedUse, DeviceHolder, NodeHolders
from holdfast.state.device_share.recorded_use import consistent_use
from holdfast.state.device_share.requests import device_types, is_of_devices
from holdfast.state.device_share.scoring import ScoringStrategy

NO_DEVICE = 0
"""The signature of nodes without a Device object."""
_MOST_PARTS = 600_000
"""States are forgotten when they have this many parts together: pods can have long annotations."""
_ROWS_A_STEP = 128
_NO_HOLDERS = NodeHolders()


class DeviceOptions(NamedTuple):
    """The arguments of a profile that decide about NUMA nodes of devices."""

    strategy: ScoringStrategy = ScoringStrategy()
    aligns: bool = True


class DeviceShareLedger:
    """Devices of nodes and their holders.

    ``signatures`` has a number by row: nodes with equal numbers have equal states. Every change of
    a node is logged in the journal of the node table.
    """

    takes: tuple[type[Object], ...] = (SharedDevices, Reservation, Node)

    def __init__(self, node_table: NodeTable) -> None:
        self._node_table = node_table
        self._devices: dict[str, SharedDevices] = {}
        self._inventories: Interner[NodeDeviceInventory] = Interner((NO_DEVICES,))
        self._inventory_of: dict[str, int] = {}
        self._holders: dict[str, NodeHolders] = {}
        self._node_of: dict[str, str] = {}
        """The node of each pod and reservation that holds devices, by uid."""
        self._written: dict[str, tuple[DeviceUse, bool]] = {}
        """What annotations of pods say, by uid, and whether the pod requests bytes of GPUs.

        Kept in addition to what was entered: a Device that reports more memory again gives it back
        to the pod, as after a restart.
        """
        self._read: dict[str, tuple[SharedDevices, Mapping[str, str]]] = {}
        """What the inventory of a node was read from: its Device and the labels of the Node."""
        self._numbers: dict[tuple[int, DeviceUse], int] = {}
        self._states: list[NodeDeviceState] = []
        self._parts = 0
        self._signatures: NDArray[np.int32] = np.zeros(0, np.int32)
        self._offers: dict[str, dict[str, tuple[int, DeviceUse]]] = {}
        """Results of ``offer`` by node and reservation, until the node changes."""
        self._stale: set[int] = set()
        self._known = False
        """Whether there are devices or holders: the epoch ``shared_devices`` moves with it."""
        self.on_dispute: Callable[[str], object] = lambda _uid: None
        """Called with the uid of a pod that has less than it claims: others were earlier."""
        self.options: dict[str, DeviceOptions] = {}
        """The arguments of the plugin, by the name of the profile."""
        self.version = 0
        """Moves when the states in ``signatures`` are numbered again."""

    def __bool__(self) -> bool:
        return bool(self._devices or self._holders)

    # --- changes ------------------------------------------------------------------------------

    def upsert(self, obj: SharedDevices | Reservation | Node) -> None:
        """Store the devices of a node, what a reservation holds, or a node itself."""
        match obj:
            case SharedDevices():
                self._set_devices(obj.name, obj)
            case Reservation():
                self._upsert_reservation(obj)
            case Node():
                self._read_inventory(obj.name)
                if obj.name in self._holders:
                    self._stale.add(self._node_table.row_of[obj.name])

    def delete(self, obj: SharedDevices | Reservation | Node) -> None:
        """Remove an object; what pods use of deleted devices is still known."""
        match obj:
            case SharedDevices():
                self._set_devices(obj.name, None)
            case Reservation():
                self.remove(obj.uid)
            case Node():
                self._read_inventory(obj.name)
                self._signatures = np.zeros(0, np.int32)  # another node may get its row

    def pod_set(self, pod_info: PodInfo, node: str) -> None:
        """Read from its annotations what a bound pod uses."""
        resources = self._node_table.resources
        use = annotated_use(pod_info.pod, (resources[id_] for id_, _ in pod_info.request))
        if use == UNUSED:
            self.remove(pod_info.uid)
            return
        owned = allocated_reservation(pod_info.pod)
        known = self.holders_on(node).claims.get(pod_info.uid)
        claimant = claimant_of(pod_info, None if known is None else known.claimant)
        by_bytes = any(resources[id_] == GPU_MEMORY for id_, _ in pod_info.request)
        possible = self._consistent(use, node, by_bytes=by_bytes)
        self.enter(pod_info.uid, node, possible, owned.uid if owned else "", claimant)
        self._written[pod_info.uid] = use, by_bytes

    def pod_removed(self, uid: str) -> None:
        """Release the devices of a pod."""
        self.remove(uid)

    def enter(
        self,
        uid: str,
        node: str,
        use: DeviceUse,
        reservation: str = "",
        claimant: Claimant = LATEST,
    ) -> None:
        """Enter what a pod uses of a node's devices, and of which reservation it is an owner."""
        holder, known = DeviceHolder(use, reservation), self._holders.get(node)
        before = None if known is None else known.claims.get(uid)
        if known is not None and before is not None and before.holder == holder:
            if before.claimant == claimant:
                return
            if not known.disputed:
                known.claims[uid] = ClaimedUse(holder, claimant)
                return
        self.remove(uid)
        lost = self._on(node).add_pod(uid, holder, claimant)
        self._node_of[uid] = node
        self._changed(node, lost)

    def enter_reservation(
        self, uid: str, node: str, use: DeviceUse, *, yields: bool = False
    ) -> None:
        """Enter what a reservation holds of a node's devices; see ``NodeHolders.yielding``."""
        known = self._holders.get(node)
        if known is not None and (known.reservations.get(uid), uid in known.yielding) == (
            use, yields,
        ):  # fmt: skip
            return
        self.remove(uid)
        lost = self._on(node).set_reservation(uid, use, yields=yields)
        self._node_of[uid] = node
        self._changed(node, lost)

    def remove(self, uid: str) -> None:
        """Remove a pod or a reservation; an unknown one is ignored."""
        node = self._node_of.pop(uid, None)
        self._written.pop(uid, None)
        if node is None:
            return
        holders = self._holders[node]
        holders.remove(uid)
        if not holders:
            del self._holders[node]
        self._changed(node)

    def fork(self, nodes: NodeTable) -> DeviceShareLedger:
        """Return an independent copy over a forked node table."""
        copy = DeviceShareLedger(nodes)
        copy._devices, copy._inventory_of = dict(self._devices), dict(self._inventory_of)
        copy._inventories = self._inventories.fork()
        copy._holders = {node: holders.fork() for node, holders in self._holders.items()}
        copy._known, copy.options = self._known, self.options
        copy._node_of, copy._read = dict(self._node_of), dict(self._read)
        copy._written = dict(self._written)
        return copy

    # --- queries ------------------------------------------------------------------------------

    def signatures(self) -> NDArray[np.int32]:
        """Return the number of each row's state; NO_DEVICE where a node has no Device."""
        if self._stale or len(self._signatures) != self._node_table.capacity:
            self._refresh()
        return self._signatures

    def number_in_steps(self) -> Iterator[None]:
        """Compute the ``signatures``, with pauses in which the world may change."""
        if self._stale or len(self._signatures) != self._node_table.capacity:
            self._renumber_if_necessary()
        while (
            len(self._stale) > _ROWS_A_STEP and len(self._signatures) == self._node_table.capacity
        ):
            yield
            rows = [*islice(self._stale, _ROWS_A_STEP)]
            if len(self._signatures) == self._node_table.capacity:
                self._number_rows(rows)
                self._stale.difference_update(rows)

    @property
    def state_count(self) -> int:
        """The number of states that have a number."""
        return len(self._states)

    def cases(self, with_class: Sequence[int], rows: Any = slice(None)) -> NDArray[np.int64]:
        """Return a number for each row: equal rows have equal states and list the same resources.

        ``with_class`` are resources that a DeviceClass serves on nodes that do not list them.
        """
        cases: NDArray[np.int64] = self.signatures()[rows].astype(np.int64)
        for resource in with_class:
            cases = cases * 2 + (self._node_table.allocatable[resource, rows] == 0)
        return cases

    def signature(self, row: int) -> int:
        """Return the number of a row's state."""
        return int(self.signatures()[row])

    def state(self, signature: int) -> NodeDeviceState:
        """Return the state of a number."""
        return self._states[signature - 1]

    def signature_of(
        self,
        node: str,
        *,
        removed: Collection[str] = (),
        added: Sequence[DeviceHolder] = (),
        lent: Collection[str] = (),
    ) -> int:
        """Return the number of a node's state as if some pods were removed and others added.

        What remains of the reservations in ``lent`` counts as free.
        """
        holders = self._holders.get(node, _NO_HOLDERS)
        if node not in self._inventory_of and not holders.hold_without(removed):
            return NO_DEVICE
        used = holders.used(removed=removed, added=added, lent=lent)
        return self._number(self._inventory_of.get(node, 0), used)

    def unused_signature(self, signature: int) -> int:
        """Return the number of the state in which the same devices are unused."""
        if signature == NO_DEVICE:
            return NO_DEVICE
        return self._number(self._inventories.id(self.state(signature).inventory), UNUSED)

    def _number(self, inventory: int, used: DeviceUse) -> int:
        number = self._numbers.get((inventory, used))
        if number is None:
            self._states.append(NodeDeviceState(self._inventories[inventory], used))
            self._parts += 1 + len(used.amounts) + len(used.vfs)
            number = self._numbers[inventory, used] = len(self._states)
        return number

    def has_devices(self, node: str) -> bool:
        """Return whether a node has a Device, or pods that use devices of a deleted one.

        Otherwise its device plugin allocates devices, and not the scheduler.
        """
        return node in self._inventory_of or node in self._holders

    def ids(self, node: str) -> Mapping[tuple[str, int], str]:
        """Return the ids of a node's devices by type and minor."""
        device = self._devices.get(node)
        return {} if device is None else device_ids(device)

    def use_of(self, uid: str) -> DeviceUse:
        """Return what a pod or a reservation holds."""
        holders = self._holders.get(self._node_of.get(uid, ""))
        if holders is None:
            return UNUSED
        if uid in holders.reservations:
            return holders.reservations[uid]
        return holders.pods[uid].use

    def offer(self, uid: str, node: str) -> tuple[int, DeviceUse]:
        """Return the number of a node's state for owners of a reservation, and what remains of it.

        What remains counts as free there.
        """
        known = self._offers.setdefault(node, {})
        offer = known.get(uid)
        if offer is None:
            offer = known[uid] = self.changed_offer(uid, node)
        return offer

    def changed_offer(
        self,
        uid: str,
        node: str,
        removed: Collection[str] = (),
        added: Sequence[DeviceHolder] = (),
    ) -> tuple[int, DeviceUse]:
        """Return the same as if some pods were removed and others added."""
        remaining = self._holders.get(node, _NO_HOLDERS).remaining(uid, removed, added)
        return self.signature_of(node, removed=removed, added=added, lent=(uid,)), remaining

    def reservations_on(self, node: str) -> Collection[str]:
        """Return the uids of the reservations that hold devices of a node."""
        holders = self._holders.get(node)
        return () if holders is None else holders.reservations.keys()

    def nodes(self) -> Set[str]:
        """Return the names of the nodes that have devices, or had some that pods still have."""
        return self._inventory_of.keys() | self._holders.keys()

    def holders_on(self, node: str) -> NodeHolders:
        """Return the pods and reservations that hold devices of a node."""
        return self._holders.get(node, _NO_HOLDERS)

    def holders(self) -> Iterator[tuple[str, NodeHolders]]:
        """Return the holders of devices by the names of their nodes."""
        yield from self._holders.items()

    def rows_with_pods(self) -> list[int]:
        """Return the rows where some pod uses devices."""
        row_of = self._node_table.row_of
        return [row_of[node] for node, h in self._holders.items() if h.pods and node in row_of]

    def additional_amounts(self, node: str) -> Mapping[str, int]:
        """Return the amounts of a node's healthy devices, which its Node may not list."""
        if node not in self._inventory_of:
            return {}
        return self._inventories[self._inventory_of[node]].totals()

    def identified_resources(self, pod: PodInfo, row: int) -> frozenset[int]:
        """Return the resources that a pod gets as specific devices on a row."""
        table = self._node_table
        if not self.has_devices(table.names[row]):
            return frozenset()
        return frozenset(id_ for id_, _ in pod.request if is_of_devices(table.resources[id_]))

    # --- internals ----------------------------------------------------------------------------

    def _set_devices(self, node: str, devices: SharedDevices | None) -> None:
        if devices is None:
            self._devices.pop(node, None)
        else:
            self._devices[node] = devices
        self._read_inventory(node)

    def _read_inventory(self, node: str) -> None:
        """Read the devices of a node again if its Device, or the labels of the Node, changed."""
        devices, row = self._devices.get(node), self._node_table.row_of.get(node)
        there = None if row is None else self._node_table.nodes[row]
        known, source = self._read.get(node), None
        if devices is not None and there is not None:
            source = (devices, there.metadata.labels)
        if source == known:
            return
        if source is None:
            del self._read[node], self._inventory_of[node]
        else:
            self._read[node] = source
            self._inventory_of[node] = self._inventories.id(inventory_of(*source))
        lost: list[str] = []
        if (holders := self._holders.get(node)) is not None:
            self._read_annotations(node, holders)
            holders = self._on(node)
            holders.totals = self._inventory(node).by_device()
            lost = holders.settle()
        self._changed(node, lost)

    def _read_annotations(self, node: str, holders: NodeHolders) -> None:
        """Enter again what annotations of pods say about the devices of a node."""
        of_pods, acting = dict(holders.claims), holders.reservations.keys() & self._written.keys()
        for uid, (holder, claimant) in of_pods.items():
            if (written := self._written.get(uid)) is not None:
                use = self._consistent(written[0], node, by_bytes=written[1])
                self.enter(uid, node, use, holder.reservation, claimant)
                self._written[uid] = written
        for uid in acting:
            self._enter_acting(uid, node, self._written[uid])

    def _consistent(self, use: DeviceUse, node: str, *, by_bytes: bool) -> DeviceUse:
        """Return what a pod uses, with the memory of each GPU limited to the pod's share of it."""
        return consistent_use(use, self._inventory(node), by_bytes=by_bytes)

    def _upsert_reservation(self, reservation: Reservation) -> None:
        if reservation.active:
            node, reserved = reservation.status.node_name, reservation.status.allocatable
            use = annotated_use(reservation, reserved)
            if use != UNUSED and reservation.is_pod:
                self._enter_acting(reservation.uid, node, (use, GPU_MEMORY in reserved))
                return
            if use != UNUSED:
                self.enter_reservation(reservation.uid, node, use)
                return
        elif reservation.phase == PENDING:
            return  # it may be about to be bound
        self.remove(reservation.uid)

    def _enter_acting(self, uid: str, node: str, written: tuple[DeviceUse, bool]) -> None:
        """Enter what a pod that acts as a reservation has; its owner may have written that."""
        use = self._consistent(written[0], node, by_bytes=written[1])
        self.enter_reservation(uid, node, use, yields=True)
        self._written[uid] = written

    def _on(self, node: str) -> NodeHolders:
        holders = self._holders.get(node)
        if holders is None:
            holders = self._holders[node] = NodeHolders(self._inventory(node).by_device())
        return holders

    def _inventory(self, node: str) -> NodeDeviceInventory:
        return self._inventories[self._inventory_of.get(node, 0)]

    def _changed(self, node: str, lost: Iterable[str] = ()) -> None:
        """Number the state of a node again; ``lost`` are pods that have less than they claim."""
        for uid in lost:
            self.on_dispute(uid)
        if bool(self) != self._known:
            self._known = not self._known
            self._node_table.epochs.bump(Epoch.SHARED_DEVICES)
        row = self._node_table.row_of.get(node)
        self._offers.pop(node, None)
        if row is not None:
            self._stale.add(row)
            self._node_table.journal.log(row)

    def _refresh(self) -> None:
        """Number the states of the rows that changed."""
        self._renumber_if_necessary()
        self._number_rows(self._stale)
        self._stale.clear()

    def _renumber_if_necessary(self) -> None:
        """Number all states again if the table grew, or if most of them are outdated."""
        table = self._node_table
        too_many = self._parts > _MOST_PARTS
        if too_many:
            self._states, self._numbers, self._offers, self._parts = [], {}, {}, 0
            self.version += 1
        if too_many or len(self._signatures) != table.capacity:
            self._signatures = np.zeros(table.capacity, np.int32)
            self._stale = {table.row_of[node] for node in self.nodes() if node in table.row_of}

    def _number_rows(self, rows: Iterable[int]) -> None:
        for row in rows:
            self._signatures[row] = self.signature_of(self._node_table.names[row])


def annotated_use(obj: Object, requested: Iterable[str]) -> DeviceUse:
    """Return what the annotation of a pod or reservation says; a malformed one counts as absent.

    Users may write anything: devices of types that it does not request do not count.
    """
    annotations = obj.metadata.annotations
    if DEVICE_ALLOCATED not in annotations:
        return UNUSED
    try:
        allocations = read_allocations(annotations)
    except BadRequest:
        return UNUSED
    types = device_types(requested)
    return use_of({kind: listed for kind, listed in allocations.items() if kind in types})

"""NUMA hints of shared devices: the sets of NUMA nodes whose devices could serve a pod."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.api.reservation_names import IGNORED
from holdfast.runtime.errors import BadRequest
from holdfast.runtime.shared_cache import SharedCache
from holdfast.state.columns.amounts import RequestedAmounts
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.device_share.allocations import AllocationsByType
from holdfast.state.device_share.candidates import DeviceOffer, DeviceRejection, restriction_of
from holdfast.state.device_share.choosing import choose_devices
from holdfast.state.device_share.ledger import NO_DEVICE, DeviceShareLedger
from holdfast.state.device_share.node_devices import NodeDeviceInventory, NodeDeviceState
from holdfast.state.device_share.pod_devices import RequestedDevices, pod_devices
from holdfast.state.device_share.scoring import ScoringStrategy
from holdfast.state.numa.policy_names import RESTRICTED
from holdfast.state.numa.topology_hints import Hint, Hints, numa_masks

SAME_GPUS = 500
"""The score of NUMA nodes with the GPUs that the whole node would give: more than CPUs can have."""
INSUFFICIENT = "Insufficient NUMA Scoped Devices"
_MOST_KNOWN = 20_000


class _Question(NamedTuple):
    """Everything that the hints for a pod depend on."""

    state: NodeDeviceState
    asked: RequestedDevices
    offer: DeviceOffer | None
    numa_nodes: tuple[int, ...]
    policy: str
    strategy: ScoringStrategy

    def hints(self) -> dict[str, list[Hint]]:
        restriction = restriction_of(self.offer, self.state)

        def choose(mask: int) -> AllocationsByType | DeviceRejection:
            within = replace(restriction, numa_nodes=mask)
            return choose_devices(self.state, self.asked, within, self.strategy)

        inventory = self.state.inventory
        hints = device_hints(inventory, self.asked, self.numa_nodes, self.policy, choose)
        return {} if isinstance(hints, DeviceRejection) else hints


class DeviceHints:
    """The hints of shared devices for the ledger of CPUs and NUMA nodes (a HintProvider).

    ``restricted_types`` returns the types of which a reservation, by uid, gives only its own
    devices; ``with_class`` returns which resources of a request have a DeviceClass.
    """

    def __init__(
        self,
        ledger: DeviceShareLedger,
        nodes: NodeTable,
        restricted_types: Callable[[str], frozenset[str]],
        with_class: Callable[[RequestedAmounts], frozenset[int]],
    ) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._restricted_types = restricted_types
        self._with_class = with_class
        self._known = SharedCache[dict[str, list[Hint]]](_MOST_KNOWN)
        self._latest: tuple[PodInfo, set[int], RequestedDevices | None] | None = None

    def states(self, pod: PodInfo) -> NDArray[np.int64]:
        """Return a number per row: equal numbers mean equal hints if no reservation is used."""
        return self._ledger.cases(sorted(self._with_class(pod.request)))

    def number_in_steps(self) -> Iterator[None]:
        """Compute these numbers, with pauses in which the world may change."""
        return self._ledger.number_in_steps()

    def rows_in_use(self) -> list[int]:
        """Return the numbers of the rows whose hints may change if pods leave."""
        return self._ledger.rows_with_pods()

    def hints(
        self,
        pod: PodInfo,
        row: int,
        numa_nodes: Sequence[int],
        policy: str,
        reservation: str,
        *,
        removed: Collection[str] = (),
    ) -> Hints:
        """Return the hints by type of device; none if the node cannot serve the pod at all."""
        ledger, node = self._ledger, self._nodes.names[row]
        options = ledger.options.get(pod.scheduler_name)
        if options is None or not options.aligns or not ledger.has_devices(node):
            return {}
        asked = self._asked(pod, row)
        if asked is None:
            return {}
        offer = None
        if reservation:
            signature, left = ledger.changed_offer(reservation, node, removed)
            offer = DeviceOffer(left, self._restricted_types(reservation))
        else:
            ignores = pod.labels.get(IGNORED) == "true"
            lent = ledger.reservations_on(node) if ignores else ()
            if lent or removed:
                signature = ledger.signature_of(node, removed=removed, lent=lent)
            else:
                signature = ledger.signature(row)
        if signature == NO_DEVICE:
            return {}
        state = ledger.state(signature)
        question = _Question(state, asked, offer, tuple(numa_nodes), policy, options.strategy)
        hints = self._known.get(question, pod.namespace)
        if hints is None:
            hints = question.hints()
            self._known.put(question, hints, pod.namespace)
        return hints

    def _asked(self, pod: PodInfo, row: int) -> RequestedDevices | None:
        """Return what a pod asks of devices on a row; the latest answer is kept."""
        allocatable = self._nodes.allocatable
        served = {r for r in self._with_class(pod.request) if not allocatable[r, row]}
        if self._latest is not None and self._latest[0] is pod and self._latest[1] == served:
            return self._latest[2]
        resources = self._nodes.resources
        request = {resources[r]: amount for r, amount in pod.request if r not in served}
        try:
            asked = pod_devices(pod.pod, request)
        except BadRequest:
            asked = None
        self._latest = (pod, served, asked)
        return asked


def device_hints(
    inventory: NodeDeviceInventory,
    asked: RequestedDevices,
    numa_nodes: Sequence[int],
    policy: str,
    choose: Callable[[int], AllocationsByType | DeviceRejection],
) -> dict[str, list[Hint]] | DeviceRejection:
    """Return hints by type of device, or why no set of NUMA nodes serves the pod.

    ``choose`` tries to choose devices of the NUMA nodes of a mask, for example from a reservation
    first. Nodes that do not report the NUMA nodes of their devices have no preference.
    """
    if not inventory.tells_numa_nodes:
        return {}
    choices: list[tuple[int, AllocationsByType]] = []
    whole: AllocationsByType | DeviceRejection = DeviceRejection((INSUFFICIENT,), unresolvable=True)
    for mask in numa_masks(numa_nodes):
        whole = DeviceRejection((INSUFFICIENT,), unresolvable=True)
        if _enough_devices(inventory, asked, mask):
            whole = choose(mask)
        if not isinstance(whole, DeviceRejection):
            choices.append((mask, whole))
    if isinstance(whole, DeviceRejection):
        return whole
    fewest = min(mask.bit_count() for mask, _ in choices)
    same = _gpus(whole)
    hints = [
        Hint(
            mask,
            preferred=policy == RESTRICTED or mask.bit_count() == fewest,
            score=SAME_GPUS if _gpus(allocations) == same else 0,
        )
        for mask, allocations in choices
    ]
    return {request.type: hints for request in asked.requests}


def _enough_devices(inventory: NodeDeviceInventory, asked: RequestedDevices, mask: int) -> bool:
    """Return whether the NUMA nodes have enough devices at all, whatever is used of them."""
    for request in asked.requests:
        devices = inventory.devices.get(request.type, ())
        if sum(device.numa_nodes & mask != 0 for device in devices) < request.count:
            return False
    return True


def _gpus(allocations: AllocationsByType) -> frozenset[int]:
    return frozenset(one.minor for one in allocations.get("gpu", ()))

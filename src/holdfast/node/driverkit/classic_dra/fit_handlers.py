"""The five functions of a classic driver, derived from the author's ``fits``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.api.classic_dra.node_inventory import BookedClaim
from holdfast.api.classic_dra.types import (
    ClassicAllocation,
    ClassicClaim,
    ClassicClass,
    PodSchedulingSpec,
)
from holdfast.api.meta import Requirement
from holdfast.api.node_selection import compile_selector
from holdfast.api.pod import NodeSelector, NodeSelectorTerm, Pod
from holdfast.api.quantity import Quantity
from holdfast.api.scheme import NODES
from holdfast.client.client import Client
from holdfast.node.driverkit.classic_dra.allocations import BookingAllocator
from holdfast.node.driverkit.classic_dra.bookings import NOT_READY, Booking, Bookings
from holdfast.node.driverkit.classic_dra.fitting import (
    NO_FREE_DEVICE,
    Choice,
    ClaimParameters,
    Unsuitable,
    is_optional,
    less_preferred,
    quantity,
    reasons_text,
)
from holdfast.node.driverkit.classic_dra.functions import FitFunctions, NamespaceUsage
from holdfast.node.driverkit.classic_dra.handle import booking_of, decode_handle, encode_handle
from holdfast.node.driverkit.classic_dra.handlers import Allocated, ClaimItem, RefusedNodes
from holdfast.node.driverkit.classic_dra.inventory_conversion import booked, choice_of
from holdfast.node.driverkit.classic_dra.inventory_store import InventoryStore
from holdfast.node.driverkit.classic_dra.parameters import (
    ParameterReader,
    default_parameters,
    parameters_of,
)
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import HoldfastError, NotFound
from holdfast.runtime.repeated_log import Repeats

CLASS_PARAMETERS_SECONDS = 5.0
"""How long the parameters of a class are remembered."""
MOST_BUSY_SECONDS = 0.1
"""How long ``fits`` may be called for nodes before other tasks run."""
_WITHOUT_REASON = frozenset({NO_FREE_DEVICE, NOT_READY})
log = logging.getLogger(__name__)


class QuotaExceeded(HoldfastError):
    """The driver's own quota refuses a claim; the message is shown in an event."""


class FitHandlers:
    """Implements ``ClassicHandlers``: devices are booked in NodeInventories."""

    def __init__(
        self, functions: FitFunctions, client: Client, clock: Clock, store: InventoryStore
    ) -> None:
        self._functions = functions
        self._client = client
        self._clock = clock
        self.store = store
        self.bookings: Bookings = store.bookings
        self._allocations = BookingAllocator(functions, store)
        self._repeats = Repeats(now=clock.monotonic)
        self._reader = ParameterReader(client)
        self._classes: dict[tuple[str, str], tuple[float, Any]] = {}

    async def class_parameters(self, resource_class: ClassicClass) -> Any:
        """Read the parameters of a class; they are remembered for some seconds."""
        reference = resource_class.parameters_ref
        wanted = self._functions.class_parameters
        if reference is None:
            return default_parameters(wanted, f"ResourceClass {resource_class.name}")
        key = resource_class.uid, resource_class.metadata.resource_version
        now = self._clock.monotonic()
        self._classes = {each: kept for each, kept in self._classes.items() if kept[0] > now}
        if key not in self._classes:
            raw = await self._reader.read(reference, reference.namespace)
            parameters = parameters_of(raw, wanted)
            self._classes[key] = (now + CLASS_PARAMETERS_SECONDS, parameters)
            return parameters
        return self._classes[key][1]

    async def claim_parameters(
        self, claim: ClassicClaim, resource_class: ClassicClass, class_parameters: Any
    ) -> Any:
        """Read the parameters of a claim."""
        reference, wanted = claim.spec.parameters_ref, self._functions.parameters
        if reference is None:
            return default_parameters(wanted, f"ResourceClaim {claim.name}")
        return parameters_of(await self._reader.read(reference, claim.namespace), wanted)

    async def unsuitable_nodes(
        self,
        pod: Pod,
        items: Sequence[ClaimItem],
        nodes: Sequence[str],
        asked: PodSchedulingSpec,
    ) -> RefusedNodes:
        """Ask ``fits`` about the nodes; on a suitable selected node the devices are held.

        If the selected node gives everything, no other node is checked.
        """
        selected = asked.selected_node
        if selected:
            choices = self._choose(items, self._pool(selected))
            if not isinstance(choices, str) and all(_gives(i, choices) for i in items):
                self._hold(items, self._pool(selected), choices)
                return RefusedNodes({})
        by_node = await self._choices(items, nodes)
        unsuitable = {node: why for node, why in by_node.items() if isinstance(why, str)}
        potential = {*asked.potential_nodes, selected}
        by_claim = {item.claim.uid: set(unsuitable) for item in items}
        for item in items:
            if is_optional(item.claim_parameters):
                granted = {
                    node: choices[item.claim.uid].amount
                    for node, choices in by_node.items()
                    if not isinstance(choices, str)
                }
                by_claim[item.claim.uid] |= less_preferred(granted, potential)
        if selected and not any(selected in each for each in by_claim.values()):
            choices = self._choose(items, self._pool(selected))
            if not isinstance(choices, str):
                self._hold(items, self._pool(selected), choices)
            else:  # by now
                unsuitable[selected] = choices
                for each in by_claim.values():
                    each.add(selected)
        given = {node: why for node, why in unsuitable.items() if why not in _WITHOUT_REASON}
        return RefusedNodes(by_claim, given)

    async def _choices(
        self, items: Sequence[ClaimItem], nodes: Sequence[str]
    ) -> dict[str, dict[str, Choice] | str]:
        """Ask ``fits`` about nodes; if it is slow, other tasks run between them."""
        by_node: dict[str, dict[str, Choice] | str] = {}
        began = self._clock.monotonic()
        for node in nodes:
            by_node[node] = self._choose(items, self._pool(node))
            if self._clock.monotonic() - began > MOST_BUSY_SECONDS:
                await asyncio.sleep(0)  # else the process may lose its lease
                began = self._clock.monotonic()
        return by_node

    async def allocate(
        self, items: Sequence[ClaimItem], selected_node: str | None
    ) -> Sequence[Allocated]:
        """Book devices, store the bookings, then call the author's ``allocate``."""
        pool = await self._any_pool(items) if selected_node is None else self._pool(selected_node)
        for item in items:
            for booking in self.bookings.find(item.claim.uid):
                if booking.pool != pool:  # of an allocation that was interrupted
                    await self._allocations.undo(booking, item.claim)
        choices = self._choose(items, pool)
        if isinstance(choices, str):
            error = Unsuitable(f"{f'node {pool}' if pool else 'the network'}: {choices}")
            return [error for _ in items]
        self._hold(items, pool, choices)
        uids = {item.claim.uid for item in items}
        await self.store.write(pool, uids)
        mine = self.bookings.on_pool(pool)
        if not uids <= set(mine):
            return [Unsuitable(f"node {pool}: its devices were taken meanwhile") for _ in items]
        return [await self._allocated(item, mine[item.claim.uid]) for item in items]

    async def check_immediate(self, items: Sequence[ClaimItem]) -> None:
        """Raise Unsuitable if neither a node nor the network has what the claims need."""
        pool = await self._any_pool(items)
        choices = self._choose(items, pool)
        if isinstance(choices, str):
            raise Unsuitable(choices)

    async def deallocate(self, claim: ClassicClaim) -> None:
        """Call the author's ``release``, then free the devices."""
        bookings = self.bookings.find(claim.uid)
        proved = self._booking_of(claim)
        for booking in bookings or ([proved] if proved else []):
            await self._allocations.undo(booking, claim)

    def claim_changed(self, old: ClassicClaim | None, new: ClassicClaim | None) -> None:
        """Count the devices in the handle of an allocated claim, regardless of the inventory."""
        claim = new or old
        if claim is None:
            return
        booking = self._booking_of(new) if new is not None else None
        if booking is not None:
            self.bookings.set_claim(booking)
        elif new is not None:
            self.bookings.unset_claim(claim.uid)

    async def drop_lost(self, is_alive: Callable[[Booking], Awaitable[bool]]) -> bool:
        """Free the devices of claims that no longer exist; return whether there were any."""
        lost = [each for each in self.bookings.all() if not await is_alive(each)]
        for booking in lost:
            try:
                await self._allocations.undo(booking)
            except Exception as error:  # the author's code; the next round tries again
                name = f"{booking.claim.namespace}/{booking.claim.name}"
                line = f"the devices of claim {name}, which is gone, cannot be freed"
                self._repeats.log(log, logging.ERROR, line, exc_info=error)
        return bool(lost)

    def _pool(self, node: str) -> str:
        return "" if self._functions.network else node

    def _choose(self, items: Sequence[ClaimItem], pool: str) -> dict[str, Choice] | str:
        """Return a choice for each item by uid, or why not all fit; keep existing bookings."""
        known = self.bookings.on_pool(pool)
        by_uid = {
            item.claim.uid: choice_of(known[item.claim.uid].claim)
            for item in items
            if item.claim.uid in known
        }
        missing = [item for item in items if item.claim.uid not in by_uid]
        if missing:
            requests = [ClaimParameters(i.claim_parameters, i.class_parameters) for i in missing]
            key = msgspec.json.encode([[r.parameters, r.class_parameters] for r in requests])
            choices = self.bookings.choose(pool, self._functions.fits, requests, key)
            if isinstance(choices, str):
                return choices
            by_uid |= {i.claim.uid: one for i, one in zip(missing, choices, strict=True)}
        return by_uid

    def _hold(self, items: Sequence[ClaimItem], pool: str, choices: Mapping[str, Choice]) -> None:
        known = self.bookings.on_pool(pool)
        new = [item for item in items if item.claim.uid not in known]
        by_uid = {item.claim.uid: self._booked(item, choices[item.claim.uid]) for item in new}
        self._check_quota(new, by_uid)
        for uid, claim in by_uid.items():
            self.bookings.hold(Booking(uid, pool, claim))

    def _booked(self, item: ClaimItem, choice: Choice) -> BookedClaim:
        """Return the booking of a claim, with its request if a function allocates."""
        request = ClaimParameters(item.claim_parameters, item.class_parameters)
        given = request if self._functions.do_allocate else None
        return booked(item.claim.namespace, item.claim.name, choice, given)

    async def _allocated(self, item: ClaimItem, booking: Booking) -> Allocated:
        try:
            handle = encode_handle(await self._allocations.make(booking, item))
        except HoldfastError as error:
            return error
        except Exception as error:
            log.exception("allocate of claim %s failed", item.claim.key)
            return error
        nodes = _only(booking.pool) if booking.pool else item.resource_class.suitable_nodes
        return ClassicAllocation(
            resource_handle=handle,
            available_on_nodes=nodes,
            shared_resource=booking.claim.shared,
        )

    def _booking_of(self, claim: ClassicClaim) -> Booking | None:
        """Return the booking of an allocated claim, if this driver has allocated it."""
        allocation = claim.status.allocation
        if allocation is None or claim.status.driver_name != self.store.driver:
            return None
        handle = decode_handle(allocation.resource_handle)
        if handle is None:
            return None
        begun = self._functions.allocate is not None
        return booking_of(claim.uid, claim.namespace, claim.name, handle, begun=begun)

    async def _any_pool(self, items: Sequence[ClaimItem]) -> str:
        """Return the node for an immediate allocation: it fits and has the most free devices."""
        if self._functions.network:
            return ""
        for item in items:
            for booking in self.bookings.find(item.claim.uid):
                return booking.pool
        free = {pool: len(self.bookings.free(pool) or ()) for pool in self.bookings.pools()}
        reasons: dict[str, str] = {}
        for pool in sorted(free, key=lambda name: (-free[name], name)):
            choices = self._choose(items, pool)
            if not all([await self._is_suitable(item, pool) for item in items]):
                continue
            if not isinstance(choices, str):
                return pool
            reasons[pool] = choices
        given = {node: why for node, why in reasons.items() if why not in _WITHOUT_REASON}
        why = f": {reasons_text(given)}" if given else ""
        raise Unsuitable(f"no node has what the claim needs{why}")

    async def _is_suitable(self, item: ClaimItem, node: str) -> bool:
        selector = item.resource_class.suitable_nodes
        if selector is None:
            return True
        try:
            obj = await self._client.get(NODES, node)
        except NotFound:
            return False
        return compile_selector(selector).matches(obj.metadata.labels, node)

    def _check_quota(self, items: Sequence[ClaimItem], bookings: Mapping[str, BookedClaim]) -> None:
        """Raise QuotaExceeded if the author's quota refuses one of several new claims.

        Each claim is checked together with the previous ones.
        """
        if self._functions.quota is None or not items:
            return
        namespace = items[0].claim.namespace
        before = [each.claim for each in self.bookings.all() if each.uid not in bookings]
        for item in items:
            usage = usage_of(before, namespace)
            reason = self._functions.quota(
                namespace, usage, item.claim_parameters, item.class_parameters
            )
            if reason:
                raise QuotaExceeded(f"quota of driver {self.store.driver}: {reason}")
            before.append(bookings[item.claim.uid])


def _gives(item: ClaimItem, choices: Mapping[str, Choice]) -> bool:
    """Return whether a choice is good enough without comparing other nodes."""
    return not is_optional(item.claim_parameters) or choices[item.claim.uid].amount > 0


def usage_of(claims: Iterable[BookedClaim], namespace: str) -> NamespaceUsage:
    """Return the devices that the claims of a namespace have."""
    usage = NamespaceUsage()
    for claim in claims:
        if claim.namespace != namespace:
            continue
        usage.claims += 1
        usage.devices += len(claim.devices)
        for share in claim.shares:
            for key, amount in share.capacity.items():
                usage.capacity[key] = usage.capacity.get(key, Quantity(0)) + quantity(amount)
    return usage


def _only(node: str) -> NodeSelector:
    field_is = Requirement(key="metadata.name", operator="In", values=(node,))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field_is,)),))

"""Check invariant I3: a device, or one unit of a counter or capacity, serves one claim.

Everything is summed up again from the claims alone, in the simplest way, so that an error in the
ledger of allocated devices cannot stay hidden.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.api.quantity import Quantity
from holdfast.state.devices.allocated_devices import AllocatedDevices
from holdfast.state.devices.inventory import Inventory
from holdfast.state.devices.slices import DeviceCandidate, DeviceId, PoolId, SliceInfo

ZERO = Quantity.parse("0")


def overcommitments(inventory: Inventory) -> list[str]:
    """Describe every overcommitted device, capacity and counter, and every error in the ledger."""
    allocated_devices = inventory.allocated_devices
    true = AllocatedDevices.of(
        inventory.claims.including_in_flight(), sharing=allocated_devices.sharing
    )
    return [
        *_ledger_errors(allocated_devices, true),
        *_devices(true),
        *_capacities(inventory, true),
        *_counters(inventory, true),
    ]


def _ledger_errors(ledger: AllocatedDevices, claims: AllocatedDevices) -> Iterator[str]:
    entered, true = (ledger.unshared, ledger.shared), (claims.unshared, claims.shared)
    if entered != true:
        yield f"allocated devices are entered as {entered}, but claims hold {true}"
    for device in claims.consumed.keys() | ledger.consumed.keys():
        mine, theirs = ledger.consumed.get(device, {}), claims.consumed.get(device, {})
        if any(mine.get(n, ZERO) != theirs.get(n, ZERO) for n in mine.keys() | theirs.keys()):
            yield f"consumed capacity of {device} is entered as {mine}, but claims hold {theirs}"


def _devices(true: AllocatedDevices) -> Iterator[str]:
    for device, count in true.unshared.items():
        if count > 1 or device in true.shared:
            yield f"I3: device {device} serves {count + true.shared[device]} claims"


def _capacities(inventory: Inventory, true: AllocatedDevices) -> Iterator[str]:
    known = _newest(inventory)
    for device, amounts in true.consumed.items():
        has = known[device].device.capacity if device in known else {}
        for name in amounts.keys() & has.keys():
            if amounts[name] > max(Quantity.parse(has[name].value), ZERO):
                yield f"I3: device {device} has {has[name].value} of {name}, used {amounts[name]}"


def _counters(inventory: Inventory, true: AllocatedDevices) -> Iterator[str]:
    """An allocated device consumes its pool's counters once, even if several claims share it."""
    taken: dict[tuple[PoolId, str, str], Quantity] = {}
    for device, candidate in _newest(inventory).items():
        if not true.is_allocated(device):
            continue
        for set_name, amounts in candidate.consumed_counters.items():
            for name, amount in amounts.items():
                key = (device[:2], set_name, name)
                taken[key] = taken[key] + amount if key in taken else amount
    for slice_info in _current(inventory):
        for set_name, amounts in slice_info.counters:
            for name, has in amounts.items():
                used = taken.get((slice_info.pool, set_name, name), ZERO)
                if used > max(has, ZERO):  # a slice may publish a negative value
                    counter = f"{set_name}/{name}"
                    yield f"I3: {slice_info.pool} has {has} of counter {counter}, used {used}"


def _newest(inventory: Inventory) -> dict[DeviceId, DeviceCandidate]:
    return {
        device.id: device for slice_info in _current(inventory) for device in slice_info.candidates
    }


def _current(inventory: Inventory) -> list[SliceInfo]:
    """Return the slices of every pool's newest generation."""
    newest: dict[PoolId, int] = {}
    for slice_info in inventory.slices:
        newest[slice_info.pool] = max(
            slice_info.generation, newest.get(slice_info.pool, slice_info.generation)
        )
    return [
        slice_info
        for slice_info in inventory.slices
        if slice_info.generation == newest[slice_info.pool]
    ]

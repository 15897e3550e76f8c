"""I3, checked: one device, one unit of a counter or of a capacity, serves one claim.

Added up again from the claims alone, slowly and obviously, so that a mistake in the holdings cannot
hide itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.api.quantity import Quantity
from holdfast.devices.holdings import Holdings
from holdfast.devices.inventory import Inventory
from holdfast.devices.slices import DeviceCandidate, DeviceId, PoolId, SliceFacts

ZERO = Quantity.parse("0")


def overdrawn(inventory: Inventory) -> list[str]:
    """Name everything that is held more than once, and every mistake in the holdings."""
    holdings = inventory.holdings
    true = Holdings.of(inventory.claims.effective(), sharing=holdings.sharing)
    return [
        *_mistakes(holdings, true),
        *_devices(true),
        *_capacities(inventory, true),
        *_counters(inventory, true),
    ]


def _mistakes(told: Holdings, true: Holdings) -> Iterator[str]:
    if (told.whole, told.shares) != (true.whole, true.shares):
        yield f"holdings say {told.whole} and {told.shares}, claims {true.whole} and {true.shares}"
    for device in true.consumed.keys() | told.consumed.keys():
        says, are = told.consumed.get(device, {}), true.consumed.get(device, {})
        if any(says.get(n, ZERO) != are.get(n, ZERO) for n in says.keys() | are.keys()):
            yield f"holdings say {says} of {device} is consumed, claims say {are}"


def _devices(true: Holdings) -> Iterator[str]:
    for device, count in true.whole.items():
        if count > 1 or device in true.shares:
            yield f"I3: device {device} serves {count + true.shares[device]} claims"


def _capacities(inventory: Inventory, true: Holdings) -> Iterator[str]:
    known = _newest(inventory)
    for device, amounts in true.consumed.items():
        has = known[device].device.capacity if device in known else {}
        for name in amounts.keys() & has.keys():
            if amounts[name] > max(Quantity.parse(has[name].value), ZERO):
                yield f"I3: device {device} has {has[name].value} of {name}, used {amounts[name]}"


def _counters(inventory: Inventory, true: Holdings) -> Iterator[str]:
    """A device that is held uses its pool's counters once, however many claims share it."""
    taken: dict[tuple[PoolId, str, str], Quantity] = {}
    for device, candidate in _newest(inventory).items():
        if not true.taken(device):
            continue
        for set_name, amounts in candidate.consumes.items():
            for name, amount in amounts.items():
                key = (device[:2], set_name, name)
                taken[key] = taken[key] + amount if key in taken else amount
    for facts in _current(inventory):
        for set_name, amounts in facts.counters:
            for name, has in amounts.items():
                used = taken.get((facts.pool, set_name, name), ZERO)
                if used > max(has, ZERO):  # a slice may say less than nothing
                    yield f"I3: {facts.pool} has {has} of counter {set_name}/{name}, used {used}"


def _newest(inventory: Inventory) -> dict[DeviceId, DeviceCandidate]:
    return {device.id: device for facts in _current(inventory) for device in facts.candidates}


def _current(inventory: Inventory) -> list[SliceFacts]:
    """The slices of every pool's newest generation."""
    newest: dict[PoolId, int] = {}
    for facts in inventory.slices:
        newest[facts.pool] = max(facts.generation, newest.get(facts.pool, facts.generation))
    return [facts for facts in inventory.slices if facts.generation == newest[facts.pool]]

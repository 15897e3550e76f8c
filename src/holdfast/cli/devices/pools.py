"""The pools of drivers with their devices, as JSON data and as text.

The text lists devices, pools or drivers, depending on their numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from holdfast.api.decode import JsonObject
from holdfast.api.devices import DeviceAttribute
from holdfast.api.node import Taint
from holdfast.cli.devices.choosing import DeviceListing
from holdfast.cli.table import NOTHING, format_filled_columns, format_table, join_names
from holdfast.state.devices.device_map import (
    ClaimWithDevice,
    DeviceState,
    MappedDevice,
    MappedPool,
    RemainingAmount,
)
from holdfast.state.devices.obstacles import taint_text

MOST_DEVICES, MOST_POOLS, MOST_PROBLEMS = 100, 60, 20
"""Above these numbers devices are summed up by pool, pools by driver, problems by count."""
DEVICE_HEAD = ("DRIVER", "POOL", "DEVICE", "NODE", "STATE", "CLAIM", "POD", "TAINTS", "LEFT")
WIDE_HEAD = (*DEVICE_HEAD, "ATTRIBUTES", "CAPACITY", "COUNTERS")
OPTIONAL = frozenset({"TAINTS", "LEFT", "ATTRIBUTES", "CAPACITY", "COUNTERS"})


def as_data(listing: DeviceListing) -> JsonObject:
    """Return the pools with their devices, and the problems."""
    pools = [_pool_data(pool, listing) for pool in listing.pools]
    return {"pools": pools, "problems": listing.problems}


def _pool_data(pool: MappedPool, listing: DeviceListing) -> JsonObject:
    states = Counter(device.state.value for device in pool.devices)
    return {
        "driver": pool.id[0],
        "pool": pool.id[1],
        "generation": pool.generation,
        "problem": pool.problem or None,
        "problemNodes": list(pool.problem_nodes),
        "states": dict(sorted(states.items())),
        "counters": [_amount_data(one) for one in pool.counters],
        "devices": [_device_data(device, listing) for device in pool.devices],
    }


def _device_data(device: MappedDevice, listing: DeviceListing) -> JsonObject:
    published = device.candidate.device
    return {
        "device": published.name,
        "nodes": device.nodes,
        "state": device.state.value,
        "canBeAllocated": device.can_be_allocated,
        "holders": [_holder_data(holder) for holder in device.holders],
        "taints": [
            {**msgspec.to_builtins(taint), "rule": rule or None}
            for taint, rule in listing.taints_of(device)
        ],
        "capacityLeft": [_amount_data(one) for one in device.capacity],
        "shareable": device.candidate.shareable,
        "attributes": msgspec.to_builtins(published.attributes),
        "capacity": {name: str(has.value) for name, has in published.capacity.items()},
        "consumesCounters": {
            f"{set_name}/{name}": str(amount)
            for set_name, amounts in device.candidate.consumed_counters.items()
            for name, amount in amounts.items()
        },
        "bindingConditions": list(published.binding_conditions),
    }


def _holder_data(holder: ClaimWithDevice) -> JsonObject:
    result = holder.result
    return {
        "namespace": holder.claim.namespace,
        "claim": holder.claim.name,
        "request": result.request,
        "pods": list(holder.consumers),
        "adminAccess": bool(result.admin_access),
        "consumedCapacity": {name: str(value) for name, value in result.consumed_capacity.items()},
    }


def _amount_data(one: RemainingAmount) -> JsonObject:
    return {"name": one.name, "left": str(one.left), "total": str(one.total)}


def as_text(listing: DeviceListing, *, wide: bool) -> str:
    """Format the devices, a line for each pool, and the problems."""
    pools, sections = listing.pools, []
    devices = sum(len(pool.devices) for pool in pools)
    if devices and (wide or devices <= MOST_DEVICES):
        sections.append(_device_table(listing, wide=wide))
    if len(pools) <= MOST_POOLS:
        sections.append(_pool_table(pools) if pools else "")
    else:
        sections.append(_driver_table(pools))
    if devices > MOST_DEVICES and not wide:
        parts = "--node, --driver, --class, -n and --free choose a part"
        sections.append(f"{devices} devices are not listed: {parts}, -o wide lists them all")
    sections.append("\n".join(_shortened(listing.problems)))
    return "\n\n".join(section for section in sections if section)


def _device_table(listing: DeviceListing, *, wide: bool) -> str:
    rows = [
        (*_device_row(device, listing), *(_details(device) if wide else ()))
        for pool in listing.pools
        for device in pool.devices
    ]
    return format_filled_columns(WIDE_HEAD if wide else DEVICE_HEAD, rows, OPTIONAL)


def _device_row(device: MappedDevice, listing: DeviceListing) -> tuple[str, ...]:
    claims = [
        holder.claim.key + (" (admin access)" if holder.result.admin_access else "")
        for holder in device.holders
    ]
    pods = [name for holder in device.holders for name in holder.consumers]
    return (
        *device.id,
        device.nodes,
        device.state.value,
        join_names(claims) or NOTHING,
        join_names(pods) or NOTHING,
        ", ".join(_taint(*taint_and_rule) for taint_and_rule in listing.taints_of(device))
        or NOTHING,
        _amounts_text(device.capacity),
    )


def _details(device: MappedDevice) -> tuple[str, ...]:
    published = device.candidate.device
    attributes = (f"{n}={_value(a)}" for n, a in sorted(published.attributes.items()))
    capacity = (f"{n}={c.value}" for n, c in sorted(published.capacity.items()))
    counters = (
        f"{set_name}/{name}={amount}"
        for set_name, amounts in sorted(device.candidate.consumed_counters.items())
        for name, amount in sorted(amounts.items())
    )
    return tuple(",".join(texts) or NOTHING for texts in (attributes, capacity, counters))


def _pool_table(pools: Sequence[MappedPool]) -> str:
    columns: list[tuple[str, Callable[[MappedPool], str]]] = [
        ("DRIVER", lambda pool: pool.id[0]),
        ("POOL", lambda pool: pool.id[1]),
        ("NODE", _nodes),
        ("DEVICES", lambda pool: str(len(pool.devices))),
        *_state_columns(pools),
    ]
    if any(pool.counters for pool in pools):
        columns.append(("COUNTERS LEFT", lambda pool: _amounts_text(pool.counters)))
    rows = [tuple(write(pool) for _, write in columns) for pool in pools]
    return format_table([head for head, _ in columns], rows)


def _driver_table(pools: Sequence[MappedPool]) -> str:
    by_driver: dict[str, list[MappedPool]] = {}
    for pool in pools:
        by_driver.setdefault(pool.id[0], []).append(pool)
    states = _states(pools)
    head = ("DRIVER", "POOLS", "DEVICES", *(state.value.upper() for state in states))
    rows = []
    for driver, own in by_driver.items():
        counts = Counter(device.state for pool in own for device in pool.devices)
        numbers = (len(own), counts.total(), *(counts[state] for state in states))
        rows.append((driver, *map(str, numbers)))
    return format_table(head, rows)


def _states(pools: Iterable[MappedPool]) -> list[DeviceState]:
    """Return the states to count: always free and used, others if a device has them."""
    states = {device.state for pool in pools for device in pool.devices}
    return [s for s in DeviceState if s in states or s in (DeviceState.FREE, DeviceState.USED)]


def _state_columns(
    pools: Sequence[MappedPool],
) -> list[tuple[str, Callable[[MappedPool], str]]]:
    def counting(state: DeviceState) -> Callable[[MappedPool], str]:
        return lambda pool: str(sum(device.state is state for device in pool.devices))

    return [(state.value.upper(), counting(state)) for state in _states(pools)]


def _nodes(pool: MappedPool) -> str:
    nodes = sorted({device.nodes for device in pool.devices})
    if len(nodes) <= 1:
        return nodes[0] if nodes else NOTHING
    named = all(device.node_name for device in pool.devices)
    return f"{len(nodes)} {'nodes' if named else 'selections of nodes'}"


def _amounts_text(amounts: Sequence[RemainingAmount]) -> str:
    return ", ".join(f"{one.name} {one.left} of {one.total}" for one in amounts) or NOTHING


def _taint(taint: Taint, rule: str) -> str:
    """Write a taint, with the name of the DeviceTaintRule that adds it."""
    return f"{taint_text(taint)} (rule {rule})" if rule else taint_text(taint)


def _value(attribute: DeviceAttribute) -> str:
    values = (
        attribute.string, attribute.int_, attribute.bool_, attribute.version, attribute.strings,
        attribute.ints, attribute.bools, attribute.versions,
    )  # fmt: skip
    return str(next((value for value in values if value is not None), ""))


def _shortened(problems: Sequence[str]) -> Iterable[str]:
    yield from problems[:MOST_PROBLEMS]
    if len(problems) > MOST_PROBLEMS:
        yield f"and {len(problems) - MOST_PROBLEMS} more problems; -o json lists them all"

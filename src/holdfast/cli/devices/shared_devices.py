"""Devices of Device objects, which pods share by percent: the rest of each, and its holders.

Each device has a line in the table, and one more line for each further holder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from holdfast.api.decode import JsonObject
from holdfast.api.koordinator_names import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO
from holdfast.api.meta import Object
from holdfast.api.shared_device import DeviceInfo, SharedDevices
from holdfast.cli.devices.choosing import Filter
from holdfast.cli.table import NOTHING, format_filled_columns, in_one_unit
from holdfast.cli.world_building import build_world
from holdfast.scheduling.framework.world import World
from holdfast.state.device_share.allocations import UNUSED, DeviceUse
from holdfast.state.device_share.node_devices import NO_DEVICES, NodeDeviceState, inventory_of
from holdfast.state.device_share.node_holders import NodeHolders
from holdfast.state.device_share.requests import RATIO, RESOURCES, DeviceAmounts

POD, RESERVATION = "pod", "reservation"
FREE, SHARED, FULL, UNHEALTHY, UNLISTED = "free", "shared", "full", "unhealthy", "unlisted"
"""States. An unlisted device has a holder, but the Device object does not list it."""
MOST_DEVICES = 100
HEAD = ("NODE", "DEVICE", "NUMA", "PCIE", "STATE", "LEFT", "HOLDER", "HOLDS")
WIDE_HEAD = (*HEAD, "ID", "BUS", "LABELS")
_OPTIONAL = frozenset({"NUMA", "PCIE", "BUS", "LABELS"})


def shared_devices(objects: Sequence[Object], which: Filter) -> list[JsonObject]:
    """Return the devices that the filter selects, with the rest of each and its holders."""
    if which.driver or which.device_class:
        return []  # they select devices of drivers
    world = build_world(objects)
    published = {obj.name: obj for obj in objects if isinstance(obj, SharedDevices)}
    held = dict(world.device_share.holders())
    devices = [
        device
        for node in sorted({*published, *held})
        if which.node in ("", node)
        for device in _devices(world, node, published.get(node), held.get(node, NodeHolders()))
    ]
    return [
        device
        for device in devices
        if not which.free or device["state"] in (FREE, SHARED)
        if not which.namespace
        or any(
            holder["kind"] == POD and holder["name"].startswith(f"{which.namespace}/")
            for holder in device["holders"]
        )
    ]


def _devices(
    world: World, node: str, published: SharedDevices | None, held: NodeHolders
) -> Iterable[JsonObject]:
    infos: dict[tuple[str, int], DeviceInfo] = {}
    inventory = NO_DEVICES
    if published is not None:
        listed = published.spec.devices
        infos = {(one.type, one.minor): one for one in listed if one.type in RESOURCES}
        inventory = inventory_of(published, {})
    state = NodeDeviceState(inventory, held.used())
    free = {(kind, minor): left for kind in RESOURCES for minor, left in state.free(kind).items()}
    total = {
        (kind, device.minor): device.total
        for kind, devices in inventory.devices.items()
        for device in devices
    }
    for device in sorted({*infos, *held.used().minors()}):
        kind, minor = device
        info = infos.get(device)
        left = free.get(device, (0,) * len(RESOURCES[kind]))
        holders = [*_pods(world, held, device), *_reservations(world, held, device)]
        yield {
            "node": node,
            "type": kind,
            "minor": minor,
            "state": _state(info, left, bool(holders)),
            "total": as_amounts(kind, total.get(device, left)),
            "left": as_amounts(kind, left),
            "holders": holders,
            **_description(info),
        }


def _state(info: DeviceInfo | None, left: DeviceAmounts, held: bool) -> str:
    if info is None:
        return UNLISTED
    if not info.health:
        return UNHEALTHY
    # Every request for a GPU takes memory, but not every request takes computing time.
    if not left[RATIO if info.type == "gpu" else 0]:
        return FULL
    return SHARED if held else FREE


def _description(info: DeviceInfo | None) -> JsonObject:
    """Return the fields of the Device object except amounts."""
    if info is None:
        return {"id": None, "numaNode": None, "pcie": None, "busID": None, "labels": {}, "vfs": []}
    where = info.topology
    return {
        "id": info.id or None,
        "numaNode": None if where is None or where.node_id < 0 else where.node_id,
        "pcie": None if where is None else where.pcie_id or None,
        "busID": None if where is None else where.bus_id or None,
        "labels": info.labels,
        "vfs": [vf.bus_id for group in info.vf_groups for vf in group.vfs],
    }


def _pods(world: World, held: NodeHolders, device: tuple[str, int]) -> list[JsonObject]:
    holders: list[JsonObject] = []
    for uid, holder in held.pods.items():
        if use := _of_device(holder.use, device):
            placed = world.nodes.pod(uid)
            name = uid if placed is None else placed[0].key
            owned = world.reservations.name_of(holder.reservation) if holder.reservation else None
            holders.append({"kind": POD, "name": name} | use | {"reservation": owned})
    return sorted(holders, key=lambda one: one["name"])


def _reservations(world: World, held: NodeHolders, device: tuple[str, int]) -> list[JsonObject]:
    holders: list[JsonObject] = []
    for uid, reserved in held.reservations.items():
        if use := _of_device(reserved, device):
            unused = _of_device(held.remaining(uid), device)
            name = world.reservations.name_of(uid)
            left = unused["amounts"] if unused else as_amounts(device[0], ())
            holders.append({"kind": RESERVATION, "name": name} | use | {"unused": left})
    return sorted(holders, key=lambda one: one["name"])


def _of_device(use: DeviceUse, device: tuple[str, int]) -> JsonObject:
    """Return the used amounts of one device; empty if nothing is used."""
    own = use.within(frozenset((device,)))
    if own == UNUSED:
        return {}
    amounts = own.amounts[0][2] if own.amounts else ()
    return {
        "amounts": as_amounts(device[0], amounts),
        "vfs": sorted(bus for _, _, bus in own.vfs),
    }


def as_amounts(kind: str, amounts: DeviceAmounts) -> dict[str, int]:
    """Return amounts of a device by resource name; missing ones are zero."""
    padded = (*amounts, *(0,) * (len(RESOURCES[kind]) - len(amounts)))
    return dict(zip(RESOURCES[kind], padded, strict=True))


def shared_as_text(devices: Sequence[JsonObject], *, wide: bool) -> str:
    """Format devices as a table; only the first of many are listed, unless ``wide``."""
    shown = devices if wide else devices[:MOST_DEVICES]
    head = WIDE_HEAD if wide else HEAD
    rows = [row for device in shown for row in _rows(device, wide=wide)]
    table = format_filled_columns(head, rows, _OPTIONAL)
    more = len(devices) - len(shown)
    part = "--node, -n and --free choose a part, -o wide lists them all"
    return f"{table}\n{more} devices are not listed: {part}" if more else table


def _rows(device: JsonObject, *, wide: bool) -> Iterable[tuple[str, ...]]:
    labels = ",".join(f"{key}={value}" for key, value in sorted(device["labels"].items()))
    details = (device["id"] or NOTHING, device["busID"] or NOTHING, labels or NOTHING)
    own = (
        device["node"],
        f"{device['type']} {device['minor']}",
        NOTHING if device["numaNode"] is None else str(device["numaNode"]),
        device["pcie"] or NOTHING,
        device["state"],
        amounts_text(device["left"]),
    )
    held = [_holder(holder) for holder in device["holders"]] or [(NOTHING, NOTHING)]
    for at, cells in enumerate(held):
        first = own if at == 0 else ("",) * len(own)
        more = () if not wide else details if at == 0 else ("",) * len(details)
        yield (*first, *cells, *more)


def _holder(holder: JsonObject) -> tuple[str, str]:
    """Write a holder and its amounts; for a reservation, also the amounts that no owner uses."""
    name, has = f"{holder['kind']} {holder['name']}", amounts_text(holder["amounts"])
    if holder["vfs"]:
        has += f", virtual function {', '.join(holder['vfs'])}"
    if holder["kind"] == RESERVATION:
        unused = amounts_text(holder["unused"])
        return name, has if unused == has else f"{has}; unused: {unused}"
    return name, f"{has}, from {holder['reservation']}" if holder["reservation"] else has


def amounts_text(amounts: Mapping[str, int]) -> str:
    """Write amounts of a device: percent, and the memory of a GPU.

    If the percentages of computing time and of memory differ, both are written.

    >>> gpu = {"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory": 2**33}
    >>> amounts_text(gpu | {"koordinator.sh/gpu-memory-ratio": 50})
    '50% 8Gi'
    >>> amounts_text(gpu | {"koordinator.sh/gpu-memory-ratio": 40})
    '50/40% 8Gi'
    >>> amounts_text({"koordinator.sh/rdma": 100})
    '100%'
    """
    if GPU_CORE not in amounts:
        return " ".join(f"{amount}%" for amount in amounts.values())
    core, ratio, memory = (amounts[name] for name in (GPU_CORE, GPU_MEMORY_RATIO, GPU_MEMORY))
    percent = f"{core}%" if core == ratio else f"{core}/{ratio}%"
    written = in_one_unit("memory", [memory])[0]
    return f"{percent} {written}" if memory else percent

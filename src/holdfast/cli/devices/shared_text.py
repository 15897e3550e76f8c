"""The devices of Device objects as a table: a line for each device and for each further holder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.api.koordinator_names import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO
from holdfast.cli.devices.shared_devices import RESERVATION
from holdfast.cli.table import format_table, in_one_unit

Json = dict[str, Any]
MOST_DEVICES = 100
NOTHING = "-"
HEAD = ("NODE", "DEVICE", "NUMA", "PCIE", "STATE", "LEFT", "HOLDER", "HOLDS")
WIDE_HEAD = (*HEAD, "ID", "BUS", "LABELS")
_OPTIONAL = ("NUMA", "PCIE", "BUS", "LABELS")


def shared_as_text(devices: Sequence[Json], *, wide: bool) -> str:
    """Format devices as a table; of many only the first are listed, unless ``wide``."""
    shown = devices if wide else devices[:MOST_DEVICES]
    head = WIDE_HEAD if wide else HEAD
    rows = [row for device in shown for row in _rows(device, wide=wide)]
    kept = [
        at
        for at, name in enumerate(head)
        if name not in _OPTIONAL or any(row[at] not in ("", NOTHING) for row in rows)
    ]
    table = format_table([head[at] for at in kept], [[row[at] for at in kept] for row in rows])
    more = len(devices) - len(shown)
    part = "--node, -n and --free choose a part, -o wide lists them all"
    return f"{table}\n{more} devices are not listed: {part}" if more else table


def _rows(device: Json, *, wide: bool) -> Iterable[tuple[str, ...]]:
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


def _holder(holder: Json) -> tuple[str, str]:
    """Write a holder and how much it has; of a reservation also what no owner uses."""
    name, has = f"{holder['kind']} {holder['name']}", amounts_text(holder["amounts"])
    if holder["vfs"]:
        has += f", virtual function {', '.join(holder['vfs'])}"
    if holder["kind"] == RESERVATION:
        unused = amounts_text(holder["unused"])
        return name, has if unused == has else f"{has}; unused: {unused}"
    return name, f"{has}, from {holder['reservation']}" if holder["reservation"] else has


def amounts_text(amounts: Mapping[str, int]) -> str:
    """Write amounts of a device: percent, and the memory of a GPU.

    The percentages of computing time and of memory are written both if they differ.

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

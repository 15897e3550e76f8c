"""``holdfast reservation free``: used, reserved and free resources of every node."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.api import scheme
from holdfast.cli.connection import connect, list_all, list_if_allowed
from holdfast.cli.table import format_table, in_one_unit, print_json
from holdfast.cli.world_building import build_world
from holdfast.scheduling.framework.world import World
from holdfast.state.columns.interner import PODS

ASKED = (scheme.NODES, scheme.PODS, scheme.RESERVATIONS)
USUAL = ("cpu", "memory")


def run(resources: Sequence[str], kubeconfig: Path | None, output: str) -> None:
    """Print the resources of every node."""
    nodes = node_resources(asyncio.run(_read(kubeconfig)), resources or USUAL)
    if output == "json":
        print_json(nodes)
    else:
        print(as_text(nodes, resources or USUAL))


async def _read(kubeconfig: Path | None) -> World:
    async with connect(kubeconfig, "holdfast-reservation") as (client, _endpoint):
        devices = await list_if_allowed(client, scheme.SHARED_DEVICES)  # nodes may not list them
        return build_world([*await list_all(client, ASKED), *devices])


def node_resources(world: World, resources: Sequence[str]) -> list[dict[str, Any]]:
    """Return the resources of every node: total, used by pods, reserved but unused, free.

    Amounts are in base units, cpu in millicores.
    """
    nodes = world.nodes
    ids = {name: nodes.resources.id(name) for name in resources}
    held = _held(world)
    all_amounts = []
    for name, row in sorted(nodes.row_of.items()):
        amounts: dict[str, Any] = {"node": name, "cordoned": bool(nodes.unschedulable[row])}
        for resource, id_ in ids.items():
            amounts[resource] = _of_resource(nodes, id_, row, held[row, id_])
        all_amounts.append(amounts)
    return all_amounts


def _held(world: World) -> Counter[tuple[int, int]]:
    """Sum what reservations hold in addition to their owners, by row and resource."""
    held: Counter[tuple[int, int]] = Counter()
    for info in world.reservations:
        row = world.nodes.row_of.get(info.node)
        if row is not None:
            beside = {**info.held_amounts, PODS: info.held_pod_slots}
            held.update({(row, resource): amount for resource, amount in beside.items()})
    return held


def _of_resource(nodes: Any, resource: int, row: int, reserved: int) -> dict[str, int]:
    if resource >= nodes.amounts.width:
        return {"has": 0, "used": 0, "reserved": 0, "free": 0}
    has, taken = int(nodes.allocatable[resource, row]), int(nodes.requested[resource, row])
    return {"has": has, "used": taken - reserved, "reserved": reserved, "free": has - taken}


def as_text(nodes: Sequence[dict[str, Any]], resources: Sequence[str]) -> str:
    """Format a table of every node's resources; the last line is the sum of all nodes."""
    parts = ("has", "used", "reserved", "free")
    columns = [[f"{node['node']}{' (cordoned)' if node['cordoned'] else ''}" for node in nodes]]
    if len(nodes) > 1:
        columns[0].append("all nodes")
    head = ["NODE"]
    for resource in resources:
        head += [resource.upper(), "USED", "RESERVED", "FREE"]
        rows = [[node[resource][part] for part in parts] for node in nodes]
        if len(nodes) > 1:
            rows.append([sum(column) for column in zip(*rows, strict=True)])
        cells = in_one_unit(resource, [amount for row in rows for amount in row])
        columns += [cells[at :: len(parts)] for at in range(len(parts))]
    return format_table(head, zip(*columns, strict=True))

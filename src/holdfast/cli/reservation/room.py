"""``holdfast reservation free``: what each node has, and who has it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast.api import scheme
from holdfast.cli.connection import connected, everything
from holdfast.cli.snapshot import world_of
from holdfast.cli.table import shown, table
from holdfast.columns.interner import PODS
from holdfast.framework.world import World

ASKED = (scheme.NODES, scheme.PODS, scheme.RESERVATIONS)
USUAL = ("cpu", "memory")


def run(resources: Sequence[str], kubeconfig: Path | None, output: str) -> None:
    """Print the room of every node."""
    found = rooms(asyncio.run(_read(kubeconfig)), resources or USUAL)
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        print(as_text(found, resources or USUAL))


async def _read(kubeconfig: Path | None) -> World:
    async with connected(kubeconfig, "holdfast-reservation") as (client, _endpoint):
        return world_of(await everything(client, ASKED))


def rooms(world: World, resources: Sequence[str]) -> list[dict[str, Any]]:
    """Tell of every node what it has, what pods use, what is reserved and unused, what is free.

    Amounts are in base units, of cpu in millicores. What is free is free for everybody.
    """
    nodes = world.nodes
    ids = {name: nodes.resources.id(name) for name in resources}
    held = _held(world)
    found = []
    for name, row in sorted(nodes.row_of.items()):
        told: dict[str, Any] = {"node": name, "cordoned": bool(nodes.unschedulable[row])}
        for resource, id_ in ids.items():
            told[resource] = _room(nodes, id_, row, held[row, id_])
        found.append(told)
    return found


def _held(world: World) -> Counter[tuple[int, int]]:
    """What reservations hold beside their owners, by row and resource."""
    held: Counter[tuple[int, int]] = Counter()
    for offer in world.offers:
        row = world.nodes.row_of.get(offer.node)
        if row is not None:
            beside = {**offer.top_up, PODS: offer.slots}
            held.update({(row, resource): amount for resource, amount in beside.items()})
    return held


def _room(nodes: Any, resource: int, row: int, reserved: int) -> dict[str, int]:
    if resource >= nodes.amounts.width:
        return {"has": 0, "used": 0, "reserved": 0, "free": 0}
    has, taken = int(nodes.allocatable[resource, row]), int(nodes.requested[resource, row])
    return {"has": has, "used": taken - reserved, "reserved": reserved, "free": has - taken}


def as_text(found: Sequence[dict[str, Any]], resources: Sequence[str]) -> str:
    """Set the rooms in a table, the sum of all nodes last."""
    parts = ("has", "used", "reserved", "free")
    head = ["NODE"]
    for resource in resources:
        head += [resource.upper(), "USED", "RESERVED", "FREE"]
    rows = [
        [f"{room['node']}{' (cordoned)' if room['cordoned'] else ''}",
         *(shown(r, room[r][part]) for r in resources for part in parts)]
        for room in found
    ]  # fmt: skip
    if len(found) > 1:
        sums = [shown(r, sum(room[r][part] for room in found)) for r in resources for part in parts]
        rows.append(["all nodes", *sums])
    return table(head, rows)

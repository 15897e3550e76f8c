"""``holdfast cpus``: read the objects of the cluster, print the CPUs of one node or of all."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import msgspec

from holdfast.api import scheme
from holdfast.cli.connection import connect, list_all
from holdfast.cli.cpus.cpus_data import as_data, summary
from holdfast.cli.cpus.drawing import as_text, nodes_as_text
from holdfast.cli.cpus.node_cpus import nodes_with_topology, read_node_cpus
from holdfast.cli.world_building import build_world
from holdfast.framework.world import World

READ = (scheme.NODES, scheme.PODS, scheme.RESERVATIONS, scheme.NODE_RESOURCE_TOPOLOGIES)
NARROWEST = 40
"""Columns; the drawing is not made for less."""


def run(node: str, kubeconfig: Path | None, output: str) -> None:
    """Print the CPUs of a node, or a line for each node."""
    world = asyncio.run(_read(kubeconfig))
    if node:
        one = read_node_cpus(world, node)
        width = max(shutil.get_terminal_size((80, 24)).columns, NARROWEST)
        _print(as_data(one) if output == "json" else as_text(one, width))
    else:
        every = nodes_with_topology(world)
        _print([summary(each) for each in every] if output == "json" else nodes_as_text(every))


def _print(found: Any) -> None:
    if isinstance(found, str):
        print(found)
    else:
        print(msgspec.json.format(msgspec.json.encode(found)).decode())


async def _read(kubeconfig: Path | None) -> World:
    async with connect(kubeconfig, "holdfast-cpus") as (client, _endpoint):
        return build_world(await list_all(client, READ))

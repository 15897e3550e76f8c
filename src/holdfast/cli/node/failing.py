"""``holdfast node fail`` and ``recover``: set or remove the annotation of failed nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path

from holdfast.api.node import Node
from holdfast.api.node_names import AGENT_LABEL, FAILED_ANNOTATION, LEASE_NAMESPACE
from holdfast.api.scheme import LEASES, NODES
from holdfast.cli.connection import connect
from holdfast.cli.table import join_names
from holdfast.client.client import Client
from holdfast.runtime.errors import NotFound, Refused
from holdfast.runtime.settings import NodeLifecycleSettings


def run(names: Sequence[str], kubeconfig: Path | None, *, fails: bool) -> None:
    """Let nodes fail or recover, and print what happened to each."""
    for line in asyncio.run(_connect_and_change(names, kubeconfig, fails=fails)):
        print(line)


async def _connect_and_change(
    names: Sequence[str], kubeconfig: Path | None, *, fails: bool
) -> list[str]:
    async with connect(kubeconfig, "holdfast-node") as (client, _endpoint):
        return await change_nodes(client, names, fails=fails)


async def change_nodes(client: Client, names: Sequence[str], *, fails: bool) -> list[str]:
    """Let nodes fail or recover; none is changed if one is missing or has a kubelet."""
    unique = tuple(dict.fromkeys(names))
    nodes = {name: await _node(client, name) for name in unique}
    _refuse([name for name, node in nodes.items() if node is None], "not found")
    foreign = [name for name in unique if fails and not await _has_our_agent(client, name)]
    _refuse(foreign, "not run by an agent of Holdfast: stop the kubelet there instead")
    return [await _change(client, node, fails=fails) for node in nodes.values() if node is not None]


def _refuse(names: Iterable[str], why: str) -> None:
    if nodes := tuple(names):
        word, verb = ("node", "is") if len(nodes) == 1 else ("nodes", "are")
        raise Refused(f"{word} {join_names(nodes)} {verb} {why}; no node was changed")


async def _node(client: Client, name: str) -> Node | None:
    try:
        return await client.get(NODES, name)
    except NotFound:
        return None


async def _has_our_agent(client: Client, name: str) -> bool:
    try:
        lease = await client.get(LEASES, name, LEASE_NAMESPACE)
    except NotFound:
        return False
    return AGENT_LABEL in lease.metadata.labels


async def _change(client: Client, node: Node, *, fails: bool) -> str:
    failed = FAILED_ANNOTATION in node.metadata.annotations
    if failed == fails:
        return f"node/{node.name} " + ("has failed already" if fails else "has not failed")
    value = "true" if fails else None
    await client.patch(NODES, node.name, {"metadata": {"annotations": {FAILED_ANNOTATION: value}}})
    if not fails:
        return f"node/{node.name} recovers"
    grace = NodeLifecycleSettings().monitor_grace_seconds
    return f"node/{node.name} has failed; it is reported as unreachable after {grace:.0f} s"

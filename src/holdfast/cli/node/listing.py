"""``holdfast node list``: readiness, leases, pods and taints of nodes."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Any

from holdfast.api.meta import Object
from holdfast.api.node import Lease, Node
from holdfast.api.node_names import AGENT_LABEL, FAILED_ANNOTATION, LEASE_NAMESPACE
from holdfast.api.pod import Pod
from holdfast.api.scheme import LEASES, NODES, PODS
from holdfast.api.timestamps import seconds_of
from holdfast.cli.connection import connect, list_all
from holdfast.cli.table import format_duration, format_table, print_json

HEAD = ("NAME", "READY", "AGENT", "LEASE", "PODS", "TAINTS")
"""Columns of the table."""


def run(kubeconfig: Path | None, output: str) -> None:
    """Print all nodes."""
    nodes = as_data(asyncio.run(_read(kubeconfig)), time.time())
    if output == "json":
        print_json(nodes)
    elif nodes:
        print(as_text(nodes))
    else:
        print("there are no nodes")


async def _read(kubeconfig: Path | None) -> list[Object]:
    async with connect(kubeconfig, "holdfast-node") as (client, _endpoint):
        return await list_all(client, (NODES, PODS, LEASES))


def as_data(objects: list[Object], now: float) -> list[dict[str, Any]]:
    """Return the nodes by name, as JSON data."""
    leases = {o.name: o for o in objects if isinstance(o, Lease) and o.namespace == LEASE_NAMESPACE}
    pods = Counter(o.spec.node_name for o in objects if isinstance(o, Pod) and not o.finished)
    nodes = sorted((o for o in objects if isinstance(o, Node)), key=lambda node: node.name)
    return [_data(node, leases.get(node.name), pods[node.name], now) for node in nodes]


def _data(node: Node, lease: Lease | None, pods: int, now: float) -> dict[str, Any]:
    renewed = seconds_of(lease.spec.renew_time) if lease is not None else None
    labels = (lease.metadata.labels if lease is not None else {}) | node.metadata.labels
    return {
        "name": node.name,
        "ready": next((c.status for c in node.status.conditions if c.type == "Ready"), None),
        "agent": labels.get(AGENT_LABEL, "other"),
        "failed": FAILED_ANNOTATION in node.metadata.annotations,
        "leaseAgeSeconds": None if renewed is None else max(0.0, now - renewed),
        "pods": pods,
        "taints": [f"{t.key}:{t.effect}" for t in node.spec.taints],
    }


def as_text(nodes: list[dict[str, Any]]) -> str:
    """Format a table of nodes."""
    rows = []
    for node in nodes:
        lease = node["leaseAgeSeconds"]
        rows.append(
            (
                node["name"],
                node["ready"] or "-",
                "failed" if node["failed"] else node["agent"],
                "-" if lease is None else format_duration(lease),
                str(node["pods"]),
                ", ".join(node["taints"]) or "-",
            )
        )
    return format_table(HEAD, rows)

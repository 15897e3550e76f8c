"""``holdfast why``: explain a pod of a live cluster by deciding for it again, here."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from holdfast.api import scheme
from holdfast.api.resource import Resource, Untyped
from holdfast.cli.explain import explain_objects
from holdfast.cli.verdict import as_text
from holdfast.client.client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import load
from holdfast.errors import NotFound

READ = (
    scheme.NAMESPACES, scheme.NODES, scheme.PODS, scheme.RESERVATIONS, scheme.RESOURCE_POLICIES,
    scheme.DEVICE_CLASSES, scheme.RESOURCE_SLICES, scheme.RESOURCE_CLAIMS,
    scheme.DISRUPTION_BUDGETS,
)  # fmt: skip


def why(
    pod: Annotated[str, typer.Argument(help="NAME or NAMESPACE/NAME.")],
    namespace: Annotated[str, typer.Option("-n", "--namespace")] = "default",
    kubeconfig: Annotated[Path | None, typer.Option(help="Default: as kubectl finds it.")] = None,
    output: Annotated[str, typer.Option("-o", "--output", help="json or text.")] = "text",
) -> None:
    """Say why a pod is, or is not, where it is; preemption is tried as a dry run."""
    key = pod if "/" in pod else f"{namespace}/{pod}"
    answer, found = asyncio.run(_ask(key, kubeconfig))
    if output == "json":
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(answer)).decode() + "\n")
        return
    node = (found.get("spec") or {}).get("nodeName")
    if node:
        print(f"{key} is on {node}; had it to be placed now:")
    sys.stdout.write(as_text(answer))


async def _ask(key: str, kubeconfig: Path | None) -> tuple[dict[str, Any], dict[str, Any]]:
    client = Client(HttpTransport(await load(kubeconfig)), "holdfast-why")
    try:
        namespace, _, name = key.partition("/")
        found = await client.get(_untyped(scheme.PODS), name, namespace)
        objects: list[dict[str, Any]] = []
        for resource in READ:
            objects += await _all(client, resource)
    finally:
        await client.close()
    return explain_objects(objects, key, preempt=True), found


async def _all(client: Client, resource: Resource[Any]) -> list[dict[str, Any]]:
    try:
        listing = await client.list(_untyped(resource))
    except NotFound:
        return []
    return [
        {"apiVersion": resource.api_version, "kind": resource.kind, **item}
        for item in listing.items
    ]


def _untyped(resource: Resource[Any]) -> Untyped:
    return Resource(
        resource.group, resource.version, resource.plural, resource.kind, dict, resource.namespaced
    )

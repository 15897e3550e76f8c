"""A live cluster to ask: its client, everything in it, and what to say when it is not there."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from holdfast.api import scheme
from holdfast.api.meta import Object
from holdfast.api.resource import Resource
from holdfast.cli import running
from holdfast.client.client import Client
from holdfast.client.endpoint import Endpoint
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import load
from holdfast.client.response_decoding import UnreadableObject
from holdfast.errors import BadConfiguration, NotFound, Refused, Unavailable

T = TypeVar("T", bound=Object)
DECIDES: tuple[Resource[Any], ...] = (
    scheme.NAMESPACES, scheme.NODES, scheme.PODS, scheme.PRIORITY_CLASSES,
    scheme.RESERVATIONS, scheme.RESOURCE_POLICIES, scheme.DEVICE_CLASSES, scheme.RESOURCE_SLICES,
    scheme.RESOURCE_CLAIMS, scheme.DISRUPTION_BUDGETS, scheme.STORAGE_CLASSES,
    scheme.PERSISTENT_VOLUMES, scheme.PERSISTENT_VOLUME_CLAIMS, scheme.CSI_NODES,
    scheme.CSI_DRIVERS, scheme.CSI_STORAGE_CAPACITIES, scheme.VOLUME_ATTACHMENTS,
    scheme.SERVICES, scheme.REPLICATION_CONTROLLERS, scheme.REPLICASETS, scheme.STATEFULSETS,
)  # fmt: skip
"""Everything that deciding looks at."""


@asynccontextmanager
async def connected(kubeconfig: Path | None, name: str) -> AsyncIterator[tuple[Client, Endpoint]]:
    """Connect as one of our commands; a server that does not answer is a sentence."""
    endpoint = await _endpoint(kubeconfig)
    client = Client(HttpTransport(endpoint), name)
    try:
        yield client, endpoint
    except Unavailable as failure:
        raise Refused(
            f"{endpoint.url} does not answer ({failure}): start the embedded cluster with "
            "`holdfast up`, or name another with --kubeconfig"
        ) from failure
    finally:
        await client.close()


async def everything(client: Client, resources: Iterable[Resource[Any]] = DECIDES) -> list[Object]:
    """Read all objects of these resources."""
    return [obj for resource in resources for obj in await all_of(client, resource)]


async def all_of(client: Client, resource: Resource[T]) -> tuple[T, ...]:
    """Read all objects of a resource; one whose definition is not installed has none."""
    try:
        return (await client.list(resource, unreadable=_say_unreadable)).items
    except NotFound:
        return ()


def _say_unreadable(broken: UnreadableObject) -> None:
    print(f"holdfast: {broken}; deciding without it", file=sys.stderr)


async def _endpoint(kubeconfig: Path | None) -> Endpoint:
    try:
        return await load(kubeconfig)
    except BadConfiguration as wrong:
        embedded = running.find(running.data_dir(None))
        if kubeconfig is None and embedded is not None:
            raise BadConfiguration(
                f"{wrong}; one runs already: export KUBECONFIG={embedded.kubeconfig}"
            ) from wrong
        raise

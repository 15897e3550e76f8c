"""Connect to a live cluster, and list the objects that scheduling decisions depend on."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from holdfast.api import scheme
from holdfast.api.meta import Object
from holdfast.api.resource import Resource
from holdfast.cli import running_cluster
from holdfast.client.backoff import retry
from holdfast.client.client import Client
from holdfast.client.discovery import find_classic_resources
from holdfast.client.endpoint import Endpoint
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import load
from holdfast.client.response_decoding import UnreadableObject
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import (
    BadConfiguration,
    Forbidden,
    NotFound,
    Refused,
    TooManyRequests,
    Unavailable,
)

T = TypeVar("T", bound=Object)
SCHEDULING_RESOURCES: tuple[Resource[Any], ...] = (
    scheme.NAMESPACES, scheme.NODES, scheme.PODS, scheme.PRIORITY_CLASSES,
    scheme.RESERVATIONS, scheme.RESOURCE_POLICIES, scheme.NODE_RESOURCE_TOPOLOGIES,
    scheme.SHARED_DEVICES,
    scheme.DEVICE_CLASSES, scheme.RESOURCE_SLICES,
    *scheme.TAINT_RULE_VERSIONS, scheme.RESOURCE_CLAIMS, scheme.DISRUPTION_BUDGETS,
    scheme.STORAGE_CLASSES,
    scheme.PERSISTENT_VOLUMES, scheme.PERSISTENT_VOLUME_CLAIMS, scheme.CSI_NODES,
    scheme.CSI_DRIVERS, scheme.CSI_STORAGE_CAPACITIES, scheme.VOLUME_ATTACHMENTS,
    scheme.SERVICES, scheme.REPLICATION_CONTROLLERS, scheme.REPLICASETS, scheme.STATEFULSETS,
)  # fmt: skip
"""Every resource that a scheduling decision depends on; taint rules in both versions, because a
server may serve either."""


@asynccontextmanager
async def connect(kubeconfig: Path | None, name: str) -> AsyncIterator[tuple[Client, Endpoint]]:
    """Connect under a client name; raise Refused with advice if the server does not answer."""
    endpoint = await _endpoint(kubeconfig)
    client = Client(HttpTransport(endpoint), name)
    try:
        yield client, endpoint
    except Unavailable as failure:
        raise Refused(
            f"{endpoint.url} does not answer ({failure}): start the embedded cluster with "
            f"`holdfast up{running_cluster.flag_beside(kubeconfig)}`, or name another cluster with "
            "--kubeconfig"
        ) from failure
    finally:
        await client.close()


async def list_all(
    client: Client, resources: Iterable[Resource[Any]] | None = None
) -> list[Object]:
    """List all objects of these resources; by default, of all resources that scheduling reads."""
    if resources is None:
        classic = await find_classic_resources(client)
        resources = (*SCHEDULING_RESOURCES, *(classic.all if classic is not None else ()))
    return [obj for resource in resources for obj in await list_objects(client, resource)]


async def list_objects(client: Client, resource: Resource[T]) -> tuple[T, ...]:
    """List all objects of a resource; none if it is not served."""

    async def work() -> tuple[T, ...]:
        return (await client.list(resource, unreadable=_warn_unreadable)).items

    try:
        # For example, a server is busy while it reads the objects of a new CRD.
        return await retry(work, SystemClock(), tries=5, on=TooManyRequests)
    except NotFound:
        return ()


async def list_if_allowed(client: Client, resource: Resource[T]) -> tuple[T, ...]:
    """List all objects of a resource; none if it is not served, or the user may not list it."""
    try:
        return await list_objects(client, resource)
    except Forbidden:
        return ()


def _warn_unreadable(broken: UnreadableObject) -> None:
    print(f"holdfast: {broken}; the object is ignored", file=sys.stderr)


async def _endpoint(kubeconfig: Path | None) -> Endpoint:
    try:
        return await load(kubeconfig)
    except BadConfiguration as error:
        embedded = running_cluster.find(running_cluster.data_dir(None))
        if kubeconfig is None and embedded is not None:
            raise BadConfiguration(
                f"{error}; an embedded cluster is running: export KUBECONFIG={embedded.kubeconfig}"
            ) from error
        raise

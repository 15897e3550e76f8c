"""Planned API writes as values, which tests can compare, and their execution."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from holdfast.api.resource import Resource
from holdfast.client.client import Client, PatchType
from holdfast.runtime.errors import HoldfastError, NotFound


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object."""

    resource: Resource[Any]
    body: Mapping[str, Any]
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Patch:
    """Patch an object; a ``metadata.resourceVersion`` in the patch is a precondition."""

    resource: Resource[Any]
    name: str
    patch: Mapping[str, Any]
    namespace: str = ""
    subresource: str = ""
    type: PatchType = PatchType.MERGE


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object; ``uid`` and ``resource_version`` are preconditions."""

    resource: Resource[Any]
    name: str
    namespace: str = ""
    uid: str = ""
    propagation: str = ""
    resource_version: str = ""


Write = Create | Patch | Delete


@dataclass(frozen=True, slots=True)
class PlannedEvent:
    """An event to record; the type is Normal or Warning."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Writes in order, events, and the seconds until the key is reconciled again, if any."""

    writes: tuple[Write, ...] = ()
    requeue_after: float | None = None
    events: tuple[PlannedEvent, ...] = ()


async def execute_write(client: Client, write: Write) -> Any:
    """Execute one write and return the stored object, None for a deletion."""
    match write:
        case Create(resource, body, namespace):
            return await client.create(resource, body, namespace)
        case Patch(resource, name, patch, namespace, subresource, type_):
            return await client.patch(
                resource, name, patch, namespace, type=type_, subresource=subresource
            )
        case Delete(resource, name, namespace, uid, propagation, version):
            return await client.delete(
                resource, name, namespace,
                uid=uid, propagation=propagation, resource_version=version,
            )  # fmt: skip


async def execute_writes(client: Client, writes: Iterable[Write]) -> None:
    """Execute writes one after another; patches and deletions of missing objects are skipped."""
    for write in writes:
        try:
            await execute_write(client, write)
        except NotFound:
            if isinstance(write, Create):
                raise


async def execute_chained_writes(client: Client, writes: Iterable[Write]) -> None:
    """Execute writes to one object, each with the resource version that the previous one returned.

    The first keeps its own precondition. A write by another client raises Conflict.
    """
    version = ""
    for write in writes:
        try:
            stored = await execute_write(client, _with_resource_version(write, version))
        except NotFound:
            return
        version = stored.metadata.resource_version if stored is not None else version


def _with_resource_version(write: Write, version: str) -> Write:
    if not version or not isinstance(write, Patch):
        return write
    meta = {**write.patch.get("metadata", {}), "resourceVersion": version}
    return replace(write, patch={**write.patch, "metadata": meta})


def namespace_is_terminating(failure: BaseException) -> bool:
    """Return whether a creation was refused because its namespace is terminating."""
    causes = failure.details.causes if isinstance(failure, HoldfastError) else ()
    return any(cause.reason == "NamespaceTerminating" for cause in causes)

"""What a plan asks for: values, so that plans are compared in tests and carried out elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from holdfast.api.resource import Resource
from holdfast.client.client import Client, PatchType
from holdfast.errors import HoldfastError, NotFound


@dataclass(frozen=True, slots=True)
class Create:
    """Make an object; the server names it when the body has a ``generateName``."""

    resource: Resource[Any]
    body: Mapping[str, Any]
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Patch:
    """Change part of an object; a ``metadata.resourceVersion`` inside guards the change."""

    resource: Resource[Any]
    name: str
    patch: Mapping[str, Any]
    namespace: str = ""
    subresource: str = ""
    type: PatchType = PatchType.MERGE


@dataclass(frozen=True, slots=True)
class Delete:
    """Ask for deletion, only of the very object meant when ``uid`` is given."""

    resource: Resource[Any]
    name: str
    namespace: str = ""
    uid: str = ""
    propagation: str = ""
    resource_version: str = ""


Write = Create | Patch | Delete


@dataclass(frozen=True, slots=True)
class PlannedEvent:
    """An event to record: Normal or Warning, a reason in one word, the message."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write now, in order, and in how many seconds to look again (None: on news)."""

    writes: tuple[Write, ...] = ()
    requeue_after: float | None = None
    events: tuple[PlannedEvent, ...] = ()


async def execute_write(client: Client, write: Write) -> Any:
    """Make one write and return what the server stored (None for a deletion)."""
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
    """Make writes one after another; what is gone already needs no change and no deletion."""
    for write in writes:
        try:
            await execute_write(client, write)
        except NotFound:
            if isinstance(write, Create):
                raise


async def execute_chained_writes(client: Client, writes: Iterable[Write]) -> None:
    """Make writes to one object, each guarded by the version that the one before left.

    The first keeps its own guard; whoever interferes makes the chain fail with Conflict.
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
    """Tell whether a creation was refused because its whole namespace is being deleted."""
    causes = failure.details.causes if isinstance(failure, HoldfastError) else ()
    return any(cause.reason == "NamespaceTerminating" for cause in causes)

"""Discover the resources of the API server, each at the most preferred version that has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from holdfast.api.meta import Object
from holdfast.api.resource import Resource
from holdfast.client.client import Client
from holdfast.runtime.errors import HoldfastError

ServedResources = tuple[Resource[Object], ...]
AGGREGATED = "APIGroupDiscoveryList"
_FORM = f"application/json;g=apidiscovery.k8s.io;v={{}};as={AGGREGATED}"
ACCEPT = ",".join([_FORM.format("v2"), _FORM.format("v2beta1"), "application/json"])
"""Aggregated discovery, which lists all groups in one response, if the server has it."""


class _Kind(msgspec.Struct, frozen=True):
    kind: str = ""


class _Served(msgspec.Struct, frozen=True, rename="camel"):
    resource: str
    response_kind: _Kind | None = None
    scope: str = ""
    verbs: tuple[str, ...] = ()


class _Version(msgspec.Struct, frozen=True):
    version: str
    resources: tuple[_Served, ...] = ()
    freshness: str = "Current"


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""


class _Group(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    versions: tuple[_Version, ...] = ()


class _Groups(msgspec.Struct, frozen=True):
    kind: str = ""
    items: tuple[_Group, ...] = ()


async def discover(client: Client) -> ServedResources:
    """Return all resources; groups whose discovery fails are omitted."""
    resources: list[Resource[Object]] = []
    for path in ("/api", "/apis"):
        of_path = _aggregated(await client.raw(path, accept=ACCEPT))
        if of_path is None:
            return await _discover_each_group(client)
        resources += of_path
    return tuple(resources)


@lru_cache(maxsize=8)
def _aggregated(document: bytes) -> ServedResources | None:
    """Return the resources of a document; None if it is not aggregated discovery.

    Cached, because the document is read often and changes only with a CRD.
    """
    response = msgspec.json.decode(document, type=_Groups)
    return tuple(_from_groups(response.items)) if response.kind == AGGREGATED else None


def _from_groups(groups: Sequence[_Group]) -> Iterator[Resource[Object]]:
    for group in groups:
        seen: set[str] = set()
        for version in group.versions:  # the preferred one first
            if version.freshness == "Stale":  # the server of the group does not respond
                break
            for served in version.resources:
                if (
                    served.response_kind is not None
                    and served.verbs
                    and served.resource not in seen
                ):
                    seen.add(served.resource)
                    yield Resource(
                        group.metadata.name, version.version, served.resource,
                        served.response_kind.kind, Object,
                        namespaced=served.scope == "Namespaced", verbs=served.verbs,
                    )  # fmt: skip


async def _discover_each_group(client: Client) -> ServedResources:
    """Read one document per group, as servers without aggregated discovery have them."""
    resources = list(_resources("", "v1", msgspec.json.decode(await client.raw("/api/v1"))))
    groups = msgspec.json.decode(await client.raw("/apis"))["groups"]
    for group in groups:
        version = group["preferredVersion"]["version"]
        try:
            answer = await client.raw(f"/apis/{group['name']}/{version}")
        except HoldfastError:
            continue
        resources += _resources(group["name"], version, msgspec.json.decode(answer))
    return tuple(resources)


def _resources(group: str, version: str, answer: Any) -> Iterable[Resource[Object]]:
    for row in answer.get("resources") or ():
        if "/" not in row["name"]:
            yield Resource(
                group, version, row["name"], row["kind"], Object,
                namespaced=row["namespaced"], verbs=tuple(row["verbs"]),
            )  # fmt: skip


def deletable_resources(served: ServedResources) -> ServedResources:
    """Return the resources that can be watched and deleted, without events, which expire."""
    return tuple(
        r for r in served
        if {"list", "watch", "delete"} <= set(r.verbs) and r.plural != "events"
    )  # fmt: skip

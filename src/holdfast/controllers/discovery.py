"""Discover the resources of the API server, each at its preferred version."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.api.meta import Object
from holdfast.api.resource import Resource
from holdfast.client.client import Client
from holdfast.errors import HoldfastError

ServedResources = tuple[Resource[Object], ...]


async def discover(client: Client) -> ServedResources:
    """Return all resources; groups whose discovery fails are omitted."""
    found = list(_resources("", "v1", msgspec.json.decode(await client.raw("/api/v1"))))
    groups = msgspec.json.decode(await client.raw("/apis"))["groups"]
    for group in groups:
        version = group["preferredVersion"]["version"]
        try:
            answer = await client.raw(f"/apis/{group['name']}/{version}")
        except HoldfastError:
            continue
        found += _resources(group["name"], version, msgspec.json.decode(answer))
    return tuple(found)


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

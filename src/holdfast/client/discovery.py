"""Find out what an API server serves: its release of Kubernetes, and optional resources."""

from __future__ import annotations

import logging
import re
from typing import Any

import msgspec

from holdfast.api.classic_dra.types import ClassicResources, classic_resources
from holdfast.api.devices import DeviceTaintRule
from holdfast.api.resource import Resource
from holdfast.api.scheme import TAINT_RULE_VERSIONS
from holdfast.client.backoff import Backoff, retry
from holdfast.client.classic_group import find_classic_group
from holdfast.client.client import Client
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import Forbidden, HoldfastError, NotFound
from holdfast.runtime.feature_gates import NEWEST, Feature, FeatureGates, Release

_NUMBER = re.compile(r"\d+")
SERVED_CHECK_BACKOFF = Backoff(first=0.2, limit=10.0)
"""Backoff between checks whether a resource is served."""

log = logging.getLogger(__name__)


class _Version(msgspec.Struct, rename="camel"):
    major: str = ""
    minor: str = ""
    emulation_major: str = ""
    emulation_minor: str = ""


async def read_server_release(client: Client) -> Release:
    """Return the release that a server has or emulates; the newest known one if it is unknown."""
    try:
        return release_in(await client.raw("/version"))
    except (Forbidden, NotFound):
        return NEWEST


def release_in(document: bytes) -> Release:
    """Return the release in a response to ``/version``; the newest known one if there is none.

    >>> release_in(b'{"major": "1", "minor": "36+"}')
    (1, 36)
    """
    try:
        said = msgspec.json.decode(document, type=_Version)
    except msgspec.MsgspecError:
        return NEWEST
    major = _NUMBER.match(said.emulation_major or said.major)
    minor = _NUMBER.match(said.emulation_minor or said.minor)
    return (int(major[0]), int(minor[0])) if major and minor else NEWEST


async def may_list(client: Client, resource: Resource[Any], clock: Clock) -> bool:
    """Return whether the client has the right to list a resource that is served."""
    try:
        return await is_served(client, resource, clock)
    except Forbidden:
        return False


async def is_served(client: Client, resource: Resource[Any], clock: Clock) -> bool:
    """Return whether a resource is served; tries again until the server answers."""

    def on_failure(failure: HoldfastError) -> None:
        log.warning("checking for %s failed: %s; trying again", resource.plural, failure)

    try:
        # An unreadable object also shows that its resource is served.
        await retry(
            lambda: client.list(resource, limit=1, unreadable=lambda _misfit: None),
            clock,
            SERVED_CHECK_BACKOFF,
            on_failure=on_failure,
        )
    except NotFound:
        return False
    return True


async def find_taint_rules(
    client: Client, clock: Clock, gates: FeatureGates
) -> Resource[DeviceTaintRule] | None:
    """Return DeviceTaintRules in the version that is served; tries again until the server answers.

    None if their gate is off, by default that of the server's release, or if none is served.
    """

    def on_failure(failure: HoldfastError) -> None:
        log.warning("looking for DeviceTaintRules failed: %s; trying again", failure)

    try:
        return await retry(
            lambda: read_taint_rule_version(client, gates), clock, SERVED_CHECK_BACKOFF,
            on_failure=on_failure,
        )  # fmt: skip
    except NotFound as missing:
        log.warning("%s", missing)
        return None


async def read_taint_rule_version(
    client: Client, gates: FeatureGates
) -> Resource[DeviceTaintRule] | None:
    """Return DeviceTaintRules in the version that is served now, None if their gate is off.

    Raises NotFound if none is served, and other errors of the requests.
    """
    release = await read_server_release(client)
    if not gates.of_release(release).enabled(Feature.DEVICE_TAINT_RULES):
        return None
    for resource in TAINT_RULE_VERSIONS:
        try:
            # An unreadable object also shows that its resource is served.
            await client.list(resource, limit=1, unreadable=lambda _misfit: None)
        except NotFound:
            continue
        return resource
    versions = " or ".join(resource.api_version for resource in TAINT_RULE_VERSIONS)
    raise NotFound(
        f"DeviceTaintRules are not served here in {versions}: start the API server with one of "
        f"them and with the gate {Feature.DEVICE_TAINT_RULES} to use them"
    )


async def find_classic_resources(client: Client) -> ClassicResources | None:
    """Return the resources of classic DRA in the group that is served; None if neither is."""
    group = await find_classic_group(client)
    return classic_resources(group) if group else None

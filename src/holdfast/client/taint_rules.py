"""Find the version in which an API server serves DeviceTaintRules, if they are to be followed."""

from __future__ import annotations

import logging

from holdfast.api.devices import DeviceTaintRule
from holdfast.api.resource import Resource
from holdfast.api.scheme import TAINT_RULE_VERSIONS
from holdfast.client.backoff import retry
from holdfast.client.client import Client
from holdfast.client.served_resources import SERVED_CHECK_BACKOFF
from holdfast.client.server_release import read_server_release
from holdfast.clock import Clock
from holdfast.errors import HoldfastError, NotFound
from holdfast.feature_gates import Feature, FeatureGates

log = logging.getLogger(__name__)


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

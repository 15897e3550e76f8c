"""Find the version in which an API server serves DeviceTaintRules, if they are to be followed."""

from __future__ import annotations

import logging

from holdfast.api.devices import DeviceTaintRule
from holdfast.api.resource import Resource
from holdfast.api.scheme import TAINT_RULE_VERSIONS
from holdfast.client.backoff import retry
from holdfast.client.client import Client
from holdfast.client.served_resources import SERVED_CHECK_BACKOFF, is_served
from holdfast.client.server_release import read_server_release
from holdfast.clock import Clock
from holdfast.errors import HoldfastError
from holdfast.feature_gates import Feature, FeatureGates

log = logging.getLogger(__name__)


async def find_taint_rules(
    client: Client, clock: Clock, gates: FeatureGates
) -> Resource[DeviceTaintRule] | None:
    """Return DeviceTaintRules in the version that is served; tries again until the server answers.

    None if their gate is off, by default that of the server's release, or if none is served.
    """

    def on_failure(failure: HoldfastError) -> None:
        log.warning("reading the server's version failed: %s; trying again", failure)

    release = await retry(
        lambda: read_server_release(client), clock, SERVED_CHECK_BACKOFF, on_failure=on_failure
    )
    if not gates.of_release(release).enabled(Feature.DEVICE_TAINT_RULES):
        return None
    for resource in TAINT_RULE_VERSIONS:
        if await is_served(client, resource, clock):
            return resource
    log.warning(
        "DeviceTaintRules are not served here in %s: start the API server with one of them and "
        "with the gate %s, and restart to use them",
        " or ".join(resource.api_version for resource in TAINT_RULE_VERSIONS),
        Feature.DEVICE_TAINT_RULES,
    )
    return None

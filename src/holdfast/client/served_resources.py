"""Whether the API server serves a resource, such as one of a CRD that may not be installed."""

from __future__ import annotations

import logging
from typing import Any

from holdfast.api.resource import Resource
from holdfast.client.backoff import Backoff, retry
from holdfast.client.client import Client
from holdfast.clock import Clock
from holdfast.errors import Forbidden, HoldfastError, NotFound

SERVED_CHECK_BACKOFF = Backoff(first=0.2, limit=10.0)
"""Backoff between checks whether a resource is served."""

log = logging.getLogger(__name__)


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

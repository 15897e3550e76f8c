"""Informers for the resources that some quota counts, started when they are needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

from holdfast.api.meta import Object
from holdfast.api.resource import Resource
from holdfast.client.client import Client
from holdfast.client.handler_dispatcher import ResourceEventHandler
from holdfast.client.informer import Informer
from holdfast.client.informer_cache import ChangeType
from holdfast.controllers.discovery import discover
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import Unavailable
from holdfast.state.quota.evaluators import GroupResource


class CountedResources:
    """Informers of resources, each as long as some quota counts it.

    ``on_deletion`` is called with resource and namespace of each deleted object. ``on_synced`` is
    called once for each resource, when its informer notices deletions from then on.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        on_deletion: Callable[[GroupResource, str], None],
        on_synced: Callable[[GroupResource], None],
    ) -> None:
        self._client, self._clock = client, clock
        self._on_deletion, self._on_synced = on_deletion, on_synced
        self._wanted: dict[str, frozenset[GroupResource]] = {}
        self._informers: dict[GroupResource, Informer[Object]] = {}
        self._syncing: set[asyncio.Task[None]] = set()

    async def follow(
        self, follower: str, resources: Iterable[GroupResource]
    ) -> dict[GroupResource, Resource[Object]]:
        """Replace the resources that one quota follows; return those that are served.

        Informers of resources that no quota counts any more are stopped.
        """
        wanted = self._wanted[follower] = frozenset(resources)
        served_resources = await self._served(wanted) if wanted else {}
        for resource in served_resources.keys() - self._informers.keys():
            informer = Informer(self._client, served_resources[resource], clock=self._clock)
            informer.add_handler(self._handler(resource))
            self._informers[resource] = informer
            informer.start()
            syncing = asyncio.create_task(self._wait_for_sync(resource, informer))
            self._syncing.add(syncing)
            syncing.add_done_callback(self._syncing.discard)
        await self._stop_unused(gone=wanted - served_resources.keys())
        return served_resources

    async def _served(
        self, wanted: frozenset[GroupResource]
    ) -> dict[GroupResource, Resource[Object]]:
        served = {
            (r.group, r.plural): r
            for r in await discover(self._client)
            if r.namespaced and {"list", "watch"} <= set(r.verbs)
        }
        return {resource: served[resource] for resource in wanted if resource in served}

    async def _wait_for_sync(self, resource: GroupResource, informer: Informer[Object]) -> None:
        with suppress(Unavailable):  # stopped before
            await informer.wait_for_sync()
            self._on_synced(resource)

    def forget(self, follower: str) -> None:
        """Follow nothing for a quota; informers stop with the next call of ``follow``."""
        self._wanted.pop(follower, None)

    async def stop(self) -> None:
        """Stop all informers."""
        self._wanted.clear()
        await self._stop_unused()

    async def _stop_unused(self, gone: frozenset[GroupResource] = frozenset()) -> None:
        used = frozenset[GroupResource]().union(*self._wanted.values()) - gone
        stopped = [self._informers.pop(each) for each in self._informers.keys() - used]
        for informer in stopped:
            await informer.stop()

    def _handler(self, resource: GroupResource) -> ResourceEventHandler[Object]:
        def on_change(kind: ChangeType, old: Object | None, new: Object | None) -> None:
            if new is None and old is not None:
                self._on_deletion(resource, old.namespace)

        return on_change

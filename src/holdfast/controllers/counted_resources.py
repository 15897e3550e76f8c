"""Informers for the resources whose objects some quota counts, started when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from holdfast.api.meta import Object
from holdfast.api.resource import Resource
from holdfast.client.client import Client
from holdfast.client.handler_dispatcher import ResourceEventHandler
from holdfast.client.informer import Informer
from holdfast.client.informer_cache import ChangeType
from holdfast.clock import Clock
from holdfast.controllers.discovery import discover

GroupResource = tuple[str, str]


class CountedResources:
    """Call ``on_deletion`` with resource and namespace when an object of a followed one is gone."""

    def __init__(
        self, client: Client, clock: Clock, on_deletion: Callable[[GroupResource, str], None]
    ) -> None:
        self._client, self._clock, self._on_deletion = client, clock, on_deletion
        self._wanted: dict[str, frozenset[GroupResource]] = {}
        self._informers: dict[GroupResource, Informer[Object]] = {}

    async def follow(
        self, follower: str, resources: Iterable[GroupResource]
    ) -> dict[GroupResource, Resource[Object]]:
        """Follow resources for one quota, in place of those before; return those that are served.

        Resources that no quota counts any more are followed no longer.
        """
        wanted = frozenset(resources)
        self.forget(follower)
        if wanted:
            self._wanted[follower] = wanted
            served = {
                (r.group, r.plural): r
                for r in await discover(self._client)
                if r.namespaced and {"list", "watch"} <= set(r.verbs)
            }
        else:
            served = {}
        found = {resource: served[resource] for resource in wanted if resource in served}
        for resource, known in found.items():
            if resource not in self._informers:
                informer = Informer(self._client, known, clock=self._clock)
                informer.add_handler(self._handler(resource))
                self._informers[resource] = informer
                informer.start()
        await self._stop_unused(gone=wanted - found.keys())
        return found

    def forget(self, follower: str) -> None:
        """Follow nothing for a quota; informers stop with the next call of ``follow``."""
        self._wanted.pop(follower, None)

    async def stop(self) -> None:
        """Stop all informers."""
        self._wanted.clear()
        await self._stop_unused()

    async def _stop_unused(self, gone: frozenset[GroupResource] = frozenset()) -> None:
        used = frozenset[GroupResource]().union(*self._wanted.values()) - gone
        for resource in self._informers.keys() - used:
            await self._informers.pop(resource).stop()

    def _handler(self, resource: GroupResource) -> ResourceEventHandler[Object]:
        def on_change(kind: ChangeType, old: Object | None, new: Object | None) -> None:
            if new is None and old is not None:
                self._on_deletion(resource, old.namespace)

        return on_change

"""Find out which consumers of a classic claim no longer exist."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.api.classic_dra.types import ClassicClaim
from holdfast.api.devices import ClaimConsumer
from holdfast.api.meta import Object
from holdfast.api.pod import Pod
from holdfast.api.resource import Resource
from holdfast.api.scheme import PODS
from holdfast.client.client import Client
from holdfast.client.informer import Informer
from holdfast.controllers.claim_consumers import DeletedUids, is_done, is_stale
from holdfast.controllers.discovery import discover
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import HoldfastError, NotFound, Retryable

POLL_SECONDS = 60.0
"""The interval at which consumers that no informer shows are looked up."""
MAX_DELETED_PODS = 500


@dataclass(frozen=True, slots=True)
class ConsumerCheck:
    """The stale consumers of a claim, and why other consumers could not be checked."""

    stale: frozenset[ClaimConsumer] = frozenset()
    polled: bool = False
    """Whether a kept consumer must be looked up again, because no informer shows it."""
    problems: tuple[str, ...] = ()
    failure: Retryable | None = None
    """Why a pod could not be looked up; the lookup is to be retried soon."""


class ConsumerLookup:
    """Looks up consumers: pods in the cache and then on the server, other objects on the server.

    A consumer is stale only if this is certain: after an error, or if its resource is not served,
    it is kept.
    """

    def __init__(self, client: Client, clock: Clock, pods: Informer[Pod]) -> None:
        self._client, self._clock, self._pods = client, clock, pods
        self.deleted_pods = DeletedUids(MAX_DELETED_PODS)
        self._served: dict[tuple[str, str], Resource[Object]] = {}
        self._discovered_at = float("-inf")

    async def check(self, claim: ClassicClaim) -> ConsumerCheck:
        """Check all consumers of a claim."""
        stale: set[ClaimConsumer] = set()
        problems: list[str] = []
        polled, failure = False, None
        for consumer in claim.status.reserved_for:
            try:
                known, gone = await self._look_up(consumer, claim.namespace)
            except HoldfastError as error:
                known, gone = False, False
                if consumer.is_pod and isinstance(error, Retryable):
                    failure = error
                else:
                    problems.append(f"{consumer.resource} {consumer.name!r}: {error}")
            if gone:
                stale.add(consumer)
            elif not known:
                polled = True
        return ConsumerCheck(frozenset(stale), polled, tuple(problems), failure)

    async def _look_up(self, consumer: ClaimConsumer, namespace: str) -> tuple[bool, bool]:
        """Return whether an informer shows a consumer, and whether it is stale."""
        if consumer.is_pod:
            if consumer.uid in self.deleted_pods:
                return True, True
            cached = self._pods.cache.get(f"{namespace}/{consumer.name}")
            if cached is not None and cached.uid == consumer.uid:
                return True, is_done(cached)
        return False, is_stale(consumer, await self._get(consumer, namespace))

    async def _get(self, consumer: ClaimConsumer, namespace: str) -> Object | None:
        """Return the object with a consumer's name, None if the server says that it has none."""
        try:
            if consumer.is_pod:
                return await self._client.get(PODS, consumer.name, namespace)
            resource = await self._resource_of(consumer)
            return await self._client.get(resource, consumer.name, namespace)
        except NotFound as failure:
            if failure.details.name != consumer.name:
                raise  # the resource itself is no longer served
            return None

    async def _resource_of(self, consumer: ClaimConsumer) -> Resource[Object]:
        now = self._clock.monotonic()
        if now - self._discovered_at >= POLL_SECONDS:
            served = await discover(self._client)
            self._served = {(r.group, r.plural): r for r in served if "get" in r.verbs}
            self._discovered_at = now
        name = (consumer.api_group, consumer.resource)
        if name not in self._served:
            raise NotFound(f"the resource {'.'.join(filter(None, name[::-1]))} is not served")
        return self._served[name]

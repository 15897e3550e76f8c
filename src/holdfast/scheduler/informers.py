"""The informers a scheduler lives on, and in which order they are read at start."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from holdfast.api import scheme
from holdfast.api.object_interner import ObjectInterner
from holdfast.api.reservation import Reservation
from holdfast.api.resource import Resource
from holdfast.client.backoff import Backoff, retry
from holdfast.client.client import Client
from holdfast.client.informer import Informer
from holdfast.client.informer_set import InformerSet
from holdfast.clock import Clock
from holdfast.errors import HoldfastError, NotFound
from holdfast.scheduler.event_handlers import EventHandlers
from holdfast.scheduler.reservation_news import ReservationDesk

log = logging.getLogger(__name__)

FIRST_LOOK = Backoff(first=0.2, limit=10.0)
"""Between two questions whether a resource is served."""
OPTIONAL = {scheme.RESERVATIONS, scheme.RESOURCE_POLICIES}
"""Custom resources: a cluster without the CRD simply has none of them."""

STORAGE: tuple[Resource[Any], ...] = (
    scheme.STORAGE_CLASSES, scheme.PERSISTENT_VOLUMES, scheme.PERSISTENT_VOLUME_CLAIMS,
    scheme.CSI_DRIVERS, scheme.CSI_NODES, scheme.CSI_STORAGE_CAPACITIES,
    scheme.VOLUME_ATTACHMENTS,
)  # fmt: skip


class SchedulerInformers:
    """Reads the cluster once in a fixed order, then keeps it current.

    Nodes come first and pods last, so that every bound pod finds its node and every owner its
    reservation when it arrives.
    """

    def __init__(
        self, client: Client, clock: Clock, desk: EventHandlers, reservations: ReservationDesk
    ) -> None:
        self._client = client
        self._clock = clock
        # Who shares these informers is told what these make of pods and nodes, too.
        parts = ObjectInterner()
        self.informer_set = InformerSet(
            client,
            clock=clock,
            transforms={scheme.PODS: parts.pod, scheme.NODES: parts.node},
            on_unreadable={scheme.RESERVATIONS: reservations.on_unreadable},
        )
        self._handlers: list[tuple[Resource[Any], Any]] = [
            (scheme.NAMESPACES, desk.handler_for("Namespace")),
            (scheme.NODES, desk.on_node),
            (scheme.DEVICE_CLASSES, desk.handler_for("DeviceClass")),
            (scheme.RESOURCE_SLICES, desk.handler_for("ResourceSlice")),
            (scheme.RESOURCE_CLAIMS, desk.handler_for("ResourceClaim")),
            *[(resource, desk.handler_for(resource.kind)) for resource in STORAGE],
            (scheme.DISRUPTION_BUDGETS, desk.handler_for("PodDisruptionBudget")),
            (scheme.SERVICES, desk.handler_for("Service")),
            (scheme.REPLICATION_CONTROLLERS, desk.handler_for("ReplicationController")),
            (scheme.REPLICASETS, desk.handler_for("ReplicaSet")),
            (scheme.STATEFULSETS, desk.handler_for("StatefulSet")),
            (scheme.RESERVATIONS, reservations.on_reservation),
            (scheme.RESOURCE_POLICIES, desk.handler_for("ResourcePolicy")),
            (scheme.PODS, desk.on_pod),
        ]
        self._reservations: Informer[Reservation] | None = None

    def reservations(self) -> Collection[Reservation]:
        """Every reservation there is, whatever became of it."""
        if self._reservations is None:
            return ()
        return self._reservations.cache.values()

    async def start(self) -> None:
        """Start the informers one after the other, each once the one before has its list."""
        for resource, handler in self._handlers:
            if resource in OPTIONAL and not await self._served(resource):
                log.warning(
                    "%s is not served here: install deploy/crds and restart to use it",
                    resource.plural,
                )
                continue
            informer = self.informer_set.get(resource)
            informer.add_handler(handler)
            if resource == scheme.RESERVATIONS:
                self._reservations = informer
            await self.informer_set.start()

    async def wait_for_failure(self) -> None:
        """Wait while the cluster is followed; raises what keeps us from following it."""
        await self.informer_set.wait_until_stopped()

    async def stop(self) -> None:
        """Stop every informer."""
        await self.informer_set.stop()

    async def _served(self, resource: Resource[Any]) -> bool:
        def on_failure(failure: HoldfastError) -> None:
            log.warning("%s: %s; trying again", resource.plural, failure)

        try:
            # An object that cannot be read shows that its kind is served, too.
            await retry(
                lambda: self._client.list(resource, limit=1, unreadable=lambda _misfit: None),
                self._clock,
                FIRST_LOOK,
                on_failure=on_failure,
            )
        except NotFound:
            return False
        return True

"""The scheduler's informers, and the order in which they start."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any

from holdfast.api import scheme
from holdfast.api.devices import DeviceTaintRule
from holdfast.api.object_interner import ObjectInterner
from holdfast.api.pod import Pod, without_claims
from holdfast.api.reservation import Reservation
from holdfast.api.resource import Resource
from holdfast.client.backoff import retry
from holdfast.client.client import Client
from holdfast.client.discovery import (
    SERVED_CHECK_BACKOFF,
    find_classic_resources,
    find_taint_rules,
    is_served,
    may_list,
    read_taint_rule_version,
)
from holdfast.client.informer import Informer
from holdfast.client.informer_set import InformerSet
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import Forbidden, HoldfastError
from holdfast.runtime.feature_gates import Feature, FeatureGates
from holdfast.runtime.repeated_log import Repeats
from holdfast.scheduling.framework.events import EventResource
from holdfast.scheduling.scheduler.event_handlers import EventHandlers
from holdfast.scheduling.scheduler.reservation_handlers import ReservationEventHandlers

log = logging.getLogger(__name__)

OPTIONAL_RESOURCES: Mapping[Resource[Any], str] = {
    scheme.RESERVATIONS: "install deploy/crds",
    scheme.RESOURCE_POLICIES: "install deploy/crds",
    scheme.NODE_RESOURCE_TOPOLOGIES: "install deploy/crds",
    scheme.SHARED_DEVICES: "install deploy/crds",
}
"""Resources that a cluster may not serve, with what to do to use them."""

WATCHED: tuple[Resource[Any], ...] = (
    scheme.NAMESPACES, scheme.NODES, scheme.NODE_RESOURCE_TOPOLOGIES,
    scheme.DEVICE_CLASSES, scheme.RESOURCE_SLICES, scheme.DEVICE_TAINT_RULES,
    scheme.RESOURCE_CLAIMS, scheme.RESOURCE_QUOTAS,
    scheme.STORAGE_CLASSES, scheme.PERSISTENT_VOLUMES, scheme.PERSISTENT_VOLUME_CLAIMS,
    scheme.CSI_DRIVERS, scheme.CSI_NODES, scheme.CSI_STORAGE_CAPACITIES,
    scheme.VOLUME_ATTACHMENTS,
    scheme.DISRUPTION_BUDGETS, scheme.SERVICES, scheme.REPLICATION_CONTROLLERS,
    scheme.REPLICASETS, scheme.STATEFULSETS, scheme.SHARED_DEVICES,
    scheme.RESERVATIONS, scheme.RESOURCE_POLICIES, scheme.PODS,
)  # fmt: skip
"""The watched resources, in the order in which the informers start. Nodes come first and pods last,
so that the node of every bound pod and the reservation of every owner are known before the pod."""
FEATURES: Mapping[Resource[Any], Feature] = {
    scheme.DEVICE_CLASSES: Feature.DYNAMIC_RESOURCE_ALLOCATION,
    scheme.RESOURCE_SLICES: Feature.DYNAMIC_RESOURCE_ALLOCATION,
    scheme.DEVICE_TAINT_RULES: Feature.DEVICE_TAINTS,
    scheme.RESOURCE_CLAIMS: Feature.DYNAMIC_RESOURCE_ALLOCATION,
    scheme.RESOURCE_QUOTAS: Feature.DYNAMIC_RESOURCE_ALLOCATION,
}
"""Resources that are watched only if their feature is on; rules have one more gate, whose default
depends on the server."""
REDISCOVER_SECONDS = 30.0
"""How often the version of DeviceTaintRules is looked up again: API servers are upgraded."""


class SchedulerInformers:
    """Starts the informers of ``WATCHED`` and feeds their events to the event handlers."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        handlers: EventHandlers,
        reservations: ReservationEventHandlers,
        gates: FeatureGates,
    ) -> None:
        self._client = client
        self._clock = clock
        self._gates = gates
        # The transforms also apply for controllers that share these informers.
        parts = ObjectInterner()
        devices = gates.enabled(Feature.DYNAMIC_RESOURCE_ALLOCATION)
        self.informer_set = InformerSet(
            client,
            clock=clock,
            transforms={
                scheme.PODS: parts.pod if devices else lambda pod: parts.pod(without_claims(pod)),
                scheme.NODES: parts.node,
            },
            on_unreadable={scheme.RESERVATIONS: reservations.on_unreadable},
        )
        self._world = handlers.world
        self._devices = devices
        special = {
            scheme.NODES: handlers.on_node,
            scheme.DEVICE_TAINT_RULES: handlers.on_device_taint_rule,
            scheme.RESERVATIONS: reservations.on_reservation,
            scheme.PODS: handlers.on_pod,
        }
        self._handlers: list[tuple[Resource[Any], Any]] = [
            (resource, special.get(resource) or handlers.handler_for(EventResource(resource.kind)))
            for resource in WATCHED
            if resource not in FEATURES or gates.enabled(FEATURES[resource])
        ]
        self._handler_for = handlers.handler_for
        self._by_type: dict[type, Informer[Any]] = {}
        self._reservations: Informer[Reservation] | None = None
        self._taint_rules: Informer[DeviceTaintRule] | None = None
        self._repeats = Repeats(now=clock.monotonic)

    def reservations(self) -> Collection[Reservation]:
        """Return all reservations in the informer's cache, in any phase."""
        if self._reservations is None:
            return ()
        return self._reservations.cache.values()

    def newest(self, obj: Pod | Reservation) -> Pod | Reservation | None:
        """Return the newest version of a pod or reservation, None if it is gone."""
        if isinstance(obj, Pod):
            return self.informer_set.get(scheme.PODS).cache.get(obj.key)
        return self._reservations.cache.get(obj.key) if self._reservations else None

    def expect(self, stored: Any) -> bool:
        """Note an object from a response; return whether its event is still to come."""
        informer = self._by_type.get(type(stored))
        return informer is not None and informer.expect(stored)

    async def start(self) -> None:
        """Start the informers one after the other, each after the one before has synced."""
        *first, pods = self._handlers
        for wanted, handler in (*first, *await self._find_classic(), pods):
            resource = await self._served_form(wanted)
            if resource is None:
                continue
            informer = self.informer_set.get(resource)
            informer.add_handler(handler)
            self._by_type[resource.type] = informer
            if resource == scheme.RESERVATIONS:
                self._reservations = informer
            if wanted == scheme.DEVICE_TAINT_RULES:
                self._taint_rules = informer
            await self.informer_set.start()

    async def _served_form(self, resource: Resource[Any]) -> Resource[Any] | None:
        """Return a resource in the version that is served; None if it is not to be watched."""
        if resource == scheme.DEVICE_TAINT_RULES:
            return await find_taint_rules(self._client, self._clock, self._gates)
        if resource == scheme.RESOURCE_QUOTAS:
            return resource if await self._may_read_quotas() else None
        if resource not in OPTIONAL_RESOURCES or await self._served(resource):
            return resource
        advice = OPTIONAL_RESOURCES[resource]
        log.warning("%s are not served here: %s and restart to use them", resource.plural, advice)
        return None

    async def _may_read_quotas(self) -> bool:
        """Return whether quotas may be read: the role of kube-scheduler has no such right."""
        if await may_list(self._client, scheme.RESOURCE_QUOTAS, self._clock):
            return True
        log.warning("resourcequotas may not be listed: a pod whose claim a quota refuses is tried "
                    "again once a minute; deploy/rbac has the right")  # fmt: skip
        return False

    async def follow_taint_rules(self) -> None:
        """Watch DeviceTaintRules in the version that is served, also after the server's upgrade.

        Kubernetes 1.37 serves another version than 1.36 and has their gate on. Until the rules of
        the new version are read, those of the old one stay in effect.
        """
        while True:
            await self._clock.sleep(REDISCOVER_SECONDS)
            for wanted, handler in self._handlers:
                if wanted == scheme.DEVICE_TAINT_RULES:
                    await self._find_taint_rules_again(handler)
            self.informer_set.raise_failure()

    async def _find_taint_rules_again(self, handler: Any) -> None:
        try:
            resource = await read_taint_rule_version(self._client, self._gates)
        except Forbidden as failure:
            self._repeats.log(log, logging.WARNING, f"DeviceTaintRules are not followed: {failure}")
            return
        except HoldfastError:
            return  # what was found before is served, or nothing is
        old = self._taint_rules
        if resource is None or (old is not None and old.resource == resource):
            return
        log.warning("DeviceTaintRules are followed in %s now", resource.api_version)
        new = self._taint_rules = self.informer_set.get(resource)
        new.add_handler(handler)
        await self.informer_set.start()
        if old is not None:
            await self.informer_set.remove(old)
            for key in old.cache.keys() - new.cache.keys():
                handler("deleted", old.cache[key], None)

    async def wait_for_failure(self) -> None:
        """Wait until an informer fails, and raise its error."""
        await self.informer_set.wait_until_stopped()

    async def stop(self) -> None:
        """Stop every informer."""
        await self.informer_set.stop()

    async def _find_classic(self) -> list[tuple[Resource[Any], Any]]:
        """Return the resources of classic DRA in the group that is served, with their handlers."""
        self._world.classic.resources = None
        if not self._devices:
            return []

        def on_failure(failure: HoldfastError) -> None:
            log.warning("looking for classic DRA failed: %s; trying again", failure)

        resources = await retry(
            lambda: find_classic_resources(self._client),
            self._clock,
            SERVED_CHECK_BACKOFF,
            on_failure=on_failure,
        )
        if resources is None or not all([await self._served(each) for each in resources.all]):
            log.info("classic DRA is not served here: install deploy/crds and restart to use it")
            return []
        self._world.classic.resources = resources
        return [
            (resources.classes, self._handler_for(EventResource.CLASSIC_RESOURCE_CLASS)),
            (resources.claims, self._handler_for(EventResource.CLASSIC_RESOURCE_CLAIM)),
            (resources.pod_scheduling, self._handler_for(EventResource.POD_SCHEDULING)),
        ]

    async def _served(self, resource: Resource[Any]) -> bool:
        return await is_served(self._client, resource, self._clock)

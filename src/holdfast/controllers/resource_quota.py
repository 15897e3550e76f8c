"""The ResourceQuota controller: count usage again, and make changed limits effective.

Admission charges objects as they are created. This controller releases what is deleted or
finished, by counting. It lists from the API server, not from caches, and adds what admission
charged since it read the quota: so a count never loses an object that was admitted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from holdfast.api.devices import DeviceClass, ResourceClaim
from holdfast.api.meta import Object
from holdfast.api.pod import Pod
from holdfast.api.resource import Resource
from holdfast.api.resource_quota import ResourceQuota
from holdfast.api.scheme import (
    DEVICE_CLASSES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    SERVICES,
    TYPED,
)
from holdfast.api.timestamps import parse_rfc3339
from holdfast.client.client import Client
from holdfast.client.informer_cache import ChangeType
from holdfast.controllers.counted_resources import CountedResources
from holdfast.controllers.object_index import ObjectIndex
from holdfast.controllers.planned_writes import Patch, Plan, execute_writes
from holdfast.controllers.reconciler import ControllerContext, Reconciler
from holdfast.runtime.errors import Conflict, NotFound
from holdfast.runtime.feature_gates import Feature
from holdfast.state.quota import scopes
from holdfast.state.quota.amounts import (
    ZERO,
    QuotaUsage,
    add_usage,
    growth,
    parse_amounts,
    to_texts,
)
from holdfast.state.quota.charging import count_usage
from holdfast.state.quota.evaluators import (
    GroupResource,
    evaluator_of,
    is_extended_key,
    is_tracked,
    resources_of,
)
from holdfast.state.quota.usage import is_charged, pod_owner_of

T = TypeVar("T", bound=Object)
RESYNC_SECONDS = 300.0
"""The interval at which every quota is counted even if nothing has changed."""
REDISCOVER_SECONDS = 30.0
"""How soon a quota is counted again if it names a resource that is not served yet."""
RECOUNT_SECONDS = 1.0
"""How soon a quota is counted again if objects were charged while it was counted."""
WRITE_TRIES = 4
PAGE_SIZE = 500
STEP_OBJECTS = 50
"""How many objects are counted before other tasks run: about 2 ms."""
IDLE_FACTOR = 4.0
"""A quota whose count took a second is counted again after four seconds at the earliest."""
NONE: Mapping[Any, Any] = MappingProxyType({})
_PODS, _CLAIMS = ("", "pods"), ("resource.k8s.io", "resourceclaims")
_TYPED: Mapping[GroupResource, Resource[Any]] = {
    (r.group, r.plural): r
    for r in (PODS, SERVICES, PERSISTENT_VOLUME_CLAIMS, RESOURCE_CLAIMS, RESOURCE_QUOTAS)
}

_EVALUATED: Mapping[GroupResource, Resource[Any]] = {
    (r.group, r.plural): r for r in TYPED if evaluator_of(r.group, r.plural).type is r.type
}
"""The resources whose evaluators look at more than the metadata of an object."""


class ListedObjects:
    """The objects of a namespace, by resource, and the device classes.

    Without ``classes``, claims do not charge the keys of extended resources.
    """

    def __init__(
        self,
        now: float,
        objects: Mapping[GroupResource, Sequence[Any]] = NONE,
        classes: Mapping[str, DeviceClass] | None = NONE,
    ) -> None:
        self.now, self.objects, self._classes = now, objects, classes or NONE
        self.extended_resources = classes is not None
        self.pods: Sequence[Pod] = objects.get(_PODS, ())
        self._pods = {(pod.namespace, pod.name): pod for pod in self.pods}
        self._claims: dict[tuple[str, str], list[ResourceClaim]] = {}
        for claim in objects.get(_CLAIMS, ()):
            for owner in claim.metadata.owner_references:
                self._claims.setdefault((claim.namespace, owner.uid), []).append(claim)

    def extended_name_of(self, device_class: str) -> str:
        """Return the explicit extended resource name of a device class, or ""."""
        class_object = self._classes.get(device_class)
        return (class_object.spec.extended_resource_name or "") if class_object is not None else ""

    def pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod, or None."""
        return self._pods.get((namespace, name))

    def claims_owned_by(self, namespace: str, uid: str) -> Iterable[ResourceClaim]:
        """Return the resource claims with this uid among their owners."""
        return self._claims.get((namespace, uid), ())


def plan_quota(quota: ResourceQuota, used: QuotaUsage, listed: ListedObjects) -> Plan:
    """Plan the status of one quota; ``used`` is what the listed objects charge."""
    requeue_after = min(RESYNC_SECONDS, _next_release(listed))
    hard = parse_amounts(quota.spec.hard)
    if parse_amounts(quota.status.hard) == hard and parse_amounts(quota.status.used) == used:
        return Plan(requeue_after=requeue_after)
    status = {
        "hard": dict.fromkeys(quota.status.hard) | to_texts(hard),
        "used": dict.fromkeys(quota.status.used) | to_texts(used),
    }
    # Admission also writes the status; a stale count must not release what it charged.
    guard = {"resourceVersion": quota.metadata.resource_version}
    patch = {"metadata": guard, "status": status}
    write = Patch(RESOURCE_QUOTAS, quota.name, patch, quota.namespace, "status")
    return Plan((write,), requeue_after)


def count_in_steps(quota: ResourceQuota, listed: ListedObjects, used: QuotaUsage) -> Iterator[None]:
    """Add what listed objects charge to ``used``; yield after every few objects."""
    used |= {key: ZERO for key in quota.spec.hard if is_tracked(key)}
    for resource in resources_of(quota.spec.hard):
        evaluator, objects = evaluator_of(*resource), listed.objects.get(resource, ())
        for start in range(0, len(objects), STEP_OBJECTS):
            step = objects[start : start + STEP_OBJECTS]
            add_usage(used, count_usage(quota, evaluator, step, listed))
            yield


def _next_release(listed: ListedObjects) -> float:
    """Return the seconds until a pod that is being deleted is no longer charged."""
    waits = [RESYNC_SECONDS]
    for pod in listed.pods:
        at, grace = pod.metadata.deletion_timestamp, pod.metadata.deletion_grace_period_seconds
        if at is not None and grace is not None and is_charged(pod, listed.now):
            waits.append(parse_rfc3339(at) + grace - listed.now + 1.0)
    return min(waits)


class ResourceQuotaController(Reconciler):
    """Watch quotas and what they count; keys are those of quotas."""

    name = "resourcequota-controller"
    queue_name = "resourcequota_primary"
    required_resources: tuple[Resource[Any], ...] = (
        RESOURCE_QUOTAS,
        PODS,
        SERVICES,
        PERSISTENT_VOLUME_CLAIMS,
    )

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        informers = context.informers
        self._quotas = informers.get(RESOURCE_QUOTAS)
        self._gates = context.settings.feature_gates
        self._classes: Mapping[str, DeviceClass] = NONE
        self._quotas_in: ObjectIndex[ResourceQuota] = ObjectIndex(lambda q: q.namespace)
        self._not_before: dict[str, float] = {}
        self._counted = CountedResources(
            context.client, context.clock, self._changed, self._on_followed
        )
        self._quotas.add_handler(self._quotas_in.on_change)
        self._quotas.add_handler(self._on_quota)
        informers.get(PODS).add_handler(self._on_pod)
        informers.get(SERVICES).add_handler(self._on_service)
        informers.get(PERSISTENT_VOLUME_CLAIMS).add_handler(self._on_volume_claim)
        if self._gates.enabled(Feature.DYNAMIC_RESOURCE_ALLOCATION):
            self.required_resources += (RESOURCE_CLAIMS, DEVICE_CLASSES)
            informers.get(RESOURCE_CLAIMS).add_handler(self._on_claim)
            classes = informers.get(DEVICE_CLASSES)
            classes.add_handler(self._on_class)
            self._classes = classes.cache

    async def run(self) -> None:
        """Process the queue until ``stop``."""
        try:
            await super().run()
        finally:
            await self._counted.stop()

    # --- events

    def _on_quota(
        self, kind: ChangeType, old: ResourceQuota | None, new: ResourceQuota | None
    ) -> None:
        if new is None:
            assert old is not None
            self._not_before.pop(old.key, None)
            self._counted.forget(old.key)
            self._changed(("", "resourcequotas"), old.namespace)
        elif old is None or old.spec != new.spec or old.status.hard != new.status.hard:
            # This finds objects that were created while new limits were being counted.
            self.queue.add(new.key)

    def _on_pod(self, kind: ChangeType, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or _usage_changed(old, new)):
            self._changed(_PODS, old.namespace)

    def _on_service(self, kind: ChangeType, old: Object | None, new: Object | None) -> None:
        if old is not None:
            self._changed(("", "services"), old.namespace)

    def _on_volume_claim(self, kind: ChangeType, old: Object | None, new: Object | None) -> None:
        if old is not None:
            self._changed(("", "persistentvolumeclaims"), old.namespace)

    def _on_claim(
        self, kind: ChangeType, old: ResourceClaim | None, new: ResourceClaim | None
    ) -> None:
        before = pod_owner_of(old) if old is not None else None
        after = pod_owner_of(new) if new is not None else None
        either = new or old
        if either is not None and (new is None or before != after):
            self._changed(_CLAIMS, either.namespace)

    def _on_class(self, kind: ChangeType, old: DeviceClass | None, new: DeviceClass | None) -> None:
        before = old.spec.extended_resource_name if old is not None else None
        after = new.spec.extended_resource_name if new is not None else None
        if before != after:
            for quota in self._quotas.cache.values():
                if any(map(is_extended_key, quota.spec.hard)):
                    self._enqueue(quota.key)

    def _on_followed(self, resource: GroupResource) -> None:
        """Count again: an object may have been deleted before its informer had listed it."""
        for namespace in {quota.namespace for quota in self._quotas.cache.values()}:
            self._changed(resource, namespace)

    def _changed(self, resource: GroupResource, namespace: str) -> None:
        """Count the quotas of a namespace that concern a resource."""
        evaluator = evaluator_of(*resource)
        for quota in self._quotas_in.of(namespace):
            if any(map(evaluator.tracks, quota.spec.hard)):
                self._enqueue(quota.key)

    def _enqueue(self, key: str) -> None:
        wait = self._not_before.get(key, 0.0) - self.clock.monotonic()
        if wait > 0:
            self.queue.add_after(key, wait)
        else:
            self.queue.add(key)

    # --- counting

    async def reconcile(self, key: str) -> None:
        """Count the usage of one quota and write its status."""
        namespace, _, name = key.partition("/")
        began = self.clock.monotonic()
        try:
            quota = await self.client.get(RESOURCE_QUOTAS, name, namespace)
        except NotFound:
            return
        listed, complete = await self._list(quota)
        used: QuotaUsage = {}
        for _ in count_in_steps(quota, listed, used):
            await asyncio.sleep(0)
        wait = await self._write(quota, used, listed)
        ended = self.clock.monotonic()
        idle = IDLE_FACTOR * (ended - began)
        self._not_before[key] = ended + idle
        self.queue.add_after(key, max(idle, wait if complete else min(wait, REDISCOVER_SECONDS)))

    async def _write(self, quota: ResourceQuota, used: QuotaUsage, listed: ListedObjects) -> float:
        """Write the status of a quota; return the seconds until the next count."""
        wait = RESYNC_SECONDS
        for tries_left in reversed(range(WRITE_TRIES)):
            now = await self.client.get(RESOURCE_QUOTAS, quota.name, quota.namespace)
            if now.metadata.resource_version != quota.metadata.resource_version:
                if not _differs_by_charges(now, quota):
                    raise Conflict(f"quota {quota.key} was changed while it was counted")
                add_usage(used, _charged_since(quota, now, used))
                quota, wait = now, RECOUNT_SECONDS
            plan = plan_quota(quota, used, listed)
            try:
                await execute_writes(self.client, plan.writes)
                break
            except Conflict:
                if not tries_left:
                    raise
        return min(wait, plan.requeue_after or wait)

    async def _list(self, quota: ResourceQuota) -> tuple[ListedObjects, bool]:
        """List what a quota counts; also return whether all its resources are served."""
        wanted = resources_of(quota.spec.hard)
        if any(map(is_extended_key, quota.spec.hard)):
            wanted |= {_PODS: None}
        for resource in list(wanted):
            feature = evaluator_of(*resource).feature
            if feature is not None and not self._gates.enabled(feature):
                del wanted[resource]
        counted = [resource for resource in wanted if resource not in _TYPED]
        served = await self._counted.follow(quota.key, counted)
        objects: dict[GroupResource, tuple[Any, ...]] = {}
        for resource in wanted:
            known = _TYPED.get(resource) or served.get(resource)
            if known is not None:
                known = _EVALUATED.get(resource, known)
                objects[resource] = await list_all(self.client, known, quota.namespace)
        now = self.clock.now()
        classes = self._classes if self._gates.enabled(Feature.EXTENDED_RESOURCE) else None
        return ListedObjects(now, objects, classes), len(served) == len(counted)


async def list_all(client: Client, resource: Resource[T], namespace: str) -> tuple[T, ...]:
    """List a collection page by page, without the objects that cannot be read."""
    objects: list[T] = []
    token = ""
    while True:
        page = await client.list(
            resource, namespace, limit=PAGE_SIZE, continue_token=token, unreadable=_skip
        )
        objects += page.items
        token = page.continue_token
        await asyncio.sleep(0)  # decoding a page takes a few milliseconds
        if not token:
            return tuple(objects)


def _differs_by_charges(now: ResourceQuota, before: ResourceQuota) -> bool:
    return (now.uid, now.spec, now.status.hard) == (before.uid, before.spec, before.status.hard)


def _charged_since(before: ResourceQuota, now: ResourceQuota, used: QuotaUsage) -> QuotaUsage:
    """Return what admission charged after a quota was read.

    Some of these objects may be among the listed ones too: usage may then be too high, never too
    low, until the next count. Without this, a busy namespace would not be counted for a long time.
    """
    grown = growth(parse_amounts(now.status.used), parse_amounts(before.status.used))
    return {key: amount for key, amount in grown.items() if key in used}


def _skip(unreadable: object) -> None:
    """Ignore an object that cannot be read; informers log it."""


def _usage_changed(old: Pod, new: Pod) -> bool:
    """Return whether a pod may be charged with less than before, or in another scope."""
    return (
        old.finished != new.finished
        or scopes.has_deadline(old) != scopes.has_deadline(new)
        or (old.terminating != new.terminating)
        or old.spec.containers != new.spec.containers
        or old.spec.affinity != new.spec.affinity
        or old.status.extended_resource_claim_status != new.status.extended_resource_claim_status
        or [s.resources for s in old.status.container_statuses]
        != [s.resources for s in new.status.container_statuses]
    )

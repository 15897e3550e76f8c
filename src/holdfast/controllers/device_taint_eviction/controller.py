"""The device taint eviction controller: delete the pods whose devices have a NoExecute taint.

A taint is published in a ResourceSlice or added by a DeviceTaintRule. Everything is computed from
the API objects: a restart loses only the count of evicted pods in the condition of a rule.

A rule may select all devices of the cluster, so an event handler only notes that it changed.
Comparing 10,000 allocated devices there would block the event loop for most of a second, so a
worker does it in steps. The condition of a rule is written before its first eviction.

Two rules differ from upstream. A toleration without an effect also tolerates NoExecute: otherwise
the scheduler would allocate the device, this controller would evict the pod, and so on for ever.
Claims for extended resources count as well.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from holdfast.api.devices import DeviceResult, DeviceTaintRule, ResourceClaim, ResourceSlice
from holdfast.api.meta import Condition, Object, version_guard
from holdfast.api.node import Taint
from holdfast.api.pod import Pod
from holdfast.api.resource import Resource
from holdfast.api.scheme import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from holdfast.api.timestamps import seconds_of
from holdfast.api.tolerations import NO_EXECUTE
from holdfast.client.discovery import find_taint_rules
from holdfast.client.informer import Informer
from holdfast.client.informer_cache import ChangeType
from holdfast.controllers.conditions import find, with_condition
from holdfast.controllers.device_taint_eviction.index import AllocatedClaims, PublishedTaints
from holdfast.controllers.device_taint_eviction.plan import (
    EVICTION_IN_PROGRESS,
    Eviction,
    RuleProgress,
    TaintsOf,
    plan_eviction,
    rule_condition,
    rule_selects,
    rule_taints,
    uses_claims,
)
from holdfast.controllers.reconciler import ControllerContext, Reconciler
from holdfast.controllers.taint_eviction_writes import LONGEST_WAIT_SECONDS, TaintEvictionWrites
from holdfast.runtime.feature_gates import Feature
from holdfast.state.devices.allocated_devices import device_id
from holdfast.state.devices.slices import DeviceId

T = TypeVar("T")
RULE_STATUS_SECONDS = 10.0
"""The shortest time between two updates of the condition of a rule."""
STEP_ITEMS = 50
"""How many devices or pods are compared with a rule before other tasks run: about 1 ms."""
_REASON = "DeviceTaintManagerEviction"
_POD, _RULE = "pod:", "rule:"


@dataclass(frozen=True, slots=True)
class _Pending:
    """A pod that is going to be evicted, and the uids of the rules that cause it."""

    uid: str
    rules: frozenset[str]


class DeviceTaintEvictionController(Reconciler):
    """Watch pods, claims, slices and rules; keys are ``pod:namespace/name`` or ``rule:name``."""

    name = "device-taint-eviction-controller"
    feature = Feature.DEVICE_TAINTS
    required_resources: tuple[Resource[Any], ...] = (PODS, RESOURCE_CLAIMS, RESOURCE_SLICES)
    workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._taints = PublishedTaints()
        self._allocated = AllocatedClaims()
        self._pending: dict[str, _Pending] = {}
        self._evicted: Counter[str] = Counter()
        self._evicting_rules: dict[str, DeviceTaintRule] = {}
        self._changed_rules: set[str] = set()
        self._writes = TaintEvictionWrites(
            self,
            context,
            subsystem="device_taint_eviction_controller",
            condition=(
                "DeletionByDeviceTaintManager",
                "Device Taint manager: deleting due to NoExecute taint",
            ),
        )
        self._pods = context.informers.get(PODS)
        self._claims = context.informers.get(RESOURCE_CLAIMS)
        self._rules: Informer[DeviceTaintRule] | None = None
        self._gates = context.settings.feature_gates
        context.informers.get(RESOURCE_SLICES).add_handler(self._on_slice)
        self._claims.add_handler(self._on_claim)
        self._pods.add_handler(self._on_pod)

    async def wait_for_sync(self) -> None:
        """Wait for the informers; for the informer of rules only if the server serves them."""
        resource = await find_taint_rules(self.client, self.clock, self._gates)
        if resource is not None:
            self._rules = self.informers.get(resource)
            self._rules.add_handler(self._on_rule)
            await self.informers.start()
        await super().wait_for_sync()

    def _on_slice(
        self, kind: ChangeType, old: ResourceSlice | None, new: ResourceSlice | None
    ) -> None:
        self._check_users(self._taints.update(old, new))

    def _on_claim(
        self, kind: ChangeType, old: ResourceClaim | None, new: ResourceClaim | None
    ) -> None:
        self._allocated.update(old, new)
        for claim in (old, new):
            for pod in self._consumers(claim):
                self._check(pod)

    def _on_rule(
        self, kind: ChangeType, old: DeviceTaintRule | None, new: DeviceTaintRule | None
    ) -> None:
        if old is not None and new is not None and old.spec == new.spec:
            return
        if old is not None:
            self._evicting_rules.pop(old.name, None)
            for key, pending in self._pending.items():
                if old.uid in pending.rules:
                    self.queue.add(_POD + key)
        if new is None and old is not None:
            self._evicted.pop(old.uid, None)
            self._changed_rules.discard(old.name)
        elif new is not None:
            if new.spec.taint.effect == NO_EXECUTE:
                self._evicting_rules[new.name] = new
            self._changed_rules.add(new.name)
            self.queue.add(_RULE + new.name)

    def _on_pod(self, kind: ChangeType, old: Pod | None, new: Pod | None) -> None:
        if new is None and old is not None:
            self._forget(old.key)
        elif new is not None and uses_claims(new) and (old is None or _uses_changed(old, new)):
            self._check(new)

    def _consumers(self, claim: ResourceClaim | None) -> Iterator[Pod]:
        """Return the pods for which a claim is reserved."""
        for consumer in claim.status.reserved_for if claim is not None else ():
            if claim is not None and consumer.is_pod:
                pod = self._pods.cache.get(f"{claim.namespace}/{consumer.name}")
                if pod is not None:
                    yield pod

    def _check_users(self, devices: Iterable[DeviceId]) -> None:
        """Check the pods that use one of the devices."""
        for key in self._allocated.of(devices):
            for pod in self._consumers(self._claims.cache.get(key)):
                self._check(pod)

    def _check(self, pod: Pod) -> None:
        """Queue a pod if it is to be evicted, or no longer is."""
        if pod.key in self._pending or self._eviction_of(pod, self._taints_of) is not None:
            self.queue.add(_POD + pod.key)

    def _forget(self, key: str) -> _Pending | None:
        """Forget a planned eviction; it no longer counts in the conditions of its rules."""
        pending = self._pending.pop(key, None)
        if pending is not None:
            self._update_rules_later(pending.rules)
        return pending

    def object_for_key(self, key: str) -> Object | None:
        """Return the pod or the rule of a key."""
        if key.startswith(_POD):
            return self._pods.cache.get(key.removeprefix(_POD))
        return self._rules.cache.get(key.removeprefix(_RULE)) if self._rules else None

    async def reconcile(self, key: str) -> None:
        """Evict a pod if its time has come, or update the condition of a rule."""
        if key.startswith(_RULE):
            rule = self._rules.cache.get(key.removeprefix(_RULE)) if self._rules else None
            if rule is not None:
                await self._reconcile_rule(rule)
            return
        pod = self._pods.cache.get(key.removeprefix(_POD))
        if pod is None:
            return
        eviction = self._eviction_of(pod, self._taints_of)
        if eviction is None:
            pending, leaving = self._forget(pod.key), pod.terminating or pod.finished
            if pending is not None and pending.uid == pod.uid and not leaving:
                self.record_event(pod, "Normal", _REASON, "Cancelling deletion")
            return
        self._pending[pod.key] = _Pending(pod.uid, eviction.rules)
        self._update_rules_later(eviction.rules)
        seconds = eviction.at - self.clock.now()
        if seconds > 0:
            self.queue.add_after(key, min(seconds, LONGEST_WAIT_SECONDS))
            return
        if await self._writes.evict(pod, eviction.at, event=(_REASON, "Marking for deletion")):
            self._evicted.update(eviction.rules)
            self._update_rules_later(eviction.rules)

    def _eviction_of(self, pod: Pod, taints_of: TaintsOf) -> Eviction | None:
        def claim_of(name: str) -> ResourceClaim | None:
            return self._claims.cache.get(f"{pod.namespace}/{name}")

        return plan_eviction(pod, claim_of, taints_of)

    def _taints_of(self, result: DeviceResult) -> Iterator[tuple[Taint, str]]:
        yield from ((taint, "") for taint in self._taints.of(device_id(result)))
        yield from rule_taints(self._evicting_rules.values(), result)

    def _update_rules_later(self, uids: frozenset[str]) -> None:
        for rule in self._evicting_rules.values() if uids else ():
            if rule.uid in uids:
                self.queue.add_after(_RULE + rule.name, RULE_STATUS_SECONDS)

    async def _reconcile_rule(self, rule: DeviceTaintRule) -> None:
        """Update the condition, then queue the pods of the devices that a changed rule selects.

        The condition comes first, because it shows how many pods are to be evicted.
        """
        try:
            await self._update_condition(rule)
        finally:
            if rule.name in self._changed_rules:
                self._changed_rules.discard(rule.name)
                async for device in self._devices_selected_by(rule):
                    self._check_users((device,))

    async def _update_condition(self, rule: DeviceTaintRule) -> None:
        known, now = find(rule.status.conditions, EVICTION_IN_PROGRESS), self.clock.now()
        if known is not None and known.observed_generation == rule.metadata.generation:
            wait = (seconds_of(known.last_transition_time) or 0.0) + RULE_STATUS_SECONDS - now
            if wait > 0:
                self.queue.add_after(_RULE + rule.name, wait)
                return
        wanted = rule_condition(rule, await self._progress(rule), now)
        if known is None or _differs(known, wanted):
            entries = with_condition(rule.status.conditions, wanted)
            patch = {"metadata": version_guard(rule), "status": {"conditions": entries}}
            assert self._rules is not None, "rules come from their informer"
            await self.client.patch(self._rules.resource, rule.name, patch, subresource="status")

    async def _progress(self, rule: DeviceTaintRule) -> RuleProgress:
        evicted = self._evicted[rule.uid]
        if rule.spec.taint.effect not in (NO_EXECUTE, "None"):
            return RuleProgress(evicted_pods=evicted)
        pods = [pod async for pod in self._pods_affected(rule)]
        counts = len(pods), len({pod.namespace for pod in pods}), evicted
        if rule.spec.taint.effect == NO_EXECUTE:
            return RuleProgress(*counts)
        published = [d async for d in _in_steps(self._taints.devices()) if rule_selects(rule, d)]
        allocated = [len(self._allocated.of((d,))) async for d in self._devices_selected_by(rule)]
        return RuleProgress(*counts, len(published), sum(allocated))

    async def _pods_affected(self, rule: DeviceTaintRule) -> AsyncIterator[Pod]:
        """Return the pods that the rule evicts if its effect is NoExecute."""
        taint = msgspec.structs.replace(rule.spec.taint, effect=NO_EXECUTE)
        effective = msgspec.structs.replace(
            rule, spec=msgspec.structs.replace(rule.spec, taint=taint)
        )

        def taints_of(result: DeviceResult) -> Iterator[tuple[Taint, str]]:
            return rule_taints((effective,), result)

        users = {
            pod.key
            async for device in self._devices_selected_by(rule)
            for key in self._allocated.of((device,))
            for pod in self._consumers(self._claims.cache.get(key))
        }
        async for key in _in_steps(users):
            pod = self._pods.cache.get(key)
            if pod is not None and self._eviction_of(pod, taints_of) is not None:
                yield pod

    async def _devices_selected_by(self, rule: DeviceTaintRule) -> AsyncIterator[DeviceId]:
        """Return the allocated devices that the rule selects."""
        async for device in _in_steps(self._allocated.devices()):
            if rule_selects(rule, device):
                yield device


async def _in_steps(items: Iterable[T]) -> AsyncIterator[T]:
    """Return the items, and let other tasks run from time to time."""
    for number, item in enumerate(tuple(items), 1):
        yield item
        if number % STEP_ITEMS == 0:
            await asyncio.sleep(0)


def _uses_changed(old: Pod, new: Pod) -> bool:
    """Return whether a pod was assigned, or uses other claims."""
    return (
        old.spec.node_name != new.spec.node_name
        or old.status.resource_claim_statuses != new.status.resource_claim_statuses
        or old.status.extended_resource_claim_status != new.status.extended_resource_claim_status
    )


def _differs(known: Condition, wanted: dict[str, object]) -> bool:
    have = (known.status, known.reason, known.message, known.observed_generation)
    return have != tuple(wanted[k] for k in ("status", "reason", "message", "observedGeneration"))

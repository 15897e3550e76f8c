"""The resourceclaim controller: create the claims of pods, and deallocate and delete them.

A mistake here frees devices that a container uses, or keeps devices for ever. The cache may be
stale, so it proves nothing by itself. A consumer is removed only if its end was seen or the server
says so (``_pods_of_claim``). A claim that was created here and is not in the cache yet counts as
existing (``_own_creations``); otherwise a pod would get two.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from holdfast.api.decode import convert_object
from holdfast.api.devices import CLAIM_FINALIZER, EXTENDED_CLAIM, ClaimConsumer, ResourceClaim
from holdfast.api.meta import Object, controller_of
from holdfast.api.pod import Pod, claim_names
from holdfast.api.scheme import PODS, RESOURCE_CLAIMS
from holdfast.client.informer_cache import ChangeType
from holdfast.controllers.claim_consumers import (
    DeletedUids,
    is_done,
    is_stale,
    raw_consumers,
    reserved_for_patch,
)
from holdfast.controllers.claim_templates import (
    POD_CLAIM_NAME,
    TEMPLATES,
    RawTemplate,
    claim_statuses_patch,
    plan_pod_claims,
    plan_reserved_for,
)
from holdfast.controllers.object_index import ControllerIndex
from holdfast.controllers.planned_writes import (
    Create,
    Delete,
    Patch,
    Write,
    execute_chained_writes,
    execute_write,
    execute_writes,
)
from holdfast.controllers.reconciler import ControllerContext, Reconciler
from holdfast.runtime.errors import HoldfastError, NotFound, Retryable
from holdfast.runtime.feature_gates import Feature
from holdfast.runtime.metric_types import CallbackMetric, CounterMetric

MAX_DELETED_UIDS = 10_000
_POD, _CLAIM = "pod:", "claim:"


def plan_claim(claim: ResourceClaim, pods: Mapping[str, Pod | None]) -> tuple[Write, ...]:
    """Plan the removal of finished consumers, the deallocation and the deletion of a claim.

    ``pods`` maps the names of the consumers and the owner to their pods, None if a pod does not
    exist; consumers that are missing in it are kept. Execute the writes as a chain, each with the
    resource version that the previous one returned.
    """
    kept = [c for c in claim.status.reserved_for if not _is_finished(c, pods)]
    writes: list[Write] = []
    protected = CLAIM_FINALIZER in claim.metadata.finalizers
    if len(kept) < len(claim.status.reserved_for):
        clear: dict[str, Any] = {"allocation": None} if protected and not kept else {}
        writes.append(reserved_for_patch(RESOURCE_CLAIMS, claim, raw_consumers(kept), **clear))
        if clear:
            writes.append(_remove_finalizer(claim))
    elif protected and claim.metadata.deletion_timestamp is not None and not kept:
        if claim.status.allocation is not None:
            writes.append(reserved_for_patch(RESOURCE_CLAIMS, claim, [], allocation=None))
        writes.append(_remove_finalizer(claim))
    no_use = _owner_is_done(claim, pods) or _is_orphan(claim)
    if not kept and claim.metadata.deletion_timestamp is None and no_use:
        writes.append(Delete(RESOURCE_CLAIMS, claim.name, claim.namespace, claim.uid))
    return tuple(writes)


def _is_finished(consumer: ClaimConsumer, pods: Mapping[str, Pod | None]) -> bool:
    """Return whether a consumer is a pod that was deleted, replaced or is done."""
    if not consumer.is_pod or consumer.name not in pods:
        return False
    return is_stale(consumer, pods[consumer.name])


def _owner_is_done(claim: ResourceClaim, pods: Mapping[str, Pod | None]) -> bool:
    """Return whether the claim was generated for a pod that is done.

    The claims of a deleted pod are left to the garbage collector.
    """
    owner = controller_of(claim)
    if owner is None or (owner.api_version, owner.kind) != ("v1", "Pod"):
        return False
    pod = pods.get(owner.name)
    return pod is not None and (pod.uid != owner.uid or is_done(pod))


def _is_orphan(claim: ResourceClaim) -> bool:
    """Return whether a claim for extended resources no longer has a pod that controls it.

    The scheduler makes such a claim with its pod as controller. The controller is missing only if
    the pod was deleted with the policy Orphan; no other pod can use the claim.
    """
    return claim.metadata.annotations.get(EXTENDED_CLAIM) == "true" and not controller_of(claim)


def _remove_finalizer(claim: ResourceClaim) -> Patch:
    kept = [f for f in claim.metadata.finalizers if f != CLAIM_FINALIZER]
    meta = {"resourceVersion": claim.metadata.resource_version, "finalizers": kept or None}
    return Patch(RESOURCE_CLAIMS, claim.name, {"metadata": meta}, claim.namespace)


class ResourceClaimController(Reconciler):
    """Watch pods, claims and templates; keys are ``pod:`` or ``claim:`` and namespace/name."""

    name = "resourceclaim-controller"
    feature = Feature.DYNAMIC_RESOURCE_ALLOCATION
    queue_name = "resource_claim"
    required_resources = (RESOURCE_CLAIMS, TEMPLATES, PODS)

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = context.informers.get(PODS)
        self._claims = context.informers.get(RESOURCE_CLAIMS)
        self._templates = context.informers.get(TEMPLATES)
        self._owned: ControllerIndex[ResourceClaim] = ControllerIndex()
        self._own_creations: dict[str, dict[str, ResourceClaim]] = defaultdict(dict)
        self._waiting_for_template: dict[str, set[str]] = defaultdict(set)
        self._deleted_uids = DeletedUids(MAX_DELETED_UIDS)
        """Uids of pods and claims."""
        self._claims.add_handler(self._owned.on_change)
        self._claims.add_handler(self._on_claim)
        self._templates.add_handler(self._on_template)
        self._pods.add_handler(self._on_pod)
        self._claim_metrics = _ClaimMetrics(self._claims.cache.values)
        context.metrics.add(*self._claim_metrics.all)

    def remember_created(self, claim: ResourceClaim) -> None:
        """Use a claim that this controller has created before the informer shows it."""
        owner = controller_of(claim)
        if owner is not None:
            self._own_creations[owner.uid][claim.name] = claim

    def _on_pod(self, kind: ChangeType, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        if not pod.structured_claims and pod.status.extended_resource_claim_status is None:
            return
        if new is None:
            self._own_creations.pop(pod.uid, None)
            self._deleted_uids.add(pod.uid)
            self._stop_waiting_for_templates(pod)
        if new is None or is_done(new):
            names = {*claim_names(pod)} | {c.name for c in self._owned.of(pod.uid)}
            for name in names:
                self.queue.add(f"{_CLAIM}{pod.namespace}/{name}")
        else:
            self.queue.add(_POD + new.key)

    def _stop_waiting_for_templates(self, pod: Pod) -> None:
        for entry in pod.structured_claims:
            template = f"{pod.namespace}/{entry.resource_claim_template_name}"
            waiting = self._waiting_for_template.get(template, set())
            waiting.discard(pod.key)
            if not waiting:
                self._waiting_for_template.pop(template, None)

    def _on_claim(
        self, kind: ChangeType, old: ResourceClaim | None, new: ResourceClaim | None
    ) -> None:
        claim = new or old
        assert claim is not None
        if new is None:
            self._deleted_uids.add(claim.uid)
        self.queue.add(_CLAIM + claim.key)
        owner = controller_of(claim)
        if owner is not None and owner.kind == "Pod":
            own_creations = self._own_creations.get(owner.uid, {})
            if own_creations.pop(claim.name, None) is not None and not own_creations:
                del self._own_creations[owner.uid]
            self.queue.add(f"{_POD}{claim.namespace}/{owner.name}")

    def _on_template(
        self, kind: ChangeType, old: RawTemplate | None, new: RawTemplate | None
    ) -> None:
        if new is not None:
            for key in self._waiting_for_template.pop(new.key, ()):
                self.queue.add(_POD + key)

    def object_for_key(self, key: str) -> Object | None:
        """Return the pod or the claim of a key."""
        if key.startswith(_POD):
            return self._pods.cache.get(key.removeprefix(_POD))
        return self._claims.cache.get(key.removeprefix(_CLAIM))

    async def reconcile(self, key: str) -> None:
        """Create the missing claims of a pod, or release a claim."""
        if key.startswith(_POD):
            pod = self._pods.cache.get(key.removeprefix(_POD))
            if pod is not None:
                await self._reconcile_pod(pod)
            return
        claim = self._claims.cache.get(key.removeprefix(_CLAIM))
        if claim is not None:
            pods = await self._pods_of_claim(claim)
            await execute_chained_writes(self.client, plan_claim(claim, pods))

    async def _reconcile_pod(self, pod: Pod) -> None:
        space = pod.namespace
        own_creations = self._own_creations.get(pod.uid, {})

        def claim_of(name: str) -> ResourceClaim | None:
            return self._claims.cache.get(f"{space}/{name}") or own_creations.get(name)

        def template_of(name: str) -> RawTemplate | None:
            return self._templates.cache.get(f"{space}/{name}")

        owned = (*self._owned.of(pod.uid), *own_creations.values())
        plan = plan_pod_claims(pod, claim_of, owned, template_of)
        # Before the writes below, so that a template that is created during them is not missed.
        for template in plan.missing_templates:
            self._waiting_for_template[f"{space}/{template}"].add(pod.key)
        names = dict(plan.found)
        for entry, creation in plan.creations.items():
            names[entry] = await self._create(pod, entry, creation)
        recorded = {s.name: s.resource_claim_name for s in pod.status.resource_claim_statuses}
        if any(recorded.get(entry) != name for entry, name in names.items()):
            await execute_writes(self.client, (claim_statuses_patch(pod, names),))
        for entry, problem in plan.problems.items():
            self._record_failure(pod, entry, problem)
        await execute_writes(self.client, plan_reserved_for(pod, claim_of))

    async def _create(self, pod: Pod, entry: str, creation: Create) -> str:
        try:
            claim: ResourceClaim = await execute_write(self.client, creation)
        except HoldfastError as failure:
            self._claim_metrics.failed(creation.body)
            problem = f"create ResourceClaim : {failure}"
            self._record_failure(pod, entry, problem)
            raise Retryable(problem) from failure
        self._claim_metrics.created(claim)
        shown = claim.key in self._claims.cache or claim.uid in self._deleted_uids
        if not shown and pod.uid not in self._deleted_uids:
            self.remember_created(claim)
        return claim.name

    def _record_failure(self, pod: Pod, entry: str, problem: str) -> None:
        message = f"PodResourceClaim {entry}: {problem}"
        self.record_event(pod, "Warning", "FailedResourceClaimCreation", message)

    async def _pods_of_claim(self, claim: ResourceClaim) -> dict[str, Pod | None]:
        """Return a claim's consumers and owner; get consumers from the server if not cached."""
        pods: dict[str, Pod | None] = {}
        for consumer in claim.status.reserved_for:
            if not consumer.is_pod:
                continue
            pod = self._pods.cache.get(f"{claim.namespace}/{consumer.name}")
            # The cache may be older than the claim: a consumer of another uid may be its new pod.
            unknown = pod is None or pod.uid != consumer.uid
            if unknown and consumer.uid not in self._deleted_uids:
                try:
                    pod = await self.client.get(PODS, consumer.name, claim.namespace)
                except NotFound:
                    pod = None
            pods[consumer.name] = pod
        owner = controller_of(claim)
        if owner is not None and owner.kind == "Pod":
            known = self._pods.cache.get(f"{claim.namespace}/{owner.name}")
            if known is not None:
                pods.setdefault(owner.name, known)
        return pods


class _ClaimMetrics:
    """Creations of claims, and the claims of the cache, under upstream's names."""

    def __init__(self, claims: Callable[[], Iterable[ResourceClaim]]) -> None:
        self._creates = CounterMetric(
            "resourceclaim_controller_creates_total",
            "ResourceClaims that were created from a template, or could not be, by status.",
            ("status", "admin_access"),
        )
        gauge = CallbackMetric(
            "resourceclaim_controller_resource_claims",
            "ResourceClaims by allocation, admin access and source; the source is "
            "extended_resource, resource_claim_template, or empty for the claims of users.",
            ("allocated", "admin_access", "source"),
            lambda: Counter(map(_claim_labels, claims())),
        )
        self.all = (self._creates, gauge)

    def created(self, claim: ResourceClaim) -> None:
        """Count a claim that was created."""
        self._creates.add("success", admin_access(claim))

    def failed(self, body: Mapping[str, Any]) -> None:
        """Count a raw claim that could not be created."""
        try:
            label = admin_access(convert_object(body, ResourceClaim))
        except msgspec.ValidationError:
            label = "false"
        self._creates.add("failure", label)


def admin_access(claim: ResourceClaim) -> str:
    """Return "true" if a request of the claim asks for admin access, else "false"."""
    exact = (request.exactly for request in claim.spec.devices.requests)
    return _text(any(each is not None and each.admin_access is True for each in exact))


def _claim_labels(claim: ResourceClaim) -> tuple[str, str, str]:
    """Return whether a claim is allocated, whether it has admin access, and its source."""
    notes = claim.metadata.annotations
    source = ""
    if notes.get(EXTENDED_CLAIM) == "true":
        source = "extended_resource"
    elif notes.get(POD_CLAIM_NAME):
        source = "resource_claim_template"
    return _text(claim.status.allocation is not None), admin_access(claim), source


def _text(value: bool) -> str:
    return str(value).lower()

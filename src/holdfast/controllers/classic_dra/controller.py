"""The claim controller of classic DRA: create the claims of pods, and release and delete them.

A consumer in ``reservedFor`` that is not a pod is looked up with the rights of the controllers. If
these may not get its kind, the consumer stays in the claim and there is an event.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from holdfast.api.classic_dra.claims import readable_entries
from holdfast.api.classic_dra.names import KEP_GROUP, OWN_GROUP, POD_CLAIMS
from holdfast.api.classic_dra.types import ClassicClaim, ClassicResources, classic_resources
from holdfast.api.meta import Object, controller_of, is_controlled_by
from holdfast.api.pod import Pod
from holdfast.api.pod_claim_errors import InvalidEntries
from holdfast.api.resource_quota import ResourceQuota
from holdfast.api.scheme import PODS, RESOURCE_QUOTAS
from holdfast.client.informer_cache import ChangeType
from holdfast.controllers.claim_consumers import is_done
from holdfast.controllers.classic_dra.consumers import POLL_SECONDS, ConsumerLookup
from holdfast.controllers.classic_dra.plan import (
    owning_pod_uid,
    plan_inline_claims,
    plan_release,
)
from holdfast.controllers.object_index import KeyIndex
from holdfast.controllers.planned_writes import (
    Create,
    execute_chained_writes,
    execute_write,
    namespace_is_terminating,
)
from holdfast.controllers.reconciler import ControllerContext, Reconciler
from holdfast.runtime.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    HoldfastError,
    NotFound,
    Retryable,
)
from holdfast.runtime.feature_gates import Feature
from holdfast.runtime.metric_types import CounterMetric
from holdfast.state.quota.charging import may_have_room

MAX_CACHE_MISSES = 8
"""After this many failures of a pod, about a second, an existing claim should be in the cache."""
_POD, _CLAIM = "pod:", "claim:"
_KEP = classic_resources(KEP_GROUP)
_INSTALLED = classic_resources(OWN_GROUP)


class ClassicClaimController(Reconciler):
    """Watch pods and claims; keys are ``pod:`` or ``claim:`` and namespace/name."""

    name = "classic-resourceclaim-controller"
    feature = Feature.DYNAMIC_RESOURCE_ALLOCATION
    queue_name = "resource_claim"
    workers = 10
    resources: ClassicResources = _KEP
    required_resources = (_KEP.claims, _KEP.classes, PODS, RESOURCE_QUOTAS)

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._settings = context.settings.classic_claims
        self._pods = context.informers.get(PODS)
        self._claims = context.informers.get(self.resources.claims)
        self._classes = context.informers.get(self.resources.classes)
        self._consumers = ConsumerLookup(context.client, context.clock, self._pods)
        self._pods_of_claim: KeyIndex[Pod] = KeyIndex(_names_of_inline_claims)
        self._claims_of_uid: KeyIndex[ClassicClaim] = KeyIndex(_uids_of_pods)
        self._waiters = QuotaWaiters()
        self._creations = _CreationMetrics()
        context.metrics.add(*self._creations.all)
        self._claims.add_handler(self._claims_of_uid.on_change)
        self._claims.add_handler(self._on_claim)
        self._pods.add_handler(self._pods_of_claim.on_change)
        self._pods.add_handler(self._on_pod)
        context.informers.get(RESOURCE_QUOTAS).add_handler(self._on_quota)

    # --- events

    def _on_pod(self, kind: ChangeType, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        if new is None:
            self._consumers.deleted_pods.add(pod.uid)
        if new is None or is_done(new):
            for claim in self._claims_of_uid.of(pod.uid):
                self.queue.add(_CLAIM + claim)
        if new is None or new.terminating or new.finished:
            self._leave_lines(pod.key)
        elif any(_claim_fields(new)) and (old is None or _claim_fields(old) != _claim_fields(new)):
            self.queue.add(_POD + new.key)

    def _on_claim(
        self, kind: ChangeType, old: ClassicClaim | None, new: ClassicClaim | None
    ) -> None:
        claim = new or old
        assert claim is not None
        if new is not None:
            self.queue.add(_CLAIM + claim.key)
        else:
            self._try_waiting_pods(claim.namespace)
        if old is None or new is None or controller_of(old) != controller_of(new):
            for pod in self._pods_of_claim.of(claim.key):
                self._enqueue_at_once(pod)

    def _on_quota(
        self, kind: ChangeType, old: ResourceQuota | None, new: ResourceQuota | None
    ) -> None:
        quota = new or old
        assert quota is not None
        if may_have_room(old, new):
            self._try_waiting_pods(quota.namespace)

    def _leave_lines(self, pod: str, refused: Collection[str] = ()) -> None:
        """Remove a pod from the queues of all classes but ``refused``; try the next pod of each."""
        namespace = pod.partition("/")[0]
        for key in self._waiters.leave(namespace, pod, but=refused):
            self._enqueue_at_once(key)

    def _enqueue_at_once(self, pod: str) -> None:
        """Enqueue a pod without backoff: the reason for its failures may have ended."""
        self.queue.add_after(_POD + pod, 0)

    def _try_waiting_pods(self, namespace: str) -> None:
        for key in self._waiters.first(namespace):
            self.queue.add(_POD + key)

    def object_for_key(self, key: str) -> Object | None:
        """Return the pod or the claim of a key."""
        if key.startswith(_POD):
            return self._pods.cache.get(key.removeprefix(_POD))
        return self._claims.cache.get(key.removeprefix(_CLAIM))

    # --- reconciling

    async def reconcile(self, key: str) -> None:
        """Create the missing claims of a pod, or release a claim."""
        if key.startswith(_POD):
            pod_key = key.removeprefix(_POD)
            pod = self._pods.cache.get(pod_key)
            if pod is not None:
                await self._reconcile_pod(pod)
            else:
                self._leave_lines(pod_key)
            return
        claim = self._claims.cache.get(key.removeprefix(_CLAIM))
        if claim is not None:
            await self._reconcile_claim(claim)

    async def _reconcile_pod(self, pod: Pod) -> None:
        def claim_of(name: str) -> ClassicClaim | None:
            return self._claims.cache.get(f"{pod.namespace}/{name}")

        try:
            plan = plan_inline_claims(pod, self.resources, claim_of)
        except InvalidEntries as failure:
            self.record_event(pod, "Warning", "FailedResourceClaimCreation", str(failure))
            return
        problems, refused = dict(plan.problems), set[str]()
        for entry, creation in plan.creations.items():
            class_name = creation.body["spec"].get("resourceClassName", "")
            try:
                await self._create(pod, entry, class_name, creation)
            except Conflict:
                raise
            except HoldfastError as failure:
                problems[entry] = f"create ResourceClaim: {failure}"
                if isinstance(failure, Forbidden):
                    refused.add(class_name)
                    self._waiters.wait(pod.namespace, class_name, pod.key)
        self._leave_lines(pod.key, refused)
        for entry, problem in problems.items():
            message = f"PodResourceClaim {entry}: {problem}"
            self.record_event(pod, "Warning", "FailedResourceClaimCreation", message)
        if problems:
            raise Retryable("; ".join(problems.values()))

    async def _create(self, pod: Pod, entry: str, class_name: str, creation: Create) -> None:
        """Create a claim; raises Conflict while the cache does not show an existing one."""
        try:
            await execute_write(self.client, creation)
        except HoldfastError as failure:
            if namespace_is_terminating(failure):
                return  # the pod will be deleted, too
            misses = self.queue.failures(_POD + pod.key)
            if isinstance(failure, AlreadyExists) and misses < MAX_CACHE_MISSES:
                raise Conflict(str(failure)) from failure
            self._creations.count(failed=True)
            raise
        self._creations.count(failed=False)
        if not await self._class_exists(class_name):
            message = f'PodResourceClaim {entry}: ResourceClass "{class_name}" not found'
            self.record_event(pod, "Warning", "ResourceClassNotFound", message)

    async def _class_exists(self, name: str) -> bool:
        if name in self._classes.cache:
            return True
        try:
            await self.client.get(self.resources.classes, name)
        except NotFound:
            return False
        except HoldfastError:
            pass  # this only decides whether there is an event
        return True

    async def _reconcile_claim(self, claim: ClassicClaim) -> None:
        check = await self._consumers.check(claim)
        owner = controller_of(claim)
        pod = self._pods.cache.get(f"{claim.namespace}/{owner.name}") if owner is not None else None
        writes = plan_release(
            claim,
            self.resources,
            check.stale,
            pod if pod is not None and is_controlled_by(claim, pod) else None,
            deallocate_unused=self._settings.deallocate_unused,
        )
        await execute_chained_writes(self.client, writes)
        for problem in check.problems:
            self.record_event(claim, "Warning", "FailedConsumerCheck", problem)
        await self._report_missing_class(claim)
        if check.failure is not None:
            raise check.failure
        if check.polled:
            self.queue.add_after(_CLAIM + claim.key, POLL_SECONDS)

    async def _report_missing_class(self, claim: ClassicClaim) -> None:
        """Record why an immediate claim is not allocated: without its class it has no driver."""
        waits = claim.is_immediate and not claim.is_allocated and not claim.is_deleted
        name = claim.spec.resource_class_name
        if waits and not await self._class_exists(name):
            message = f'ResourceClass "{name}" not found: the claim waits for it'
            self.record_event(claim, "Warning", "ResourceClassNotFound", message)


class InstalledClassicClaimController(ClassicClaimController):
    """The claim controller for a cluster that has the kinds as custom resources."""

    optional = True
    resources = _INSTALLED
    required_resources = (_INSTALLED.claims, _INSTALLED.classes, PODS, RESOURCE_QUOTAS)


class _CreationMetrics:
    """Attempts to create claims, and failed attempts, under the names of the KEP and upstream."""

    def __init__(self) -> None:
        attempts = "Attempts to create the classic ResourceClaim of a pod."
        failures = "Attempts to create the classic ResourceClaim of a pod that failed."
        self._attempts = (
            CounterMetric("resource_controller_create_total", attempts),
            CounterMetric("resourceclaim_controller_create_attempts_total", attempts),
        )
        self._failures = (
            CounterMetric("resource_controller_create_failures_total", failures),
            CounterMetric("resourceclaim_controller_create_failures_total", failures),
        )
        self.all = (*self._attempts, *self._failures)

    def count(self, *, failed: bool) -> None:
        """Count an attempt."""
        for metric in (*self._attempts, *(self._failures if failed else ())):
            metric.add()


def _claim_fields(pod: Pod) -> tuple[object, str]:
    """Return what the classic claims of a pod depend on."""
    return pod.spec.resource_claims, pod.metadata.annotations.get(POD_CLAIMS, "")


def _names_of_inline_claims(pod: Pod) -> list[str]:
    return [f"{pod.namespace}/{entry.claim_name}" for entry in readable_entries(pod) if entry.owned]


def _uids_of_pods(claim: ClassicClaim) -> set[str]:
    """Return the uids of the pods after whose end a claim may have to change."""
    return {owning_pod_uid(claim), *(c.uid for c in claim.status.reserved_for)} - {""}


class QuotaWaiters:
    """A queue of pods for each namespace and class, in the order in which they were refused.

    When there may be room, only the first pod of each queue is tried, and the next after it
    succeeds: a thousand waiting pods do not send a thousand requests for one free place.
    """

    def __init__(self) -> None:
        self._lines: defaultdict[str, dict[str, dict[str, None]]] = defaultdict(dict)

    def wait(self, namespace: str, class_name: str, pod: str) -> None:
        """Add a pod, by key, to the end of a queue, unless it is in the queue already."""
        self._lines[namespace].setdefault(class_name, {})[pod] = None

    def first(self, namespace: str) -> list[str]:
        """Return the first pod of each queue of a namespace."""
        return [next(iter(line)) for line in self._lines.get(namespace, {}).values()]

    def leave(self, namespace: str, pod: str, *, but: Collection[str] = ()) -> list[str]:
        """Remove a pod from all queues except those of some classes; return the next of each."""
        lines = self._lines.get(namespace, {})
        following: list[str] = []
        for class_name in [name for name in lines if name not in but and pod in lines[name]]:
            del lines[class_name][pod]
            if lines[class_name]:
                following.append(next(iter(lines[class_name])))
            else:
                del lines[class_name]
        if not lines:
            self._lines.pop(namespace, None)
        return following

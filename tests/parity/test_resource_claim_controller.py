"""The resourceclaim controller: objects in, one key reconciled, objects and metrics out.

The objects of the records are not valid, so they are kept in memory instead of an API server.
"""

import asyncio
import copy
from types import SimpleNamespace

from holdfast.api.decode import convert_object, without_nulls
from holdfast.api.devices import ResourceClaim
from holdfast.api.pod import Pod
from holdfast.api.scheme import PODS, RESOURCE_CLAIMS
from holdfast.api.timestamps import rfc3339
from holdfast.client.client import PatchType
from holdfast.controllers.claim_templates import TEMPLATES
from holdfast.controllers.metrics import ControllerMetrics
from holdfast.controllers.reconciler import ControllerContext
from holdfast.controllers.resource_claim import ResourceClaimController, admin_access
from holdfast.runtime.errors import Conflict, HoldfastError, NotFound
from holdfast.server.verbs.patching import merge_patch
from holdfast.testing.clock import VirtualClock
from parity.harness import parity

FILE = "resourceclaim_controller.jsonl"


def go_times(raw):
    """Return a claim in which Go's zero time, which is written as null, is a time."""
    meta = raw["metadata"]
    deleted = {"deletionTimestamp": rfc3339(0)} if "deletionTimestamp" in meta else {}
    return raw | {"metadata": meta | deleted}


def key_of(raw):
    return f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"


class StoredObjects:
    """The client of the controller: raw objects by resource and key."""

    def __init__(self, objects, *, creations_fail=False):
        self.objects = {
            resource: {key_of(raw): copy.deepcopy(raw) for raw in found or ()}
            for resource, found in objects.items()
        }
        self._creations_fail = creations_fail

    def typed(self, resource, raw):
        return convert_object(raw, resource.type)

    async def get(self, resource, name, namespace):
        raw = self.objects[resource].get(f"{namespace}/{name}")
        if raw is None:
            raise NotFound(f'{resource.plural} "{name}" not found')
        return self.typed(resource, raw)

    async def create(self, resource, body, namespace):
        if self._creations_fail:
            raise Conflict(
                "Operation cannot be fulfilled on resourceclaims.resource.k8s.io "
                '"fake name": fake conflict'
            )
        raw = copy.deepcopy(dict(body))
        prefix = f"{raw['metadata']['generateName']}-"
        made = sum(key.startswith(f"{namespace}/{prefix}") for key in self.objects[resource])
        raw["metadata"]["name"] = f"{prefix}{made + 1}"
        self.objects[resource][f"{namespace}/{raw['metadata']['name']}"] = raw
        return self.typed(resource, raw)

    async def patch(self, resource, name, patch, namespace, *, type, subresource):
        key = f"{namespace}/{name}"
        raw = self.objects[resource][key]
        if type is PatchType.STRATEGIC:
            entries = {e["name"]: e for e in raw.get("status", {}).get(CLAIM_STATUSES) or ()}
            entries |= {e["name"]: e for e in patch["status"][CLAIM_STATUSES]}
            patch = patch | {"status": {CLAIM_STATUSES: list(entries.values())}}
        assert patch.get("metadata", {}).get("uid", "") in ("", raw["metadata"].get("uid", ""))
        preconditions = {"uid": None, "resourceVersion": None}
        patch = patch | {"metadata": patch.get("metadata", {}) | preconditions}
        raw = self.objects[resource][key] = merge_patch(raw, patch)
        return self.typed(resource, raw)

    async def delete(self, resource, name, namespace, **_preconditions):
        del self.objects[resource][f"{namespace}/{name}"]


CLAIM_STATUSES = "resourceClaimStatuses"


class SyncedInformer:
    """An informer whose list has these objects."""

    def __init__(self, objects):
        self.cache = {obj.key: obj for obj in objects}
        self._handlers = []

    def add_handler(self, handler):
        self._handlers.append(handler)
        for obj in self.cache.values():
            handler("added", None, obj)

    def delete(self, obj):
        del self.cache[obj.key]
        for handler in self._handlers:
            handler("deleted", obj, None)


class Case:
    """A controller with the objects of a record."""

    def __init__(self, given):
        objects = {
            PODS: given.get("pods"),
            TEMPLATES: given.get("templates"),
            RESOURCE_CLAIMS: [go_times(raw) for raw in given.get("claims") or ()],
        }
        self.informers = {
            resource: SyncedInformer([convert_object(raw, resource.type) for raw in found or ()])
            for resource, found in objects.items()
        }
        later = [*(objects[PODS] or ()), *(given.get("podsLater") or ())]
        self.client = StoredObjects(
            {**objects, PODS: later}, creations_fail=given.get("createClaimFails", False)
        )
        self.events = []
        self.metrics = ControllerMetrics(lambda: 0.0)
        self.controller = ResourceClaimController(
            ControllerContext(
                self.client,
                SimpleNamespace(get=self.informers.get),
                VirtualClock(),
                SimpleNamespace(record=lambda *event, **_: self.events.append(event)),
                self.metrics,
            )
        )
        for raw in given.get("claimsInCache") or ():
            self.controller.remember_created(convert_object(raw, ResourceClaim))

    def reconcile(self, key):
        """Reconcile a key and return the text of the error or of the event, or ""."""
        try:
            asyncio.run(self.controller.reconcile(key))
        except HoldfastError as failure:
            return str(failure)
        return " ".join(event[-1] for event in self.events)

    def queued(self):
        """Take all keys out of the queue."""
        queue = self.controller.queue

        async def take():
            key = await queue.get()
            queue.done(key)
            return key

        return {asyncio.run(take()) for _ in range(queue.ready)}

    def creations(self):
        """Return how many claims were created and not, without and with admin access."""
        samples = {
            (s.labels["status"], s.labels["admin_access"]): s.value
            for family in self.metrics.collect()
            for s in family.samples
            if s.name == "resourceclaim_controller_creates_total"
        }
        names = {
            "numCreated": ("success", "false"),
            "numCreatedWithAdmin": ("success", "true"),
            "numFailures": ("failure", "false"),
            "numFailureWithAdmin": ("failure", "true"),
        }
        return {name: samples.get(labels, 0) for name, labels in names.items()}


def plain(value):
    """Drop what Go's JSON omits."""
    if isinstance(value, dict):
        kept = {k: plain(v) for k, v in value.items()}
        return {k: v for k, v in kept.items() if v not in (None, {}, [], False)}
    return [plain(v) for v in value] if isinstance(value, list) else value


@parity(FILE, "TestSyncHandler", where=lambda r: r.compare.startswith("expectedError"))
def test_error(record):
    assert record.expected["expectedError"] in Case(record.input).reconcile(record.input["key"])


@parity(FILE, "TestSyncHandler", where=lambda r: r.compare.startswith("expectedClaims"))
def test_sync(record):
    case = Case(record.input)
    assert case.reconcile(record.input["key"]) == ""
    stored, want = case.client.objects, record.expected
    claims = sorted(stored[RESOURCE_CLAIMS].values(), key=key_of)
    wanted = [go_times(raw) for raw in want["expectedClaims"] or ()]
    assert plain(claims) == plain(sorted(wanted, key=key_of))
    statuses = {
        raw["metadata"]["name"]: without_nulls(entries)
        for raw in stored[PODS].values()
        if (entries := (raw.get("status") or {}).get(CLAIM_STATUSES))
    }
    assert statuses == (want["expectedStatuses"] or {})
    assert case.creations() == want["expectedMetrics"]


@parity(FILE, "TestEnqueuePodExtendedResourceClaims")
def test_extended_claim_is_queued(record):
    case = Case({"pods": [record.input["pod"]]})
    if record.input["deleted"]:
        case.queued()
        case.informers[PODS].delete(convert_object(record.input["pod"], Pod))
    queued = "claim:default/test-extended-claim" in case.queued()
    assert queued is record.expected["expectExtendedClaimEnqueued"]


@parity(FILE, "TestGetAdminAccessMetricLabel")
def test_admin_access_label(record):
    claim = convert_object(record.input["claim"], ResourceClaim)
    assert admin_access(claim) == record.expected["want"]


@parity("dra_helpers.jsonl", "TestPodStatusEqual", "TestPodExtendedStatusEqual")
def test_claim_statuses_are_equal(record):
    def pod(status):
        return convert_object({"status": status}, Pod)

    if record.input["function"] == "PodStatusEqual":
        pods = [pod({CLAIM_STATUSES: record.input[key]}) for key in ("sliceA", "sliceB")]
    else:
        key = "extendedResourceClaimStatus"
        pods = [pod({key: record.input[name]}) for name in ("statusA", "statusB")]
    assert (pods[0].status == pods[1].status) is record.expected["expectEqual"]

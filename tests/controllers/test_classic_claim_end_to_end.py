"""The claim controller of classic DRA on an API server; the tests write what a driver writes."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from controllers.classic_objects import (
    CLASSIC,
    GPU_CLASS,
    a_classic_claim,
    a_user,
    allocated,
    inline,
    named,
    owner,
)
from controllers.small_cluster import start_small_cluster
from holdfast.api.classic_dra.names import deletion_protection
from holdfast.api.meta import Object
from holdfast.api.resource import Resource
from holdfast.api.scheme import EVENTS, PODS, RESOURCE_QUOTAS
from holdfast.client.client import Client
from holdfast.controllers.controller_manager import ControllerManager
from holdfast.runtime.errors import Forbidden, NotFound
from holdfast.testing import Fault, FaultyTransport

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", Object)
QUOTA = "resourceclaims"
DRIVER = "gpu.example.com"
PROTECTED = [deletion_protection(DRIVER)]


class Story:
    """A cluster without scheduler, and what user, scheduler, driver and agent do there."""

    def __init__(self, cluster):
        self.cluster, self.client, self.clock = cluster, cluster.client, cluster.clock

    async def create(self, *pods):
        for pod in pods:
            await self.client.create(PODS, pod, "default")
        await self.clock.settle()
        return [await self.client.get(PODS, pod["metadata"]["name"], "default") for pod in pods]

    async def create_claim(self, *args, **kwargs):
        made = await self.client.create(CLASSIC.claims, a_classic_claim(*args, **kwargs), "default")
        await self.clock.settle()
        return made

    async def claim(self, name):
        """Return a claim, None if there is none."""
        try:
            return await self.client.get(CLASSIC.claims, name, "default")
        except NotFound:
            return None

    async def claim_count(self):
        return len((await self.client.list(CLASSIC.claims, "default")).items)

    async def consumers(self, name):
        return [consumer.name for consumer in (await self.claim(name)).status.reserved_for]

    async def patch_claim(self, name, *, status=None, **metadata):
        change, part = ({"status": status}, "status") if status else ({"metadata": metadata}, "")
        await self.client.patch(CLASSIC.claims, name, change, "default", subresource=part)
        await self.clock.settle()

    async def allocate(self, name, *pods, **status):
        """Do what a driver does, and the scheduler for all but the first pod."""
        await self.patch_claim(name, finalizers=PROTECTED)
        await self.patch_claim(name, status=allocated(*pods, **status))

    async def deallocate(self, name):
        """Do what the driver does when a claim that nothing uses is deleted or released."""
        claim = await self.claim(name)
        assert not claim.status.reserved_for
        empty = {"allocation": None, "driverName": None, "deallocationRequested": None}
        await self.patch_claim(name, status=empty)
        await self.patch_claim(name, finalizers=None)

    async def set_pod_status(self, name, **status):
        change = {"status": status}
        await self.client.patch(PODS, name, change, "default", subresource="status")
        await self.clock.settle()

    async def delete(self, resource, name, **options):
        await self.client.delete(resource, name, "default", **options)
        await self.clock.settle()

    async def events(self, reason="FailedResourceClaimCreation"):
        """Return the messages of events by the name of their object."""
        found = (await self.client.list(EVENTS, "default")).items
        return {e.involved_object.name: e.message for e in found if e.reason == reason}

    async def create_quota(self, **hard):
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
        await self.client.create(RESOURCE_QUOTAS, quota | {"spec": {"hard": hard}}, "default")
        await self.clock.advance(1)

    def metric(self, name, /, **labels):
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self.cluster.controllers.metrics)
        return registry.get_sample_value(name, labels)


@pytest.fixture
async def story(cluster):
    await cluster.client.create(CLASSIC.classes, GPU_CLASS)
    await cluster.clock.settle()
    return Story(cluster)


async def test_C019_an_inline_claim_is_named_after_its_pod_and_owned_by_it(story):
    [pod] = await story.create(a_user("p", inline(metadata={"labels": {"team": "a"}})))
    claim = await story.claim("p-gpu")
    [reference] = claim.metadata.owner_references
    assert (reference.uid, reference.controller) == (pod.uid, True)
    assert reference.block_owner_deletion
    assert claim.metadata.labels == {"team": "a"}
    assert await story.events() == {}

    await story.delete(CLASSIC.claims, "p-gpu")
    assert (await story.claim("p-gpu")).uid != claim.uid, "a lost claim of a live pod comes back"
    await story.delete(PODS, "p", grace_seconds=0)
    await story.clock.advance(2)
    assert await story.claim("p-gpu") is None


async def test_C018_a_claim_is_created_although_its_class_is_missing(story):
    await story.create(a_user("p", inline(resourceClassName="later")))
    assert (await story.claim("p-gpu")).spec.resource_class_name == "later"
    assert 'ResourceClass "later" not found' in (await story.events("ResourceClassNotFound"))["p"]
    assert await story.events() == {}


async def test_C020_C021_a_foreign_claim_blocks_until_it_is_deleted_or_given_to_the_pod(story):
    foreign = await story.create_claim("p-gpu")
    given = await story.create_claim("q-gpu")
    _, q = await story.create(a_user("p"), a_user("q"))
    await story.clock.advance(100)
    assert (await story.claim("p-gpu")).uid == foreign.uid
    events = await story.events()
    assert "was not created for pod" in events["p"] and "was not created" in events["q"]

    await story.delete(CLASSIC.claims, "p-gpu")
    assert (await story.claim("p-gpu")).metadata.owner_references[0].name == "p"
    # By hand, as the KEP says.
    await story.patch_claim("q-gpu", ownerReferences=[owner(q)])
    await story.clock.advance(100)
    kept = await story.claim("q-gpu")
    assert (kept.uid, kept.metadata.labels) == (given.uid, {}), "an existing claim is not changed"
    assert story.cluster.controllers.healthy


async def test_C022_a_recreated_pod_does_not_use_the_claim_of_the_old_one(story):
    [old] = await story.create(a_user("p"))
    before = await story.claim("p-gpu")
    await story.allocate("p-gpu", old)
    await story.delete(PODS, "p", grace_seconds=0)
    [new] = await story.create(a_user("p"))
    await story.clock.advance(5)
    kept = await story.claim("p-gpu")
    assert (kept.uid, kept.is_deleted, kept.status.reserved_for) == (before.uid, True, ())
    assert "was not created for pod" in (await story.events())["p"]

    await story.deallocate("p-gpu")
    await story.clock.settle()
    after = await story.claim("p-gpu")
    assert after.metadata.owner_references[0].uid == new.uid


async def test_C050_C051_the_claim_is_released_when_its_pod_has_finished_not_at_a_restart(story):
    [job, web] = await story.create(a_user("job", node="n"), a_user("web", node="n"))
    for pod in (job, web):
        await story.allocate(f"{pod.name}-gpu", pod)
    restarted = {"name": "main", "restartCount": 3, "image": "", "imageID": "", "ready": False}
    await story.set_pod_status("web", phase="Running", containerStatuses=[restarted])
    await story.set_pod_status("job", phase="Succeeded")
    released = await story.claim("job-gpu")
    assert released.status.reserved_for == () and released.is_deleted
    await story.deallocate("job-gpu")
    await story.clock.advance(2)
    assert await story.claim("job-gpu") is None, "not created again for the finished pod"
    assert await story.consumers("web-gpu") == ["web"]
    assert not (await story.claim("web-gpu")).is_deleted


async def test_C052_a_pod_that_is_deleted_before_it_got_a_node_releases_its_reservation(story):
    await story.create_claim("c")
    held = {"finalizers": ["example.com/held"]}
    pods = await story.create(
        a_user("waits", named("c"), metadata=held),
        a_user("runs", named("c"), node="n"),
        a_user("leaves", named("c"), node="n", metadata=held),
    )
    await story.allocate("c", *pods)
    await story.delete(PODS, "waits", grace_seconds=30)
    await story.delete(PODS, "leaves", grace_seconds=3600)
    assert await story.consumers("c") == ["runs", "leaves"], "one that terminates is kept"
    claim = await story.claim("c")
    assert claim.is_allocated and not claim.status.deallocation_requested
    for name in ("waits", "leaves"):
        await story.client.patch(PODS, name, {"metadata": {"finalizers": None}}, "default")


@pytest.fixture
async def faulty(tmp_path):
    """A cluster whose controllers use a transport with faults."""
    transports = []

    def with_faults(transport, clock):
        transports.append(FaultyTransport(transport, clock=clock))
        return transports[0]

    async with start_small_cluster(tmp_path, with_faults) as cluster:
        yield Story(cluster), transports[0]


async def test_C053_a_restarted_controller_drops_vanished_pods_and_keeps_running_ones(faulty):
    story, transport = faulty
    await story.create_claim("c")
    names = ("gone", "replaced", "runs", "ended")
    pods = await story.create(*(a_user(name, named("c"), node="n") for name in names))
    await story.allocate("c", *pods)
    await story.cluster.controllers.stop()
    for name in ("gone", "replaced"):
        await story.delete(PODS, name, grace_seconds=0)
    await story.create(a_user("replaced", named("c"), node="n"))
    await story.set_pod_status("ended", phase="Failed")
    assert await story.consumers("c") == list(names)
    path = "/resourceclaims/c/status"
    transport.add(*(Fault(trouble, "PATCH", path) for trouble in ("conflict", "unavailable")))
    transport.add(Fault("unavailable", "GET", "/pods/gone"), Fault("lost", "PATCH", path))
    story.cluster.controllers = ControllerManager(Client(transport, "components"), story.clock)
    await story.cluster.controllers.start()
    await story.clock.advance(5)
    assert len(transport.injected_faults) == 4
    assert await story.consumers("c") == ["runs"]


async def test_the_cache_may_be_older_than_a_reservation(faulty):
    story, transport = faulty
    await story.create_claim("c")
    await story.create(a_user("p", named("c")))
    transport.add(Fault("unavailable", "GET", "/pods", times=1000, watch=True))
    story.cluster.end_watches()
    await story.clock.settle()
    await story.delete(PODS, "p", grace_seconds=0)
    pods = await story.create(a_user("p", named("c")), a_user("unseen", named("c")))
    await story.allocate("c", *pods)
    await story.clock.advance(0.1)
    assert await story.consumers("c") == ["p", "unseen"]
    await story.delete(PODS, "unseen", grace_seconds=0)  # no watch event will tell
    transport.enabled = False
    await story.clock.advance(100)
    assert await story.consumers("c") == ["p"]


async def test_C054_a_consumer_that_is_not_a_pod_stays_while_its_object_exists(story):
    await story.create_claim("c")
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "users"}}
    made = await story.client.create(CONFIG_MAPS, settings, "default")
    entry = {"resource": "configmaps", "name": "users", "uid": made.uid}
    unknown = {"apiGroup": "example.com", "resource": "widgets", "name": "w", "uid": "u"}
    replaced = entry | {"uid": "earlier"}
    await story.allocate("c", others=[entry, unknown, replaced])
    await story.clock.advance(130)
    found = (await story.claim("c")).status.reserved_for
    assert [(c.resource, c.uid) for c in found] == [("configmaps", made.uid), ("widgets", "u")]
    assert "widgets.example.com is not served" in (await story.events("FailedConsumerCheck"))["c"]
    await story.delete(CONFIG_MAPS, "users")
    assert await story.consumers("c") == ["users", "w"]
    await story.clock.advance(60)
    assert await story.consumers("c") == ["w"], "what cannot be looked up is kept"


async def test_C057_C055_claims_over_quota_wait_for_room_and_are_counted(story):
    waiting = [f"p{number}" for number in range(8)]
    await story.create_quota(**{QUOTA: "2"})
    await story.create_claim("users")
    await story.create(a_user("first"))
    await story.create(*map(a_user, waiting))
    with pytest.raises(Forbidden):
        await story.create_claim("third")
    await story.clock.advance(1000)
    assert await story.claim_count() == 2
    events = await story.events()
    assert events.keys() == {*waiting} and all("exceeded quota" in e for e in events.values())
    kep = story.metric("resource_controller_create_total")
    assert 9 < kep == story.metric("resourceclaim_controller_create_attempts_total")
    for prefix in ("resource", "resourceclaim"):
        failures = story.metric(f"{prefix}_controller_create_failures_total")
        assert failures == kep - 1
    assert story.metric("workqueue_adds_total", name="resource_claim") > kep

    # The next attempts would be minutes away: what makes room also wakes the pods.
    await story.delete(CLASSIC.claims, "users")
    await story.clock.advance(3)
    assert await story.claim_count() == 2
    used = (await story.client.get(RESOURCE_QUOTAS, "q", "default")).status.used
    assert used == {QUOTA: "2"}, "claims that the controller creates are charged"
    more = story.metric("resource_controller_create_total") - kep
    assert more < len(waiting), "one free place is not asked for by all"
    await story.client.patch(RESOURCE_QUOTAS, "q", {"spec": {"hard": {QUOTA: "20"}}}, "default")
    await story.clock.advance(3)
    assert await story.claim_count() == 1 + len(waiting)


async def test_an_immediate_claim_whose_class_is_missing_has_an_event(cluster):
    story = Story(cluster)
    await story.create_claim("late", immediate=True)
    await story.create_claim("delayed")
    assert await story.events("ResourceClassNotFound") == {
        "late": f'ResourceClass "{DRIVER}" not found: the claim waits for it'
    }
    await cluster.client.create(CLASSIC.classes, GPU_CLASS)
    await story.create_claim("other", immediate=True)
    assert set(await story.events("ResourceClassNotFound")) == {"late"}

"""Pods that wait for a claim, a quota or a place among its users: why is said, and when it ends."""

import pytest

from holdfast.api.scheme import EVENTS, PODS, RESOURCE_QUOTAS
from holdfast.client.client import PatchType
from holdfast.runtime.errors import Forbidden
from holdfast.testing import (
    a_claim,
    a_claim_template,
    a_device_class,
    a_node,
    a_pod,
    a_slice,
)
from holdfast.testing.builders import an_object
from holdfast.testing.classic_dra.builders import (
    a_classic_claim,
    a_classic_class,
    inline,
    named,
)
from holdfast.testing.classic_dra.driver import ClassicDriver
from holdfast.testing.harness import Harness

GPU = "example.com/gpu"
PER_CLASS = "gpu.deviceclass.resource.k8s.io/devices"
PER_CLASSIC_CLASS = "gpu.resourceclass.node.k8s.io/resourceclaims"
NOT_READY = "NotReadyForScheduling"


@pytest.fixture
async def gpus(cluster):
    """A node with 300 GPUs, which is also an extended resource."""
    devices = [a_slice(f"n-{i}", node="n", pool=f"p{i}", devices=100) for i in range(3)]
    await cluster.create(
        a_node("n", cpu="300", pods=600),
        a_device_class("gpu", extended_resource_name=GPU),
        *devices,
    )
    return cluster


def user(name, claim="c", **more):
    return a_pod(
        name, cpu="1m", resource_claims=[{"name": "d", "resourceClaimName": claim}], **more
    )


def templated(name):
    return a_pod(name, cpu="1m", resource_claims=[{"name": "d", "resourceClaimTemplateName": "t"}])


def extended(name):
    return a_pod(name, cpu="1m", requests={GPU: "1"}, limits={GPU: "1"})


def a_quota(limit, key=PER_CLASS):
    return an_object(RESOURCE_QUOTAS, "q", {"hard": {key: limit}}, namespace="default")


class Refusing:
    """A transport that refuses the reads for which ``refuses`` is true."""

    def __init__(self, transport, refuses):
        self.transport, self.stream, self.refuses = transport, transport.stream, refuses

    async def send(self, request):
        if request.method == "GET" and self.refuses(request):
            raise Forbidden("no right")
        return await self.transport.send(request)


async def condition(cluster, name):
    found = (await cluster.pod(name)).status.conditions
    return next(((c.reason, c.message) for c in found if c.type == "PodScheduled"), None)


async def events(cluster, name, reason):
    return [message for each, message in await cluster.events(name) if each == reason]


async def raise_quota(cluster, limit, key=PER_CLASS):
    body = {"spec": {"hard": {key: limit}}}
    await cluster.client.patch(RESOURCE_QUOTAS, "q", body, "default", type=PatchType.MERGE)
    await cluster.advance(2)


async def test_a_pod_that_names_no_claim_says_so_after_a_while_and_is_tried_when_it_comes(gpus):
    await gpus.create(user("p"))
    await gpus.advance(4)
    assert await condition(gpus, "p") is None
    await gpus.advance(3)
    said = 'could not find ResourceClaim "default/c"'
    assert await condition(gpus, "p") == (NOT_READY, said)
    assert await gpus.events("p") == [(NOT_READY, said)]
    await gpus.restart_components()
    await gpus.advance(60)
    assert await gpus.events("p") == [(NOT_READY, said)]
    await gpus.create(a_claim("c"))
    assert await gpus.node_of("p") == "n"
    assert "NotReady" not in str(await condition(gpus, "p"))


async def test_a_pod_whose_claim_comes_in_time_gets_no_condition(gpus):
    await gpus.create(user("p"))
    await gpus.advance(3)
    await gpus.create(a_claim("c"))
    await gpus.advance(10)
    assert await events(gpus, "p", NOT_READY) == []


async def test_a_gated_pod_keeps_the_condition_of_the_api_server(gpus):
    await gpus.create(user("p", scheduling_gates=[{"name": "example.com/wait"}]))
    await gpus.advance(10)
    assert (await condition(gpus, "p"))[0] == "SchedulingGated"
    assert await events(gpus, "p", NOT_READY) == []


async def test_a_missing_classic_claim_is_named(gpus):
    await gpus.create(a_classic_class(), a_pod("p", claims=[named("x", "c")]))
    await gpus.advance(7)
    said = 'waiting for resourceclaim "c" to be created'
    assert await condition(gpus, "p") == (NOT_READY, said)
    assert await events(gpus, "p", NOT_READY) == [said]


@pytest.mark.parametrize(
    ("pod", "key"),
    [
        (templated, PER_CLASS),
        (lambda name: a_pod(name, cpu="1m", claims=[inline("x")]), PER_CLASSIC_CLASS),
    ],
)
async def test_a_quota_that_keeps_a_claim_from_being_made_is_in_the_condition(gpus, pod, key):
    driver = ClassicDriver(gpus.client)
    await gpus.create(a_claim_template("t"), a_classic_class(), a_quota("1", key), pod("first"))
    await driver.serve(gpus.settle)
    assert await gpus.node_of("first") == "n"
    await gpus.create(pod("p"))
    await gpus.advance(7)
    reason, message = await condition(gpus, "p")
    assert reason == NOT_READY
    assert ": exceeded quota: q, requested: " + key in message
    await gpus.advance(300)
    assert await events(gpus, "p", NOT_READY) == [message], "the name of the claim is left out"
    assert await events(gpus, "p", "FailedScheduling") == []
    await raise_quota(gpus, "2", key)
    await gpus.advance(60)
    await driver.serve(gpus.settle)
    assert await gpus.node_of("p") == "n"


async def test_the_condition_follows_what_the_pod_waits_for(gpus):
    await gpus.create(a_quota("0"), templated("p"))
    await gpus.advance(7)
    assert 'resourceclaimtemplate.resource.k8s.io "t" not found' in await gpus.why("p")
    await gpus.create(a_claim_template("t"))
    await gpus.advance(20)
    assert "exceeded quota: q" in await gpus.why("p")
    assert len(await events(gpus, "p", NOT_READY)) == 2


async def test_why_a_claim_is_not_made_is_left_out_without_the_right_to_read_events(tmp_path):
    def wrap(transport, _clock):
        return Refusing(transport, lambda request: request.path.endswith("/events"))

    async with Harness(tmp_path, wrap=wrap) as cluster:
        await cluster.create(a_node("n"), templated("p"))
        await cluster.advance(7)
        said = 'pod "default/p": ResourceClaim not created yet'
        assert await condition(cluster, "p") == (NOT_READY, said)


async def test_a_quota_that_refuses_the_claim_of_extended_resources_is_no_error(gpus):
    await gpus.create(a_quota("1"), extended("first"))
    assert await gpus.node_of("first") == "n"
    await gpus.create(*(extended(f"p{i}") for i in range(3)))
    await gpus.advance(30)
    refusal = (
        "0/1 nodes are available: 1 create claim for extended resources default/: exceeded quota: "
        f"q, requested: {PER_CLASS}=1, used: {PER_CLASS}=1, limited: {PER_CLASS}=1."
    )
    for name in ("p0", "p1", "p2"):
        assert await condition(gpus, name) == ("Unschedulable", refusal)
        assert await events(gpus, name, "FailedScheduling") == [refusal]
    counts = [
        e.count
        for e in (await gpus.client.list(EVENTS, "default")).items
        if e.reason == "FailedScheduling"
    ]
    assert counts == [1, 1, 1], "they wait for the quota, and do not wake one another"


async def test_a_pod_is_tried_again_when_the_quota_is_raised_freed_or_gone(gpus):
    await gpus.create(a_quota("1"), extended("first"), *(extended(f"p{i}") for i in range(3)))
    waiting = {"p0", "p1", "p2"}

    async def newly_bound():
        found = {name for name in waiting if await gpus.node_of(name)}
        waiting.difference_update(found)
        return len(found)

    await gpus.advance(12)
    assert await newly_bound() == 0
    await raise_quota(gpus, "2")
    await gpus.advance(10)
    assert await newly_bound() == 1
    await gpus.delete(PODS, "first", "default")
    await gpus.advance(20)
    assert await newly_bound() == 1
    await gpus.delete(RESOURCE_QUOTAS, "q", "default")
    await gpus.advance(12)
    assert await newly_bound() == 1


async def test_without_the_right_to_read_quotas_a_pod_is_tried_again_every_minute(tmp_path):
    """The role of kube-scheduler has no such right; the check whether it has lists one object."""

    def refused(request):
        return request.path.endswith("/resourcequotas") and request.query.get("limit") == "1"

    async with Harness(tmp_path, wrap=lambda each, _clock: Refusing(each, refused)) as cluster:
        await cluster.create(
            a_node("n"), a_device_class("gpu", extended_resource_name=GPU),
            a_slice("n", node="n"), a_quota("0"), extended("p"),
        )  # fmt: skip
        await cluster.advance(5)
        await raise_quota(cluster, "1")
        await cluster.advance(50)
        assert await cluster.node_of("p") == ""
        await cluster.advance(10)
        assert await cluster.node_of("p") == "n"


async def test_the_257th_user_of_a_claim_waits_for_one_to_end(gpus):
    await gpus.create(a_claim("c"), settle=False)
    await gpus.create(*(user(f"p{i}") for i in range(257)), settle=False)
    await gpus.advance(60)
    [last] = [p for p in (await gpus.client.list(PODS)).items if not p.spec.node_name]
    reason, message = await condition(gpus, last.name)
    assert reason == "Unschedulable"
    assert message.startswith(
        "0/1 nodes are available: resourceclaim in use: default/c is reserved for 256 pods, the "
        "most that a claim can have."
    )
    assert await events(gpus, last.name, "FailedScheduling") == [message]
    await gpus.delete(PODS, "p7" if last.name != "p7" else "p8", "default")
    await gpus.advance(10)
    assert await gpus.node_of(last.name) == "n"


async def test_the_33rd_user_of_a_classic_claim_waits_for_one_to_end(cluster):
    driver = ClassicDriver(cluster.client, shared=True)
    await cluster.create(a_node("n"), a_classic_class(), a_classic_claim("c", immediate=True))
    await driver.serve(cluster.settle)
    pods = [a_pod(f"p{n}", cpu="1m", claims=[named("x", "c")]) for n in range(33)]
    await cluster.create(*pods, settle=False)
    await cluster.advance(60)
    [last] = [p for p in (await cluster.client.list(PODS)).items if not p.spec.node_name]
    reason, message = await condition(cluster, last.name)
    assert reason == "Unschedulable"
    limit = "default/c is reserved for 32 pods, the most that a claim can have."
    assert f"resourceclaim in use: {limit}" in message
    assert await events(cluster, last.name, "FailedScheduling") == [message]
    await cluster.delete(PODS, "p7" if last.name != "p7" else "p8", "default")
    await cluster.advance(10)
    assert await cluster.node_of(last.name) == "n"

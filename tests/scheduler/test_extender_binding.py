"""An extender that binds pods instead of the Bind plugins."""

from contextlib import asynccontextmanager

import pytest

from holdfast.client.client import Client
from holdfast.client.leader import LeadershipLost
from holdfast.client.transport import LeaseGuardedTransport
from holdfast.scheduling.framework.extender import ManagedResource
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.scheduler.scheduler import Scheduler
from holdfast.state.columns.interner import CPU
from holdfast.testing import a_node, a_pod, a_reservation
from holdfast.testing.fake_extender import fail
from holdfast.testing.harness import Harness

ALLOCATED = "scheduling.koordinator.sh/reservation-allocated"


@asynccontextmanager
async def cluster_bound_by(tmp_path, extender, **fields):
    config = extender.config(bind_verb="bind", **fields)
    async with Harness(tmp_path / "store", extenders=[config]) as cluster:
        extender.join(cluster)
        extender.answers["bind"] = binding(cluster)
        await cluster.create(a_node("n", cpu="4"))
        yield cluster


@pytest.fixture
async def cluster(tmp_path, extender):
    async with cluster_bound_by(tmp_path, extender) as made:
        yield made


def binding(cluster):
    async def bind(body):
        target = {"kind": "Node", "name": body["Node"]}
        meta = {"name": body["PodName"], "uid": body["PodUID"]}
        made = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        await cluster.client.bind(body["PodNamespace"], body["PodName"], made)
        return {"Error": ""}

    return bind


def requested_cpu(cluster):
    return int(cluster.world.nodes.requested[CPU, cluster.world.nodes.row_of["n"]])


async def test_the_extender_binds_the_pod(cluster, extender):
    await cluster.create(a_pod("p"))
    pod = await cluster.pod("p")
    assert pod.spec.node_name == "n"
    assert extender.asked == [
        ("bind", {"PodName": "p", "PodNamespace": "default", "PodUID": pod.uid, "Node": "n"})
    ]
    assert [reason for reason, _ in await cluster.events("p")] == ["Scheduled"]


async def test_a_bind_error_of_the_extender_fails_the_attempt_and_frees_resources(
    cluster, extender
):
    extender.answers["bind"] = lambda _body: {"Error": "not today"}
    await cluster.create(a_pod("p"))
    (condition,) = (await cluster.pod("p")).status.conditions
    assert (condition.reason, condition.message) == ("SchedulerError", "not today")
    assert requested_cpu(cluster) == 0
    extender.answers["bind"] = binding(cluster)
    await cluster.advance(3)
    assert await cluster.node_of("p") == "n"


async def test_a_pod_bound_by_the_extender_stays_bound_after_an_error_response(cluster, extender):
    bind = binding(cluster)

    async def answer(body):
        await bind(body)
        return {"Error": "the answer was lost"}

    extender.answers["bind"] = answer
    await cluster.create(a_pod("p"))
    assert await cluster.node_of("p") == "n"
    assert requested_cpu(cluster) == 1000


async def test_the_bind_plugins_bind_if_an_ignorable_extender_fails(tmp_path, extender):
    async with cluster_bound_by(tmp_path, extender, ignorable=True) as cluster:
        extender.answers["bind"] = fail(503)
        await cluster.create(a_pod("p"))
        assert await cluster.node_of("p") == "n"


async def test_the_bind_plugins_bind_pods_the_extender_does_not_manage(tmp_path, extender):
    gpus = (ManagedResource(name="example.com/gpu"),)
    async with cluster_bound_by(tmp_path, extender, managed_resources=gpus) as cluster:
        await cluster.create(a_pod("p"))
        assert (await cluster.node_of("p"), extender.asked) == ("n", [])


async def test_a_reservation_is_not_bound_by_the_extender(cluster, extender):
    await cluster.create(a_reservation("r"))
    assert (await cluster.reservation("r")).status.node_name == "n"
    assert extender.asked == []


async def test_annotations_of_the_binding_are_written_before_the_extender_binds(cluster, extender):
    await cluster.create(a_reservation("r", cpu="1", owner_labels={"app": "web"}))
    bind, seen = binding(cluster), []

    async def answer(body):
        seen.append((await cluster.pod("p")).metadata.annotations)
        return await bind(body)

    extender.answers["bind"] = answer
    await cluster.create(a_pod("p", labels={"app": "web"}))
    assert await cluster.node_of("p") == "n"
    assert ALLOCATED in seen[0]


async def test_these_annotations_are_removed_if_the_pod_is_not_bound(cluster, extender):
    await cluster.create(a_reservation("r", cpu="1", owner_labels={"app": "web"}))
    extender.answers["bind"] = fail(500)
    await cluster.create(a_pod("p", labels={"app": "web"}))
    assert (await cluster.pod("p")).metadata.annotations == {}


@asynccontextmanager
async def with_write_check(cluster, config, write_check):
    """Replace the cluster's scheduler by one whose writes need a check."""
    await cluster.components.scheduler.stop()
    client = Client(LeaseGuardedTransport(cluster.client.transport, write_check))
    leader = Scheduler(client, cluster.clock, default_profiles(), extenders=[config], seed=1)
    cluster.clock.busy.append(lambda: leader.extenders.requests_in_flight > 0)
    await leader.start()
    try:
        yield leader
    finally:
        await leader.stop()


@pytest.mark.parametrize("ignorable", [False, True])
async def test_a_scheduler_without_its_lease_does_not_call_the_extender_to_bind(
    cluster, extender, ignorable
):
    lost = []

    def write_check():
        if lost:
            raise LeadershipLost("the lease is another's")

    config = extender.config(bind_verb="bind", ignorable=ignorable)
    async with with_write_check(cluster, config, write_check):
        await cluster.create(a_pod("before"))
        assert (await cluster.pod("before")).spec.node_name == "n"
        lost.append(True)
        await cluster.create(a_pod("after"))
        assert (await cluster.pod("after")).spec.node_name == ""
        assert [body["PodName"] for body in extender.questions("bind")] == ["before"]
        lost.clear()
        await cluster.clock.advance(30)
        assert (await cluster.pod("after")).spec.node_name == "n"

"""Binding over a bad network: no pod is lost and no resources stay assumed for ever."""

import pytest

from holdfast.api.scheme import PODS, RESERVATIONS, RESOURCE_CLAIMS
from holdfast.state.columns.interner import CPU
from holdfast.testing import (
    Fault,
    a_claim,
    a_device_class,
    a_node,
    a_pod,
    a_reservation,
    a_slice,
)
from holdfast.testing.harness import Harness
from scheduler.scheduler_network import SchedulerNetwork

BINDING = {"method": "POST", "path": "/binding"}
STATUS_OF_R = "/reservations/r/status"


def requested_cpu(cluster, node="n"):
    return int(cluster.world.nodes.requested[CPU, cluster.world.nodes.row_of[node]])


async def reasons(cluster, name):
    return [reason for reason, _ in await cluster.events(name)]


def pod_with_claim(name):
    return a_pod(name, cpu="100m", claims=[{"name": "dev", "resourceClaimName": name}])


@pytest.mark.parametrize("trouble", ["lost", "unavailable_after"])
async def test_a_stored_binding_counts_even_if_its_response_was_lost(cluster, network, trouble):
    await cluster.create(a_node("n", cpu="4"))
    network.add(Fault(trouble, **BINDING))
    await cluster.create(a_pod("p", cpu="3"))
    pod = await cluster.pod("p")
    assert (pod.spec.node_name, pod.status.phase) == ("n", "Running")
    assert await reasons(cluster, "p") == ["Scheduled"]
    assert requested_cpu(cluster) == 3000
    assert len(cluster.components.scheduler.queue) == 0


@pytest.mark.parametrize("trouble", ["conflict", "unavailable"])
async def test_a_binding_that_was_not_stored_is_undone_reported_and_retried(
    cluster, network, trouble
):
    await cluster.create(a_node("n", cpu="4"))
    network.add(Fault(trouble, **BINDING))
    await cluster.create(a_pod("p", cpu="3"))
    pod = await cluster.pod("p")
    assert (pod.spec.node_name, requested_cpu(cluster)) == ("", 0)
    (condition,) = pod.status.conditions
    assert (condition.type, condition.reason) == ("PodScheduled", "SchedulerError")
    assert condition.message.startswith('running Bind plugin "DefaultBinder": injected')
    assert await reasons(cluster, "p") == ["FailedScheduling"]
    await cluster.advance(3)
    assert (await cluster.node_of("p"), requested_cpu(cluster)) == ("n", 3000)
    assert await reasons(cluster, "p") == ["FailedScheduling", "Scheduled"]


async def test_a_failed_binding_frees_its_resources_for_waiting_pods(cluster, network):
    await cluster.create(a_node("n", cpu="4"))
    network.add(Fault("conflict", **BINDING))
    network.add(Fault("unavailable", method="GET", path="/pods/first", times=3))
    await cluster.create(a_pod("first", cpu="3"))
    await cluster.create(a_pod("second", cpu="3"))
    assert await cluster.node_of("second") == ""
    await cluster.advance(20)
    assert (await cluster.node_of("first"), await cluster.node_of("second")) == ("", "n")
    assert requested_cpu(cluster) == 3000


async def test_a_pod_stays_assumed_until_the_server_says_whether_it_is_bound(cluster, network):
    await cluster.create(a_node("n", cpu="4"))
    network.add(Fault("lost", **BINDING), Fault("unavailable", method="GET", path="/p", times=4))
    network.add(Fault("cut", path="/pods", watch=True))
    await cluster.create(a_pod("p", cpu="3"), a_pod("q", cpu="3"))
    assert (await cluster.node_of("p"), await cluster.node_of("q")) == ("n", "")
    await cluster.advance(30)
    assert await cluster.node_of("q") == ""
    assert "Scheduled" in await reasons(cluster, "p")


async def test_a_pod_deleted_while_its_binding_fails_is_not_requeued(cluster, network):
    await cluster.create(a_node("n", cpu="4"))
    network.add(Fault("delay", **BINDING, seconds=5))
    await cluster.create(a_pod("p", cpu="3"))
    await cluster.delete(PODS, "p", "default")
    await cluster.advance(60)
    assert (requested_cpu(cluster), len(cluster.components.scheduler.queue)) == (0, 0)


async def test_a_pod_deleted_while_its_binding_is_undone_is_not_requeued(cluster, network):
    await cluster.create(
        a_node("n", cpu="4"), a_device_class("gpu"), a_slice("s", node="n"), a_claim("p")
    )
    network.add(Fault("conflict", **BINDING))
    network.add(Fault("delay", method="GET", path="/resourceclaims/p", seconds=5))
    await cluster.create(pod_with_claim("p"))
    await cluster.delete(PODS, "p", "default")
    # The node is full now: a requeued pod would stay in the queue for ever.
    await cluster.create(a_pod("filler", cpu="4", node="n"))
    await cluster.advance(600)
    assert len(cluster.components.scheduler.queue) == 0


async def test_the_next_attempt_uses_changes_made_during_a_failed_binding(cluster, network):
    await cluster.create(a_node("n", cpu="4", labels={"kind": "small"}))
    network.add(Fault("delay", **BINDING, seconds=1), Fault("conflict", **BINDING))
    await cluster.create(a_pod("p", cpu="1"))
    await cluster.client.patch(PODS, "p", {"metadata": {"labels": {"new": "label"}}}, "default")
    await cluster.advance(5)
    (pod_info,) = (pod_info for pod_info, _ in cluster.world.nodes.pods())
    assert (pod_info.name, pod_info.labels) == ("p", {"new": "label"})


async def test_stop_does_not_wait_for_a_server_that_does_not_respond(cluster, network):
    await cluster.create(a_node("n", cpu="4"))
    network.add(Fault("unavailable", **BINDING))
    network.add(Fault("unavailable", method="GET", path="/pods/p", times=10**6))
    await cluster.create(a_pod("p"))
    await cluster.restart_components()
    assert await cluster.node_of("p") == "n"


async def test_a_claim_stays_reserved_if_only_the_response_was_lost(cluster, network):
    await cluster.create(a_node("n"), a_device_class("gpu"), a_slice("s", node="n"), a_claim("p"))
    network.add(Fault("lost", **BINDING))
    await cluster.create(pod_with_claim("p"))
    claim = await cluster.client.get(RESOURCE_CLAIMS, "p", "default")
    assert [consumer.name for consumer in claim.status.reserved_for] == ["p"]
    assert await reasons(cluster, "p") == ["Scheduled"]


async def test_a_claim_is_unreserved_if_its_pod_was_not_bound(cluster, network):
    await cluster.create(a_node("n"), a_device_class("gpu"), a_slice("s", node="n"), a_claim("p"))
    network.add(Fault("conflict", **BINDING))
    await cluster.create(pod_with_claim("p"))
    claim = await cluster.client.get(RESOURCE_CLAIMS, "p", "default")
    assert not claim.status.reserved_for
    await cluster.advance(5)
    assert await cluster.node_of("p") == "n"


async def test_a_device_of_a_stored_allocation_is_not_allocated_again(tmp_path):
    """The write is stored, its response is lost, and the watch that would show it is cut."""
    cut = Fault("cut", path="/resourceclaims", watch=True, lines=3)
    network = SchedulerNetwork(
        cut, Fault("unavailable", path="/resourceclaims", watch=True, times=8)
    )
    async with Harness(tmp_path, wrap=network.wrap) as cluster:
        await cluster.create(a_node("n"), a_device_class("gpu"), a_slice("s", node="n", devices=1))
        await cluster.create(a_claim("a"), a_claim("b"))
        network.add(Fault("unavailable_after", method="PATCH", path="/resourceclaims/a/status"))
        await cluster.create(pod_with_claim("a"), pod_with_claim("b"))
        claims = (await cluster.client.list(RESOURCE_CLAIMS)).items
        assert [claim.name for claim in claims if claim.status.allocation is not None] == ["a"]
        await cluster.advance(400)
        assert (await cluster.node_of("a"), await cluster.node_of("b")) == ("n", "")


@pytest.mark.parametrize("passes", range(5))
@pytest.mark.parametrize("trouble", ["conflict", "unavailable", "unavailable_after", "lost"])
async def test_devices_of_an_extended_resource_are_allocated_once_whichever_write_fails(
    cluster, network, trouble, passes
):
    """One write fails: claim, finalizer, allocation, the pod's status or the binding."""
    gpus = a_device_class("gpu", extended_resource_name="example.com/gpu")
    await cluster.create(a_node("n"), gpus, a_slice("s", node="n", devices=1))
    for method in ("POST", "PATCH", "PATCH", "PATCH", "POST")[:passes]:
        network.add(Fault("delay", method=method, path="/namespaces/default", seconds=0))
    network.add(Fault(trouble, path="/namespaces/default"))
    network.add(Fault("unavailable", method="GET", path="/pods/p", times=2))
    one = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
    await cluster.create(a_pod("p", **one))
    await cluster.create(a_pod("q", **one))
    for seconds in (*[0.5] * 20, 300):
        claims = (await cluster.client.list(RESOURCE_CLAIMS)).items
        assert len([claim for claim in claims if claim.status.allocation is not None]) <= 1
        await cluster.advance(seconds)
    assert sorted([await cluster.node_of("p"), await cluster.node_of("q")]) == ["", "n"]


async def test_a_stored_reservation_status_counts_even_if_its_response_was_lost(cluster, network):
    await cluster.create(a_node("n", cpu="4"))
    network.add(Fault("lost", method="PUT", path=STATUS_OF_R))
    await cluster.create(a_reservation("r", cpu="3"))
    reservation = await cluster.reservation("r")
    assert (reservation.phase, reservation.status.node_name) == ("Available", "n")
    assert (requested_cpu(cluster), await reasons(cluster, "r")) == (3000, ["Scheduled"])


async def test_a_reservation_is_bound_against_its_newest_version(cluster, network):
    await cluster.create(a_node("n", cpu="4"))
    network.add(Fault("conflict", method="PUT", path=STATUS_OF_R, times=3))
    await cluster.create(a_reservation("r", cpu="3"))
    assert (await cluster.reservation("r")).phase == "Available"
    assert await reasons(cluster, "r") == ["Scheduled"]


async def test_a_late_failure_status_does_not_overwrite_a_success(cluster, network):
    network.add(Fault("delay", method="PATCH", path=STATUS_OF_R, seconds=30))
    network.add(Fault("delay", method="PATCH", path="/pods/p/status", seconds=30))
    await cluster.create(a_node("small", cpu="1"))
    await cluster.create(a_reservation("r", cpu="3"), a_pod("p", cpu="3"))
    await cluster.create(a_node("n", cpu="8"))
    await cluster.advance(10)
    assert (await cluster.reservation("r")).phase == "Available"
    await cluster.advance(60)
    assert (await cluster.reservation("r")).phase == "Available"
    conditions = {c.type: c.status for c in (await cluster.pod("p")).status.conditions}
    assert conditions["PodScheduled"] == "True"


async def test_a_reservation_that_expires_during_its_binding_is_not_requeued(cluster, network):
    await cluster.create(a_node("n", cpu="4"))
    network.add(Fault("delay", method="PUT", path=STATUS_OF_R, seconds=30))
    await cluster.create(a_reservation("r", cpu="3", ttl="10s"))
    assert requested_cpu(cluster) == 3000
    await cluster.advance(40)
    assert (await cluster.reservation("r")).phase == "Failed"
    assert (requested_cpu(cluster), len(cluster.components.scheduler.queue)) == (0, 0)


async def test_a_reservation_deleted_during_its_binding_frees_its_resources(cluster, network):
    await cluster.create(a_node("n", cpu="4"))
    network.add(Fault("delay", method="PUT", path=STATUS_OF_R, seconds=30))
    await cluster.create(a_reservation("r", cpu="3"))
    await cluster.delete(RESERVATIONS, "r")
    await cluster.create(a_pod("p", cpu="3"))
    assert await cluster.node_of("p") == "n"
    await cluster.advance(40)
    assert (requested_cpu(cluster), len(cluster.components.scheduler.queue)) == (3000, 0)

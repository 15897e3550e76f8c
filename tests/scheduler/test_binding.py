"""How a decision leaves the house when the network is bad: nothing lost, nothing held for ever."""

import pytest

from holdfast.api.scheme import PODS, RESERVATIONS, RESOURCE_CLAIMS
from holdfast.columns.interner import CPU
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
from scheduler.schedulers_line import SchedulersLine

BINDING = {"method": "POST", "path": "/binding"}
STATUS_OF_R = "/reservations/r/status"


def taken(cluster, node="n"):
    return int(cluster.world.nodes.requested[CPU, cluster.world.nodes.row_of[node]])


async def reasons(cluster, name):
    return [reason for reason, _ in await cluster.events(name)]


def using(name):
    return a_pod(name, cpu="100m", claims=[{"name": "dev", "resourceClaimName": name}])


@pytest.mark.parametrize("trouble", ["lost", "unavailable_after"])
async def test_a_pod_whose_binding_was_written_stays_though_the_answer_was_lost(
    cluster, line, trouble
):
    await cluster.create(a_node("n", cpu="4"))
    line.add(Fault(trouble, **BINDING))
    await cluster.create(a_pod("p", cpu="3"))
    pod = await cluster.pod("p")
    assert (pod.spec.node_name, pod.status.phase) == ("n", "Running")
    assert await reasons(cluster, "p") == ["Scheduled"]
    assert taken(cluster) == 3000
    assert len(cluster.components.scheduler.queue) == 0


@pytest.mark.parametrize("trouble", ["conflict", "unavailable"])
async def test_a_binding_that_was_not_written_is_undone_told_and_tried_again(
    cluster, line, trouble
):
    await cluster.create(a_node("n", cpu="4"))
    line.add(Fault(trouble, **BINDING))
    await cluster.create(a_pod("p", cpu="3"))
    pod = await cluster.pod("p")
    assert (pod.spec.node_name, taken(cluster)) == ("", 0)
    (condition,) = pod.status.conditions
    assert (condition.type, condition.reason) == ("PodScheduled", "SchedulerError")
    assert condition.message.startswith('running Bind plugin "DefaultBinder": injected')
    assert await reasons(cluster, "p") == ["FailedScheduling"]
    await cluster.advance(3)
    assert (await cluster.node_of("p"), taken(cluster)) == ("n", 3000)
    assert await reasons(cluster, "p") == ["FailedScheduling", "Scheduled"]


async def test_whoever_waits_for_the_room_gets_it_when_a_binding_fails(cluster, line):
    await cluster.create(a_node("n", cpu="4"))
    line.add(Fault("conflict", **BINDING))
    line.add(Fault("unavailable", method="GET", path="/pods/first", times=3))
    await cluster.create(a_pod("first", cpu="3"))
    await cluster.create(a_pod("second", cpu="3"))
    assert await cluster.node_of("second") == ""
    await cluster.advance(20)
    assert (await cluster.node_of("first"), await cluster.node_of("second")) == ("", "n")
    assert taken(cluster) == 3000


async def test_the_room_stays_held_until_the_server_says_where_the_pod_is(cluster, line):
    await cluster.create(a_node("n", cpu="4"))
    line.add(Fault("lost", **BINDING), Fault("unavailable", method="GET", path="/p", times=4))
    line.add(Fault("cut", path="/pods", watch=True))
    await cluster.create(a_pod("p", cpu="3"), a_pod("q", cpu="3"))
    assert (await cluster.node_of("p"), await cluster.node_of("q")) == ("n", "")
    await cluster.advance(30)
    assert await cluster.node_of("q") == ""
    assert "Scheduled" in await reasons(cluster, "p")


async def test_a_pod_deleted_while_its_binding_fails_is_forgotten(cluster, line):
    await cluster.create(a_node("n", cpu="4"))
    line.add(Fault("delay", **BINDING, seconds=5))
    await cluster.create(a_pod("p", cpu="3"))
    await cluster.delete(PODS, "p", "default")
    await cluster.advance(60)
    assert (taken(cluster), len(cluster.components.scheduler.queue)) == (0, 0)


async def test_a_pod_deleted_while_its_binding_is_undone_does_not_come_back(cluster, line):
    await cluster.create(
        a_node("n", cpu="4"), a_device_class("gpu"), a_slice("s", node="n"), a_claim("p")
    )
    line.add(Fault("conflict", **BINDING))
    line.add(Fault("delay", method="GET", path="/resourceclaims/p", seconds=5))
    await cluster.create(using("p"))
    await cluster.delete(PODS, "p", "default")
    # Nobody else fits any more: a pod that came back would wait here for ever.
    await cluster.create(a_pod("filler", cpu="4", node="n"))
    await cluster.advance(600)
    assert len(cluster.components.scheduler.queue) == 0


async def test_a_change_made_while_binding_failed_counts_in_the_next_try(cluster, line):
    await cluster.create(a_node("n", cpu="4", labels={"kind": "small"}))
    line.add(Fault("delay", **BINDING, seconds=1), Fault("conflict", **BINDING))
    await cluster.create(a_pod("p", cpu="1"))
    await cluster.client.patch(PODS, "p", {"metadata": {"labels": {"new": "label"}}}, "default")
    await cluster.advance(5)
    (pod_info,) = (pod_info for pod_info, _ in cluster.world.nodes.pods())
    assert (pod_info.name, pod_info.labels) == ("p", {"new": "label"})


async def test_stopping_does_not_wait_for_a_server_that_is_gone(cluster, line):
    await cluster.create(a_node("n", cpu="4"))
    line.add(Fault("unavailable", **BINDING))
    line.add(Fault("unavailable", method="GET", path="/pods/p", times=10**6))
    await cluster.create(a_pod("p"))
    await cluster.restart_components()
    assert await cluster.node_of("p") == "n"


async def test_a_claim_stays_with_its_pod_when_only_the_answer_was_lost(cluster, line):
    await cluster.create(a_node("n"), a_device_class("gpu"), a_slice("s", node="n"), a_claim("p"))
    line.add(Fault("lost", **BINDING))
    await cluster.create(using("p"))
    claim = await cluster.client.get(RESOURCE_CLAIMS, "p", "default")
    assert [consumer.name for consumer in claim.status.reserved_for] == ["p"]
    assert await reasons(cluster, "p") == ["Scheduled"]


async def test_a_claim_is_given_up_when_its_pod_was_not_bound(cluster, line):
    await cluster.create(a_node("n"), a_device_class("gpu"), a_slice("s", node="n"), a_claim("p"))
    line.add(Fault("conflict", **BINDING))
    await cluster.create(using("p"))
    claim = await cluster.client.get(RESOURCE_CLAIMS, "p", "default")
    assert not claim.status.reserved_for
    await cluster.advance(5)
    assert await cluster.node_of("p") == "n"


async def test_a_device_written_for_one_claim_is_not_given_to_another_unheard(tmp_path):
    """The write took effect, its answer was lost, and the watch that would tell is cut."""
    cut = Fault("cut", path="/resourceclaims", watch=True, lines=3)
    line = SchedulersLine(cut, Fault("unavailable", path="/resourceclaims", watch=True, times=8))
    async with Harness(tmp_path, wrap=line.wrap) as cluster:
        await cluster.create(a_node("n"), a_device_class("gpu"), a_slice("s", node="n", devices=1))
        await cluster.create(a_claim("a"), a_claim("b"))
        line.add(Fault("unavailable_after", method="PATCH", path="/resourceclaims/a/status"))
        await cluster.create(using("a"), using("b"))
        claims = (await cluster.client.list(RESOURCE_CLAIMS)).items
        assert [claim.name for claim in claims if claim.status.allocation is not None] == ["a"]
        await cluster.advance(400)
        assert (await cluster.node_of("a"), await cluster.node_of("b")) == ("n", "")


@pytest.mark.parametrize("passes", range(5))
@pytest.mark.parametrize("trouble", ["conflict", "unavailable", "unavailable_after", "lost"])
async def test_devices_for_an_extended_resource_are_taken_once_whichever_write_fails(
    cluster, line, trouble, passes
):
    """The claim, its finalizer, its allocation, the pod's status, the binding: one goes wrong."""
    gpus = a_device_class("gpu", extended_resource_name="example.com/gpu")
    await cluster.create(a_node("n"), gpus, a_slice("s", node="n", devices=1))
    for method in ("POST", "PATCH", "PATCH", "PATCH", "POST")[:passes]:
        line.add(Fault("delay", method=method, path="/namespaces/default", seconds=0))
    line.add(Fault(trouble, path="/namespaces/default"))
    line.add(Fault("unavailable", method="GET", path="/pods/p", times=2))
    one = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
    await cluster.create(a_pod("p", **one))
    await cluster.create(a_pod("q", **one))
    for seconds in (*[0.5] * 20, 300):
        claims = (await cluster.client.list(RESOURCE_CLAIMS)).items
        assert len([claim for claim in claims if claim.status.allocation is not None]) <= 1
        await cluster.advance(seconds)
    assert sorted([await cluster.node_of("p"), await cluster.node_of("q")]) == ["", "n"]


async def test_a_reservation_whose_status_was_written_stays_though_the_answer_was_lost(
    cluster, line
):
    await cluster.create(a_node("n", cpu="4"))
    line.add(Fault("lost", method="PUT", path=STATUS_OF_R))
    await cluster.create(a_reservation("r", cpu="3"))
    reservation = await cluster.reservation("r")
    assert (reservation.phase, reservation.status.node_name) == ("Available", "n")
    assert (taken(cluster), await reasons(cluster, "r")) == (3000, ["Scheduled"])


async def test_a_reservation_is_bound_against_its_newest_version(cluster, line):
    await cluster.create(a_node("n", cpu="4"))
    line.add(Fault("conflict", method="PUT", path=STATUS_OF_R, times=3))
    await cluster.create(a_reservation("r", cpu="3"))
    assert (await cluster.reservation("r")).phase == "Available"
    assert await reasons(cluster, "r") == ["Scheduled"]


async def test_a_late_report_of_failure_does_not_undo_a_success(cluster, line):
    line.add(Fault("delay", method="PATCH", path=STATUS_OF_R, seconds=30))
    line.add(Fault("delay", method="PATCH", path="/pods/p/status", seconds=30))
    await cluster.create(a_node("small", cpu="1"))
    await cluster.create(a_reservation("r", cpu="3"), a_pod("p", cpu="3"))
    await cluster.create(a_node("n", cpu="8"))
    await cluster.advance(10)
    assert (await cluster.reservation("r")).phase == "Available"
    await cluster.advance(60)
    assert (await cluster.reservation("r")).phase == "Available"
    conditions = {c.type: c.status for c in (await cluster.pod("p")).status.conditions}
    assert conditions["PodScheduled"] == "True"


async def test_a_reservation_that_expires_while_it_is_bound_is_not_tried_again(cluster, line):
    await cluster.create(a_node("n", cpu="4"))
    line.add(Fault("delay", method="PUT", path=STATUS_OF_R, seconds=30))
    await cluster.create(a_reservation("r", cpu="3", ttl="10s"))
    assert taken(cluster) == 3000
    await cluster.advance(40)
    assert (await cluster.reservation("r")).phase == "Failed"
    assert (taken(cluster), len(cluster.components.scheduler.queue)) == (0, 0)


async def test_a_reservation_deleted_while_it_is_bound_gives_its_room_back(cluster, line):
    await cluster.create(a_node("n", cpu="4"))
    line.add(Fault("delay", method="PUT", path=STATUS_OF_R, seconds=30))
    await cluster.create(a_reservation("r", cpu="3"))
    await cluster.delete(RESERVATIONS, "r")
    await cluster.create(a_pod("p", cpu="3"))
    assert await cluster.node_of("p") == "n"
    await cluster.advance(40)
    assert (taken(cluster), len(cluster.components.scheduler.queue)) == (3000, 0)

"""The lifecycle of a reservation: how it ends, and what becomes of its resources."""

import pytest

from holdfast.api.scheme import DEPLOYMENTS, PODS, RESERVATIONS
from holdfast.api.timestamps import rfc3339
from holdfast.runtime.errors import Invalid, NotFound
from holdfast.scheduling.engine.profile import build_profile
from holdfast.scheduling.plugins import REGISTRY
from holdfast.testing import a_deployment, a_node, a_pod
from holdfast.testing.faults import Fault, FaultyTransport
from holdfast.testing.harness import Harness
from reservations.objects import ALLOCATED, held, node, owner

HOUR = 3600


def conditions_of(reservation):
    return {(c.type, c.status, c.reason) for c in reservation.status.conditions}


def used(cluster, name="n1"):
    nodes = cluster.world.nodes
    return int(nodes.requested[0, nodes.row_of[name]])


async def test_R059_when_an_unused_reservation_expires_pending_pods_are_requeued(cluster):
    await cluster.create(node(), held(cpu="16", ttl="1s"), a_pod("waits", cpu="4"))
    assert await cluster.node_of("waits") == ""
    await cluster.advance(15)
    reservation = await cluster.reservation("r")
    assert reservation.status.phase == "Failed"
    assert conditions_of(reservation) == {
        ("Scheduled", "True", "Scheduled"),
        ("Ready", "False", "Expired"),
    }
    assert ("Expired", "ttl 1s is over") in await cluster.events("r")
    assert await cluster.node_of("waits") == "n1"
    assert used(cluster) == 4000


async def test_R060_ttl_0_means_no_end_and_no_ttl_a_day(cluster):
    await cluster.create(node(), held(cpu="1", ttl="0"), held("day", cpu="1", ttl=None))
    assert (await cluster.reservation("day")).spec.ttl == "24h"
    await cluster.skip(1000 * HOUR)
    assert (await cluster.reservation("r")).status.phase == "Available"
    assert (await cluster.reservation("day")).status.phase == "Failed"


async def test_R061_expires_takes_precedence_over_ttl(cluster):
    soon = rfc3339(cluster.clock.now() + 48 * HOUR)
    past = rfc3339(cluster.clock.now() - 1)
    await cluster.create(node(), held(cpu="1", ttl=None, expires=soon))
    await cluster.create(held("past", cpu="1", ttl=None, expires=past))
    assert conditions_of(await cluster.reservation("past")) >= {("Ready", "False", "Expired")}
    await cluster.skip(25 * HOUR)
    reservation = await cluster.reservation("r")
    assert (reservation.spec.ttl, reservation.status.phase) == ("24h", "Available")
    await cluster.skip(24 * HOUR)
    assert (await cluster.reservation("r")).status.phase == "Failed"


async def test_R062_a_pending_reservation_expires_and_is_no_longer_scheduled(cluster):
    await cluster.create(node(), held(cpu="17", ttl="10s"))
    uid = (await cluster.reservation("r")).uid
    assert uid in cluster.components.scheduler.queue
    await cluster.advance(15)
    reservation = await cluster.reservation("r")
    assert reservation.status.phase == "Failed"
    assert conditions_of(reservation) == {
        ("Scheduled", "False", "Unschedulable"), ("Ready", "False", "Expired"),
    }  # fmt: skip
    assert ("Expired", "ttl 10s is over before a node was found") in await cluster.events("r")
    assert uid not in cluster.components.scheduler.queue
    await cluster.create(a_node("big", cpu="64"))
    await cluster.advance(15)
    assert (await cluster.reservation("r")).status.node_name == ""


async def test_R063_when_a_used_reservation_expires_its_owner_keeps_running(cluster):
    await cluster.create(node(), held(cpu="8", ttl="60s", allocate_once=False))
    await cluster.create(owner(cpu="3"))
    assert used(cluster) == 8000
    await cluster.advance(70)
    reservation = await cluster.reservation("r")
    assert reservation.status.phase == "Failed"
    assert [o.name for o in reservation.status.current_owners] == ["owner"], "frozen as it was"
    assert reservation.status.allocated == {"cpu": "3"}
    assert (await cluster.pod("owner")).status.phase == "Running"
    assert used(cluster) == 3000
    await cluster.create(a_pod("stranger", cpu="13"))
    assert await cluster.node_of("stranger") == "n1"


@pytest.mark.parametrize("collect", [True, False])
async def test_R065_ended_reservations_are_deleted_after_a_day_if_enabled(tmp_path, collect):
    args = {"Reservation": {"disableGarbageCollection": not collect}}
    profiles = {"default-scheduler": build_profile("default-scheduler", REGISTRY, args=args)}
    async with Harness(tmp_path / "store", profiles=profiles) as cluster:
        await cluster.create(node(), held("expired", cpu="1", ttl="5s"), held("done", cpu="2"))
        await cluster.create(owner(cpu="2"), held("odd", cpu="1", ttl="0"))
        failed = {"status": {"phase": "Failed", "conditions": []}}
        await cluster.client.patch(RESERVATIONS, "odd", failed, subresource="status")
        await cluster.advance(10)
        phases = {r.name: r.phase for r in (await cluster.client.list(RESERVATIONS)).items}
        assert phases == {"expired": "Failed", "done": "Succeeded", "odd": "Failed"}
        await cluster.skip(23 * HOUR)
        assert len((await cluster.client.list(RESERVATIONS)).items) == 3
        await cluster.skip(HOUR)
        left = {r.name for r in (await cluster.client.list(RESERVATIONS)).items}
        assert left == ({"odd"} if collect else {"expired", "done", "odd"})


async def test_R068_a_failed_bind_releases_the_allocation(tmp_path):
    wires = []

    def wrap(transport, clock):
        wires.append(FaultyTransport(transport, clock=clock))
        return wires[-1]

    async with Harness(tmp_path / "store", wrap=wrap) as cluster:
        await cluster.create(node(), held(cpu="4"), a_pod("used", cpu="12", node="n1"))
        for wire in wires:
            wire.add(Fault("conflict", "POST", "/pods/first/binding"))
        await cluster.create(owner("first", cpu="4", scheduling_gates=[{"name": "hold"}]))
        gone = {"spec": {"schedulingGates": []}}
        await cluster.client.patch(PODS, "first", gone, "default")
        await cluster.settle()
        assert any(wire.injected_faults for wire in wires), "the binding was spoiled"
        first = await cluster.pod("first")
        assert (first.spec.node_name, ALLOCATED in first.metadata.annotations) == ("", False)
        reservation = await cluster.reservation("r")
        assert (reservation.status.phase, reservation.status.allocated) == ("Available", {})
        await cluster.create(owner("second", cpu="4"))
        assert await cluster.node_of("second") == "n1"
        assert (await cluster.reservation("r")).status.phase == "Succeeded"


async def test_R069_a_reservation_deleted_while_pending_is_never_bound(cluster):
    await cluster.create(held(cpu="4", allocate_once=False))
    uid = (await cluster.reservation("r")).uid
    await cluster.delete(RESERVATIONS, "r")
    await cluster.create(node())
    await cluster.advance(15)
    assert uid not in cluster.components.scheduler.queue
    assert used(cluster) == 0
    with pytest.raises(NotFound):
        await cluster.reservation("r")


async def test_R069_a_new_reservation_of_the_same_name_is_another_one(cluster):
    await cluster.create(node(), held(cpu="4", allocate_once=False))
    await cluster.create(owner(cpu="2"))
    first = await cluster.reservation("r")
    assert [o.name for o in first.status.current_owners] == ["owner"]
    await cluster.delete(RESERVATIONS, "r")
    assert used(cluster) == 2000
    await cluster.create(held(cpu="4", allocate_once=False))
    again = await cluster.reservation("r")
    assert again.uid != first.uid
    assert (again.status.phase, again.status.current_owners) == ("Available", ())
    assert used(cluster) == 6000


async def test_R069_a_terminating_reservation_with_a_finalizer_is_not_placed(cluster):
    await cluster.create(held(cpu="4", metadata={"finalizers": ["example.com/wait"]}))
    await cluster.delete(RESERVATIONS, "r")
    await cluster.create(node())
    await cluster.advance(15)
    reservation = await cluster.reservation("r")
    assert reservation.metadata.deletion_timestamp
    assert (reservation.phase, reservation.status.node_name) == ("Pending", "")
    assert reservation.uid not in cluster.components.scheduler.queue


async def test_edited_to_allocate_once_in_use_it_succeeds(cluster):
    await cluster.create(node(), held(cpu="8", allocate_once=False))
    await cluster.create(owner(cpu="2"))
    assert (await cluster.reservation("r")).phase == "Available"
    await cluster.client.patch(RESERVATIONS, "r", {"spec": {"allocateOnce": True}})
    await cluster.settle()
    reservation = await cluster.reservation("r")
    assert (reservation.phase, dict(reservation.status.allocated)) == ("Succeeded", {"cpu": "2"})
    await cluster.create(a_pod("stranger", cpu="14"))
    assert await cluster.node_of("stranger") == "n1"


async def test_R070_a_reservation_for_a_full_node_waits_for_that_node(cluster):
    await cluster.create(node("n1"), node("n2"), a_pod("used", cpu="16", node="n2"))
    await cluster.create(held(cpu="4", template={"node": "n2"}))
    reservation = await cluster.reservation("r")
    assert (reservation.phase, reservation.status.node_name) == ("Pending", "")
    (condition,) = reservation.status.conditions
    assert (condition.type, condition.status, condition.reason) == (
        "Scheduled", "False", "Unschedulable",
    )  # fmt: skip
    assert condition.message.startswith(
        "0/2 nodes are available: 1 Insufficient cpu, "
        "1 node(s) didn't match the nodeName specified by reservation."
    )
    await cluster.delete(PODS, "used", "default")
    await cluster.advance(15)
    assert (await cluster.reservation("r")).status.node_name == "n2"


async def test_R070_a_reservation_for_a_missing_node_says_so(cluster):
    await cluster.create(node("n1"), held(cpu="4", template={"node": "n2"}))
    (condition,) = (await cluster.reservation("r")).status.conditions
    assert condition.message.endswith('spec.template.spec.nodeName: there is no node "n2"')
    await cluster.create(node("n2"))
    assert (await cluster.reservation("r")).status.node_name == "n2"


async def test_R071_a_reservation_of_another_scheduler_is_counted_but_not_placed(cluster):
    await cluster.create(node(), held(cpu="12", template={"scheduler_name": "theirs"}))
    reservation = await cluster.reservation("r")
    assert (reservation.phase, reservation.status.conditions) == ("Pending", ())
    assert reservation.uid not in cluster.components.scheduler.queue
    status = {"phase": "Available", "nodeName": "n1", "allocatable": {"cpu": "12"}}
    await cluster.client.patch(RESERVATIONS, "r", {"status": status}, subresource="status")
    await cluster.settle()
    await cluster.create(a_pod("stranger", cpu="8"), owner(cpu="12"))
    assert await cluster.node_of("stranger") == ""
    assert await cluster.node_of("owner") == "n1"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"owners": None}, "spec.owners"),
        ({"owners": []}, "spec.owners"),
        ({"owners": [{}]}, "spec.owners[0]"),
        ({"allocatePolicy": "Foo"}, "spec.allocatePolicy"),
    ],
)
async def test_R072_invalid_reservations_are_rejected_by_the_server(cluster, spec, field):
    raw = held()
    raw["spec"] |= spec
    if raw["spec"]["owners"] is None:
        del raw["spec"]["owners"]
    with pytest.raises(Invalid) as refusal:
        await cluster.client.create(RESERVATIONS, raw)
    assert field in [cause.field for cause in refusal.value.details.causes]


async def test_R086_a_deployment_scales_up_into_its_reservations(cluster):
    await cluster.create(*[node(f"n{i}") for i in range(4)])
    await cluster.create(a_deployment("web", replicas=1, cpu="12"))
    await cluster.create(*[held(f"r{i}", cpu="12") for i in range(3)])
    reserved = {(await cluster.reservation(f"r{i}")).status.node_name for i in range(3)}
    assert len(reserved) == 3
    await cluster.client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 4}}, "default")
    await cluster.advance(5)
    pods = (await cluster.client.list(PODS, "default")).items
    taken = {p.spec.node_name for p in pods if ALLOCATED in p.metadata.annotations}
    assert taken == reserved
    phases = [(await cluster.reservation(f"r{i}")).status.phase for i in range(3)]
    assert phases == ["Succeeded"] * 3
    await cluster.client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 5}}, "default")
    await cluster.advance(5)
    pods = (await cluster.client.list(PODS, "default")).items
    assert sorted(p.spec.node_name for p in pods) == ["", "n0", "n1", "n2", "n3"]


async def test_a_repeated_rejection_changes_only_the_probe_time(cluster):
    await cluster.create(node(), held(cpu="17"))
    first = (await cluster.reservation("r")).status.conditions
    await cluster.advance(30)
    await cluster.create(a_node("n2", cpu="64", unschedulable=True))
    await cluster.advance(15)
    (then,), (now,) = first, (await cluster.reservation("r")).status.conditions
    assert then.last_transition_time == now.last_transition_time
    assert then.last_probe_time < now.last_probe_time
    assert (now.reason, now.message[:3]) == ("Unschedulable", "0/2")
    failed = [words for reason, words in await cluster.events("r") if reason == "FailedScheduling"]
    assert any(words.startswith("0/2 nodes are available") for words in failed)


async def test_every_transition_has_an_event(cluster):
    await cluster.create(node(), held(cpu="4"))
    await cluster.create(owner(cpu="2"))
    assert set(await cluster.events("r")) == {
        ("Scheduled", "Successfully assigned r to n1"), ("Succeeded", "allocated to default/owner"),
    }  # fmt: skip


async def test_a_terminating_reservation_keeps_its_owners_and_accepts_no_new_ones(cluster):
    finalizers = {"finalizers": ["example.com/wait"]}
    await cluster.create(node(), held(cpu="8", allocate_once=False, metadata=finalizers))
    await cluster.create(owner("a", cpu="2"))
    await cluster.delete(RESERVATIONS, "r")
    await cluster.create(owner("b", cpu="2"))
    assert ALLOCATED not in (await cluster.pod("b")).metadata.annotations
    await cluster.delete(PODS, "a", "default")
    status = (await cluster.reservation("r")).status
    assert (status.phase, status.allocated, status.current_owners) == ("Available", {}, ())
    await cluster.client.patch(RESERVATIONS, "r", {"metadata": {"finalizers": None}})
    await cluster.settle()
    assert used(cluster) == 2000, "the resources are free, the pod that used none of them stays"


async def test_status_writes_are_retried_after_conflicts(tmp_path):
    wires = []

    def wrap(transport, clock):
        wires.append(FaultyTransport(transport, clock=clock))
        return wires[-1]

    async with Harness(tmp_path / "store", wrap=wrap) as cluster:
        await cluster.create(node(), held(cpu="4", ttl="30s"))
        for wire in wires:
            wire.add(Fault("conflict", "PATCH", "/reservations/r/status", times=3))
        await cluster.create(owner(cpu="4"))
        await cluster.advance(5)
        assert sum(len(wire.injected_faults) for wire in wires) >= 3
        reservation = await cluster.reservation("r")
        assert (reservation.status.phase, reservation.status.allocated) == (
            "Succeeded",
            {"cpu": "4"},
        )


async def test_a_restart_writes_nothing_when_nothing_changed(cluster):
    await cluster.create(node(), held(cpu="8", allocate_once=False), held("r2", cpu="30"))
    await cluster.create(owner("a", cpu="2"), owner("b", cpu="2"))
    before = await cluster.reservation("r")
    await cluster.restart()
    after = await cluster.reservation("r")
    assert after.metadata.resource_version == before.metadata.resource_version

from __future__ import annotations

import json

import pytest

from holdfast.api import reservation_names as names
from holdfast.api.scheme import EVENTS, NODES, PODS, RESERVATIONS
from holdfast.api.timestamps import rfc3339
from holdfast.runtime.errors import NotFound
from holdfast.testing import a_node, a_pod, a_reservation


async def make_available(cluster, name, **reservation):
    """Create a Reservation and bind it to a node as the scheduler does."""
    await cluster.create(a_reservation(name, cpu="4", **reservation))
    now = rfc3339(cluster.clock.now())
    conditions = [
        {"type": t, "status": "True", "reason": r, "lastTransitionTime": now, "lastProbeTime": now}
        for t, r in (("Scheduled", "Scheduled"), ("Ready", "Available"))
    ]
    status = {
        "phase": "Available", "nodeName": "n", "allocatable": {"cpu": "4"},
        "conditions": conditions,
    }  # fmt: skip
    await cluster.client.patch(RESERVATIONS, name, {"status": status}, subresource="status")
    await cluster.clock.settle()
    return await cluster.get(RESERVATIONS, name)


async def an_owner(cluster, reservation, name="p", **pod):
    taken = json.dumps({"name": reservation.name, "uid": reservation.uid})
    pod.setdefault("labels", {"app": reservation.name})
    await cluster.create(a_pod(name, annotations={names.ALLOCATED: taken}, **pod))
    await cluster.bind_all("n")


async def test_the_status_follows_the_owners_of_a_reusable_reservation(cluster):
    await cluster.create(a_node("n", cpu="16"))
    held = await make_available(cluster, "r", allocate_once=False)

    await an_owner(cluster, held, cpu="1500m")
    seen = await cluster.get(RESERVATIONS, "r")
    assert [o.name for o in seen.status.current_owners] == ["p"]
    assert seen.status.allocated == {"cpu": "1500m"}

    await cluster.client.delete(PODS, "p", "default")
    await cluster.clock.advance(1)
    seen = await cluster.get(RESERVATIONS, "r")
    assert seen.status.phase == "Available"
    assert (seen.status.current_owners, seen.status.allocated) == ((), {})


async def test_a_pod_that_names_a_reservation_of_others_is_no_owner(cluster):
    await cluster.create(a_node("n", cpu="16"))
    held = await make_available(cluster, "r")
    await an_owner(cluster, held, cpu="1", labels={"app": "other"})
    seen = (await cluster.get(RESERVATIONS, "r")).status
    assert (seen.phase, seen.current_owners, seen.allocated) == ("Available", (), {})


async def test_R066_allocate_once_ends_with_its_owner_and_stays_ended(cluster):
    await cluster.create(a_node("n", cpu="16"))
    held = await make_available(cluster, "r", ttl="60s")
    await an_owner(cluster, held, cpu="4")
    assert (await cluster.get(RESERVATIONS, "r")).status.phase == "Succeeded"

    await cluster.client.delete(PODS, "p", "default")
    await cluster.clock.advance(120)
    seen = await cluster.get(RESERVATIONS, "r")
    assert seen.status.phase == "Succeeded"
    assert [o.name for o in seen.status.current_owners] == []


async def test_a_reservation_expires_on_time_used_or_pending(cluster):
    await cluster.create(a_node("n", cpu="16"))
    await make_available(cluster, "used", ttl="60s")
    await cluster.create(a_reservation("pending", ttl="60s"), a_reservation("forever", ttl="0s"))

    await cluster.clock.advance(59)
    assert (await cluster.get(RESERVATIONS, "used")).status.phase == "Available"
    await cluster.clock.advance(3)
    for name in ("used", "pending"):
        seen = await cluster.get(RESERVATIONS, name)
        ready = next(c for c in seen.status.conditions if c.type == "Ready")
        assert (seen.status.phase, ready.status, ready.reason) == ("Failed", "False", "Expired")
    assert (await cluster.get(RESERVATIONS, "forever")).phase == "Pending"


async def test_an_ended_reservation_is_deleted_a_day_later(cluster):
    await cluster.create(a_node("n", cpu="16"))
    held = await make_available(cluster, "r", ttl="0s")
    almost_a_day_ago = rfc3339(cluster.clock.now() - 86400 + 90)
    ready = {
        "type": "Ready", "status": "False", "reason": "Succeeded",
        "lastProbeTime": almost_a_day_ago, "lastTransitionTime": almost_a_day_ago,
    }  # fmt: skip
    status = {"phase": "Succeeded", "conditions": [ready]}
    await cluster.client.patch(RESERVATIONS, held.name, {"status": status}, subresource="status")

    await cluster.clock.advance(80)
    assert (await cluster.get(RESERVATIONS, "r")).status.phase == "Succeeded"
    await cluster.clock.advance(80)
    with pytest.raises(NotFound):
        await cluster.get(RESERVATIONS, "r")


async def test_R064_a_reservation_on_a_deleted_node_expires_and_is_collected(cluster):
    await cluster.create(a_node("n", cpu="16"))
    await make_available(cluster, "r")
    await cluster.client.delete(NODES, "n")
    await cluster.clock.settle()
    assert (await cluster.get(RESERVATIONS, "r")).status.phase == "Failed"
    await cluster.clock.advance(61)
    with pytest.raises(NotFound):
        await cluster.get(RESERVATIONS, "r")


async def test_R093_pods_bound_by_another_scheduler_are_reported(cluster):
    await cluster.create(a_node("n", cpu="16"))
    await make_available(cluster, "r", allocate_once=False)
    await cluster.create(a_pod("intruder", cpu="14", node="n"))
    await cluster.clock.advance(1)
    ready = (await cluster.get(RESERVATIONS, "r")).status.conditions[-1]
    assert (ready.type, ready.status, ready.reason) == ("Ready", "False", "Overcommitted")
    events = (await cluster.client.list(EVENTS, "default")).items
    assert "Overcommitted" in {e.reason for e in events}

    await cluster.client.delete(PODS, "intruder", "default")
    await cluster.clock.advance(1)
    ready = (await cluster.get(RESERVATIONS, "r")).status.conditions[-1]
    assert (ready.status, ready.reason) == ("True", "Available")

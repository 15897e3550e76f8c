"""Pods that a reservation refuses cost little, are listed, and may be accepted later."""

import json

import pytest
from msgspec.structs import replace

from holdfast.api.koordinator_names import OPERATING_MODE, RESERVATION_OWNERS
from holdfast.api.meta import ObjectReference
from holdfast.api.reservation_names import ALLOCATED, DRAWS, PRE_ALLOCATABLE
from holdfast.scheduling.framework.world import World
from holdfast.testing import a_node, a_pod, a_reservation, typed
from reservations.pre_allocation import CLUSTER, configured
from scheduler.recorded_allocations import annotate, ignored
from scheduler.recorded_allocations import naming as notes

RESERVATION = "0a1b"


def naming(name="p", text=None, **more):
    """Return a bound pod that names the reservation; its uid is its name."""
    text = text or json.dumps({"name": "r", "uid": RESERVATION})
    raw = a_pod(name, cpu="1", node="n", annotations={ALLOCATED: text}, **more)
    raw["metadata"]["uid"] = name
    return typed(raw)


def held():
    status = {"phase": "Available", "nodeName": "n", "allocatable": {"cpu": "4"}}
    return typed(
        a_reservation("r", cpu="4", metadata={"uid": RESERVATION}, status=status,
                      allocate_once=False)
    )  # fmt: skip


def world_of(*objects):
    world = World()
    for obj in (typed(a_node("n", cpu="10")), *objects):
        world.upsert(obj)
    return world


def test_the_status_of_a_reservation_changes_without_its_refused_pods_being_read_again():
    """Else a tenant with thousands of pods that name it makes each event of it expensive."""
    world = world_of(held(), *(naming(f"p{i}") for i in range(20)))
    before = world.nodes.pods_version
    status = replace(held().status, allocated={"cpu": "1"})
    world.upsert(replace(held(), status=status))
    assert not world.recorded.waiting_for(RESERVATION)
    assert world.nodes.pods_version[1] == before[1]


@pytest.mark.parametrize("key", [ALLOCATED, DRAWS])
def test_an_escaped_uid_is_reported_too(key):
    named = {"name": "r", "uid": RESERVATION, "resources": {"cpu": "1"}}
    text = json.dumps(named if key == ALLOCATED else [named]).replace("0a1b", "0\\u00611b")
    raw = a_pod("p", node="n", annotations={key: text})
    world = world_of(held(), typed(raw))
    assert [list(keys) for _, keys in world.recorded.ignored.values()] == [[key]]


def test_a_pod_that_the_status_lists_as_an_owner_later_is_one():
    """A rebuilt world would accept it, and the controller has decided the same."""
    owner = ObjectReference(uid="p", name="p", namespace="default")
    listed = replace(held(), status=replace(held().status, current_owners=(owner,)))
    world, fresh = world_of(held(), naming(), listed), world_of(listed, naming())
    assert int(world.nodes.requested[0, 0]) == int(fresh.nodes.requested[0, 0]) == 4000


def test_owners_of_a_pod_that_acts_as_a_reservation_may_be_edited():
    """They are in an annotation, which the generation of the pod does not count."""

    def acting(app):
        owners = json.dumps([{"labelSelector": {"matchLabels": {"app": app}}}])
        raw = a_pod("r", cpu="4", node="n", labels={OPERATING_MODE: "Reservation"},
                    annotations={RESERVATION_OWNERS: owners})  # fmt: skip
        raw["metadata"] |= {"uid": RESERVATION, "generation": 1}
        return typed(raw)

    pod = naming(labels={"app": "new"})
    world, fresh = world_of(acting("old"), pod, acting("new")), world_of(acting("new"), pod)
    assert int(world.nodes.requested[0, 0]) == int(fresh.nodes.requested[0, 0]) == 4000


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_reservation_pre_allocates_no_pod_that_came_later(tmp_path, restarted):
    """Any pod may have the label of mode Cluster, and would end the reservation."""
    async with configured(tmp_path, enableClusterMode=True) as cluster:
        await cluster.create(a_node("n", cpu="10"))
        more = {"pre_allocation": True, "pre_allocation_policy": CLUSTER}
        await cluster.create(a_reservation("r", cpu="8", **more))
        await cluster.advance(2)
        await cluster.create(a_pod("thief", cpu="1m", labels={PRE_ALLOCATABLE: "true"}))
        await annotate(cluster, "thief", **notes(await cluster.reservation("r")))
        if restarted:
            await cluster.restart_components()
        await cluster.advance(5)
        assert (await cluster.reservation("r")).phase == "Available"
        assert "no owner of reservation r" in (await ignored(cluster, "thief"))[0]

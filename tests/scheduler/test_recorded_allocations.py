"""Recorded allocations that the scheduler did not write count as far as they can be true.

The attacks are those of users where no policy stops them: here by the administrator.
"""

import json
from itertools import permutations

import pytest
from msgspec.structs import replace

from device_share.objects import a_device_object, a_gpu, a_gpu_node, a_gpu_pod, devices_of
from holdfast.api.koordinator_names import (
    DEVICE_ALLOCATED,
    OPERATING_MODE,
    RESERVATION_OWNERS,
    RESOURCE_STATUS,
)
from holdfast.api.reservation_names import ALLOCATED, DRAWS
from holdfast.api.scheme import PODS, RESERVATIONS
from holdfast.scheduling.framework.world import World
from holdfast.testing import a_node, a_pod, a_reservation, typed
from holdfast.testing.harness import Harness
from holdfast.testing.numa_builders import a_bound_pod, a_topology
from numa.reserving import cpuset
from scheduler.recorded_allocations import (
    annotate,
    claiming,
    cpus_in,
    gpus,
    held,
    ignored,
    naming,
    scheduled,
)

COUNTER = "holdfast_ignored_allocations_total"
OWNER = {"app": "r"}


def metrics_of(cluster):
    return cluster.components.scheduler.metrics_page().decode()


async def label(cluster, name, **labels):
    meta = {"labels": labels}
    await cluster.client.patch(PODS, name, {"metadata": meta}, "default")
    await cluster.settle()


# --- CPUs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ['{"cpuset":"8-15"}', "", None, "{}", '{"cpuset":"0"}', "["])
async def test_a_pod_keeps_its_cpus_whatever_is_written_later(tmp_path, text):
    async with Harness(tmp_path) as cluster:
        await cluster.create(a_topology("n"), a_node("n", cpu="16"), a_bound_pod("a", "8"))
        assert await cpuset(cluster, "a") == "0-7"
        await annotate(cluster, "a", status=text)
        await cluster.create(a_bound_pod("b", "8"))
        assert await cpuset(cluster, "b") == "8-15"
        assert len(await ignored(cluster, "a")) == 1
        assert f'{COUNTER}{{key="{RESOURCE_STATUS}"}} 1.0' in metrics_of(cluster)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("when", ["created", "patched"])
@pytest.mark.parametrize("pod", [a_pod, a_bound_pod])
async def test_a_pod_of_less_than_a_cpu_holds_none(tmp_path, restarted, when, pod):
    async with Harness(tmp_path) as cluster:
        await cluster.create(a_topology("n"), a_node("n", cpu="16"))
        text = '{"cpuset":"0-15","numaNodeResources":[{"node":0,"resources":{"cpu":"8"}}]}'
        notes = {RESOURCE_STATUS: text} if when == "created" else {}
        await cluster.create(pod("thief", cpu="1m", node="n", annotations=notes))
        if when == "patched":
            await annotate(cluster, "thief", status=text)
        if restarted:
            await cluster.restart_components()
        await cluster.create(a_bound_pod("p", "8"))
        assert await cpuset(cluster, "p") == "0-7"
        assert "exceeds what the pod requests" in (await ignored(cluster, "thief"))[0]


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_pod_holds_no_more_cpus_than_it_requests(tmp_path, restarted):
    async with Harness(tmp_path) as cluster:
        await cluster.create(a_topology("n"), a_node("n", cpu="16"))
        await cluster.create(a_bound_pod("thief", "2", node="n"))
        await annotate(cluster, "thief", status='{"cpuset":"0-15"}')
        if restarted:
            await cluster.restart_components()
        await cluster.create(a_bound_pod("p", "14"))
        assert await cpuset(cluster, "p") == "2-15"


def test_a_pod_that_was_made_smaller_holds_less():
    """What it has follows its requests; the smaller of them count once they are allocated."""
    world = World()
    for raw in (a_topology("n"), a_node("n", cpu="16")):
        world.upsert(typed(raw))
    pod = a_bound_pod("p", "8", node="n", annotations={RESOURCE_STATUS: '{"cpuset":"0-7"}'})
    world.upsert(typed(pod))
    resized = a_bound_pod("p", "2", node="n", annotations={RESOURCE_STATUS: '{"cpuset":"0-7"}'})
    had = {"requests": {"cpu": "8"}}
    held = [{"name": "main", "resources": had, "allocatedResources": had["requests"]}]
    world.upsert(typed(resized | {"status": {"containerStatuses": held}}))
    uid = typed(pod).uid or "default/p"
    assert world.numa.holding(uid).cpus == 0b1111_1111
    world.upsert(typed(resized))
    assert world.numa.holding(uid).cpus == 0b11


async def test_cpus_that_are_written_after_the_scheduler_gave_none_count_nothing(tmp_path):
    async with Harness(tmp_path) as cluster:
        await cluster.create(a_topology("n"), a_node("n", cpu="16"), a_pod("a", cpu="8"))
        await annotate(cluster, "a", status='{"cpuset":"0-7"}')
        await cluster.create(a_bound_pod("b", "8"))
        assert await cpuset(cluster, "b") == "0-7"
        assert len(await ignored(cluster, "a")) == 1


# --- devices ----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [None, "", "{}", gpus(1), gpus(3), "["])
async def test_a_pod_keeps_its_gpu_whatever_is_written_later(tmp_path, text):
    async with Harness(tmp_path) as cluster:
        await cluster.create(a_gpu_node(), a_device_object(), a_gpu_pod("a", 100))
        assert await devices_of(cluster, "a") == [("gpu", 0, 100)]
        await annotate(cluster, "a", devices=text)
        await cluster.create(a_gpu_pod("b", 100))
        assert await devices_of(cluster, "b") == [("gpu", 1, 100)]
        assert len(await ignored(cluster, "a")) == 1


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("percent", ["100", "10", "3"])
async def test_a_part_of_one_gpu_is_no_more_than_that(tmp_path, restarted, percent):
    async with Harness(tmp_path) as cluster:
        await cluster.create(a_gpu_node(), a_device_object())
        text = gpus(0, 1, 2, 3, percent=percent, **{"koordinator.sh/gpu-memory": "64Gi"})
        thief = a_gpu_pod("thief", 10, node="n", annotations={DEVICE_ALLOCATED: text})
        await cluster.create(thief)
        if restarted:
            await cluster.restart_components()
        await cluster.create(a_gpu_pod("whole", 100))
        assert await devices_of(cluster, "whole") == [("gpu", 1, 100)]
        await cluster.create(a_gpu_pod("rest", 90))
        assert await devices_of(cluster, "rest") == [("gpu", 0, 90)]
        assert await ignored(cluster, "thief")


# --- reservations -----------------------------------------------------------------------------


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("cpu", [None, "8"])
@pytest.mark.parametrize("once", [True, False])
async def test_a_pod_that_owns_nothing_takes_nothing(tmp_path, restarted, cpu, once):
    async with Harness(tmp_path) as cluster:
        await cluster.create(a_node("n", cpu="10"))
        await cluster.create(a_reservation("r", cpu="8", allocate_once=once))
        await cluster.create(a_pod("thief", cpu="1m"))
        held = await cluster.reservation("r")
        await annotate(cluster, "thief", **naming(held, cpu))
        if restarted:
            await cluster.restart_components()
        await cluster.create(a_pod("stranger", cpu="4"))
        assert not await cluster.node_of("stranger"), "it took the room of the owner"
        await cluster.advance(5)
        found = await cluster.reservation("r")
        assert (found.phase, found.status.current_owners, found.status.allocated) == (
            "Available", (), {},
        )  # fmt: skip
        assert {c.type: c.status for c in found.status.conditions}["Ready"] == "True"
        assert "no owner of reservation r" in (await ignored(cluster, "thief"))[0]
        await cluster.create(a_pod("owner", cpu="8", labels=OWNER))
        assert await cluster.node_of("owner") == "n"


async def test_the_name_beside_the_uid_proves_nothing(tmp_path):
    async with Harness(tmp_path) as cluster:
        await cluster.create(a_node("n", cpu="10"), a_reservation("r", cpu="8"))
        named = {"name": "other", "uid": (await cluster.reservation("r")).uid}
        notes = {ALLOCATED: json.dumps(named)}
        await cluster.create(a_pod("thief", cpu="1m", node="n", annotations=notes))
        await cluster.advance(5)
        assert (await cluster.reservation("r")).phase == "Available"
        await cluster.create(a_pod("stranger", cpu="4"))
        assert not await cluster.node_of("stranger")


def test_a_pod_that_names_thousands_of_reservations_is_not_remembered_with_them():
    """A user could make each event of the pod, and the memory of the scheduler, expensive."""
    drawn = [{"name": "r", "uid": f"uid-{i}", "resources": {"cpu": "1m"}} for i in range(2000)]
    world = World()
    world.upsert(typed(a_node("n")))
    pod = typed(a_pod("p", node="n", annotations={DRAWS: json.dumps(drawn)}))
    world.upsert(pod)
    assert not world.recorded.named_by(pod.uid)
    assert not world.recorded.waiting_for("uid-7")
    assert [list(keys) for _, keys in world.recorded.ignored.values()] == [[DRAWS]]


@pytest.mark.parametrize("restarted", [False, True])
async def test_an_owner_draws_no_more_than_it_requests(tmp_path, restarted):
    async with Harness(tmp_path) as cluster:
        await cluster.create(a_node("n", cpu="10"))
        await cluster.create(a_reservation("r", cpu="8", allocate_once=False))
        await cluster.create(a_pod("own", cpu="1m", labels=OWNER, node="n"))
        held = await cluster.reservation("r")
        await annotate(cluster, "own", **naming(held, "8"))
        if restarted:
            await cluster.restart_components()
        await cluster.create(a_pod("stranger", cpu="4"))
        assert not await cluster.node_of("stranger")
        await cluster.advance(5)
        found = await cluster.reservation("r")
        assert found.status.allocated == {"cpu": "1m"}


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("edit", ["label of the pod", "owners", "annotation"])
async def test_an_owner_stays_one(tmp_path, restarted, edit):
    """Else its request would count beside all of the reservation, and the room be paid twice."""
    async with Harness(tmp_path) as cluster:
        await cluster.create(a_node("n", cpu="10"))
        await cluster.create(a_reservation("r", cpu="8", allocate_once=False))
        await cluster.create(a_pod("own", cpu="4", labels=OWNER))
        await cluster.settle()
        if edit == "label of the pod":
            await label(cluster, "own", app="other")
        elif edit == "owners":
            owners = [{"labelSelector": {"matchLabels": {"app": "new"}}}]
            await cluster.client.patch(RESERVATIONS, "r", {"spec": {"owners": owners}})
            await cluster.settle()
        elif not restarted:
            await annotate(cluster, "own", allocated=None)
        if restarted:
            await cluster.restart_components()
        await cluster.create(a_pod("other", cpu="2"))
        assert await cluster.node_of("other") == "n"
        await cluster.advance(5)
        found = await cluster.reservation("r")
        assert found.status.allocated == {"cpu": "4"}
        assert [one.name for one in found.status.current_owners] == ["own"]


async def test_a_pod_that_becomes_an_owner_by_its_label_stays_none(tmp_path):
    """It was decided when the annotation was first read."""
    async with Harness(tmp_path) as cluster:
        await cluster.create(a_node("n", cpu="10"))
        await cluster.create(a_reservation("r", cpu="8"), a_pod("thief", cpu="1m"))
        await annotate(cluster, "thief", **naming(await cluster.reservation("r")))
        await label(cluster, "thief", **OWNER)
        await cluster.advance(5)
        assert (await cluster.reservation("r")).phase == "Available"


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_pod_that_is_read_before_its_reservation_is_decided_about_later(
    tmp_path, restarted
):
    async with Harness(tmp_path) as cluster:
        named = {"name": "r", "uid": "11111111-2222-3333-4444-555555555555"}
        notes = {ALLOCATED: json.dumps(named)}
        await cluster.create(a_node("n", cpu="10"))
        for name, labels in (("own", OWNER), ("thief", {})):
            await cluster.create(a_pod(name, cpu="1", node="n", labels=labels, annotations=notes))
        assert not await ignored(cluster, "thief")
        if restarted:
            await cluster.restart_components()
        world = cluster.world
        held = a_reservation(
            "r", cpu="4", allocate_once=False, metadata={"uid": named["uid"]},
            status={"phase": "Available", "nodeName": "n", "allocatable": {"cpu": "4"}},
        )  # fmt: skip
        world.upsert(typed(held))
        assert int(world.nodes.requested[0, 0]) == 5000


# --- two claimants ----------------------------------------------------------------------------


def sharing(name, minor, percent, at, **more):
    notes = {DEVICE_ALLOCATED: gpus(minor, percent=str(percent))}
    return scheduled(a_gpu_pod(name, percent, node="n", annotations=notes, **more), at)


def percent_in(world, *names):
    uses = [world.device_share.use_of(f"uid-{name}").amounts for name in names]
    return [[(minor, amounts[0]) for _, minor, amounts in use] for use in uses]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_of_two_claimants_of_a_cpu_the_one_scheduled_earlier_has_it(order):
    pods = [claiming("a", "0-3", 3), claiming("b", "2-5", 1), claiming("c", "5-7", 2)]
    world = World()
    for obj in (typed(a_topology("n")), typed(a_node("n", cpu="16")), *[pods[i] for i in order]):
        world.upsert(obj)
    assert cpus_in(world, "a", "b", "c") == ["0-1", "2-5", "6-7"]
    assert set(world.recorded.ignored) == {"uid-a", "uid-c"}
    world.delete(pods[1])
    assert cpus_in(world, "a", "c") == ["0-3", "5-7"], "they have what is free again"


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_of_two_claimants_of_a_device_the_one_scheduled_earlier_has_it(order):
    objects = [
        typed(a_device_object()), sharing("a", 0, 60, 2), sharing("b", 0, 50, 1),
        sharing("c", 1, 50, 3),
    ]  # fmt: skip
    world = World()
    for obj in (typed(a_gpu_node()), *[objects[i] for i in order]):
        world.upsert(obj)
    assert percent_in(world, "a", "b", "c") == [[(0, 50)], [(0, 50)], [(1, 50)]]
    assert set(world.recorded.ignored) == {"uid-a"}
    world.delete(objects[2])
    assert percent_in(world, "a", "c") == [[(0, 60)], [(1, 50)]]


def test_an_unhealthy_device_takes_nothing_from_its_pods():
    world = World()
    for obj in (typed(a_gpu_node()), sharing("a", 0, 60, 2), sharing("b", 0, 40, 1)):
        world.upsert(obj)
    world.upsert(typed(a_device_object("n", a_gpu(0, health=False), a_gpu(1))))
    assert percent_in(world, "a", "b") == [[(0, 60)], [(0, 40)]]
    assert not world.recorded.ignored


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("kind", ["cpus", "devices"])
def test_what_is_reserved_belongs_to_owners(order, kind):
    """However early a pod was scheduled that says it has the same."""
    drawn = {ALLOCATED: json.dumps({"name": "r", "uid": "r"})}
    if kind == "cpus":
        reserved = held(annotations={RESOURCE_STATUS: '{"cpuset":"0-3"}'}, allocate_once=False)
        thief, owner = claiming("thief", "0-1", 1), claiming("own", "2-3", 2, labels=OWNER)
        known = (typed(a_topology("n")), typed(a_node("n", cpu="16")))
    else:
        reserved = held(
            annotations={DEVICE_ALLOCATED: gpus(0)}, allocate_once=False,
            requests={"koordinator.sh/gpu": "100"},
        )  # fmt: skip
        thief, owner = sharing("thief", 0, 50, 1), sharing("own", 0, 40, 2, labels=OWNER)
        known = (typed(a_gpu_node()), typed(a_device_object()))
        amounts = {"koordinator.sh/gpu": "100"}
        reserved = replace(reserved, status=replace(reserved.status, allocatable=amounts))
    owner = replace(
        owner, metadata=replace(owner.metadata, annotations=owner.metadata.annotations | drawn)
    )
    objects, world = [reserved, thief, owner], World()
    for obj in (*known, *[objects[i] for i in order]):
        world.upsert(obj)
    if kind == "cpus":
        assert cpus_in(world, "thief", "own") == ["", "2-3"]
    else:
        assert percent_in(world, "thief", "own") == [[], [(0, 40)]]
    assert set(world.recorded.ignored) == {"uid-thief"}


@pytest.mark.parametrize("order", list(permutations(range(2))))
@pytest.mark.parametrize("kind", ["cpus", "devices"])
def test_a_pod_that_acts_as_a_reservation_takes_nothing_of_another(order, kind):
    acting = {"labels": {OPERATING_MODE: "Reservation"}}
    if kind == "cpus":
        thief, victim = claiming("thief", "0-1", 1, **acting), claiming("victim", "0-3", 2)
        known = (typed(a_topology("n")), typed(a_node("n", cpu="16")))
    else:
        thief, victim = sharing("thief", 0, 50, 1, **acting), sharing("victim", 0, 100, 2)
        known = (typed(a_gpu_node()), typed(a_device_object()))
    notes = thief.metadata.annotations | {RESERVATION_OWNERS: '[{"object":{"name":"own"}}]'}
    thief = replace(thief, metadata=replace(thief.metadata, annotations=notes))
    objects, world = [thief, victim], World()
    for obj in (*known, *[objects[i] for i in order]):
        world.upsert(obj)
    assert "uid-thief" in world.reservations.by_uid
    if kind == "cpus":
        assert cpus_in(world, "victim") == ["0-3"]
        assert not world.numa.offer(0, "uid-thief").cpus
    else:
        assert percent_in(world, "victim") == [[(0, 100)]]

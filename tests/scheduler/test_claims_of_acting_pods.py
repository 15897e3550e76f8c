"""A pod that acts as a reservation lends nothing that others have.

Its owner may write its annotations where no policy stops that.
"""

import json
from itertools import permutations

import pytest
from msgspec.structs import replace

from device_share.objects import a_device_object, a_gpu, a_gpu_node, a_gpu_pod
from holdfast.api.koordinator_names import (
    DEVICE_ALLOCATED,
    OPERATING_MODE,
    RESERVATION_OWNERS,
    RESOURCE_STATUS,
)
from holdfast.api.reservation_names import ALLOCATED
from holdfast.api.scheme import PODS
from holdfast.scheduling.framework.world import World
from holdfast.testing import a_node, typed
from holdfast.testing.harness import Harness
from holdfast.testing.numa_builders import a_bound_pod, a_topology
from numa.reserving import cpuset
from scheduler.recorded_allocations import claiming, cpus_in, gpus, held, scheduled

ACTS = {OPERATING_MODE: "Reservation"}
FRIEND = {"app": "friend"}
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def claim(key, text):
    """Return the annotations of a pod that acts as a reservation and claims something."""
    return {key: text, RESERVATION_OWNERS: json.dumps([{"labelSelector": {"matchLabels": FRIEND}}])}


def acting(name, cpuset, at):
    """Return a pod with 4 CPUs that acts as a reservation."""
    notes = claim(RESOURCE_STATUS, json.dumps({"cpuset": cpuset}))
    return scheduled(a_bound_pod(name, "4", node="n", labels=ACTS, annotations=notes), at)


def world_of(*objects):
    world = World()
    for obj in objects:
        world.upsert(obj)
    return world


async def test_the_cpus_of_another_pod_are_not_lent_to_a_friend(tmp_path):
    async with Harness(tmp_path) as cluster:
        await cluster.create(a_topology("n"), a_node("n", cpu="16"), a_bound_pod("victim", "4"))
        assert await cpuset(cluster, "victim") == "0-3"
        notes = claim(RESOURCE_STATUS, '{"cpuset":"0-3"}')
        await cluster.create(a_bound_pod("acting", "4", node="n", labels=ACTS, annotations=notes))
        status = {"status": READY}
        await cluster.client.patch(PODS, "acting", status, "default", subresource="status")
        await cluster.settle()
        await cluster.create(a_bound_pod("friend", "4", labels=FRIEND))
        assert await cpuset(cluster, "friend") == "8-11"


@pytest.mark.parametrize("victim", ["a pod that acts as a reservation", "a reservation"])
@pytest.mark.parametrize("order", list(permutations(range(2))))
def test_what_is_reserved_is_not_lent_by_another(order, victim):
    other = acting("victim", "0-3", 1)
    if victim == "a reservation":
        other = held(annotations={RESOURCE_STATUS: '{"cpuset":"0-3"}'}, allocate_once=False)
    objects = [other, acting("thief", "2-5", 2)]
    known = (typed(a_topology("n")), typed(a_node("n", cpu="16")))
    world = world_of(*known, *[objects[i] for i in order])
    assert world.numa.offer(0, "uid-thief").cpus == 0b11_0000


def test_cpus_that_an_owner_shared_are_claimed_when_it_has_gone():
    """The owner of a pod that acted as a reservation has what that pod has."""
    notes = {RESOURCE_STATUS: '{"cpuset":"0-3"}'}
    acted = scheduled(a_bound_pod("acted", "4", node="n", annotations=notes), 1)
    own = claiming("own", "0-1", 2)
    drawn = {ALLOCATED: json.dumps({"name": "acted", "uid": "uid-acted"})}
    own = replace(own, metadata=replace(own.metadata, annotations=own.metadata.annotations | drawn))
    known = (typed(a_topology("n")), typed(a_node("n", cpu="16")))
    world = world_of(*known, acted, own)
    world.delete(own)
    world.upsert(claiming("late", "0-1", 3))
    assert cpus_in(world, "acted", "late") == ["0-3", ""]


def test_a_part_of_one_gpu_is_no_more_than_that():
    text = gpus(0, percent="10", **{"koordinator.sh/gpu-memory": "16Gi"})
    notes = claim(DEVICE_ALLOCATED, text)
    pod = scheduled(a_gpu_pod("acting", 10, node="n", labels=ACTS, annotations=notes), 1)
    for objects in permutations((typed(a_device_object()), pod)):
        world = world_of(typed(a_gpu_node()), *objects)
        ((_, _, amounts),) = world.device_share.use_of("uid-acting").amounts
        assert amounts == (10, 2**34 // 10, 10)


@pytest.mark.parametrize("labels", [{}, ACTS])
def test_what_a_pod_has_of_a_gpu_does_not_depend_on_what_its_device_reported_before(labels):
    text = gpus(0, percent="50", **{"koordinator.sh/gpu-memory": "8Gi"})
    notes = claim(DEVICE_ALLOCATED, text)
    pod = scheduled(a_gpu_pod("p", 50, node="n", labels=labels, annotations=notes), 1)
    small, large = (typed(a_device_object("n", a_gpu(0, memory=m))) for m in ("8Gi", "16Gi"))
    world = world_of(typed(a_gpu_node()), small, pod, large)
    fresh = world_of(typed(a_gpu_node()), large, pod)
    assert world.device_share.use_of("uid-p") == fresh.device_share.use_of("uid-p")

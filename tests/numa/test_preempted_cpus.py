"""Preemption for pods that need CPUs: victims give theirs back, owners to their reservation."""

from contextlib import asynccontextmanager

from holdfast.api import koordinator_names as names
from holdfast.api.scheme import PODS
from holdfast.scheduling.configuration.reading import Configuration
from holdfast.scheduling.engine.profile import build_profile
from holdfast.scheduling.plugins import REGISTRY
from holdfast.testing import a_priority_class
from holdfast.testing.harness import Harness
from numa.reserving import add_node, cpuset, owner, reserve, stranger
from reservations.objects import allocated_from

HIGH = {"priority_class_name": "high"}
URGENT = {"koordinator.sh/priority": "1000"}


@asynccontextmanager
async def evicting(directory):
    args = {"Reservation": {"enablePreemption": True}}
    profile = build_profile("default-scheduler", REGISTRY, args=args)
    configuration = Configuration({"default-scheduler": profile})
    async with Harness(directory / "store", configuration=configuration) as cluster:
        yield cluster


async def left(cluster):
    return sorted(pod.name for pod in (await cluster.client.list(PODS)).items)


async def test_a_victim_gives_back_its_CPUs(cluster):
    await add_node(cluster, cpu="20")
    await cluster.create(a_priority_class())
    assert await stranger(cluster, "low", "8") == "0-7"
    assert await stranger(cluster, "lower", "4") == "8-11"
    assert await stranger(cluster, "p", "6", **HIGH) == "8-13", "amounts were free, CPUs not"
    assert await left(cluster) == ["low", "p"], "one victim is enough"


async def test_only_a_victim_with_the_right_CPUs_is_evicted(cluster):
    """Whole cores are needed: the pod with halves of cores would free none."""
    await add_node(cluster)
    await cluster.create(a_priority_class())
    spread = {"preferredCPUBindPolicy": "SpreadByPCPUs"}
    assert await stranger(cluster, "halves", "4", spec=spread) == "0,2,4,6"
    assert await stranger(cluster, "others", "4", spec=spread, **HIGH) == "8,10,12,14"
    assert await stranger(cluster, "rest", "4", spec=spread) == "1,3,5,7"
    whole = {"requiredCPUBindPolicy": "FullPCPUs"}
    assert await stranger(cluster, "p", "4", spec=whole, **HIGH) == "0-3"
    assert await left(cluster) == ["others", "p"]


async def test_the_CPUs_of_an_owner_go_back_to_its_reservation(cluster):
    await add_node(cluster)
    await cluster.create(a_priority_class())
    assert await reserve(cluster, "r", "4", allocate_once=False) == "0-3"
    assert await owner(cluster, "low", "4") == "0-3"
    assert await stranger(cluster, "other", "12", **HIGH) == "4-15"
    assert await stranger(cluster, "p", "4", **HIGH) is None
    await cluster.advance(60)
    assert await left(cluster) == ["low", "other", "p"], "evicting the owner frees nothing"
    assert await owner(cluster, "urgent", "4", **HIGH) == "0-3"
    assert await allocated_from(cluster, "urgent") == "r"
    assert await left(cluster) == ["other", "p", "urgent"]


async def test_a_reservation_preempts_for_CPUs(tmp_path):
    async with evicting(tmp_path) as cluster:
        await add_node(cluster, cpu="20")
        assert await stranger(cluster, "low", "14") == "0-13"
        await reserve(cluster, "r", "4", labels=URGENT, settled=False)
        await cluster.advance(60)
        found = (await cluster.reservation("r")).metadata.annotations
        assert found[names.RESOURCE_STATUS] == '{"cpuset":"0-3"}'
        assert await left(cluster) == []


async def test_a_nominated_pod_keeps_the_CPUs_that_its_victim_leaves(cluster):
    await add_node(cluster)
    await cluster.create(a_priority_class())
    slow = {"holdfast.dev/stop-after": "30s"}
    assert await stranger(cluster, "low", "12", annotations=slow) == "0-11"
    assert await stranger(cluster, "p", "8", **HIGH) is None
    assert await stranger(cluster, "q", "6") is None
    await cluster.advance(60)
    assert await cpuset(cluster, "p") == "0-7"
    assert await cpuset(cluster, "q") == "8-13"

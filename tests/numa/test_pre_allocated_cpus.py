"""Reservations that take over the CPUs of running pods."""

from contextlib import asynccontextmanager

from holdfast.api import koordinator_names as names
from holdfast.api.scheme import PODS
from holdfast.scheduling.configuration.reading import Configuration
from holdfast.scheduling.engine.profile import build_profile
from holdfast.scheduling.plugins import REGISTRY
from holdfast.testing.harness import Harness
from numa.reserving import add_node, cpus_of, cpuset, owner, reserve, stranger
from reservations.objects import allocated_from
from reservations.objects import status as reservation_status

SEVERAL = {"mode": "Cluster", "enableMultiple": True}
OFFERED = {"pod.koordinator.sh/is-pre-allocatable": "true"}


async def test_the_CPUs_of_a_pre_allocated_pod_are_part_of_the_reservation(cluster):
    await add_node(cluster)
    assert await stranger(cluster, "other", "8") == "0-7"
    assert await owner(cluster, "p", "4") == "8-11"
    assert await stranger(cluster, "more", "2") == "12-13"
    assert await reserve(cluster, "r", "6", pre_allocation=True) == "8-11,14-15"
    assert await allocated_from(cluster, "p") == "r"
    assert await reservation_status(cluster, "r") == ("Waiting", {"cpu": "4"}, ["p"])
    assert await stranger(cluster, "q", "1") is None, "all CPUs are held"
    await cluster.restart()
    await cluster.delete(PODS, "p", "default")
    assert await cpuset(cluster, "q") is None
    assert await owner(cluster, "s", "6") == "8-11,14-15"


async def test_a_reservation_without_pods_to_take_over_does_not_wait_for_CPUs(cluster):
    await add_node(cluster)
    await stranger(cluster, "other", "14")
    await reserve(cluster, "r", "4", pre_allocation=True, settled=False)
    found = await cluster.reservation("r")
    assert found.phase == "Pending"
    (condition,) = found.status.conditions
    assert "1 not enough cpus available to satisfy request" in condition.message
    await cluster.delete(PODS, "other", "default")
    await cluster.advance(30)
    assert cpus_of(await cluster.reservation("r")) == "0-3"


async def test_a_pod_whose_CPUs_the_reservation_cannot_have_is_not_pre_allocated(cluster):
    """The reservation must have whole cores; of two pods one has halves of cores."""
    await add_node(cluster)
    spread = {"preferredCPUBindPolicy": "SpreadByPCPUs"}
    assert await owner(cluster, "halves", "4", spec=spread) == "0,2,4,6"
    assert await owner(cluster, "p", "4") == "8-11"
    assert await stranger(cluster, "other", "4") == "12-15"
    assert await stranger(cluster, "rest", "4", spec=spread) == "1,3,5,7"
    whole = {"requiredCPUBindPolicy": "FullPCPUs"}
    assert await reserve(cluster, "r", "4", spec=whole, pre_allocation=True) == "8-11"
    assert await allocated_from(cluster, "p") == "r"
    assert await allocated_from(cluster, "halves") is None


@asynccontextmanager
async def cluster_mode(tmp_path):
    args = {"Reservation": {"preAllocationConfig": {"enableClusterMode": True}}}
    profile = build_profile("default-scheduler", REGISTRY, args=args)
    async with Harness(
        tmp_path / "store", configuration=Configuration({"default-scheduler": profile})
    ) as cluster:
        yield cluster


async def test_the_CPUs_of_several_pods_are_taken_over(tmp_path):
    async with cluster_mode(tmp_path) as cluster:
        await add_node(cluster)
        assert await stranger(cluster, "other", "8") == "0-7"
        assert await stranger(cluster, "a", "4", labels=OFFERED) == "8-11"
        assert await stranger(cluster, "b", "4", labels=OFFERED) == "12-15"
        cpus = await reserve(cluster, "r", "8", pre_allocation=True, pre_allocation_policy=SEVERAL)
        assert cpus == "8-15"
        assert await reservation_status(cluster, "r") == ("Waiting", {"cpu": "8"}, ["a", "b"])


async def test_amplified_CPUs_of_a_pre_allocated_pod_cost_once(cluster):
    ratio = {names.AMPLIFICATION_RATIO: '{"cpu": 1.5}'}
    await add_node(cluster, cpu="24", annotations=ratio)
    assert await owner(cluster, "p", "8") == "0-7"
    assert await stranger(cluster, "other", "12", qos="LS") is None
    assert await cluster.node_of("other") == "n"
    assert await reserve(cluster, "r", "8", pre_allocation=True) == "0-7"
    assert await allocated_from(cluster, "p") == "r"

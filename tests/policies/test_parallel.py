"""Caps hold while decisions overlap: extenders, two profiles, a killed scheduler."""

import asyncio
import random
from collections import Counter

import numpy as np
import pytest

from holdfast.api.scheme import NODES, PODS
from holdfast.scheduling.engine.decision import feasible, rank
from holdfast.scheduling.framework.extender import ManagedResource
from holdfast.scheduling.framework.plugin import Code
from holdfast.scheduling.scheduler.cycle import assume_and_reserve
from holdfast.testing import FakeCluster, a_namespace, typed
from holdfast.testing.fake_extender import FakeExtender
from policies.objects import (
    PLUGIN,
    WEB,
    PodHistory,
    common_nodes,
    node,
    node_of,
    od,
    place,
    pod,
    policy,
    spot,
)
from stories.killed_scheduler import KilledScheduler

GPU = "example.com/gpu"


async def test_a_unit_that_was_filled_while_an_extender_responded_is_left(start):
    """The extender allows all nodes, also those of the unit that is full by now."""
    async with FakeExtender() as extender:
        extender.answers["filter"] = lambda body: {"NodeNames": body["NodeNames"]}
        config = extender.config(filter_verb="filter", managed_resources=(ManagedResource(GPU),))
        cluster = await start(extenders=[config], nodes=common_nodes(allocatable={GPU: "8"}))
        extender.join(cluster)
        await cluster.create(policy())
        extender.hold()
        await cluster.create(pod("x", requests={GPU: "1"}, limits={GPU: "1"}))
        assert await place(cluster, 2) == ["a", "a"]
        extender.release()
        await cluster.settle()
        assert (await node_of(cluster, "x"))[0] == "b"


async def test_pods_of_two_profiles_count_together(governed):
    async with PodHistory(governed) as history:
        names = ("default-scheduler", "koord-scheduler")
        pods = [pod(f"w{i}", scheduler_name=names[i % 2]) for i in range(8)]
        await governed.create(*pods)
    assert history.highest == {"a": 2, "b": 3, "c": 3}


def test_the_cap_is_checked_again_when_a_pod_is_reserved():
    """Two decisions are made in the same world; the second one is carried out too late."""
    cluster = FakeCluster(*common_nodes(), policy(units=[od(max_count=1)], strategy="required"))
    world, profile = cluster.world, cluster.profile
    placements = []
    for name in ("x", "y"):
        found = feasible(
            profile, profile.view(world.pod_info(typed(pod(name))), world, cluster.now)
        )
        placements.append(rank(profile, found, np.random.default_rng(0)))
    assert assume_and_reserve(profile, world, placements[0]) is None
    plugin, reject = assume_and_reserve(profile, world, placements[1])
    assert (plugin, reject.code) == (PLUGIN, Code.UNSCHEDULABLE)
    assert reject.reasons == ("unit od is full (1/1)",)
    assert len(world.nodes.pods()) == 1


class CappedCluster(KilledScheduler):
    """Records how many pods each unit had at most, by the first letter of its nodes."""

    def __init__(self, directory):
        super().__init__(directory)
        self.highest = Counter()

    def _on_pod(self, kind, old, new):
        super()._on_pod(kind, old, new)
        self.highest |= Counter(name[0] for name in self.nodes_of.values())


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_P023_caps_hold_however_often_the_scheduler_is_killed(tmp_path):
    rounds, pods = 4, 60
    rng = random.Random(7)
    nodes = [node(f"{letter}{i}", cpu="64") for letter in "abc" for i in range(3)]
    units = [od(max_count=10), spot(max_count=25)]
    async with CappedCluster(tmp_path).running() as cluster:
        await cluster.create([a_namespace(WEB), *nodes, policy(units=units)], at_once=1)
        for raw in nodes:
            # No controller removes the not-ready taint of a new node here.
            await cluster.client.patch(NODES, raw["metadata"]["name"], {"spec": {"taints": None}})
        for number in range(rounds):
            created = [pod(f"p{number}-{i}") for i in range(pods // rounds)]
            process = cluster.scheduler()
            work = asyncio.create_task(cluster.create(created))
            await cluster.until_bound((number + rng.random()) * pods / rounds, process)
            process.kill()
            process.communicate()
            await work
        last = cluster.scheduler()
        try:
            await cluster.until_bound(pods, last)
        finally:
            last.kill()
            last.communicate()
        assert cluster.highest == {"a": 10, "b": 25, "c": 25}
        assert set(cluster.binds.values()) == {1}
        assert len((await cluster.client.list(PODS, WEB)).items) == pods

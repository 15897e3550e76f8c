"""kill -9 of the scheduler alone, again and again, while a thousand pods are scheduled.

The API server keeps running. Every scheduler starts from the API objects alone: wherever between
two writes the last one was killed, each pod is bound once, no node is overcommitted, and no device
is allocated twice.
"""

import asyncio
import os
import random
from collections import Counter

import pytest

from holdfast.api.scheme import NODES, PODS, RESOURCE_CLAIMS
from holdfast.testing import a_device, a_device_class, a_node, a_pod, a_slice
from stories.killed_scheduler import KilledScheduler

GPU = "example.com/gpu"
SIZE = 100
"""Millicores of a pod. All pods together fill all nodes."""
PODS_A_NODE = 40


def nodes_and_devices(pods):
    """Return nodes with exactly the CPU that the pods need, and a device for each pod."""
    count = pods // PODS_A_NODE
    cpu = f"{PODS_A_NODE * SIZE}m"
    for n in range(count):
        yield a_node(f"n{n}", cpu=cpu)
    yield a_device_class("gpu", driver="gpu.example.com", extended_resource_name=GPU)
    for n in range(count):
        devices = [a_device(f"gpu-{i}") for i in range(PODS_A_NODE)]
        yield a_slice(f"n{n}-gpus", driver="gpu.example.com", node=f"n{n}", devices=devices)


def pods_to_schedule(pods):
    for n in range(pods):
        more = {"requests": {GPU: "1"}, "limits": {GPU: "1"}} if n % 10 == 0 else {}
        yield a_pod(f"p{n}", cpu=f"{SIZE}m", **more)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("rounds", "pods"),
    [(5, 200), pytest.param(30, 1000, marks=pytest.mark.real)],
)
async def test_every_pod_is_bound_once_however_often_the_scheduler_is_killed(
    tmp_path, rounds, pods
):
    rng = random.Random(int(os.environ.get("HOLDFAST_SEED", rounds)))
    async with KilledScheduler(tmp_path).running() as cluster:
        await cluster.create(nodes_and_devices(pods), at_once=1)
        for n in range(pods // PODS_A_NODE):
            # No controller removes the not-ready taint of a new node here.
            await cluster.client.patch(NODES, f"n{n}", {"spec": {"taints": None}})
        await cluster.create(pods_to_schedule(pods))
        for number in range(rounds):
            process = cluster.scheduler()
            target = len(cluster.nodes_of) + rng.randint(
                0, 2 * (pods - len(cluster.nodes_of)) // (rounds - number + 1)
            )
            await cluster.until_bound(target, process)
            await asyncio.sleep(rng.uniform(0, 0.01))
            process.kill()
            process.communicate()
        last = cluster.scheduler()
        try:
            await cluster.until_bound(pods, last)
            await assert_consistent(cluster, pods)
        finally:
            last.kill()
            last.communicate()


async def assert_consistent(cluster, pods):
    found = (await cluster.client.list(PODS)).items
    assert cluster.binds == Counter({f"p{n}": 1 for n in range(pods)})
    assert {pod.name: pod.spec.node_name for pod in found} == cluster.nodes_of
    assert set(Counter(cluster.nodes_of.values()).values()) == {PODS_A_NODE}
    claims = (await cluster.client.list(RESOURCE_CLAIMS)).items
    served = Counter(
        (result.pool, result.device)
        for claim in claims
        if claim.status.allocation is not None
        for result in claim.status.allocation.devices.results
    )
    assert max(served.values()) == 1
    holders = {consumer.uid for claim in claims for consumer in claim.status.reserved_for}
    asking = {pod.uid for pod in found if int(pod.name[1:]) % 10 == 0}
    assert asking <= holders

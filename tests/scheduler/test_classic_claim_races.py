"""Classic claims that many pods, two schedulers or both generations of DRA need."""

from collections import Counter
from dataclasses import replace

import pytest

from holdfast.api.scheme import PODS, RESOURCE_CLAIMS
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.scheduler.scheduler import Scheduler
from holdfast.testing import (
    a_claim,
    a_device_class,
    a_node,
    a_pod,
    a_slice,
)
from holdfast.testing.classic_dra.builders import (
    a_classic_claim,
    a_classic_class,
    an_allocation,
    inline,
    named,
)
from holdfast.testing.classic_dra.driver import KINDS, ClassicDriver
from holdfast.testing.harness import Harness
from soak_size import TIMES


@pytest.fixture
async def cluster(tmp_path):
    async with Harness(tmp_path / "store") as harness:
        yield harness


async def users(cluster, name):
    claim = await cluster.client.get(KINDS.claims, name, "default")
    return [consumer.name for consumer in claim.status.reserved_for]


async def test_C037_two_schedulers_reserve_one_exclusive_claim(cluster):
    profile = replace(default_profiles()["default-scheduler"], name="second")
    second = Scheduler(cluster._component_client("system:kube-scheduler"), cluster.clock,
                       profiles={"second": profile})  # fmt: skip
    await cluster.as_time_passes(second.start())
    try:
        await cluster.create(a_node("n1"), a_classic_class(), a_classic_claim("c"))
        status = {"status": an_allocation()}
        await cluster.client.patch(KINDS.claims, "c", status, "default", subresource="status")
        await cluster.settle()
        await cluster.create(
            a_pod("p", claims=[named("c")]),
            a_pod("q", claims=[named("c")], scheduler_name="second"),
        )
        await cluster.advance(20)
        placed = [name for name in "pq" if await cluster.node_of(name)]
        assert await users(cluster, "c") == placed
        assert len(placed) == 1
        [waiting] = {"p", "q"} - set(placed)
        assert "resourceclaim in use" in await cluster.why(waiting)
    finally:
        await cluster.as_time_passes(second.stop())


async def test_C075_a_pod_uses_claims_of_both_generations(cluster):
    driver = ClassicDriver(cluster.client, devices={"n1": 1, "n2": 1})
    await cluster.create(
        *[a_node(name) for name in ("n1", "n2")],
        a_classic_class(),
        a_device_class("gpu"),
        a_slice("s", node="n2"),
        a_claim("modern"),
    )
    both = [inline("x"), {"name": "y", "resourceClaimName": "modern"}]
    await cluster.create(a_pod("p", claims=both))

    async def modern():
        return (await cluster.client.get(RESOURCE_CLAIMS, "modern", "default")).status

    # While the driver allocates, nothing is written for the structured claim.
    assert (
        await cluster.client.get(KINDS.pod_scheduling, "p", "default")
    ).spec.selected_node == "n2"
    assert (await modern()).allocation is None
    await driver.serve(cluster.settle)
    assert await cluster.node_of("p") == "n2"
    assert [user.name for user in (await modern()).reserved_for] == ["p"]
    assert await users(cluster, "p-x") == ["p"]


async def test_C077_many_pods_take_turns_with_few_devices(tmp_path):
    """200 pods and 50 devices in ``make soak``, a tenth of both in ``make test``."""
    size = min(TIMES, 10)
    pods, devices = 20 * size, {"n1": 2 * size, "n2": 3 * size}
    async with Harness(tmp_path / "store") as cluster:
        driver = ClassicDriver(cluster.client, devices=devices)
        await cluster.create(*map(a_node, ("n1", "n2", "n3")), a_classic_class())
        waiting = [f"p{i}" for i in range(pods)]
        names = set(waiting)
        await cluster.create(*[a_pod(p, cpu="10m", claims=[inline("x")]) for p in waiting])
        for _ in range(100):
            await driver.step()
            await cluster.advance(2)
            used = Counter(driver.records.values())
            assert all(used[node] <= count for node, count in devices.items()), used
            listed = (await cluster.client.list(PODS)).items
            running = [p for p in listed if p.spec.node_name and not p.finished]
            assert len(running) <= sum(devices.values())
            for pod in running:
                await cluster.client.delete(PODS, pod.name, "default")
                names.discard(pod.name)
            if not names:
                break
        assert not names
        for _ in range(3):  # the pods terminate, then their claims
            await cluster.advance(30)
            await driver.step()
        assert driver.records == {}

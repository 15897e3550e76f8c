"""Inline classic claims with all components: scheduler, controllers, a driver, simulated nodes."""

from __future__ import annotations

import pytest

from holdfast.api.scheme import PODS
from holdfast.testing import a_node, a_pod
from holdfast.testing.classic_dra.builders import (
    a_classic_claim,
    a_classic_class,
    inline,
    named,
    owner_reference,
)
from holdfast.testing.classic_dra.driver import KINDS, ClassicDriver
from holdfast.testing.harness import Harness

RUNS_SHORTLY = {"holdfast.dev/run-for": "5s"}


class Story:
    def __init__(self, cluster, **devices):
        self.cluster, self.client = cluster, cluster.client
        self.driver = ClassicDriver(cluster.client, devices=devices)

    async def create(self, *objects):
        await self.cluster.create(*objects)
        await self.driver.serve(self.cluster.settle)

    async def phase(self, name):
        return (await self.cluster.pod(name)).status.phase

    async def delete(self, resource, name):
        await self.client.delete(resource, name, "default", grace_seconds=0)
        await self.driver.serve(self.cluster.settle)


@pytest.fixture
async def story(tmp_path):
    async with Harness(tmp_path / "store") as cluster:
        await cluster.create(a_node("n1"), a_classic_class())
        yield Story(cluster, n1=1)


async def test_C081_C050_an_immediate_claim_is_allocated_first_and_free_after_its_pod(story):
    cluster, driver = story.cluster, story.driver
    entry = inline("gpu", immediate=True)
    await cluster.create(a_pod("job", claims=[entry], annotations=RUNS_SHORTLY))
    assert "unallocated immediate resourceclaim" in await cluster.why("job")
    await driver.serve(cluster.settle)
    assert await story.phase("job") == "Running"
    await story.create(a_pod("next", claims=[entry]))
    assert await story.phase("next") == "Pending", "the only device is in use"
    await cluster.clock.advance(6)
    await driver.serve(cluster.settle)
    assert [await story.phase(name) for name in ("job", "next")] == ["Succeeded", "Running"]
    assert len(driver.deallocations) == 1
    names = [claim.name for claim in (await story.client.list(KINDS.claims)).items]
    assert names == ["next-gpu"]


async def test_C020_C021_C022_a_pod_runs_only_with_a_claim_that_is_its_own(story):
    await story.create(a_classic_claim("p-gpu"), a_pod("p", claims=[inline("gpu")]))
    await story.cluster.clock.advance(30)
    assert await story.phase("p") == "Pending"
    await story.delete(KINDS.claims, "p-gpu")
    assert await story.phase("p") == "Running", "C020: the foreign claim is gone"

    old = (await story.client.get(KINDS.claims, "p-gpu", "default")).uid
    await story.delete(PODS, "p")
    await story.create(a_pod("p", claims=[inline("gpu")]))
    await story.cluster.clock.advance(2)
    await story.driver.serve(story.cluster.settle)
    assert await story.phase("p") == "Running"
    new = await story.client.get(KINDS.claims, "p-gpu", "default")
    assert new.uid != old, "C022"
    await story.delete(PODS, "p")

    await story.create(a_classic_claim("q-gpu"), a_pod("q", claims=[inline("gpu")]))
    assert await story.phase("q") == "Pending"
    pod = {"metadata": {"name": "q", "uid": (await story.cluster.pod("q")).uid}}
    by_hand = {"metadata": {"ownerReferences": [owner_reference(pod)]}}
    await story.client.patch(KINDS.claims, "q-gpu", by_hand, "default")
    await story.driver.serve(story.cluster.settle)
    await story.cluster.clock.advance(2)
    await story.driver.serve(story.cluster.settle)
    assert await story.phase("q") == "Running", "C021"


async def test_C039_a_claim_of_users_serves_the_next_pod(story):
    await story.create(a_classic_claim("c"), a_pod("p", claims=[named("gpu", "c")]))
    await story.create(a_pod("q", claims=[named("gpu", "c")]))
    assert [await story.phase(name) for name in ("p", "q")] == ["Running", "Pending"]
    await story.delete(PODS, "p")
    assert await story.phase("q") == "Running"
    assert story.driver.deallocations == []

"""Quotas of classic claims: charged by the API server, counted again by the controller."""

import asyncio

import pytest

from controllers.small_cluster import start_small_cluster
from holdfast.api.classic_dra.types import classic_resources
from holdfast.api.scheme import RESOURCE_CLAIMS, RESOURCE_QUOTAS
from holdfast.runtime.errors import Forbidden, HoldfastError, Invalid
from quota.quota_cases import claim as structured_claim
from quota.quota_cases import exactly, quota

CLAIMS = classic_resources().claims
ALL, COUNT = "resourceclaims", "count/resourceclaims.core.k8s.io"
GPU, NIC = (f"{name}.resourceclass.node.k8s.io/resourceclaims" for name in ("gpu", "nic"))


@pytest.fixture
async def cluster(tmp_path):
    async with start_small_cluster(tmp_path / "store") as running:
        yield running


async def set_quota(cluster, **hard):
    await cluster.client.create(RESOURCE_QUOTAS, quota(hard), "default")
    await cluster.clock.settle()


async def used(cluster):
    return (await cluster.get(RESOURCE_QUOTAS, "q", "default")).status.used


async def create(cluster, name, class_name="gpu"):
    body = {"metadata": {"name": name}, "spec": {"resourceClassName": class_name}}
    return await cluster.client.create(CLAIMS, body, "default")


async def test_C055_the_third_claim_is_refused_until_one_is_deleted(cluster):
    await create(cluster, "before")
    await set_quota(cluster, **{ALL: "2", COUNT: "5"})
    assert await used(cluster) == {ALL: "1", COUNT: "1"}
    await create(cluster, "second")
    with pytest.raises(Forbidden, match="exceeded quota: q, requested: resourceclaims=1, used: "):
        await create(cluster, "third")
    await cluster.client.delete(CLAIMS, "before", "default")
    await cluster.clock.settle()
    assert await used(cluster) == {ALL: "1", COUNT: "1"}
    await create(cluster, "third")


async def test_C056_a_class_quota_counts_only_that_class(cluster):
    await set_quota(cluster, **{GPU: "1", NIC: "2"})
    await create(cluster, "a")
    for name, class_name in (("b", "nic"), ("c", "other"), ("d", "gpu.resourceclass")):
        await create(cluster, name, class_name)
    with pytest.raises(Forbidden, match=f"limited: {GPU}=1"):
        await create(cluster, "e")
    assert await used(cluster) == {GPU: "1", NIC: "1"}
    await cluster.client.delete(CLAIMS, "a", "default")
    await cluster.clock.settle()
    assert await used(cluster) == {GPU: "0", NIC: "1"}


async def test_C056_of_claims_at_the_same_time_only_those_that_fit_are_stored(cluster):
    await set_quota(cluster, **{ALL: "7", GPU: "5"})
    made = await asyncio.gather(
        *(create(cluster, f"c{i}", "gpu" if i % 2 else "nic") for i in range(20)),
        return_exceptions=True,
    )
    refused = [one for one in made if isinstance(one, HoldfastError)]
    assert len(refused) == 13
    assert {type(one) for one in refused} == {Forbidden}
    assert (await used(cluster))[ALL] == "7"


async def test_each_generation_has_its_own_counts(cluster):
    await set_quota(cluster, **{ALL: "0", "count/resourceclaims.resource.k8s.io": "1"})
    await cluster.client.create(RESOURCE_CLAIMS, structured_claim(exactly("gpu")), "default")
    with pytest.raises(Forbidden):
        await create(cluster, "classic")
    assert (await used(cluster))[ALL] == "0"


async def test_a_quota_of_claims_is_a_whole_number(cluster):
    with pytest.raises(Invalid, match="must be an integer"):
        await set_quota(cluster, **{ALL: "1500m"})

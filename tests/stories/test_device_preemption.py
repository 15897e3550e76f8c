"""Preemption that frees devices: less important users of the devices are evicted."""

import pytest

from holdfast.api.scheme import PODS, RESOURCE_CLAIMS
from holdfast.cli.explanation_text import format_explanation
from holdfast.scheduling.engine.explanation import explain
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing import (
    a_claim,
    a_device_class,
    a_node,
    a_pod,
    a_priority_class,
    a_slice,
    typed,
)
from holdfast.testing.harness import Harness

GPU = "example.com/gpu"


def user(name, claim, priority="", **options):
    options = {"cpu": "100m"} | options
    claims = [{"name": "dev", "resourceClaimName": claim}]
    return a_pod(name, resource_claims=claims, priority_class_name=priority, **options)


def asking(name, priority="", count="1"):
    asked = {GPU: count}
    return a_pod(name, cpu="100m", requests=asked, limits=asked, priority_class_name=priority)


@pytest.fixture
async def gpus(cluster):
    """Two nodes with two devices each, and three priorities."""
    await cluster.create(
        a_priority_class("low", 10),
        a_priority_class("middle", 100),
        a_priority_class("high", 1000),
        a_device_class("gpu", extended_resource_name=GPU),
    )
    for node in ("n1", "n2"):
        await cluster.create(a_node(node), a_slice(f"{node}-gpus", node=node, devices=2))
    return cluster


async def names(cluster):
    return {pod.name for pod in (await cluster.client.list(PODS)).items}


async def test_the_least_important_user_is_evicted_and_the_pod_gets_its_device(gpus):
    for name, priority in (("a", "middle"), ("b", "middle"), ("c", "low"), ("d", "middle")):
        await gpus.create(asking(name, priority))
    node = await gpus.node_of("c")
    await gpus.create(asking("urgent", "high"))
    await gpus.advance(60)
    assert await gpus.node_of("urgent") == node
    assert await names(gpus) == {"a", "b", "d", "urgent"}
    reasons = [reason for reason, _ in await gpus.events("c")]
    assert "Preempted" in reasons
    assert gpus.metric("preemption_attempts_total") >= 1
    assert len((await gpus.client.list(RESOURCE_CLAIMS)).items) == 4


async def test_the_devices_of_claims_are_freed_and_the_claims_stay(gpus):
    for name in "abcd":
        await gpus.create(a_claim(name), user(name, name, "low"))
    await gpus.create(a_claim("u"), user("urgent", "u", "high"))
    await gpus.advance(60)
    assert await gpus.node_of("urgent")
    assert len(await names(gpus)) == 4
    claims = (await gpus.client.list(RESOURCE_CLAIMS)).items
    assert len(claims) == 5
    assert sum(claim.status.allocation is not None for claim in claims) == 4


async def test_users_of_the_same_or_higher_priority_are_never_evicted(gpus):
    for name in "abcd":
        await gpus.create(asking(name, "high"))
    await gpus.create(asking("urgent", "high"))
    await gpus.advance(60)
    assert not await gpus.node_of("urgent")
    assert await names(gpus) == {*"abcd", "urgent"}


async def test_a_claim_shared_with_a_more_important_pod_is_not_freed(cluster):
    await cluster.create(
        a_priority_class("low", 10), a_priority_class("high", 1000),
        a_device_class("gpu"), a_node("n1"), a_slice("n1-gpus", node="n1", devices=1),
        a_claim("shared"), user("x", "shared", "low"), user("y", "shared", "high"),
    )  # fmt: skip
    await cluster.create(a_claim("u"), user("urgent", "u", "high"))
    await cluster.advance(60)
    assert not await cluster.node_of("urgent")
    assert await names(cluster) == {"x", "y", "urgent"}


async def test_all_users_of_a_shared_claim_are_evicted_together(cluster):
    await cluster.create(
        a_priority_class("low", 10), a_priority_class("high", 1000),
        a_device_class("gpu"), a_node("n1"), a_slice("n1-gpus", node="n1", devices=1),
        a_claim("shared"), user("x", "shared", "low"), user("y", "shared", "low"),
        a_claim("u"), user("urgent", "u", "high"),
    )  # fmt: skip
    await cluster.advance(60)
    assert await cluster.node_of("urgent") == "n1"
    assert await names(cluster) == {"urgent"}


async def test_cpu_and_devices_are_freed_together(cluster):
    await cluster.create(
        a_priority_class("low", 10), a_priority_class("high", 1000),
        a_device_class("gpu"), a_node("n1", cpu="2"), a_slice("n1-gpus", node="n1", devices=1),
        a_claim("a"), user("holder", "a", "low"),
        a_pod("busy", cpu="1500m", priority_class_name="low"),
        a_pod("small", cpu="100m", priority_class_name="low"),
    )  # fmt: skip
    await cluster.create(a_claim("u"), user("urgent", "u", "high", cpu="1500m"))
    await cluster.advance(60)
    assert await cluster.node_of("urgent") == "n1"
    assert await names(cluster) == {"small", "urgent"}


async def test_a_disruption_budget_decides_between_equal_victims(gpus):
    for name in "abcd":
        pod = asking(name, "low")
        pod["metadata"]["labels"] = {"app": name}
        await gpus.create(pod)
    kept = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b", "c"]}]}
    await gpus.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "keep", "namespace": "default"},
            "spec": {"selector": kept, "maxUnavailable": 0},
        }
    )
    await gpus.create(asking("urgent", "high"))
    await gpus.advance(60)
    assert await names(gpus) == {"a", "b", "c", "urgent"}


async def test_why_shows_the_victims_and_the_nominated_node(gpus):
    for name in "abcd":
        await gpus.create(asking(name, "middle" if name != "b" else "low"))
    pod = typed(asking("urgent") | {"spec": asking("urgent")["spec"] | {"priority": 1000}})
    profile = gpus.components.scheduler.profiles["default-scheduler"]
    explained = explain(profile, pod, gpus.world, gpus.clock.now(), preempt=True)
    assert explained["preemption"]["victims"] == ["default/b"]
    node = await gpus.node_of("b")
    assert explained["preemption"]["nominatedNode"] == node
    text = format_explanation(explained)
    assert f"preemption would make {node} feasible by evicting default/b" in text


async def test_without_the_argument_no_pod_is_evicted(tmp_path):
    profiles = default_profiles({"DynamicResources": {"preemptDevices": False}})
    async with Harness(tmp_path, profiles=profiles) as cluster:
        await cluster.create(
            a_priority_class("low", 10), a_priority_class("high", 1000), a_node("n1"),
            a_device_class("gpu"), a_slice("n1-gpus", node="n1", devices=1),
            a_claim("a"), user("holder", "a", "low"), a_claim("u"), user("urgent", "u", "high"),
        )  # fmt: skip
        await cluster.advance(60)
        assert not await cluster.node_of("urgent")
        assert await names(cluster) == {"holder", "urgent"}

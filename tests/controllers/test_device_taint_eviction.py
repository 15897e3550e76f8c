"""Pods leave tainted devices: at once, after their toleration, or not at all."""

from __future__ import annotations

import pytest

from holdfast.api.scheme import DEVICE_TAINT_RULES, EVENTS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from holdfast.api.timestamps import rfc3339
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.testing import (
    a_claim,
    a_device,
    a_device_class,
    a_node,
    a_pod,
    a_slice,
    a_taint_rule,
)
from holdfast.testing.harness import Harness

GPU = "gpu.example.com"
FOREVER = {"key": "example.com/broken", "operator": "Exists", "effect": "NoExecute"}
EVERY_EFFECT = {"operator": "Exists"}


def for_seconds(seconds):
    return FOREVER | {"tolerationSeconds": seconds}


def a_user(name):
    return a_pod(name, cpu="10m", claims=[{"name": "gpu", "resourceClaimName": name}])


def tolerant(name, *tolerations):
    """Return a claim with tolerations, and its pod of the same name."""
    exactly = {"deviceClassName": "gpu", "tolerations": list(tolerations)}
    return a_claim(name, requests=[{"name": "r", "exactly": exactly}]), a_user(name)


@pytest.fixture
async def cluster(tmp_path):
    """A node with four devices, and the gate of rules on."""
    gates = FeatureGates.parse("DRADeviceTaintRules=true")
    async with Harness(tmp_path / "store", feature_gates=gates) as harness:
        await harness.create(
            a_node("n"),
            a_slice("s", devices=4),
            a_device_class("gpu", extended_resource_name="example.com/gpu"),
        )
        yield harness


async def taint(cluster, *numbers, effect="NoExecute", ago=0.0, settle=True):
    """Publish the slice with a taint on these devices, added some seconds ago, and no others."""
    taints = [
        {
            "key": "example.com/broken",
            "effect": effect,
            "timeAdded": rfc3339(cluster.clock.now() - ago),
        }
    ]
    devices = [
        a_device(f"gpu-{n}", **({"taints": taints} if n in numbers else {})) for n in range(4)
    ]
    await cluster.client.patch(RESOURCE_SLICES, "s", {"spec": {"devices": devices}})
    if settle:
        await cluster.settle()


async def pods(cluster):
    """Return the names of the pods that are not terminating."""
    found = (await cluster.client.list(PODS)).items
    return {pod.name for pod in found if not pod.terminating}


async def messages(cluster, name):
    events = (await cluster.client.list(EVENTS, "default")).items
    return [
        e.message
        for e in events
        if e.involved_object.name == name and e.reason == "DeviceTaintManagerEviction"
    ]


async def condition(cluster, rule="r"):
    stored = await cluster.client.get(DEVICE_TAINT_RULES, rule)
    (found,) = stored.status.conditions
    assert found.type == "EvictionInProgress"
    return found.status, found.reason, found.message


def metric(cluster, name):
    page = cluster.components.scheduler.metrics_page().decode()
    start = f"device_taint_eviction_controller_{name} "
    return next(float(x[len(start) :]) for x in page.splitlines() if x.startswith(start))


async def test_pods_leave_a_device_with_a_taint_that_they_do_not_tolerate(cluster):
    users = [*tolerant("a"), *tolerant("b", FOREVER), *tolerant("c", EVERY_EFFECT), *tolerant("d")]
    await cluster.create(*users)
    watched = []
    informer = cluster.components.controllers.informers.get(PODS)
    informer.add_handler(lambda kind, old, new: watched.append(new or old))
    await taint(cluster, 0, 1, 2)
    assert await pods(cluster) == {"b", "c", "d"}
    evicted = [pod for pod in watched if pod.name == "a"][-1]
    found = {c.type: c for c in evicted.status.conditions}["DisruptionTarget"]
    assert (found.status, found.reason, found.message) == (
        "True",
        "DeletionByDeviceTaintManager",
        "Device Taint manager: deleting due to NoExecute taint",
    )
    assert await messages(cluster, "a") == ["Marking for deletion"]
    assert metric(cluster, "pod_deletions_total") == 1
    assert metric(cluster, "pod_deletion_duration_seconds_count") == 1


async def test_the_smallest_toleration_counts_from_the_time_of_the_taint(cluster):
    await cluster.create(
        *tolerant("a", for_seconds(60), for_seconds(40)),
        *tolerant("b", for_seconds(-5)),
        *tolerant("c", for_seconds(60), FOREVER),
        *tolerant("d", for_seconds(60)),
    )
    await taint(cluster, 0, 1, 2, 3, ago=10)
    assert await pods(cluster) == {"a", "c", "d"}
    await cluster.advance(29)
    assert await pods(cluster) == {"a", "c", "d"}
    await cluster.restart_components()
    await cluster.advance(2)
    assert await pods(cluster) == {"c", "d"}
    await cluster.advance(20)
    assert await pods(cluster) == {"c"}


async def test_an_eviction_is_cancelled_when_the_taint_is_removed(cluster):
    await cluster.create(*tolerant("a", for_seconds(30)), *tolerant("b"))
    await taint(cluster, 0)
    await cluster.advance(20)
    await taint(cluster)
    assert await messages(cluster, "a") == ["Cancelling deletion"]
    await taint(cluster, 0, 1, effect="NoSchedule")
    await cluster.advance(60)
    assert await pods(cluster) == {"a", "b"}


async def test_the_claim_for_extended_resources_counts(cluster):
    asked = {"example.com/gpu": "1"}
    await cluster.create(a_pod("p", requests=asked, limits=asked))
    await taint(cluster, 1)
    assert await pods(cluster) == {"p"}
    await taint(cluster, 0)
    assert await pods(cluster) == set()


async def test_pods_that_are_not_assigned_have_ended_or_lost_their_claim_stay(cluster):
    waiting = a_user("waiting")
    waiting["spec"]["schedulingGates"] = [{"name": "example.com/later"}]
    await cluster.create(*tolerant("ended"), a_claim("waiting"), waiting)
    await cluster.client.patch(
        PODS, "ended", {"status": {"phase": "Succeeded"}}, "default", subresource="status"
    )
    await taint(cluster, 0, 1, 2, 3)
    assert await pods(cluster) == {"ended", "waiting"}


async def test_a_claim_that_is_allocated_after_its_pod_was_assigned_counts(cluster):
    await taint(cluster, 0)
    assigned = a_user("p")
    assigned["spec"]["nodeName"] = "n"
    await cluster.create(a_claim("p"), assigned)
    assert await pods(cluster) == {"p"}
    result = {"request": "req-0", "driver": GPU, "pool": "n", "device": "gpu-0"}
    allocation = {"devices": {"results": [result]}}
    await cluster.client.patch(
        RESOURCE_CLAIMS,
        "p",
        {"status": {"allocation": allocation}},
        "default",
        subresource="status",
    )
    await cluster.settle()
    assert await pods(cluster) == set()


async def test_without_its_gate_nothing_is_evicted(tmp_path):
    gates = FeatureGates.parse("DRADeviceTaints=false")
    async with Harness(tmp_path / "store", feature_gates=gates) as harness:
        assert "device-taint-eviction-controller" not in harness.components.controllers.running


async def test_only_the_newest_generation_of_a_pool_counts(cluster):
    await cluster.create(*tolerant("a"))
    old = a_device("gpu-0", taints=[{"key": "k", "effect": "NoExecute"}])
    await cluster.create(a_slice("older", node="n", pool="n", generation=0, devices=[old]))
    assert await pods(cluster) == {"a"}
    await cluster.client.delete(RESOURCE_SLICES, "s")
    await cluster.settle()
    assert await pods(cluster) == set()


async def test_a_rule_evicts_and_reports_its_progress(cluster):
    await cluster.create(*tolerant("a"), *tolerant("b", for_seconds(25)), *tolerant("c", FOREVER))
    await cluster.create(a_taint_rule("other", driver="x.example.com", effect="NoExecute"))
    assert await condition(cluster, "other") == ("False", "NotStarted", "")
    await cluster.create(a_taint_rule("r", driver=GPU, effect="NoExecute"))
    assert await condition(cluster) == (
        "True",
        "PodsPendingEviction",
        "2 pods need to be evicted in 1 namespace.",
    )
    assert await pods(cluster) == {"b", "c"}
    await cluster.advance(11)
    assert await condition(cluster) == (
        "True",
        "PodsPendingEviction",
        "1 pod needs to be evicted in 1 namespace. 1 pod evicted since starting the controller.",
    )
    await cluster.advance(30)
    assert await pods(cluster) == {"c"}
    assert await condition(cluster) == (
        "False",
        "Completed",
        "2 pods evicted since starting the controller.",
    )


async def test_a_deleted_rule_cancels_and_the_last_change_counts(cluster):
    await cluster.create(*tolerant("a", for_seconds(30)), *tolerant("b", for_seconds(30)))
    rules = [a_taint_rule(f"r{n}", device=f"gpu-{n}", effect="NoExecute") for n in (0, 1)]
    await cluster.create(*rules)
    await cluster.delete(DEVICE_TAINT_RULES, "r0")
    effect = {"spec": {"taint": {"effect": "NoSchedule"}}}
    await cluster.client.patch(DEVICE_TAINT_RULES, "r1", effect)
    await cluster.settle()
    assert await messages(cluster, "a") == await messages(cluster, "b") == ["Cancelling deletion"]
    await cluster.advance(60)
    assert await pods(cluster) == {"a", "b"}
    assert await condition(cluster, "r1") == (
        "False",
        "OtherEffect",
        "Eviction only happens for the NoExecute effect.",
    )


async def test_the_effect_none_is_a_dry_run(cluster):
    await cluster.create(*tolerant("a"), *tolerant("b", FOREVER))
    await cluster.create(a_taint_rule("r", pool="n", effect="None"))
    await cluster.advance(20)
    assert await condition(cluster) == (
        "False",
        "NoEffect",
        "4 published devices selected. 2 allocated devices selected. 1 pod would be evicted in "
        "1 namespace if the effect was NoExecute. This information will not be updated again. "
        "Recreate the DeviceTaintRule to trigger an update.",
    )
    assert await pods(cluster) == {"a", "b"}

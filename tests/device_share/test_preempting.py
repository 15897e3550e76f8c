"""Pods of lower priority give back their devices."""

import pytest

from device_share.objects import (
    a_device_object,
    a_gpu_node,
    a_gpu_pod,
    a_gpu_reservation,
    an_owner,
    devices_of,
    from_reservation,
    reserved,
)
from holdfast.api.koordinator_names import GPU
from holdfast.api.scheme import PODS
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing import a_priority_class
from holdfast.testing.harness import Harness


@pytest.fixture
async def node(cluster):
    """A node with two GPUs, and two priority classes."""
    await cluster.create(
        a_priority_class("low", 10),
        a_priority_class("high", 1000),
        a_gpu_node(allocatable={GPU: "200"}),
        a_device_object(),
    )
    return cluster


def low(name, percent, **more):
    return a_gpu_pod(name, percent, priority_class_name="low", **more)


def high(name, percent, **more):
    return a_gpu_pod(name, percent, priority_class_name="high", **more)


async def names(cluster):
    return {pod.name for pod in (await cluster.client.list(PODS, "default")).items}


async def test_only_pods_whose_devices_help_are_evicted(node):
    await node.create(low("a", 60), low("b", 70), low("c", 20))
    assert await devices_of(node, "a") == [("gpu", 0, 60)]
    assert await devices_of(node, "b") == [("gpu", 1, 70)]
    assert await devices_of(node, "c") == [("gpu", 0, 20)]
    await node.create(high("p", 80))
    await node.advance(60)
    assert await devices_of(node, "p") == [("gpu", 1, 80)]
    assert await names(node) == {"a", "c", "p"}


async def test_a_pod_that_no_eviction_helps_evicts_none(node):
    await node.create(high("a", 60), high("b", 60), low("c", 30))
    await node.create(high("p", 80))
    await node.advance(60)
    assert await node.node_of("p") == ""
    assert await names(node) == {"a", "b", "c", "p"}


async def test_whole_gpus_come_back(node):
    await node.create(low("a", 200))
    await node.create(high("p", 200))
    await node.advance(60)
    assert await devices_of(node, "p") == [("gpu", 0, 100), ("gpu", 1, 100)]


async def test_a_nominated_pod_keeps_the_devices_that_its_victims_leave(node):
    await node.create(low("a", 200, termination_grace_period_seconds=30))
    await node.create(high("p", 100), high("q", 100), low("late", 50))
    await node.advance(120)
    got = sorted([*await devices_of(node, "p"), *await devices_of(node, "q")])
    assert got == [("gpu", 0, 100), ("gpu", 1, 100)]
    assert await node.node_of("late") == ""


async def test_an_owner_that_is_evicted_gives_back_to_its_reservation(node):
    await node.create(
        a_gpu_reservation("r", 100, allocate_once=False, allocate_policy="Restricted")
    )
    await node.create(an_owner("a", 60, priority_class_name="low"))
    assert await from_reservation(node, "a") == "r"
    await node.create(
        an_owner("p", 100, reservation_affinity=True, priority_class_name="high"),
        high("other", 100),
    )
    await node.advance(60)
    assert await devices_of(node, "p") == [("gpu", 0, 100)]
    assert await from_reservation(node, "p") == "r"
    assert await devices_of(node, "other") == [("gpu", 1, 100)]


async def test_evicting_an_owner_does_not_help_other_pods(node):
    await node.create(a_gpu_reservation("r", 100, allocate_once=False))
    await node.create(an_owner("a", 60, priority_class_name="low"), high("b", 100))
    await node.create(high("p", 100))
    await node.advance(60)
    assert await node.node_of("p") == ""
    assert "a" in await names(node)


async def test_a_reservation_evicts_for_its_devices(tmp_path):
    profiles = default_profiles({"Reservation": {"enablePreemption": True}})
    async with Harness(tmp_path, profiles=profiles) as cluster:
        await cluster.create(a_priority_class("low", 10), a_gpu_node())
        await cluster.create(a_device_object(), low("a", 60), low("b", 100))
        labels = {"koordinator.sh/priority": "1000"}
        await cluster.create(a_gpu_reservation("r", 100, labels=labels))
        await cluster.advance(60)
        assert await reserved(cluster, "r") == [("gpu", 1, 100)]
        assert await names(cluster) == {"a"}

"""Quotas in a running cluster: devices, Deployments, a restart."""

import pytest

from holdfast.api.scheme import PODS, REPLICASETS, RESOURCE_QUOTAS
from holdfast.runtime.errors import Forbidden
from holdfast.testing import a_deployment, a_device_class, a_node, a_pod, a_slice
from holdfast.testing.builders import an_object

EXPLICIT = "requests.example.com/gpu"
DEVICES = "gpu.deviceclass.resource.k8s.io/devices"


def a_quota(hard, name="q"):
    return an_object(RESOURCE_QUOTAS, name, {"hard": hard}, namespace="default")


def user(name, count=1):
    asked = {"example.com/gpu": str(count)}
    return a_pod(name, cpu=None, requests=asked, limits=asked)


async def used(cluster):
    return (await cluster.client.get(RESOURCE_QUOTAS, "q", "default")).status.used


async def test_D076_devices_of_an_extended_resource_are_charged_once(cluster):
    """The pod pays on the extended resource, its special claim on the class."""
    await cluster.create(
        a_node("n"),
        a_device_class("gpu", extended_resource_name="example.com/gpu"),
        a_slice("n-gpu", node="n", devices=3),
        a_quota({EXPLICIT: "2", DEVICES: "2"}),
    )
    await cluster.create(user("first", 2))
    assert await cluster.node_of("first") == "n"
    assert await used(cluster) == {EXPLICIT: "2", DEVICES: "2"}
    with pytest.raises(Forbidden, match=f"exceeded quota: q, requested: {EXPLICIT}=1"):
        await cluster.create(user("second"))
    await cluster.delete(PODS, "first", "default")
    await cluster.advance(60)
    assert await used(cluster) == {EXPLICIT: "0", DEVICES: "0"}
    await cluster.create(user("second"))
    assert await cluster.node_of("second") == "n"
    assert await used(cluster) == {EXPLICIT: "1", DEVICES: "1"}


async def test_a_pod_served_by_a_device_plugin_is_not_charged_on_the_class(cluster):
    await cluster.create(
        a_node("n", allocatable={"example.com/gpu": "4"}),
        a_device_class("gpu", extended_resource_name="example.com/gpu"),
        a_quota({EXPLICIT: "2", DEVICES: "2"}),
    )
    await cluster.create(user("p"))
    assert await cluster.node_of("p") == "n"
    assert await used(cluster) == {EXPLICIT: "1", DEVICES: "0"}


async def test_a_deployment_gets_as_many_pods_as_the_quota_allows(cluster):
    await cluster.create(a_node("n"), a_quota({"pods": "2", "requests.cpu": "8"}))
    await cluster.create(a_deployment("web", replicas=3))
    assert len((await cluster.client.list(PODS)).items) == 2
    (replicaset,) = (await cluster.client.list(REPLICASETS)).items
    events = await cluster.events(replicaset.name)
    assert any(
        reason == "FailedCreate" and "exceeded quota: q, requested: pods=1" in message
        for reason, message in events
    )
    more = {"spec": {"hard": {"pods": "3"}}}
    await cluster.client.patch(RESOURCE_QUOTAS, "q", more, "default")
    await cluster.advance(600)
    assert len((await cluster.client.list(PODS)).items) == 3
    assert await used(cluster) == {"pods": "3", "requests.cpu": "3"}


async def test_a_quota_survives_a_restart(cluster):
    await cluster.create(a_quota({"pods": "1"}), a_pod("a"))
    await cluster.restart()
    with pytest.raises(Forbidden, match="exceeded quota: q"):
        await cluster.create(a_pod("b"))
    await cluster.delete(PODS, "a", "default")
    await cluster.create(a_pod("b"))
    assert await used(cluster) == {"pods": "1"}

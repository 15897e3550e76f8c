"""The ResourceQuota controller: plans as values, then against an API server."""

from contextlib import asynccontextmanager

import pytest

from apiserver.every_kind import WIDGETS
from controllers.small_cluster import start_small_cluster
from holdfast.api.devices import EXTENDED_CLAIM
from holdfast.api.scheme import (
    DEVICE_CLASSES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    SERVICES,
)
from holdfast.controllers.controller_manager import BESIDE_KUBERNETES, CONTROLLERS
from holdfast.controllers.resource_quota import (
    RESYNC_SECONDS,
    ListedObjects,
    ResourceQuotaController,
    count_in_steps,
    plan_quota,
)
from holdfast.runtime.errors import Forbidden
from holdfast.server.descriptor import untyped_resource
from holdfast.testing import Fault, FaultyTransport
from holdfast.testing.builders import a_pod, typed
from quota.quota_cases import CONFIG_MAP, GPU, IMPLICIT, claim, container, exactly, pod, quota
from quota.quota_cases import service as a_service

CONFIG_MAPS = untyped_resource("", "configmaps", "ConfigMap")
CRDS = untyped_resource(
    "apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition",
)  # fmt: skip
EXPLICIT = "requests.example.com/gpu"


@pytest.fixture
async def cluster(tmp_path):
    async with start_small_cluster(tmp_path / "store") as running:
        yield running


async def set_quota(cluster, hard, **spec):
    await cluster.client.create(RESOURCE_QUOTAS, quota(hard, **spec), "default")
    await cluster.clock.settle()


async def used(cluster):
    return (await cluster.get(RESOURCE_QUOTAS, "q", "default")).status.used


def a_quota(hard, used, status_hard=None, **spec):
    raw = quota(hard, **spec)
    raw["status"] = {"hard": hard if status_hard is None else status_hard, "used": used}
    return typed(raw, namespace="default", resourceVersion="7")


def planned(quota, listed):
    """Count listed objects and plan the status."""
    used = {}
    for _ in count_in_steps(quota, listed, used):
        pass
    return plan_quota(quota, used, listed)


def test_a_plan_counts_what_is_listed_and_has_the_version_that_was_read():
    pods = [typed(a_pod(f"p{i}", cpu="500m")) for i in range(3)]
    plan = planned(
        a_quota({"pods": "5", "requests.cpu": "4"}, {"pods": "9"}),
        ListedObjects(0.0, {("", "pods"): pods}),
    )
    (write,) = plan.writes
    assert write.patch == {
        "metadata": {"resourceVersion": "7"},
        "status": {
            "hard": {"pods": "5", "requests.cpu": "4"},
            "used": {"pods": "3", "requests.cpu": "1500m"},
        },
    }
    assert plan.requeue_after == RESYNC_SECONDS


def test_an_unchanged_status_is_not_written():
    listed = ListedObjects(0.0, {("", "pods"): [typed(a_pod("p"))]})
    assert planned(a_quota({"pods": "5"}, {"pods": "1"}), listed).writes == ()


def test_keys_that_left_the_spec_leave_the_status():
    old = {"pods": "5", "services": "2"}
    plan = planned(a_quota({"pods": "5"}, {"pods": "0", "services": "1"}, old), ListedObjects(0))
    assert plan.writes[0].patch["status"] == {
        "hard": {"pods": "5", "services": None},
        "used": {"pods": "0", "services": None},
    }


def test_a_key_that_nothing_is_charged_on_has_no_usage():
    plan = planned(a_quota({"example.com/other": "5"}, {}, {}), ListedObjects(0))
    assert plan.writes[0].patch["status"]["used"] == {}


def test_a_pod_that_should_be_gone_is_released_when_its_grace_period_is_over():
    leaving = typed(
        a_pod("p"), deletionTimestamp="1970-01-01T00:01:00Z", deletionGracePeriodSeconds=30
    )
    quota = a_quota({"pods": "5", "count/pods": "5"}, {})
    before = planned(quota, ListedObjects(80.0, {("", "pods"): [leaving]}))
    assert before.requeue_after == 11.0
    assert before.writes[0].patch["status"]["used"] == {"count/pods": "1", "pods": "1"}
    after = planned(quota, ListedObjects(90.5, {("", "pods"): [leaving]}))
    assert after.writes[0].patch["status"]["used"] == {"count/pods": "1", "pods": "0"}


def test_the_controller_runs_in_the_embedded_cluster_only():
    assert ResourceQuotaController in CONTROLLERS
    assert ResourceQuotaController not in BESIDE_KUBERNETES


def test_many_objects_are_counted_in_steps():
    pods = [typed(a_pod(f"p{i}")) for i in range(120)]
    quota, used = a_quota({"pods": "500"}, {}), {}
    steps = sum(1 for _ in count_in_steps(quota, ListedObjects(0.0, {("", "pods"): pods}), used))
    assert (steps, str(used["pods"])) == (3, "120")


def test_a_malformed_object_is_only_an_object():
    broken = typed(a_pod("p", cpu="1 core"))
    listed = ListedObjects(0.0, {("", "pods"): [broken, typed(a_pod("q", cpu="1"))]})
    plan = planned(a_quota({"pods": "5", "count/pods": "5", "requests.cpu": "5"}, {}), listed)
    counted = {"count/pods": "2", "pods": "1", "requests.cpu": "1"}
    assert plan.writes[0].patch["status"]["used"] == counted


async def test_a_deleted_pod_is_released(cluster):
    await set_quota(cluster, {"pods": "1", "requests.cpu": "1"})
    await cluster.create(a_pod("p", cpu="500m"))
    assert await used(cluster) == {"pods": "1", "requests.cpu": "500m"}
    await cluster.client.delete(PODS, "p", "default")
    await cluster.clock.settle()
    assert await used(cluster) == {"pods": "0", "requests.cpu": "0"}


async def test_a_finished_pod_is_only_an_object(cluster):
    await set_quota(cluster, {"pods": "1", "count/pods": "2"})
    await cluster.create(a_pod("p"))
    await cluster.client.patch(
        PODS, "p", {"status": {"phase": "Succeeded"}}, "default", subresource="status"
    )
    await cluster.clock.settle()
    assert await used(cluster) == {"count/pods": "1", "pods": "0"}


async def test_objects_that_are_older_than_the_quota_are_counted(cluster):
    await cluster.create(a_pod("a"), a_pod("b"))
    await set_quota(cluster, {"pods": "1"})
    assert await used(cluster) == {"pods": "2"}
    with pytest.raises(Forbidden, match="exceeded quota: q, requested: pods=1, used: pods=2"):
        await cluster.create(a_pod("c"))


async def test_a_changed_limit_takes_effect(cluster):
    await set_quota(cluster, {"pods": "0"})
    change = {"spec": {"hard": {"pods": "1", "services": "1"}}}
    await cluster.client.patch(RESOURCE_QUOTAS, "q", change, "default")
    await cluster.clock.settle()
    await cluster.create(a_pod("p"))
    assert await used(cluster) == {"pods": "1", "services": "0"}


async def test_a_deleted_object_of_any_kind_is_released(cluster):
    await set_quota(cluster, {"configmaps": "1", "count/configmaps": "1", "services": "1"})
    await cluster.client.create(CONFIG_MAPS, CONFIG_MAP, "default")
    await cluster.client.create(SERVICES, a_service("ClusterIP"), "default")
    await cluster.clock.settle()
    assert await used(cluster) == {"configmaps": "1", "count/configmaps": "1", "services": "1"}
    await cluster.client.delete(CONFIG_MAPS, "m", "default")
    await cluster.client.delete(SERVICES, "s", "default")
    await cluster.clock.settle()
    assert await used(cluster) == {"configmaps": "0", "count/configmaps": "0", "services": "0"}


async def test_custom_resources_are_counted_when_they_are_served(cluster):
    await set_quota(cluster, {"count/widgets.example.com": "1"})
    assert await used(cluster) == {"count/widgets.example.com": "0"}
    await cluster.client.create(CRDS, WIDGETS)
    await cluster.clock.advance(31)
    await cluster.clock.settle()
    names = WIDGETS["spec"]["names"]
    widgets = untyped_resource("example.com", names["plural"], names["kind"])
    version = WIDGETS["spec"]["versions"][0]["name"]
    body = {"apiVersion": f"example.com/{version}", "kind": names["kind"]}
    await cluster.client.create(widgets, {**body, "metadata": {"name": "a"}}, "default")
    with pytest.raises(Forbidden, match="requested: count/widgets"):
        await cluster.client.create(widgets, {**body, "metadata": {"name": "b"}}, "default")
    await cluster.client.delete(widgets, "a", "default")
    await cluster.clock.settle()
    assert await used(cluster) == {"count/widgets.example.com": "0"}


async def test_a_usage_that_was_changed_by_hand_is_counted_again(cluster):
    await set_quota(cluster, {"pods": "3"})
    wrong = {"status": {"used": {"pods": "3"}}}
    await cluster.client.patch(RESOURCE_QUOTAS, "q", wrong, "default", subresource="status")
    await cluster.clock.advance(RESYNC_SECONDS + 1)
    await cluster.clock.settle()
    assert await used(cluster) == {"pods": "0"}


def a_class(name="gpu", extended="example.com/gpu"):
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
        "spec": {"extendedResourceName": extended} if extended else {},
    }  # fmt: skip


def special_claim(owner, *requests, name="p-extended-resources-1"):
    reference = {
        "apiVersion": "v1", "kind": "Pod", "name": owner.name, "uid": owner.uid,
        "controller": True,
    }  # fmt: skip
    meta = {"name": name, "annotations": {EXTENDED_CLAIM: "true"}, "ownerReferences": [reference]}
    return {**claim(*requests), "metadata": meta}


async def test_D076_a_pod_and_its_special_claim_are_charged_once(cluster):
    await cluster.client.create(DEVICE_CLASSES, a_class())
    await set_quota(cluster, {EXPLICIT: "2", GPU: "5", IMPLICIT: "5"})
    asked = {"example.com/gpu": "2"}
    await cluster.client.create(PODS, pod(container(requests=asked, limits=asked)), "default")
    assert await used(cluster) == {EXPLICIT: "2", GPU: "0", IMPLICIT: "0"}
    owner = await cluster.get(PODS, "p", "default")
    await cluster.client.create(RESOURCE_CLAIMS, special_claim(owner, exactly("gpu", 2)), "default")
    once = {EXPLICIT: "2", GPU: "2", IMPLICIT: "2"}
    assert await used(cluster) == once
    await cluster.clock.settle()
    assert await used(cluster) == once, "counted as it was charged"
    with pytest.raises(Forbidden, match=f"exceeded quota: q, requested: {EXPLICIT}=1"):
        await cluster.client.create(RESOURCE_CLAIMS, claim(exactly("gpu")), "default")


async def test_D076_a_second_special_claim_is_charged_fully(cluster):
    await cluster.client.create(DEVICE_CLASSES, a_class())
    await set_quota(cluster, {EXPLICIT: "9"})
    asked = {"example.com/gpu": "2"}
    await cluster.client.create(PODS, pod(container(requests=asked, limits=asked)), "default")
    owner = await cluster.get(PODS, "p", "default")
    for number in "12":
        raw = special_claim(owner, exactly("gpu", 3), name=f"p-extended-resources-{number}")
        await cluster.client.create(RESOURCE_CLAIMS, raw, "default")
    assert await used(cluster) == {EXPLICIT: "6"}, "2 of the pod, 1 more, and 3"
    await cluster.clock.settle()
    assert await used(cluster) == {EXPLICIT: "6"}


async def test_a_class_that_gets_an_extended_name_is_counted_on_it(cluster):
    await cluster.client.create(DEVICE_CLASSES, a_class(extended=""))
    await set_quota(cluster, {EXPLICIT: "9", IMPLICIT: "9"})
    await cluster.client.create(RESOURCE_CLAIMS, claim(exactly("gpu", 2)), "default")
    await cluster.clock.settle()
    assert await used(cluster) == {EXPLICIT: "0", IMPLICIT: "2"}
    change = {"spec": {"extendedResourceName": "example.com/gpu"}}
    await cluster.client.patch(DEVICE_CLASSES, "gpu", change)
    await cluster.clock.settle()
    assert await used(cluster) == {EXPLICIT: "2", IMPLICIT: "2"}


@asynccontextmanager
async def start_slow_cluster(directory):
    """Start a small cluster, and yield it with the transport whose requests can be delayed."""
    slow = []

    def with_delays(transport, clock):
        slow.append(FaultyTransport(transport, clock=clock))
        return slow[0]

    async with start_small_cluster(directory, with_delays) as cluster:
        yield cluster, slow[0]


async def test_what_is_charged_while_a_quota_is_counted_stays_charged(tmp_path):
    """The write of the count meets a conflict and adds the charge instead of losing it."""
    async with start_slow_cluster(tmp_path / "store") as (cluster, slow):
        await set_quota(cluster, {"pods": "5"})
        await cluster.create(a_pod("a"), a_pod("b"))
        slow.add(Fault("delay", method="PATCH", path="/resourcequotas/q/status", seconds=5))
        await cluster.client.delete(PODS, "a", "default")
        await cluster.clock.settle()
        await cluster.create(a_pod("c"))
        assert await used(cluster) == {"pods": "3"}, "not yet released"
        await cluster.clock.advance(6)
        assert await used(cluster) == {"pods": "2"}


async def test_what_was_counted_and_charged_is_counted_once_in_the_end(tmp_path):
    async with start_slow_cluster(tmp_path / "store") as (cluster, slow):
        await set_quota(cluster, {"pods": "5"})
        await cluster.create(a_pod("a"))
        slow.add(Fault("delay", method="GET", path="/namespaces/default/pods", seconds=5))
        await cluster.client.delete(PODS, "a", "default")
        await cluster.clock.settle()
        await cluster.create(a_pod("b"))  # charged, and listed after the delay
        await cluster.clock.advance(6)
        await cluster.clock.advance(30)
        assert await used(cluster) == {"pods": "1"}


async def test_the_work_queue_has_metrics(cluster):
    await set_quota(cluster, {"pods": "1"})
    samples = [s for family in cluster.controllers.metrics.collect() for s in family.samples]
    added = {s.labels["name"]: s.value for s in samples if s.name == "workqueue_adds_total"}
    assert added["resourcequota_primary"] >= 1

"""The HTTP pages of a scheduler process."""

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families

from device_share.objects import (
    a_device_object,
    a_gpu_node,
    a_gpu_pod,
    a_gpu_reservation,
    an_owner,
)
from free_port import free_port
from holdfast.api.koordinator_names import (
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    QOS_CLASS,
    RESOURCE_STATUS,
)
from holdfast.api.scheme import NODES, PODS
from holdfast.cli.health import HealthServer
from holdfast.cli.scheduler_pages import SchedulerState
from holdfast.client.endpoint import Endpoint
from holdfast.client.http import HttpTransport
from holdfast.client.transport import Request
from holdfast.scheduling.configuration.reading import Configuration, effective_configuration
from holdfast.state.recorded_allocations import TOO_MUCH
from holdfast.testing import a_node, a_pod, a_reservation
from holdfast.testing.harness import Harness
from holdfast.testing.numa_builders import a_bound_pod, a_topology


class Pages:
    """The pages of a cluster's scheduler, and a client for them."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.leads, self.lease = True, ""
        scheduler = cluster.components.scheduler
        self.subject = SchedulerState(
            scheduler=scheduler,
            clock=cluster.clock,
            leads=lambda: self.leads,
            metrics=scheduler.metrics_page,
            lease=lambda: self.lease,
            configuration=effective_configuration(Configuration()),
            flags={"health-port": 10259, "seed": None},
        )

    async def __aenter__(self):
        port = free_port()
        self._page = await HealthServer.start(port, self.subject)
        self._transport = HttpTransport(Endpoint(f"http://127.0.0.1:{port}"))
        return self

    async def __aexit__(self, *_):
        await self._transport.close()
        await self._page.close()

    async def get(self, path, **query):
        answer = await self._transport.send(Request("GET", path, query))
        return answer.status, answer.body.decode()


@pytest.fixture
async def cluster(tmp_path):
    async with Harness(tmp_path) as made:
        yield made


@pytest.fixture
async def pages(cluster):
    async with Pages(cluster) as made:
        yield made


async def test_verbose_health_lists_every_check(pages):
    for name in ("healthz", "livez", "readyz"):
        assert await pages.get(f"/{name}") == (200, "ok")
        assert await pages.get(f"/{name}/ping") == (200, "ok")
    assert await pages.get("/readyz", verbose="") == (
        200,
        "[+]ping ok\n[+]leaderElection ok\n[+]scheduling ok\n[+]shutdown ok\n"
        "[+]informer-sync ok\n[+]sched-handler-sync ok\nreadyz check passed\n",
    )


async def test_health_fails_after_an_informer_died(pages, cluster, monkeypatch):
    nodes = cluster.components.scheduler.informers.informer_set.get(NODES)
    monkeypatch.setattr(nodes._objects, "put", lambda *_: 1 / 0)
    await cluster.create(a_node("n"))
    for name in ("healthz", "livez", "readyz"):
        status, text = await pages.get(f"/{name}")
        assert status == 500
        assert (
            "[-]scheduling failed: the task 'scheduler: informers' has stopped: ZeroDivisionError"
            in text
        )
        assert f"{name} check failed" in text
    status, text = await pages.get("/healthz/scheduling")
    assert (status, text[:22]) == (500, "internal server error:")
    assert await pages.get("/healthz", exclude="scheduling") == (200, "ok")
    pages.leads = False
    assert await pages.get("/healthz") == (200, "ok"), "a replica that is not the leader is healthy"


async def test_readiness_waits_for_informers_and_handlers(pages, cluster):
    cluster.components.scheduler.synced.clear()
    assert (await pages.get("/healthz"))[0] == 200
    status, text = await pages.get("/readyz")
    assert status == 500
    assert "[-]informer-sync failed: informers are not synced yet" in text
    assert "[-]sched-handler-sync failed: handlers are not fully synchronized" in text
    pages.leads = False
    assert await pages.get("/readyz") == (200, "ok"), "a replica that waits for the lease is ready"


async def test_readiness_fails_at_shutdown_and_health_without_the_lease(pages):
    pages.subject.stopping = lambda: True
    assert (await pages.get("/healthz"))[0] == 200
    status, text = await pages.get("/readyz")
    assert (status, "[-]shutdown failed: process is shutting down" in text) == (500, True)
    pages.subject.stopping, pages.lease = lambda: False, "could not be renewed"
    status, text = await pages.get("/livez")
    assert (status, "[-]leaderElection failed: could not be renewed" in text) == (500, True)


async def test_configz_shows_the_effective_configuration(pages):
    status, text = await pages.get("/configz")
    shown = json.loads(text)["kubescheduler.config.k8s.io"]
    assert status == 200
    assert (shown["podInitialBackoffSeconds"], shown["podMaxBackoffSeconds"]) == (1, 10)
    assert shown["leaderElection"]["leaseDuration"] == "15s"
    assert [p["schedulerName"] for p in shown["profiles"]] == [
        "default-scheduler", "koord-scheduler",
    ]  # fmt: skip
    enabled = shown["profiles"][0]["plugins"]["multiPoint"]["enabled"]
    assert {"name": "NodeAffinity", "weight": 2} in enabled


async def test_flags_and_status_are_shown(pages, cluster):
    assert (await pages.get("/flagz"))[1] == (
        "holdfast scheduler flagz\n\nhealth-port=10259\nseed=None\n"
    )
    await cluster.advance(3723)
    text = (await pages.get("/statusz"))[1]
    assert "Started: 2023-11-14T22:13:20Z\nUp: 1 hr 02 min 03 sec\n" in text
    assert "Emulation version: v1.36\n" in text


async def test_only_the_leader_exports_resource_metrics_of_pods(pages, cluster):
    big = a_pod("big", cpu="99", memory="1Gi", limits={"memory": "2Gi"}, overhead={"cpu": "1"})
    await cluster.create(a_node("n"), a_pod("p", cpu="1500m", requests={"example.com/x": 2}), big)
    status, text = await pages.get("/metrics/resources")
    assert status == 200
    metrics = {
        (family.name, s.labels["pod"], s.labels["resource"]): (s.value, s.labels)
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }
    value, labels = metrics["kube_pod_resource_request", "big", "memory"]
    assert (value, labels["unit"], labels["node"]) == (2.0**30, "bytes", "")
    assert metrics["kube_pod_resource_limit", "big", "memory"][0] == 2.0**31
    assert ("kube_pod_resource_limit", "big", "cpu") not in metrics  # overhead is no limit
    assert metrics["kube_pod_resource_request", "p", "cpu"] == (
        1.5,
        {"namespace": "default", "pod": "p", "node": "", "scheduler": "default-scheduler",
         "priority": "0", "resource": "cpu", "unit": "cores"},
    )  # fmt: skip
    assert metrics["kube_pod_resource_request", "p", "example.com/x"][1]["unit"] == "integer"
    pages.leads = False
    assert "big" not in (await pages.get("/metrics/resources"))[1]


async def test_metrics_count_objects_that_could_not_be_decoded(pages, cluster, monkeypatch):
    def bug(_pod, **_):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(cluster.world.nodes, "pod_info", bug)
    await cluster.create(a_pod("p"), settle=False)
    await cluster.clock.settle()
    cluster.failures.clear()
    metrics = 'holdfast_objects_not_taken_in_total{resource="pods",trouble="failed"} 1.0'
    assert metrics in (await pages.get("/metrics"))[1]


async def test_the_page_of_CPUs_says_who_has_which(pages, cluster):
    lsr, page = {QOS_CLASS: "LSR"}, "/apis/v1/plugins/NodeNUMAResource/nodes/{}".format
    held = a_reservation("r", cpu="4", labels=lsr, owner_labels={"app": "web"}, allocate_once=False)
    for obj in (a_topology("n"), a_node("n", cpu="16"), a_node("bare"), held):
        await cluster.create(obj)
    await cluster.create(a_bound_pod("p", "2", labels={"app": "web"}))
    status, text = await pages.get(page("n"))
    found = json.loads(text)
    assert (status, found["availableCPUs"], list(found["allocatedCPUs"])) == (
        200, "4-15", ["0", "1", "2", "3"],
    )  # fmt: skip
    pod, reservation = await cluster.pod("p"), await cluster.reservation("r")
    assert found["allocatedPods"] == [
        {
            "uid": pod.uid, "namespace": "default", "name": "p", "cpuset": "0-1",
            "reservation": reservation.uid,
        },
        {"uid": reservation.uid, "name": "r", "cpuset": "2-3"},
    ]  # fmt: skip
    assert found["cpuTopology"] == {"numCPUs": 16, "numCores": 8, "numNodes": 2, "numSockets": 2}
    assert found["remainingNUMANodeResources"][0]["resources"] == {"cpu": "8", "memory": "16Gi"}
    assert [(await pages.get(page(name)))[0] for name in ("bare", "absent")] == [500, 404]


async def test_pods_with_annotations_that_cannot_be_true_are_listed(pages, cluster):
    await cluster.create(a_node("n"))
    notes = {RESOURCE_STATUS: '{"cpuset":"0-15"}'}
    await cluster.create(a_pod("p", cpu="1m", node="n", annotations=notes), a_pod("q", node="n"))
    status, text = await pages.get("/ignoredAllocations")
    assert (status, json.loads(text)) == (200, [
        {"namespace": "default", "name": "p", "annotations": {RESOURCE_STATUS: TOO_MUCH}},
    ])  # fmt: skip
    await cluster.delete(PODS, "p", "default")
    assert json.loads((await pages.get("/ignoredAllocations"))[1]) == []


async def test_the_pages_of_devices_say_who_has_how_much(pages, cluster):
    page = "/apis/v1/plugins/DeviceShare/nodeDeviceSummaries"
    await cluster.create(a_gpu_node(), a_node("bare"), a_device_object())
    await cluster.create(a_gpu_reservation("r", 100, allocate_once=False))
    await cluster.create(an_owner("p", 60), a_gpu_pod("q", 30))
    status, text = await pages.get(f"{page}/n")
    found = json.loads(text)
    assert status == 200
    assert json.loads((await pages.get(page))[1]) == {"n": found}
    shares = {
        holder: {minor: amounts[GPU_MEMORY_RATIO] for minor, amounts in by_minor.items()}
        for holder, by_minor in found["allocateSet"]["gpu"].items()
    }
    assert shares == {"default/p": {"0": "60"}, "default/q": {"1": "30"}, "r": {"0": "40"}}
    totals = {name: found[f"device{name}"][GPU_CORE] for name in ("Total", "Free", "Used")}
    assert totals == {"Total": "200", "Free": "70", "Used": "130"}
    assert found["deviceTotalDetail"]["gpu"]["1"][GPU_MEMORY] == "16Gi"
    assert found["deviceFreeDetail"]["gpu"]["1"][GPU_CORE] == "70"
    assert [(await pages.get(f"{page}/{name}"))[0] for name in ("bare", "absent")] == [404, 404]

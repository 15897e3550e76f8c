"""The metrics page: upstream's names, labels and buckets, and correct numbers."""

import asyncio
import math
from itertools import pairwise

import pytest

from holdfast.api.scheme import PODS
from holdfast.runtime.errors import Refused
from holdfast.scheduling.scheduler.metrics import Metrics
from holdfast.testing import Fault, FaultyTransport, a_node, a_pod, a_priority_class
from holdfast.testing.harness import Harness
from scheduler.metrics_page import Page

HISTOGRAMS = {
    "scheduling_attempt_duration_seconds": ({"result", "profile"}, (0.001, 2, 15)),
    "scheduling_algorithm_duration_seconds": (set(), (0.001, 2, 15)),
    "framework_extension_point_duration_seconds": (
        {"extension_point", "status", "profile"}, (0.0001, 2, 12),
    ),
    "plugin_execution_duration_seconds": (
        {"plugin", "extension_point", "status"}, (0.00001, 1.5, 20),
    ),
    "pod_scheduling_attempts": (set(), (1, 2, 5)),
    "pod_scheduling_sli_duration_seconds": ({"attempts"}, (0.01, 2, 20)),
    "queueing_hint_execution_duration_seconds": (
        {"plugin", "event", "hint"}, (0.00001, 1.5, 20),
    ),
    "event_handling_duration_seconds": ({"event"}, (0.0001, 2, 12)),
    "preemption_victims": (set(), (1, 2, 7)),
    "preemption_goroutines_duration_seconds": ({"result"}, (0.01, 2, 20)),
    "permit_wait_duration_seconds": ({"result"}, (0.001, 2, 15)),
}  # fmt: skip
COUNTERS = {
    "schedule_attempts": {"result", "profile"},
    "plugin_evaluation": {"plugin", "extension_point", "profile"},
    "queue_incoming_pods": {"queue", "event"},
    "preemption_attempts": set(),
    "preemption_goroutines_execution": {"result"},
    "pod_scheduled_after_flush": set(),
    "volume_scheduling_stage_error": {"operation"},
}
GAUGES = {
    "pending_pods": {"queue"}, "unschedulable_pods": {"plugin", "profile"},
    "inflight_events": {"event"}, "cache_size": {"type"}, "goroutines": {"operation"},
}  # fmt: skip
SILENT = {"permit_wait_duration_seconds", "volume_scheduling_stage_error"}
"""Metrics that stay zero in the scenario below."""


def read(cluster):
    return Page(cluster.components.scheduler.metrics_page().decode())


@pytest.fixture
async def cluster(tmp_path):
    async with Harness(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page after a dozen pods scheduled, one too large, one gated, one that preempts."""

    async def scheduled():
        async with Harness(tmp_path_factory.mktemp("metrics")) as cluster:
            await cluster.create(a_priority_class("high", 1000), a_node("n", cpu="13"))
            for n in range(12):
                await cluster.create(a_pod(f"p{n}"))
            await cluster.create(a_pod("large", cpu="99"))
            await cluster.create(a_pod("gated", scheduling_gates=[{"name": "g"}]))
            await cluster.create(a_pod("vip", cpu="2", priority_class_name="high"))
            await cluster.advance(40)
            return read(cluster)

    return asyncio.run(scheduled())


def exponential(start, factor, count):
    return [start * factor**n for n in range(count)]


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_histograms_have_upstreams_labels_and_buckets(page, name):
    labels, shape = HISTOGRAMS[name]
    family = page[name]
    assert family.type == "histogram"
    if name in SILENT:
        return
    buckets = [s for s in family.samples if s.name.endswith("_bucket")]
    first = {k: v for k, v in buckets[0].labels.items() if k != "le"}
    assert set(first) == labels
    bounds = [
        float(s.labels["le"]) for s in buckets if first.items() <= s.labels.items()
    ]  # fmt: skip
    assert bounds == pytest.approx([*exponential(*shape), math.inf])
    values = [s.value for s in buckets if first.items() <= s.labels.items()]
    assert all(a <= b for a, b in pairwise(values))


@pytest.mark.parametrize(("name", "labels"), [*COUNTERS.items(), *GAUGES.items()])
def test_counters_and_gauges_have_upstreams_labels(page, name, labels):
    family = page[name]
    assert family.type == ("counter" if name in COUNTERS else "gauge")
    for sample in family.samples:
        assert sample.name == f"scheduler_{name}{'_total' if name in COUNTERS else ''}"
        assert set(sample.labels) == labels
    assert family.samples or name in SILENT


def test_the_numbers_are_correct(page):
    profile = {"profile": "default-scheduler"}
    assert page.value("schedule_attempts_total", result="scheduled", **profile) == 13
    assert page.value("schedule_attempts_total", result="unschedulable", **profile) >= 2
    assert page.value("scheduling_attempt_duration_seconds", "_count", result="scheduled") == 13
    assert page.value("pod_scheduling_attempts", "_count") == 13
    assert page.value("pod_scheduling_attempts", "_bucket", le="1.0") == 12
    assert page.value("pod_scheduling_sli_duration_seconds", "_count", attempts="1") == 12
    assert page.value("pending_pods", queue="gated") == 1
    assert page.value("pending_pods") == 2
    assert page.value("preemption_victims", "_sum") == 1
    assert page.value("unschedulable_pods", plugin="SchedulingGates", **profile) == 1
    assert page.value("cache_size", type="nodes") == 1
    assert page.value("cache_size", type="assumed_pods") == 0
    assert page.value("preemption_attempts_total") >= 1
    assert page.value("preemption_goroutines_execution_total", result="success") == 1
    assert page.value("inflight_events") == 0
    assert page.value("goroutines", operation="binding") == 0
    assert page.value("queueing_hint_execution_duration_seconds", "_count", hint="Queue") >= 1
    assert page.value("event_handling_duration_seconds", "_count", event="AssignedPodAdd") == 13


def test_plugin_calls_are_always_counted_and_sometimes_measured(page):
    def evaluations(point):
        found = {"plugin": "NodeResourcesFit", "extension_point": point}
        return page.value("plugin_evaluation_total", **found), page.value(
            "plugin_execution_duration_seconds", "_count", **found
        )

    evaluated, timed = evaluations("Filter")
    assert evaluated > 12
    assert 1 <= timed < evaluated / 3
    for point, count in (("PreFilter", 1), ("Filter", 1), ("Bind", 13)):
        assert page.value(
            "framework_extension_point_duration_seconds", "_count",
            extension_point=point, status="Success", profile="default-scheduler",
        ) == count, point  # fmt: skip


async def test_a_failed_binding_is_one_error_and_no_success(tmp_path):
    def wrap(transport, clock):
        fault = Fault("conflict", method="POST", path="/binding")
        return FaultyTransport(transport, [fault], clock=clock)

    async with Harness(tmp_path, wrap=wrap) as cluster:
        await cluster.create(a_node("n"), a_pod("p"))
        assert await cluster.node_of("p") == ""
        page = read(cluster)
        assert page.value("schedule_attempts_total", result="error") == 1
        assert page.value("schedule_attempts_total", result="scheduled") == 0
        await cluster.advance(5)
        page = read(cluster)
        assert page.value("schedule_attempts_total", result="scheduled") == 1
        assert page.value("pod_scheduling_attempts", "_sum") == 2


async def test_the_sli_duration_of_a_gated_pod_begins_after_its_gates(cluster):
    await cluster.create(a_node("n"), a_pod("p", scheduling_gates=[{"name": "g"}]))
    await cluster.advance(600)
    await cluster.client.patch(PODS, "p", {"spec": {"schedulingGates": None}}, "default")
    await cluster.settle()
    assert await cluster.node_of("p") == "n"
    page = read(cluster)
    assert page.value("pod_scheduling_sli_duration_seconds", "_count") == 1
    assert page.value("pod_scheduling_sli_duration_seconds", "_sum") < 1


def test_volume_errors_are_counted_by_stage():
    metrics = Metrics()
    for message in (
        'running PreBind plugin "VolumeBinding": binding volumes: timed out',
        'running "VolumeBinding" filter plugin: no such class',
        'running Reserve plugin "VolumeBinding": gone',
        'running PreBind plugin "DynamicResources": no',
    ):
        metrics.failed("p", message, 0.1)
    page = Page(metrics.page().decode())
    stages = page["volume_scheduling_stage_error"].samples
    assert {s.labels["operation"]: s.value for s in stages} == {
        "bind": 1, "predicate": 1, "assume": 1,
    }  # fmt: skip
    assert page.value("schedule_attempts_total", result="error") == 4


def test_a_plugin_that_observes_an_unknown_metric_gets_an_error_with_its_name():
    with pytest.raises(Refused, match='the scheduler has no metric "lost_pods"'):
        Metrics().observe("lost_pods", 1.0)

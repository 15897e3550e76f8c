"""Namespaces share what it costs to prepare cycles: counted in steps, whatever they create."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from holdfast.api.scheme import PODS
from holdfast.scheduling.framework.plugin import Plugin, Reserver
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing import a_namespace, a_node, a_pod, a_priority_class
from holdfast.testing.clock import VirtualClock
from holdfast.testing.harness import Harness
from scheduler.turns import between

STEPS = "test/steps"
STEP = 0.0025


class CountSteps(Reserver):
    def __init__(self, counter):
        self.counter = counter

    def reserve(self, placement):
        self.counter.note_reserved(placement.pod)

    def unreserve(self, placement):
        pass


class StepCounter(Plugin):
    """Prepares each pod in the number of steps that its label says, and notes whose steps they are.

    Each step takes longer than the scheduler lets one take. ``waited`` are the steps that were
    taken from the time a pod without such a label was queued until its cycle.
    """

    name = "StepCounter"
    plan_classes = (CountSteps,)

    def __init__(self, clock):
        self.clock = clock
        self.steps, self.reserved = [], []
        self.waited = {}
        self._queued_at = {}
        self._done = Counter()

    def pre_enqueue(self, pod, view):
        self._queued_at.setdefault(pod.name, len(self.steps))

    def prepare(self, pod, view, rows):
        while self._done[pod.uid] < int(pod.labels.get(STEPS, 0)):
            yield
            self._done[pod.uid] += 1
            self.steps.append(pod.namespace)
            self.clock.skip(STEP)

    def pre_filter(self, pod, view):
        return CountSteps(self)

    def note_reserved(self, pod):
        self.reserved.append(pod.name)
        if STEPS not in pod.labels:
            self.waited[pod.name] = len(self.steps) - self._queued_at[pod.name]


@pytest.fixture
def counter():
    return StepCounter(VirtualClock())


@pytest.fixture
async def cluster(tmp_path, counter):
    stock = default_profiles()["default-scheduler"]
    profiles = {stock.name: replace(stock, plugins=(*stock.plugins, counter))}
    async with Harness(tmp_path, profiles=profiles, clock=counter.clock) as harness:
        others = [f"other-{i}" for i in range(10)]
        names = ["hostile", "victim", *"abc", *others]
        await harness.create(
            a_node("n", cpu="900", pods=900), a_priority_class(), *map(a_namespace, names)
        )
        yield harness


def slow(name, namespace, steps=20, **more):
    return a_pod(name, namespace=namespace, labels={STEPS: str(steps)}, **more)


async def test_the_namespaces_of_waiting_pods_take_turns(cluster, counter):
    hostile = [slow(f"h{i}", "hostile", priority_class_name="high") for i in range(30)]
    others = [slow(f"{name}{i}", name, 7) for name in "abc" for i in range(2)]
    await cluster.create(*hostile, *others)
    assert Counter(counter.steps) == {"hostile": 600, "a": 14, "b": 14, "c": 14}
    for name in "abc":
        assert all(max(found.values()) == 1 for found in between(counter.steps, name))


async def test_pods_that_need_no_step_wait_for_none(cluster, counter):
    hostile = [slow(f"h{i}", "hostile", priority_class_name="high") for i in range(30)]
    more = [slow(f"o{i}", f"other-{i}") for i in range(10)]
    await cluster.create(*hostile, *more, settle=False)
    for i in range(20):
        name = "hostile" if i % 2 else "victim"
        await cluster.create(a_pod(f"plain-{i}", namespace=name), settle=False)
    await cluster.settle()
    assert set(counter.waited.values()) == {0}
    assert len(counter.waited) == 20


async def test_a_pod_is_bound_within_a_few_steps_of_others(cluster, counter):
    """Its watch event and its Binding pass through several tasks, which wait for few steps."""
    await cluster.create(slow("endless", "hostile", 10**6), settle=False)
    for i in range(10):
        taken = len(counter.steps)
        await cluster.create(a_pod(f"plain-{i}", namespace="victim"), settle=False)
        while not await cluster.node_of(f"plain-{i}", "victim"):
            await asyncio.sleep(0)
        assert len(counter.steps) - taken <= 3
    await cluster.delete(PODS, "endless", "hostile")


async def test_pods_of_a_namespace_are_prepared_by_priority_and_age(cluster, counter):
    await cluster.create(slow("first", "a"), settle=False)
    while not counter.steps:
        await asyncio.sleep(0)
    await cluster.create(
        slow("low", "a"), slow("high", "a", priority_class_name="high"), slow("last", "a")
    )
    assert counter.reserved == ["first", "high", "low", "last"]


async def test_a_backlog_that_is_deleted_is_forgotten(cluster, counter):
    """A tenant creates and deletes pods faster than they are prepared."""
    await cluster.create(slow("endless", "a", 10**6), settle=False)
    for i in range(300):
        await cluster.create(slow(f"p{i}", "a", 10**6), settle=False)
        await cluster.client.delete(PODS, f"p{i}", "a")
    scheduler = cluster.components.scheduler
    for _ in range(1000):
        await asyncio.sleep(0)
        if scheduler.queue.in_flight_events()["PodPopped"] < 200:
            break
    assert scheduler.queue.in_flight_events()["PodPopped"] < 200
    await cluster.client.delete(PODS, "endless", "a")
    await cluster.create(a_pod("plain"))
    assert counter.reserved == ["plain"]
    assert scheduler.queue.in_flight_events()["PodPopped"] == 0


async def test_a_pod_that_waits_for_its_steps_stores_no_events(cluster, counter):
    await cluster.create(slow("endless", "a", 10**6), settle=False)
    for i in range(50):
        await cluster.create(a_pod(f"plain-{i}"), settle=False)
    while len(counter.reserved) < 50:
        await asyncio.sleep(0)
    events = cluster.components.scheduler.queue.in_flight_events()
    assert sum(events.values()) - events["PodPopped"] < 20
    await cluster.delete(PODS, "endless", "a")

"""Metrics of work queues, as client-go counts them."""

import asyncio

from prometheus_client import CollectorRegistry

from holdfast.client.workqueue import WorkQueue, run_workers
from holdfast.client.workqueue_metrics import WorkQueueMetrics
from holdfast.testing import VirtualClock


class Observed:
    def __init__(self):
        self.clock = VirtualClock()
        self.metrics = WorkQueueMetrics(self.clock.monotonic)
        self.queue = WorkQueue(self.clock, observer=self.metrics.queue("q"))
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self.metrics)

    def __call__(self, name, suffix=""):
        return self._registry.get_sample_value(f"workqueue_{name}{suffix}", {"name": "q"})


async def test_a_key_counts_once_while_it_waits():
    seen = Observed()
    for key in ("a", "b", "a"):
        seen.queue.add(key)
    assert (seen("adds", "_total"), seen("depth")) == (2, 2)
    assert await seen.queue.get() == "a"
    assert seen("depth") == 1
    seen.queue.add("a")
    assert (seen("adds", "_total"), seen("depth")) == (3, 2), "added while it is processed"


async def test_durations_of_waiting_and_of_work():
    seen = Observed()
    seen.queue.add("a")
    await seen.clock.advance(2)
    await seen.queue.get()
    await seen.clock.advance(3)
    assert seen("unfinished_work_seconds") == 3
    assert seen("longest_running_processor_seconds") == 3
    seen.queue.done("a")
    assert seen("unfinished_work_seconds") == 0
    assert (seen("queue_duration_seconds", "_sum"), seen("queue_duration_seconds", "_count")) == (
        2,
        1,
    )
    assert (seen("work_duration_seconds", "_sum"), seen("work_duration_seconds", "_count")) == (
        3,
        1,
    )


async def test_retries_count_failed_and_delayed_keys():
    seen = Observed()
    failures = [ZeroDivisionError(), ZeroDivisionError()]

    async def handle(_key):
        if failures:
            raise failures.pop()

    working = asyncio.create_task(run_workers(seen.queue, handle))
    seen.queue.add("a")
    await seen.clock.advance(60)
    assert (seen("adds", "_total"), seen("retries", "_total"), seen("depth")) == (3, 2, 0)
    seen.queue.add_after("b", 5)
    assert seen("retries", "_total") == 3
    seen.queue.shutdown()
    await working
    seen.queue.add_after("b", 5)
    assert seen("retries", "_total") == 3, "a closed queue accepts nothing"


async def test_queues_of_one_name_are_counted_together():
    seen = Observed()
    other = WorkQueue(seen.clock, observer=seen.metrics.queue("q"))
    for queue in (seen.queue, other):
        queue.add("a")
    assert (seen("adds", "_total"), seen("depth")) == (2, 2)
    await seen.queue.get()
    await seen.clock.advance(2)
    await other.get()
    await seen.clock.advance(1)
    assert (seen("depth"), seen("unfinished_work_seconds")) == (0, 4)
    assert seen("longest_running_processor_seconds") == 3

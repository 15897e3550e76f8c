import asyncio

import pytest

from holdfast.client.backoff import Backoff
from holdfast.client.workqueue import QueueClosed, WorkQueue, run_workers
from holdfast.runtime.errors import Unavailable
from holdfast.testing import VirtualClock


def make(clock=None, **kwargs):
    return WorkQueue(clock or VirtualClock(), **kwargs)


async def test_keys_are_returned_in_order_and_once():
    queue = make()
    for key in ("a", "b", "a", "c", "b"):
        queue.add(key)
    assert len(queue) == 3
    assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]


async def test_a_key_added_while_processing_waits_until_it_is_done():
    clock = VirtualClock()
    queue = make(clock)
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    second = asyncio.create_task(queue.get())
    await clock.settle()
    assert not second.done()
    queue.done("a")
    assert await second == "a"


async def test_a_delayed_key_is_queued_when_due_and_the_shorter_delay_counts():
    clock = VirtualClock()
    queue = make(clock)
    queue.add_after("slow", 10)
    queue.add_after("slow", 4)
    queue.add_after("slow", 7)
    taken = asyncio.create_task(queue.get())
    await clock.advance(3.9)
    assert not taken.done()
    await clock.advance(0.1)
    assert taken.done() and taken.result() == "slow"
    queue.done("slow")
    await clock.advance(60)
    assert len(queue) == 0


async def test_a_shorter_delay_added_later_is_due_first():
    clock = VirtualClock()
    queue = make(clock)
    queue.add_after("late", 100)
    await clock.advance(1)
    queue.add_after("soon", 2)
    await clock.advance(2)
    assert await queue.get() == "soon"
    await clock.advance(97)
    assert await queue.get() == "late"


async def test_adding_a_delayed_key_queues_it_at_once_and_only_once():
    clock = VirtualClock()
    queue = make(clock)
    queue.add_after("a", 5)
    queue.add("a")
    assert await queue.get() == "a"
    queue.done("a")
    await clock.advance(10)
    assert len(queue) == 0


async def test_the_delay_of_a_failing_key_grows_until_it_is_forgotten():
    clock = VirtualClock()
    queue = make(clock, backoff=Backoff(first=1.0, limit=3.0))
    waits = []
    for _ in range(4):
        before = clock.monotonic()
        queue.add_rate_limited("a")
        await clock.advance_until(lambda: bool(queue._queue))
        waits.append(clock.monotonic() - before)
        queue.done(await queue.get())
    assert waits == [1.0, 2.0, 3.0, 3.0]
    assert queue.failures("a") == 4
    queue.forget("a")
    assert queue.failures("a") == 0


async def test_shutdown_keeps_queued_keys_and_drops_delayed_ones():
    queue = make()
    queue.add("a")
    queue.add_after("later", 5)
    queue.shutdown()
    queue.add("too late")
    assert await queue.get() == "a"
    with pytest.raises(QueueClosed):
        await queue.get()
    queue.done("a")
    await queue.wait_until_idle()


async def test_shutdown_wakes_waiting_workers():
    clock = VirtualClock()
    queue = make(clock)
    idle = [asyncio.create_task(queue.get()) for _ in range(3)]
    await clock.settle()
    queue.shutdown()
    answers = await asyncio.gather(*idle, return_exceptions=True)
    assert all(isinstance(answer, QueueClosed) for answer in answers)


async def test_a_cancelled_worker_passes_its_wakeup_on():
    clock = VirtualClock()
    queue = make(clock)
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await clock.settle()
    queue.add("a")
    first.cancel()
    assert await second == "a"
    assert (await asyncio.gather(first, return_exceptions=True))[0].__class__ is (
        asyncio.CancelledError
    )


async def test_wait_until_idle_waits_for_queued_delayed_and_processing_keys():
    clock = VirtualClock()
    queue = make(clock)
    queue.add("a")
    queue.add_after("b", 1)
    drained = asyncio.create_task(queue.wait_until_idle())
    key = await queue.get()
    await clock.advance(1)
    queue.done(await queue.get())
    await clock.settle()
    assert not drained.done()
    queue.done(key)
    await clock.settle()
    assert drained.done()


async def test_workers_retry_a_failed_key_after_the_requested_delay():
    clock = VirtualClock()
    queue = make(clock, backoff=Backoff(first=1.0, limit=60.0))
    tries = []

    async def handle(key):
        tries.append((key, clock.monotonic()))
        if len(tries) == 1:
            raise Unavailable("down", after=7)
        if len(tries) == 2:
            raise ValueError("a bug")

    working = asyncio.create_task(run_workers(queue, handle, workers=2, name="test"))
    queue.add("a")
    await clock.advance(60)
    assert tries == [("a", 0.0), ("a", 7.0), ("a", 9.0)]
    assert queue.failures("a") == 0
    queue.shutdown()
    await working

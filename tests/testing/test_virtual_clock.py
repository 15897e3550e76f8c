import asyncio

import pytest

from holdfast.testing import VirtualClock


async def test_tasks_wake_in_the_order_of_their_deadlines_and_sleep_calls():
    clock = VirtualClock()
    woken = []

    async def sleeper(name, seconds):
        await clock.sleep(seconds)
        woken.append((name, clock.monotonic()))

    tasks = [
        asyncio.create_task(sleeper(name, seconds))
        for name, seconds in (("late", 3), ("tie-1", 1), ("tie-2", 1), ("never", 99))
    ]
    await clock.advance(5)
    assert woken == [("tie-1", 1), ("tie-2", 1), ("late", 3)]
    assert clock.monotonic() == 5
    tasks[-1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_task_started_by_a_woken_task_wakes_in_the_same_advance():
    clock = VirtualClock(start=100.0)
    times = []

    async def ticking():
        while True:
            await clock.sleep(2)
            times.append(clock.now())

    task = asyncio.create_task(ticking())
    await clock.advance(7)
    assert times == [102.0, 104.0, 106.0]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_cancelled_task_is_skipped():
    clock = VirtualClock()
    task = asyncio.create_task(clock.sleep(1))
    await clock.settle()
    task.cancel()
    await clock.advance(2)
    assert task.cancelled()


async def test_advance_until_jumps_to_the_deadline_that_makes_it_true():
    clock = VirtualClock()
    task = asyncio.create_task(clock.sleep(30))
    await clock.advance_until(task.done)
    assert clock.monotonic() == 30
    with pytest.raises(AssertionError, match="not reached"):
        await clock.advance_until(lambda: False)


async def test_settle_waits_for_work_outside_the_loop():
    clock = VirtualClock()
    loop = asyncio.get_running_loop()
    done = loop.run_in_executor(None, sum, range(2_000_000))
    clock.busy.append(lambda: not done.done())
    await clock.settle()
    assert done.done()


async def test_a_loop_that_never_becomes_idle_is_reported(monkeypatch):
    monkeypatch.setattr("holdfast.testing.clock.MOST_ROUNDS", 200)
    clock = VirtualClock()

    async def polling():
        while True:
            await asyncio.sleep(0)

    task = asyncio.create_task(polling())
    with pytest.raises(AssertionError, match="never becomes idle"):
        await clock.settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

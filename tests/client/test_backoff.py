import asyncio

import pytest

from holdfast.client.backoff import Backoff, retry
from holdfast.runtime.errors import HoldfastError, NotFound, Unavailable
from holdfast.testing.clock import VirtualClock

BACKOFF = Backoff(first=1.0, limit=3.0)


async def tried(failures, **how):
    """Retry work that raises ``failures`` in turn; return the attempt times and the result."""
    clock, times = VirtualClock(), []

    async def work():
        times.append(clock.monotonic())
        if failures:
            raise failures.pop(0)
        return "done"

    task = asyncio.create_task(retry(work, clock, BACKOFF, **how))
    await clock.advance_until(task.done)
    return times, task.exception() or task.result()


async def test_work_is_retried_at_growing_intervals_until_it_succeeds():
    told = []
    failures = [Unavailable(str(number)) for number in range(4)]
    assert await tried([*failures], on_failure=told.append) == ([0, 1, 3, 6, 9], "done")
    assert told == failures


@pytest.mark.parametrize(("honor_retry_after", "times"), [(True, [0, 7, 9]), (False, [0, 1, 3])])
async def test_the_delay_that_a_failure_asks_for_is_used(honor_retry_after, times):
    failures = [Unavailable("busy", after=7), Unavailable("down")]
    assert await tried(failures, honor_retry_after=honor_retry_after) == (times, "done")


async def test_the_last_attempt_raises_without_a_wait():
    last = Unavailable("last")
    failures = [Unavailable("1"), Unavailable("2"), last, Unavailable("never seen")]
    assert await tried(failures, tries=3) == ([0, 1, 3], last)


async def test_other_failures_are_raised_at_once():
    gone = NotFound("gone")
    assert await tried([gone]) == ([0], gone)
    assert await tried([gone], on=HoldfastError) == ([0, 1], "done")

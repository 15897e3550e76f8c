"""The clock is set, or the machine was suspended: waits follow the new time."""

import asyncio
import time

import pytest

from holdfast.runtime import clock
from holdfast.runtime.clock import SystemClock
from holdfast.testing import a_node, a_pod
from reservations.objects import held, node, owner

HOUR = 3600.0
HANG = 30.0


@pytest.mark.parametrize("lifetime", [{"ttl": "24h"}, {"expires": "2023-11-16T22:13:20Z"}])
async def test_a_reservation_expires_at_once_when_the_clock_jumps_past_its_end(cluster, lifetime):
    await cluster.create(node(), held(cpu="16", **lifetime), a_pod("waits", cpu="4"))
    assert (await cluster.reservation("r")).status.phase == "Available"
    await cluster.clock.step(49 * HOUR)
    reservation = await cluster.reservation("r")
    assert reservation.status.phase == "Failed"
    await cluster.advance(12)
    assert await cluster.node_of("waits") == "n1"


async def test_a_pending_reservation_expires_at_once_too(cluster):
    await cluster.create(node(), held(cpu="17", ttl="24h"))
    await cluster.clock.step(25 * HOUR)
    assert (await cluster.reservation("r")).status.phase == "Failed"


async def test_no_reservation_expires_early_or_twice_after_the_clock_is_set_back(cluster):
    await cluster.create(node(), held("old", cpu="1", ttl="1h"), held("young", cpu="1", ttl="3h"))
    await cluster.clock.step(2 * HOUR)
    phases = [(await cluster.reservation(name)).status.phase for name in ("old", "young")]
    assert phases == ["Failed", "Available"]
    await cluster.clock.step(-2 * HOUR)
    await cluster.advance(700)
    assert (await cluster.reservation("young")).status.phase == "Available"
    await cluster.clock.step(3 * HOUR)
    assert (await cluster.reservation("young")).status.phase == "Failed"
    for name in ("old", "young"):
        expired = [reason for reason, _ in await cluster.events(name) if reason == "Expired"]
        assert expired == ["Expired"]


async def test_a_pod_with_a_run_time_ends_after_a_clock_jump(cluster):
    await cluster.create(a_node("n"), a_pod("p", annotations={"holdfast.dev/run-for": "1h"}))
    assert (await cluster.pod("p")).status.phase == "Running"
    await cluster.clock.step(2 * HOUR)
    assert (await cluster.pod("p")).status.phase == "Succeeded"


@pytest.mark.parametrize("seconds", [-24 * HOUR, 24 * HOUR])
async def test_backoff_does_not_depend_on_the_time_of_day(cluster, seconds):
    """A backoff by time of day would last a day after the clock is set back by a day."""
    await cluster.create(a_node("n", cpu="1"), a_pod("p", cpu="2"))
    assert await cluster.node_of("p") == ""
    await cluster.clock.step(seconds)
    await cluster.create(a_node("large", cpu="4"))
    await cluster.advance(12)
    assert await cluster.node_of("p") == "large"


async def test_a_pending_owner_is_scheduled_after_the_clock_was_set_back(cluster):
    await cluster.create(node(), held(cpu="4"), owner("p", cpu="20"))
    await cluster.clock.step(-24 * HOUR)
    await cluster.create(node("large", cpu="32"))
    await cluster.advance(12)
    assert await cluster.node_of("p") == "large"


@pytest.mark.parametrize("seconds", [-HOUR, 10.0])
async def test_the_system_clock_notices_that_it_was_set(monkeypatch, seconds):
    monkeypatch.setattr(clock, "STEP_CHECK_SECONDS", 0.01)
    waiting = asyncio.create_task(SystemClock().wait_for_step())
    await asyncio.sleep(0.05)
    assert not waiting.done()
    real = time.time
    monkeypatch.setattr(clock.time, "time", lambda: real() + seconds)
    await asyncio.wait_for(waiting, HANG)

"""Many events: the number of writers adapts to the server; no event is lost or stored twice."""

import asyncio
import random
from collections import Counter, defaultdict

import msgspec
import pytest

from holdfast.api.scheme import EVENTS
from holdfast.client.adaptive_limit import HIGHEST, LOWEST
from holdfast.client.client import Client
from holdfast.client.events import DRAIN_SECONDS, STALL_SECONDS, EventRecorder
from holdfast.client.transport import Response
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import TooManyRequests, status_of
from holdfast.testing import Chances, FaultyTransport, a_pod, typed

PODS = [typed(a_pod(f"pod-{n}", metadata={"uid": f"uid-{n}"})) for n in range(50)]
REFUSAL = msgspec.json.encode(status_of(TooManyRequests("too many requests")))


class Server:
    """A server with a latency of ``seconds`` that refuses more than ``most`` requests at once."""

    def __init__(self, clock, seconds=0.0, most=10**9):
        self.clock, self.seconds, self.most = clock, seconds, most
        self.in_flight = self.peak = 0
        self.stored = Counter()

    async def send(self, request):
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        refused = self.in_flight > self.most
        try:
            await self.clock.sleep(self.seconds)
        finally:
            self.in_flight -= 1
        if refused:
            return Response(429, {}, REFUSAL)
        if request.method == "POST":
            self.stored[msgspec.json.decode(request.body)["metadata"]["name"]] += 1
        return Response(201, {}, b"{}")

    async def close(self):
        pass


def record(recorder, count, first=0):
    for n in range(first, first + count):
        recorder.record(PODS[n % len(PODS)], "Normal", "Pulled", f"message {n}")


def spread(recorder, count):
    """Record one event about each of ``count`` pods."""
    for n in range(count):
        pod = typed(a_pod(f"p-{n}", metadata={"uid": f"u-{n}"}))
        recorder.record(pod, "Normal", "Scheduled", "assigned")


def started(transport, clock):
    recorder = EventRecorder(Client(transport), clock)
    recorder.start()
    return recorder


async def test_number_of_writers_grows_while_the_server_is_fast(clock):
    server = Server(clock, seconds=0.1)
    recorder = started(server, clock)
    spread(recorder, 500)
    await clock.advance_until(lambda: len(server.stored) == 500, limit=20)
    assert server.peak == HIGHEST
    assert set(server.stored.values()) == {1}
    await recorder.stop()


async def test_number_of_writers_falls_when_the_server_refuses(clock):
    server = Server(clock, seconds=0.1)
    recorder = started(server, clock)
    spread(recorder, 1000)
    await clock.advance_until(lambda: server.peak == HIGHEST)
    server.most = 3
    await clock.advance(3)
    server.peak = 0
    await clock.advance(1)
    assert server.peak <= 2 * LOWEST
    server.most = 10**9
    await clock.advance_until(lambda: len(server.stored) == 1000)
    assert set(server.stored.values()) == {1}
    await recorder.stop()


async def test_idle_writers_end_when_the_limit_falls(clock):
    server = Server(clock, seconds=0.1)
    recorder = started(server, clock)
    spread(recorder, 500)
    await clock.advance_until(lambda: len(server.stored) == 500)
    server.most = 0
    recorder.record(PODS[0], "Normal", "Pulled", "refused")
    await clock.advance(2)
    server.most, server.peak = 10**9, 0
    record(recorder, 40, first=1)
    await clock.settle()
    assert 0 < server.peak < HIGHEST / 2
    await clock.advance_until(lambda: len(server.stored) == 541)
    await recorder.stop()


async def test_events_about_one_object_are_stored_in_order(wire, clock):
    chances = Chances(unavailable=0.1, unavailable_after=0.1, lost=0.1, delay=0.3, seconds=0.4)
    faulty = FaultyTransport(wire, chances=chances, rng=random.Random(4), clock=clock)
    recorder = started(faulty, clock)
    for n in range(0, 200, 20):
        record(recorder, 20, first=n)
        await clock.advance(0.3)
    await clock.advance(120)
    events = (await Client(wire).list(EVENTS, "default")).items
    assert {e.count for e in events} == {1} and len(events) == 200
    about = defaultdict(list)
    for event in sorted(events, key=lambda e: int(e.metadata.resource_version)):
        about[event.involved_object.name].append(int(event.message.split()[1]))
    assert all(numbers == sorted(numbers) for numbers in about.values())
    await recorder.stop()


async def test_repetitions_do_not_delay_other_events_of_the_object(clock, wire):
    recorder = started(wire, clock)
    for _ in range(12):
        recorder.record(PODS[0], "Warning", "FailedScheduling", "no room")
        await clock.advance(1)
    recorder.record(PODS[0], "Normal", "Scheduled", "assigned")
    await clock.settle()
    events = (await Client(wire).list(EVENTS, "default")).items
    assert {e.reason: e.count for e in events} == {"FailedScheduling": 10, "Scheduled": 1}
    await recorder.stop()


async def test_a_burst_of_25_000_events_is_written_completely(clock, caplog):
    server = Server(clock)
    recorder = EventRecorder(Client(server), clock)
    record(recorder, 25_000)
    recorder.start()
    await clock.advance_until(lambda: len(server.stored) == 25_000)
    assert set(server.stored.values()) == {1} and "dropping" not in caplog.text
    await recorder.stop()


async def test_events_dropped_for_one_cause_are_logged_once_a_minute(wire, clock, caplog):
    recorder = started(wire, clock)
    for n in range(100):
        nowhere = typed(a_pod(f"p-{n}", namespace="no-such-namespace"))
        recorder.record(nowhere, "Normal", "Scheduled", "assigned")
    await clock.advance(61)
    recorder.record(nowhere, "Normal", "Pulled", "late")
    await clock.settle()
    lines = [r.getMessage() for r in caplog.records if "dropped" in r.getMessage()]
    assert len(lines) == 2 and lines[1].endswith("(repeated 99 times meanwhile)")
    await recorder.stop()


async def test_stopping_continues_while_events_are_written(clock, caplog):
    server = Server(clock, seconds=1.0)
    recorder = started(server, clock)
    spread(recorder, 600)
    stopping = asyncio.create_task(recorder.stop())
    await clock.advance_until(stopping.done)
    assert clock.monotonic() > STALL_SECONDS
    assert len(server.stored) == 600 and set(server.stored.values()) == {1}
    assert "not written" not in caplog.text


async def test_stopping_waits_for_events_that_are_retried(clock):
    server = Server(clock, seconds=0.1, most=0)
    recorder = started(server, clock)
    spread(recorder, 20)
    await clock.advance(0.5)
    server.most = 10**9
    stopping = asyncio.create_task(recorder.stop())
    await clock.advance_until(stopping.done, limit=STALL_SECONDS)
    assert len(server.stored) == 20


async def test_stopping_ends_after_the_drain_timeout(clock, caplog):
    server = Server(clock, seconds=4.0)
    recorder = started(server, clock)
    spread(recorder, 100)
    stopping = asyncio.create_task(recorder.stop())
    await clock.advance(DRAIN_SECONDS)
    assert stopping.done()
    left = 100 - len(server.stored)
    assert 0 < left < 100 and f"stopped with {left} events not written" in caplog.text


async def test_a_cancelled_stop_leaves_no_writer(clock):
    server = Server(clock, seconds=10**6)
    recorder = started(server, clock)
    spread(recorder, 20)
    stopping = asyncio.create_task(recorder.stop())
    await clock.settle()
    assert server.in_flight
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert server.in_flight == 0


async def test_over_https_each_event_is_stored_once(embedded):
    async with embedded.https() as transport:
        recorder = started(transport, SystemClock())
        record(recorder, 300)
        await asyncio.wait_for(recorder.stop(), 30)
        events = (await Client(transport).list(EVENTS, "default")).items
    assert sorted(int(e.message.split()[1]) for e in events) == list(range(300))

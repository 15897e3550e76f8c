"""The rate limit of requests that a user may configure."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from holdfast.client.transport import Request, Response, ThrottledTransport
from holdfast.testing import VirtualClock

REQUEST = Request("GET", "/api")


class RecordingTransport:
    """A transport that records when each request is sent."""

    def __init__(self, clock):
        self.clock = clock
        self.started_at = clock.monotonic()
        self.times = []
        self.closed = False

    async def send(self, _request):
        self.times.append(round(self.clock.monotonic() - self.started_at, 6))
        return Response(200, {}, b"")

    @asynccontextmanager
    async def stream(self, _request):
        self.times.append(round(self.clock.monotonic() - self.started_at, 6))
        yield "stream"

    async def close(self):
        self.closed = True


@pytest.fixture
def clock():
    return VirtualClock()


async def sent(clock, throttled, count):
    sending = asyncio.gather(*(throttled.send(REQUEST) for _ in range(count)))
    await clock.advance_until(sending.done)
    await sending


async def test_a_burst_is_sent_at_once_and_the_rest_at_the_rate(clock):
    recording = RecordingTransport(clock)
    throttled = ThrottledTransport(recording, clock, qps=2, burst=3)
    await sent(clock, throttled, 6)
    assert recording.times == [0, 0, 0, 0.5, 1.0, 1.5]


async def test_idle_time_allows_one_burst_and_no_more(clock):
    recording = RecordingTransport(clock)
    throttled = ThrottledTransport(recording, clock, qps=1, burst=2)
    await sent(clock, throttled, 3)
    await clock.advance(60)
    recording.times.clear()
    recording.started_at = clock.monotonic()
    await sent(clock, throttled, 4)
    assert recording.times == [0, 0, 1, 2]


async def test_opening_a_stream_counts_as_a_request(clock):
    recording = RecordingTransport(clock)
    throttled = ThrottledTransport(recording, clock, qps=1, burst=1)
    await throttled.send(REQUEST)

    async def watch():
        async with throttled.stream(REQUEST) as answer:
            return answer

    watching = asyncio.create_task(watch())
    await clock.advance_until(watching.done)
    assert await watching == "stream"
    assert recording.times == [0, 1]
    await throttled.close()
    assert recording.closed

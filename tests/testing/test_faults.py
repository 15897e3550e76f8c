import asyncio
import contextlib
import random

import pytest

from holdfast.api.resource import Resource
from holdfast.client.client import Client
from holdfast.client.transport import Request, Response
from holdfast.runtime.errors import Conflict, Expired, Unavailable
from holdfast.testing import Chances, Fault, FaultyTransport, VirtualClock

THINGS = Resource("x", "v1", "things", "Thing", dict, namespaced=False)
LINES = [b'{"type":"ADDED","object":{"metadata":{"name":"%d"}}}' % n for n in range(4)]


class Recorded:
    """A server that accepts every request and stores it."""

    def __init__(self):
        self.requests = []

    async def send(self, request):
        self.requests.append(request)
        return Response(200, {}, b'{"metadata":{"name":"t"}}')

    def stream(self, request):
        return self

    async def __aenter__(self):
        self.status, self.headers = 200, {}
        return self

    async def __aexit__(self, *_):
        pass

    async def __aiter__(self):
        for line in LINES:
            yield line

    async def close(self):
        pass


def faulty(*faults, **options):
    inner = Recorded()
    return inner, FaultyTransport(inner, faults, **options)


@pytest.mark.parametrize(
    ("trouble", "error", "written"),
    [("conflict", Conflict, 0), ("unavailable", Unavailable, 0),
     ("unavailable_after", Unavailable, 1), ("lost", Unavailable, 1)],
)  # fmt: skip
async def test_a_write_fails_before_or_after_it_is_stored(trouble, error, written):
    inner, transport = faulty(Fault(trouble, method="POST"))
    client = Client(transport)
    with pytest.raises(error):
        await client.create(THINGS, {})
    assert len(inner.requests) == written
    await client.create(THINGS, {})
    assert len(inner.requests) == written + 1
    assert transport.injected_faults == [(trouble, "POST", "/apis/x/v1/things")]


async def test_a_fault_applies_to_matching_requests_only():
    inner, transport = faulty(Fault("conflict", method="PATCH", path="/things/b"))
    client = Client(transport)
    await client.patch(THINGS, "a", {})
    await client.get(THINGS, "b")
    with pytest.raises(Conflict):
        await client.patch(THINGS, "b", {})
    assert len(inner.requests) == 2


async def lines_of(transport):
    seen = []
    try:
        async for event in Client(transport).watch(THINGS):
            seen.append(event.object["metadata"]["name"])
    except (Expired, Unavailable) as ended:
        return seen, type(ended)
    return seen, None


@pytest.mark.parametrize(
    ("trouble", "end"),
    [("expired", Expired), ("cut", Unavailable), ("torn", Unavailable), ("ended", None)],
)
async def test_a_watch_fails_after_its_lines(trouble, end):
    _, transport = faulty(Fault(trouble, lines=2, watch=True))
    assert await lines_of(transport) == (["0", "1"], end)
    assert await lines_of(transport) == (["0", "1", "2", "3"], None)


async def test_a_delayed_request_succeeds_later():
    clock = VirtualClock()
    _inner, transport = faulty(Fault("delay", seconds=3), clock=clock)
    sending = asyncio.create_task(transport.send(Request("GET", "/x")))
    await clock.advance(2.9)
    assert not sending.done()
    await clock.advance(0.1)
    assert sending.done() and sending.result().status == 200


async def test_the_same_seed_gives_the_same_faults():
    async def trouble(seed):
        chances = Chances(conflict=0.2, unavailable=0.2, lost=0.2)
        _, transport = faulty(chances=chances, rng=random.Random(seed))
        for n in range(50):
            with contextlib.suppress(Unavailable):
                await transport.send(Request("PUT", f"/{n}"))
        return transport.injected_faults

    assert await trouble(1) == await trouble(1)
    assert await trouble(1) != await trouble(2)
    assert {kind for kind, *_ in await trouble(1)} == {"conflict", "unavailable", "lost"}


async def test_a_disabled_transport_injects_nothing():
    _inner, transport = faulty(Fault("conflict"), chances=Chances(conflict=1.0))
    transport.enabled = False
    assert (await transport.send(Request("PUT", "/x"))).status == 200

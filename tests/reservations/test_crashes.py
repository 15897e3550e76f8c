"""Scheduler and controllers crash after each of their writes, and start again from the API."""

import asyncio

import msgspec
import pytest

from holdfast.api.scheme import PODS, RESERVATIONS
from holdfast.testing import a_priority_class
from holdfast.testing.harness import Harness
from reservations.objects import allocated_from, create_each, node, non_owner, owner, running
from reservations.operating_pods import CURRENT, acting
from reservations.preemptors import HIGH, HIGHER, SLOW, configured
from soak_size import some_of

WRITES = some_of(range(12), 3)
"""At least as many as all writes of either case."""


class Crash:
    """Answers no request any more after so many writes of all components."""

    def __init__(self):
        self.left = None
        self.happened = False

    def wrap(self, inner, _clock):
        return _Transport(inner, self)

    def written(self):
        if self.left is not None:
            self.left -= 1
            self.happened = self.left <= 0

    def after(self, writes):
        self.left, self.happened = writes, not writes

    def over(self):
        self.left, self.happened = None, False


class _Transport:
    def __init__(self, inner, crash):
        self._inner, self._crash = inner, crash

    async def send(self, request):
        dead = asyncio.Event()
        if self._crash.happened:
            await dead.wait()
        response = await self._inner.send(request)
        # Heartbeats and events come at any time and change nothing.
        if request.method != "GET" and not {"leases", "events"} & set(request.path.split("/")):
            self._crash.written()
            if self._crash.happened:
                await dead.wait()
        return response

    def stream(self, request):
        return self._inner.stream(request)

    async def close(self):
        await self._inner.close()


async def crash_and_restart(cluster, crash, writes, *objects, seconds=1):
    """Create objects, let all components crash after so many writes, and start them again."""
    crash.after(writes)
    for raw in objects:
        await cluster.client.create(PODS, raw, "default")
    await cluster.clock.settle()
    await cluster.clock.advance(seconds)
    assert crash.happened or writes > 6, "the case has more writes than this"
    await cluster._stop_components()
    crash.over()
    await cluster._start_components()
    await cluster.settle()


@pytest.mark.parametrize("writes", WRITES)
async def test_R098_the_preemptor_is_placed_and_no_reservation_is_left(tmp_path, writes):
    crash = Crash()
    async with Harness(tmp_path / "s", configuration=configured(), wrap=crash.wrap) as cluster:
        classes = (a_priority_class(), a_priority_class("higher", 2000))
        await create_each(cluster, *classes, node(), running("16", "v", **SLOW))
        p = non_owner("p", cpu="16", **HIGH)
        # The victim needs 30 seconds: the last crashes are while the pod is bound.
        await crash_and_restart(cluster, crash, writes, p, seconds=40)
        await create_each(cluster, non_owner("rival", cpu="16", **HIGHER))
        await cluster.advance(300)
        assert await cluster.node_of("p") == "n1", await cluster.why("p")
        assert await cluster.node_of("rival") == ""
        assert list((await cluster.client.list(RESERVATIONS)).items) == []
        assert [p.name for p in (await cluster.client.list(PODS)).items if p.terminating] == []


@pytest.mark.parametrize("writes", WRITES)
async def test_one_of_two_owners_uses_the_pod_that_acts_as_a_reservation(tmp_path, writes):
    crash = Crash()
    async with Harness(tmp_path / "s", wrap=crash.wrap) as cluster:
        await create_each(cluster, node(), acting(), running("12"))
        pods = [owner(name, cpu="4") for name in "ab"]
        await crash_and_restart(cluster, crash, writes, *pods)
        await cluster.advance(300)
        (one,) = [name for name in "ab" if await cluster.node_of(name)]
        assert await allocated_from(cluster, one) == "acting"
        notes = (await cluster.pod("acting")).metadata.annotations
        assert msgspec.json.decode(notes[CURRENT])["uid"] == (await cluster.pod(one)).uid

"""Status writes for unschedulable pods: at most so many at once, and none that repeat."""

import asyncio

import pytest

from holdfast.api.scheme import PODS
from holdfast.scheduling.scheduler.status_reporter import MAX_WRITES
from holdfast.testing import Fault, FaultyTransport, a_node, a_pod
from holdfast.testing.harness import Harness


class CountingTransport:
    """A transport that counts status patches of pods, and can block them."""

    def __init__(self, inner):
        self._inner = inner
        self.stream, self.close = inner.stream, inner.close
        self.under_way = self.most = 0
        self.patches = []
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def send(self, request):
        if request.method != "PATCH" or not request.path.endswith("/status"):
            return await self._inner.send(request)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.patches.append(request.path.split("/")[-2])
        await self.go_on.wait()
        self.under_way -= 1
        return await self._inner.send(request)


@pytest.fixture
async def scene(tmp_path):
    lines = []

    def wrap(transport, clock):
        lines.append(CountingTransport(FaultyTransport(transport, clock=clock)))
        return lines[-1]

    async with Harness(tmp_path, wrap=wrap) as cluster:
        yield cluster, lines[0]


async def test_status_writes_are_limited(scene):
    cluster, transport = scene
    transport.go_on.clear()
    names = [f"p{n}" for n in range(3 * MAX_WRITES)]
    await cluster.create(a_node("n", cpu="1"), *(a_pod(name, cpu="2") for name in names))
    assert (transport.under_way, transport.most) == (MAX_WRITES, MAX_WRITES)
    transport.go_on.set()
    await cluster.settle()
    assert transport.most == MAX_WRITES
    assert sorted(transport.patches) == sorted(names)
    for name in names:
        assert (await cluster.why(name)).startswith("0/1 nodes are available: 1 Insufficient cpu.")


async def test_only_the_newest_of_several_waiting_statuses_is_written(scene):
    cluster, transport = scene
    transport.go_on.clear()
    crowd = [a_pod(f"c{n}", cpu="2") for n in range(MAX_WRITES)]
    await cluster.create(a_node("n", cpu="1"), *crowd)
    await cluster.create(a_pod("p", cpu="2"))
    uid = (await cluster.pod("p")).uid
    for node in ("m", "o"):
        await cluster.create(a_node(node, cpu="1"))
        cluster.components.scheduler.queue.activate((uid,))
        await cluster.settle()
    assert "p" not in transport.patches
    transport.go_on.set()
    await cluster.settle()
    assert transport.patches.count("p") == 1
    assert (await cluster.why("p")).startswith("0/3 nodes are available: ")


async def test_a_status_is_not_written_twice_before_the_informer_has_it(scene):
    """The informer may deliver our own write late; the next attempt knows of it already."""
    cluster, transport = scene
    await cluster.create(a_node("n", cpu="1"))
    for n in range(3):
        await cluster.create(a_pod(f"p{n}", cpu="99"))
    assert sorted(transport.patches) == ["p0", "p1", "p2"]
    pods = cluster.components.scheduler.informers.informer_set.get(PODS)
    pods._dispatcher._handlers.clear()  # no more events of pods
    transport.patches.clear()
    await cluster.create(a_pod("late", cpu="99"))
    for uid in [pods.cache[f"default/p{n}"].uid for n in range(3)]:
        cluster.components.scheduler.queue.activate((uid,))
    await cluster.advance(15)
    assert transport.patches == []


async def test_a_status_changed_by_another_client_is_written_again(scene):
    cluster, _ = scene
    await cluster.create(a_node("n", cpu="1"), a_pod("p", cpu="99"))
    before = await cluster.why("p")
    other = {"type": "PodScheduled", "status": "False", "reason": "Odd", "message": "says who"}
    await cluster.client.patch(
        PODS, "p", {"status": {"conditions": [other]}}, "default", subresource="status"
    )
    await cluster.settle()
    assert await cluster.why("p") == "says who"
    cluster.components.scheduler.queue.activate(((await cluster.pod("p")).uid,))
    await cluster.settle()
    assert await cluster.why("p") == before


async def test_a_status_that_is_retried_does_not_replace_a_newer_one(scene):
    """The write of the first attempt fails after that of the second has succeeded."""
    cluster, transport = scene
    transport._inner.add(Fault("unavailable", method="PATCH", path="/pods/p/status", times=1))
    await cluster.create(a_node("n", cpu="1"), a_pod("p", cpu="99"))
    assert transport.patches == ["p"]
    await cluster.create(a_node("m", cpu="1"))
    cluster.components.scheduler.queue.activate(((await cluster.pod("p")).uid,))
    await cluster.settle()
    newest = await cluster.why("p")
    assert newest.startswith("0/2 nodes are available")
    await cluster.advance(1)
    assert await cluster.why("p") == newest
    assert transport.patches == ["p"] * 2


async def test_a_failed_status_write_is_retried_with_the_newest_version(scene):
    cluster, transport = scene
    transport._inner.add(Fault("unavailable", method="PATCH", path="/pods/p/status", times=2))
    await cluster.create(a_node("n", cpu="1"), a_pod("p", cpu="99"))
    assert await cluster.why("p") == ""
    await cluster.advance(1)
    assert (await cluster.why("p")).startswith("0/1 nodes are available")
    assert transport.patches == ["p"] * 3

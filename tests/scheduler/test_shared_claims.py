"""Pods that share a claim: their reservations are combined, and none fails for another's."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from holdfast.api.scheme import PODS, RESOURCE_CLAIMS
from holdfast.client.transport import Response
from holdfast.testing import a_claim, a_device_class, a_node, a_pod, a_slice
from holdfast.testing.classic_dra.builders import a_classic_claim, a_classic_class, named
from holdfast.testing.classic_dra.driver import KINDS, ClassicDriver
from holdfast.testing.harness import Harness

USERS = 120
SECONDS = 0.005
"""How long the request and the response of a write are on their way."""
FAILURE = Response(
    500, {"content-type": "application/json"},
    b'{"kind":"Status","code":500,"reason":"InternalError","message":"the disk is slow"}',
)  # fmt: skip


class Network:
    """Requests that take a while; counts the scheduler's writes and their conflicts."""

    def __init__(self):
        self.writes = Counter()
        self.conflicts = 0
        self.on_write = None
        self.fault = lambda request: ""
        """Returns "" or when the server fails: "before" or "after" the write is stored."""

    def wrap(self, inner, clock):
        return _Slow(inner, clock, self)


class _Slow:
    def __init__(self, inner, clock, network):
        self._inner, self._clock, self._network = inner, clock, network

    async def send(self, request):
        if request.method == "GET":
            return await self._inner.send(request)
        await self._clock.sleep(SECONDS)
        if self._network.on_write is not None:
            await self._network.on_write(request)
        fault = self._network.fault(request)
        response = FAILURE if fault == "before" else await self._inner.send(request)
        response = FAILURE if fault else response
        path = request.path.split("/")
        by_scheduler = "scheduler" in request.headers.get("user-agent", "")
        if by_scheduler and ("resourceclaims" in path or "pods" in path or "events" in path):
            self._network.writes["resourceclaims" if "resourceclaims" in path else "pods"] += 1
            self._network.conflicts += response.status == 409 and "resourceclaims" in path
        await self._clock.sleep(SECONDS)
        return response

    def stream(self, request):
        return self._inner.stream(request)

    async def close(self):
        await self._inner.close()


def user(name, claim):
    return a_pod(name, cpu="1m", claims=[{"name": "dev", "resourceClaimName": claim}])


async def a_cluster(cluster, devices):
    await cluster.create(
        a_node("n1", cpu="200", pods=500), a_device_class("gpu"),
        a_slice("s", node="n1", devices=devices),
    )  # fmt: skip


async def unbound(cluster):
    return [p.name for p in (await cluster.client.list(PODS)).items if not p.spec.node_name]


async def consumers(cluster, resource=RESOURCE_CLAIMS):
    claim = await cluster.client.get(resource, "c", "default")
    return [consumer.name for consumer in claim.status.reserved_for]


async def failures(cluster):
    """Return the messages of attempts that ended with an error."""
    found = []
    for pod in (await cluster.client.list(PODS)).items:
        events = await cluster.events(pod.name)
        found += [message for _, message in events if message.startswith("running ")]
    return found


async def writes_of(directory, claims):
    """Return the network of a cluster in which pods with these claims were bound."""
    network = Network()
    async with Harness(directory, wrap=network.wrap) as cluster:
        await a_cluster(cluster, devices=USERS)
        await cluster.create(*(a_claim(name) for name in sorted(set(claims))))
        network.writes.clear()
        pods = (user(f"p{n}", claim) for n, claim in enumerate(claims))
        await cluster.create(*pods, settle=False)
        await cluster.advance(30)
        assert await unbound(cluster) == []
        assert await failures(cluster) == []
    return network


async def test_sharing_a_claim_costs_about_as_many_writes_as_claims_of_their_own(tmp_path):
    own = await writes_of(tmp_path / "own", [f"c{n}" for n in range(USERS)])
    shared = await writes_of(tmp_path / "shared", ["c"] * USERS)
    assert (own.conflicts, shared.conflicts) == (0, 0)
    assert shared.writes["resourceclaims"] < own.writes["resourceclaims"] / 4
    assert shared.writes.total() <= own.writes.total() * 1.1


async def test_another_writer_of_the_claim_loses_and_spoils_nothing(tmp_path):
    network, claim = Network(), {"resource": "pods", "name": "gone", "uid": "uid-gone"}
    foreign = {"resource": "pods", "name": "foreign", "uid": "uid-foreign"}
    async with Harness(tmp_path, wrap=network.wrap) as cluster:
        await a_cluster(cluster, devices=1)
        await cluster.create(a_claim("c"), user("first", "c"))
        await cluster.advance(1)
        seen = 0

        async def write(users):
            body = {"status": {"reservedFor": users}}
            await cluster.client.patch(RESOURCE_CLAIMS, "c", body, "default", subresource="status")

        async def meddle(request):
            """Change the claim between the scheduler's reading and writing it, now and then."""
            nonlocal seen
            if not request.path.endswith("/resourceclaims/c/status"):
                return
            seen += 1
            stored = await cluster.client.get(RESOURCE_CLAIMS, "c", "default")
            others = [msgspec.to_builtins(c) for c in stored.status.reserved_for]
            if seen == 1:
                await write([*others, claim, foreign])
            elif seen == 3:
                await write([c for c in others if c["uid"] != "uid-gone"])

        network.on_write = meddle
        await cluster.create(*(user(f"p{n}", "c") for n in range(40)), settle=False)
        await cluster.advance(30)
        assert seen > 3
        assert await unbound(cluster) == []
        assert await failures(cluster) == []
        names = {"first", "foreign", *(f"p{n}" for n in range(40))}
        # The claim controller removes entries of pods that do not exist.
        assert names - {"foreign"} <= set(await consumers(cluster)) <= names


async def test_the_scheduler_may_die_between_two_writes_of_a_shared_claim(tmp_path):
    network = Network()
    async with Harness(tmp_path, wrap=network.wrap) as cluster:
        await a_cluster(cluster, devices=1)
        await cluster.create(a_claim("c"), *(user(f"p{n}", "c") for n in range(40)), settle=False)
        for _ in range(12):
            await cluster.advance(SECONDS)
            await cluster.restart_components()
        await cluster.advance(30)
        assert await unbound(cluster) == []
        assert sorted(await consumers(cluster)) == sorted(f"p{n}" for n in range(40))
        claims = cluster.world.devices.claims
        stored = claims.get("default", "c")
        assert claims.consumers_in_flight.count(stored.uid, (), besides="") == 0


def failing(numbers, when):
    """Return a network in which some of the scheduler's writes to the claim's status fail."""
    network, seen = Network(), 0

    def fault(request):
        nonlocal seen
        if not request.path.endswith("/resourceclaims/c/status"):
            return ""
        seen += "scheduler" in request.headers.get("user-agent", "")
        return when if seen in numbers else ""

    network.fault = fault
    return network


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("numbers", [{1}, {2}, {2, 3}, {1, 2, 3, 4, 5, 6}], ids=str)
async def test_an_error_in_the_turn_of_one_pod_fails_no_other(tmp_path, numbers, when):
    network = failing(numbers, when)
    async with Harness(tmp_path, wrap=network.wrap) as cluster:
        await a_cluster(cluster, devices=1)
        await cluster.create(a_claim("c"), *(user(f"p{n}", "c") for n in range(30)), settle=False)
        await cluster.advance(60)
        assert await unbound(cluster) == []
        assert len(await failures(cluster)) <= len(numbers)
        assert sorted(await consumers(cluster)) == sorted(f"p{n}" for n in range(30))
        claims = cluster.world.devices.claims
        assert claims.consumers_in_flight.count(claims.get("default", "c").uid, (), "") == 0


async def test_pods_that_cannot_be_bound_are_no_consumers_until_they_are(tmp_path):
    network, broken = Network(), tuple(f"/p{n}/binding" for n in range(5))
    network.fault = lambda request: "before" if request.path.endswith(broken) else ""
    async with Harness(tmp_path, wrap=network.wrap) as cluster:
        await a_cluster(cluster, devices=1)
        await cluster.create(a_claim("c"), *(user(f"p{n}", "c") for n in range(20)), settle=False)
        await cluster.advance(0.5)
        assert sorted(await consumers(cluster)) == sorted(f"p{n}" for n in range(5, 20))
        network.fault = lambda request: ""
        await cluster.advance(30)
        assert await unbound(cluster) == []
        assert len(await consumers(cluster)) == 20


async def test_a_pod_that_is_deleted_while_it_waits_for_its_turn_is_no_consumer(tmp_path):
    network = Network()
    async with Harness(tmp_path, wrap=network.wrap) as cluster:
        await a_cluster(cluster, devices=1)
        await cluster.create(a_claim("c"), user("first", "c"))
        await cluster.advance(1)
        await cluster.create(*(user(f"p{n}", "c") for n in range(10)), settle=False)
        await cluster.advance(SECONDS * 2)
        for n in range(5, 10):
            await cluster.client.delete(PODS, f"p{n}", "default")
        await cluster.advance(30)
        assert sorted(await consumers(cluster)) == ["first", *(f"p{n}" for n in range(5))]


@pytest.mark.parametrize("faults", [0, 2])
async def test_pods_share_a_classic_claim_without_a_failed_attempt(tmp_path, faults):
    network = failing(range(1, faults + 1), "before")
    async with Harness(tmp_path, wrap=network.wrap) as cluster:
        driver = ClassicDriver(cluster.client, shared=True)
        await cluster.create(
            a_node("n1", cpu="200", pods=500), a_classic_class(),
            a_classic_claim("c", immediate=True), settle=False,
        )  # fmt: skip
        await cluster.advance(1)
        await driver.serve(cluster.settle)
        network.writes.clear()
        pods = [a_pod(f"p{n}", cpu="1m", claims=[named("x", "c")]) for n in range(32)]
        await cluster.create(*pods, settle=False)
        await cluster.advance(30)
        assert await unbound(cluster) == []
        assert len(await failures(cluster)) == faults
        assert len(await consumers(cluster, KINDS.claims)) == 32
        assert network.conflicts == 0
        assert network.writes["resourceclaims"] < 32

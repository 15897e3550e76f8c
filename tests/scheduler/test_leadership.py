"""Leader election with two schedulers: only the holder of the lease binds, whatever fails."""

import asyncio
import random
from contextlib import asynccontextmanager

import pytest

from holdfast.api.scheme import LEASES, PODS
from holdfast.client.client import Client
from holdfast.client.leader import LeaderElection, LeadershipLost
from holdfast.client.transport import LeaseGuardedTransport
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.scheduler.scheduler import Scheduler
from holdfast.testing import Fault, FaultyTransport, a_node, a_pod
from holdfast.testing.harness import Harness
from soak_size import SEED, rounds

NS, LEASE = "kube-system", "kube-scheduler"
ROOM = 4 * 4
"""How many pods of one CPU the nodes can run."""


class Freezer:
    """Freezes a process, as SIGSTOP does, until it is thawed."""

    def __init__(self, clock):
        self._clock = clock
        self.now, self.monotonic = clock.now, clock.monotonic
        self._thawed = asyncio.Event()
        self._thawed.set()

    @property
    def frozen(self):
        return not self._thawed.is_set()

    def freeze(self):
        self._thawed.clear()

    def thaw(self):
        self._thawed.set()

    async def sleep(self, seconds):
        await self._clock.sleep(seconds)
        await self._thawed.wait()

    async def wait_if_frozen(self):
        await self._thawed.wait()


class ReplicaTransport:
    """The transport of one replica: it records the binds that are sent, and can freeze."""

    def __init__(self, inner, freezer, note):
        self._inner, self._freezer, self._note = inner, freezer, note

    async def send(self, request):
        await self._freezer.wait_if_frozen()
        if request.method == "POST" and request.path.endswith("/binding"):
            if request.write_check is not None:
                request.write_check()
            await self._note(request.path.split("/")[-2])
        answer = await self._inner.send(request)
        await self._freezer.wait_if_frozen()
        return answer

    @asynccontextmanager
    async def stream(self, request):
        await self._freezer.wait_if_frozen()
        async with self._inner.stream(request) as stream:
            yield FreezingStream(stream, self._freezer)

    async def close(self):
        pass


class FreezingStream:
    def __init__(self, inner, freezer):
        self.status, self.headers = inner.status, inner.headers
        self._inner, self._freezer = inner, freezer

    async def __aiter__(self):
        async for line in self._inner:
            await self._freezer.wait_if_frozen()
            yield line


class Replica:
    """A scheduler with leader election that is restarted when it loses the lease."""

    def __init__(self, name, cluster, binds):
        self.name, self._cluster, self._binds = name, cluster, binds
        self.freezer = Freezer(cluster.clock)
        self.transport = FaultyTransport(
            ReplicaTransport(cluster.client.transport, self.freezer, self._note),
            clock=cluster.clock,
        )
        self.losses = 0
        self._task = asyncio.create_task(self._live(), name=f"replica {name}")

    async def _live(self):
        while True:
            election = LeaderElection(
                Client(self.transport), clock=self.freezer, identity=f"{self.name}-{self.losses}",
                name=LEASE, namespace=NS, rng=random.Random(self.name),
            )  # fmt: skip
            self._identity = election.identity
            client = Client(LeaseGuardedTransport(self.transport, election.check_leadership))
            scheduler = Scheduler(client, self.freezer, default_profiles(), seed=1)

            async def work(scheduler=scheduler):
                await scheduler.start()
                await scheduler.wait()

            try:
                await election.run(work)
            except LeadershipLost:
                self.losses += 1
            finally:
                await scheduler.stop()

    async def _note(self, pod):
        lease = await self._cluster.client.get(LEASES, LEASE, NS)
        self._binds.append((pod, self._identity, lease.spec.holder_identity))

    async def end(self):
        self.freezer.thaw()
        self.transport.add(Fault("unavailable", times=10**6))
        self._task.cancel()
        ended = asyncio.gather(self._task, return_exceptions=True)
        await self._cluster.clock.advance_until(ended.done)


@asynccontextmanager
async def two_replicas(tmp_path):
    """A cluster with a stopped scheduler, and two replicas that compete for the lease."""
    async with Harness(tmp_path) as cluster:
        await cluster.components.scheduler.stop()
        for n in range(4):
            await cluster.create(a_node(f"n{n}", cpu="4"), settle=False)
        binds = []
        replicas = [Replica(name, cluster, binds) for name in ("one", "two")]
        try:
            yield cluster, replicas, binds
        finally:
            for replica in replicas:
                await replica.end()


async def unbound(cluster):
    return [pod.name for pod in (await cluster.client.list(PODS)).items if not pod.spec.node_name]


def leader_of(replicas, binds):
    name = binds[-1][1].partition("-")[0]
    return sorted(replicas, key=lambda replica: replica.name != name)


async def test_a_frozen_leader_binds_nothing_after_it_thaws(tmp_path):
    """As after SIGSTOP and SIGCONT: its pods were assumed, and are never bound."""
    async with two_replicas(tmp_path) as (cluster, replicas, binds):
        await cluster.create(a_pod("first"), settle=False)
        await cluster.clock.advance_until(lambda: binds)
        leader, standby = leader_of(replicas, binds)
        await cluster.clock.settle()
        leader.transport.add(Fault("delay", method="POST", path="/binding", seconds=1.0, times=3))
        for n in range(3):
            await cluster.create(a_pod(f"p{n}"), settle=False)
        await cluster.clock.settle()
        assert len(binds) == 1
        leader.freezer.freeze()
        await cluster.clock.advance(30)
        assert await unbound(cluster) == []
        assert {who.partition("-")[0] for _, who, _ in binds[1:]} == {standby.name}
        leader.freezer.thaw()
        await cluster.clock.advance(30)
        assert leader.losses == 1
        assert [pod for pod, *_ in binds] == ["first", "p0", "p1", "p2"]


async def test_a_leader_that_cannot_renew_its_lease_stops_binding(tmp_path):
    """Its pods wait for the next leader, although it could still write."""
    async with two_replicas(tmp_path) as (cluster, replicas, binds):
        await cluster.create(a_pod("first"), settle=False)
        await cluster.clock.advance_until(lambda: binds)
        leader, standby = leader_of(replicas, binds)
        leader.transport.add(Fault("unavailable", path="leases", times=10**6))
        await cluster.clock.advance(13)
        assert leader.losses == 1
        await cluster.create(a_pod("second"), settle=False)
        await cluster.clock.settle()
        assert len(binds) == 1
        await cluster.clock.advance(10)
        assert [(pod, who.partition("-")[0]) for pod, who, _ in binds[1:]] == [
            ("second", standby.name)
        ]


def disturb(rng, replica):
    """Cause a random fault in a replica."""
    match rng.randrange(5):
        case 0:
            replica.freezer.freeze()
        case 1 | 2:
            replica.freezer.thaw()
        case 3:
            times = rng.randint(1, 12)
            replica.transport.add(Fault("unavailable", path="leases", times=times))
        case 4:
            seconds, times = rng.uniform(0.5, 25), rng.randint(1, 3)
            where = rng.choice(["leases", "/binding"])
            replica.transport.add(Fault("delay", path=where, seconds=seconds, times=times))


@pytest.mark.parametrize("seed", range(SEED, SEED + rounds(3)))
async def test_only_the_holder_of_the_lease_ever_binds(tmp_path, seed):
    rng = random.Random(seed)
    async with two_replicas(tmp_path) as (cluster, replicas, binds):
        made = 0
        for _ in range(40):
            if made < ROOM and rng.random() < 0.5:
                await cluster.create(a_pod(f"p{made}"), settle=False)
                made += 1
            if rng.random() < 0.4:
                disturb(rng, rng.choice(replicas))
            await cluster.clock.advance(rng.choice([0.5, 2, 6, 15]))
        for replica in replicas:
            replica.freezer.thaw()
            replica.transport.enabled = False
        for replica in replicas:  # The leader loses the lease to the other one.
            replica.freezer.freeze()
            await cluster.clock.advance(60)
            replica.freezer.thaw()
            await cluster.clock.advance(15)
        for _ in range(20):
            await cluster.clock.advance(15)
            if not await unbound(cluster):
                break
        assert await unbound(cluster) == []
        strangers = [bind for bind in binds if bind[1] != bind[2]]
        assert strangers == []
        found = (await cluster.client.list(PODS)).items
        load = {f"n{n}": sum(pod.spec.node_name == f"n{n}" for pod in found) for n in range(4)}
        assert max(load.values()) <= 4
        assert sum(replica.losses for replica in replicas) >= 1, "no replica lost the lease"

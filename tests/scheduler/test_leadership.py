"""Two schedulers, one lease: whatever befalls them, only its holder ever binds."""

import asyncio
import random
from contextlib import asynccontextmanager

import pytest

from holdfast.api.scheme import LEASES, PODS
from holdfast.client.client import Client
from holdfast.client.leader import LeaderElection, LeadershipLost
from holdfast.client.transport import LeaseGuardedTransport
from holdfast.plugins import default_profiles
from holdfast.scheduler.scheduler import Scheduler
from holdfast.testing import Fault, FaultyTransport, a_node, a_pod
from holdfast.testing.harness import Harness

NS, LEASE = "kube-system", "kube-scheduler"
ROOM = 4 * 4
"""Pods of one CPU that fit on the nodes."""


class Ice:
    """What a stopped process does: nothing, until it goes on as if no time had passed."""

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

    async def pass_by(self):
        await self._thawed.wait()


class Wire:
    """The way of one replica to the server; it notes the binds that arrive, and freezes over."""

    def __init__(self, inner, ice, note):
        self._inner, self._ice, self._note = inner, ice, note

    async def send(self, request):
        await self._ice.pass_by()
        if request.method == "POST" and request.path.endswith("/binding"):
            if request.write_check is not None:
                request.write_check()
            await self._note(request.path.split("/")[-2])
        answer = await self._inner.send(request)
        await self._ice.pass_by()
        return answer

    @asynccontextmanager
    async def stream(self, request):
        await self._ice.pass_by()
        async with self._inner.stream(request) as stream:
            yield Slow(stream, self._ice)

    async def close(self):
        pass


class Slow:
    def __init__(self, inner, ice):
        self.status, self.headers = inner.status, inner.headers
        self._inner, self._ice = inner, ice

    async def __aiter__(self):
        async for line in self._inner:
            await self._ice.pass_by()
            yield line


class Replica:
    """A scheduler process: it competes, works, and is started anew when it loses."""

    def __init__(self, name, cluster, binds):
        self.name, self._cluster, self._binds = name, cluster, binds
        self.ice = Ice(cluster.clock)
        self.wire = FaultyTransport(
            Wire(cluster.client.transport, self.ice, self._note), clock=cluster.clock
        )
        self.losses = 0
        self._task = asyncio.create_task(self._live(), name=f"replica {name}")

    async def _live(self):
        while True:
            election = LeaderElection(
                Client(self.wire), clock=self.ice, identity=f"{self.name}-{self.losses}",
                name=LEASE, namespace=NS, rng=random.Random(self.name),
            )  # fmt: skip
            self._identity = election.identity
            client = Client(LeaseGuardedTransport(self.wire, election.check_leadership))
            scheduler = Scheduler(client, self.ice, default_profiles(), seed=1)

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
        self.ice.thaw()
        self.wire.add(Fault("unavailable", times=10**6))
        self._task.cancel()
        ended = asyncio.gather(self._task, return_exceptions=True)
        await self._cluster.clock.advance_until(ended.done)


@asynccontextmanager
async def rivals(tmp_path):
    """A cluster whose own scheduler stands still, and two replicas that compete for it."""
    async with Harness(tmp_path) as cluster:
        await cluster.components.scheduler.stop()
        for n in range(4):
            await cluster.create(a_node(f"n{n}", cpu="4"), settle=False)
        binds = []
        pair = [Replica(name, cluster, binds) for name in ("one", "two")]
        try:
            yield cluster, pair, binds
        finally:
            for replica in pair:
                await replica.end()


async def unbound(cluster):
    return [pod.name for pod in (await cluster.client.list(PODS)).items if not pod.spec.node_name]


def leader_of(pair, binds):
    name = binds[-1][1].partition("-")[0]
    return sorted(pair, key=lambda replica: replica.name != name)


async def test_a_stopped_leader_that_goes_on_binds_nothing_any_more(tmp_path):
    """As after SIGSTOP and SIGCONT: its bindings were decided, and are never written."""
    async with rivals(tmp_path) as (cluster, pair, binds):
        await cluster.create(a_pod("first"), settle=False)
        await cluster.clock.advance_until(lambda: binds)
        leader, standby = leader_of(pair, binds)
        await cluster.clock.settle()
        leader.wire.add(Fault("delay", method="POST", path="/binding", seconds=1.0, times=3))
        for n in range(3):
            await cluster.create(a_pod(f"p{n}"), settle=False)
        await cluster.clock.settle()
        assert len(binds) == 1
        leader.ice.freeze()
        await cluster.clock.advance(30)
        assert await unbound(cluster) == []
        assert {who.partition("-")[0] for _, who, _ in binds[1:]} == {standby.name}
        leader.ice.thaw()
        await cluster.clock.advance(30)
        assert leader.losses == 1
        assert [pod for pod, *_ in binds] == ["first", "p0", "p1", "p2"]


async def test_a_leader_that_cannot_renew_binds_nothing_any_more(tmp_path):
    """Its pods wait for whoever holds the lease, although it could still write them."""
    async with rivals(tmp_path) as (cluster, pair, binds):
        await cluster.create(a_pod("first"), settle=False)
        await cluster.clock.advance_until(lambda: binds)
        leader, standby = leader_of(pair, binds)
        leader.wire.add(Fault("unavailable", path="leases", times=10**6))
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
    """Do to a replica what happens to processes."""
    match rng.randrange(5):
        case 0:
            replica.ice.freeze()
        case 1 | 2:
            replica.ice.thaw()
        case 3:
            times = rng.randint(1, 12)
            replica.wire.add(Fault("unavailable", path="leases", times=times))
        case 4:
            seconds, times = rng.uniform(0.5, 25), rng.randint(1, 3)
            where = rng.choice(["leases", "/binding"])
            replica.wire.add(Fault("delay", path=where, seconds=seconds, times=times))


@pytest.mark.parametrize("seed", range(8))
async def test_only_the_holder_of_the_lease_ever_binds(tmp_path, seed):
    rng = random.Random(seed)
    async with rivals(tmp_path) as (cluster, pair, binds):
        made = 0
        for _ in range(40):
            if made < ROOM and rng.random() < 0.5:
                await cluster.create(a_pod(f"p{made}"), settle=False)
                made += 1
            if rng.random() < 0.4:
                disturb(rng, rng.choice(pair))
            await cluster.clock.advance(rng.choice([0.5, 2, 6, 15]))
        for replica in pair:
            replica.ice.thaw()
            replica.wire.enabled = False
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
        assert sum(replica.losses for replica in pair) >= 1, "nothing befell them"

"""Migrations under faults of the API server, and with the controller killed at any write.

Whatever fails: no pod is evicted before its room is reserved, every job ends, no reservation stays
behind a failed job, and the Deployments get all their pods back.
"""

import asyncio
import random

import pytest

from holdfast.api.scheme import POD_MIGRATION_JOBS, PODS
from holdfast.runtime.errors import Unavailable
from holdfast.runtime.settings import MigrationSettings
from holdfast.scheduling.configuration.reading import Configuration
from holdfast.testing import Chances, FaultyTransport, a_deployment, a_node
from holdfast.testing.harness import Harness
from soak_size import SEED, rounds
from stories.migrations import EvictionWitness, a_job, job_of, pods_of, reservations, web

FAULTS = Chances(
    conflict=0.05, unavailable=0.05, unavailable_after=0.05, lost=0.05, expired=0.03, cut=0.05,
    torn=0.03, ended=0.03,
)  # fmt: skip
SETTINGS = MigrationSettings(
    max_per_node=None, max_per_workload=2, max_unavailable_per_workload=2, object_limits={}
)


def migrates(request):
    """Return whether a request is a write of the migration controller."""
    path, method = request.path, request.method
    return method not in ("GET", "HEAD") and (
        "/podmigrationjobs/" in path
        or path.endswith("/eviction")
        or (path.endswith("/reservations") and method == "POST")
        or ("/reservations/" in path and method == "DELETE")
    )


class Killed:
    """A transport whose process is dead from its write of this number on, before or after it."""

    def __init__(self, inner, number, *, before):
        self._inner = EvictionWitness(inner)
        self._left, self._before = number, before
        self.dead = False
        self._buried = asyncio.Event()

    async def send(self, request):
        """Send a request; nothing is sent or answered when the process is dead."""
        last = migrates(request) and self._left == 0
        self._left -= migrates(request)
        self.dead = self.dead or (last and self._before)
        if self.dead:
            await self._hang()
        response = await self._inner.send(request)
        self.dead = self.dead or last
        if self.dead:
            await self._hang()
        return response

    def bury(self):
        """Let what waits for an answer fail, so that it can be stopped."""
        self._buried.set()

    async def _hang(self):
        await self._buried.wait()
        raise Unavailable("the process is dead")

    def stream(self, request):
        """Open a stream."""
        return self._inner.stream(request)

    async def close(self):
        """Close the inner transport."""
        await self._inner.close()


async def restart(cluster, transports):
    """Start the components again, after the transport of one of them is dead."""
    for each in transports:
        each.bury()
    await cluster.restart_components()


async def move_with_kill(directory, number, *, before, others):
    """Move a pod, with a kill at a write and a restart; return whether it came to that."""
    transports = []

    def wrap(inner, clock):
        transports.append(Killed(inner, number if armed else -1, before=before))
        return transports[-1]

    armed = True
    async with Harness(directory, wrap=wrap) as cluster:
        pod = await web(cluster, others=others)
        await cluster.create(a_job("j", pod, ttl="60s"), settle=False)
        for _ in range(8):
            await cluster.advance(10)
            if armed and any(each.dead for each in transports):
                armed = False
                await restart(cluster, transports)
        job = await job_of(cluster)
        assert len(await pods_of(cluster)) == 3
        if others:
            assert (job.phase, job.status.status) == ("Succeeded", "Complete")
        else:
            assert (job.phase, job.status.reason) == ("Failed", "Timeout")
            assert not await reservations(cluster)
            assert (await cluster.pod(pod.name)).uid == pod.uid
        return not armed


@pytest.mark.parametrize("others", [("n2",), ()], ids=["room", "no room"])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_a_job_ends_well_after_a_kill_at_any_write(tmp_path, before, others):
    number = 0
    while await move_with_kill(tmp_path / str(number), number, before=before, others=others):
        number += 1
    assert number >= (8 if others else 5)


async def test_a_kill_between_eviction_and_status_is_no_missing_pod(tmp_path):
    """The pod is gone, and only the annotation of the job tells that the job has evicted it."""
    transports = []

    class AfterEviction(Killed):
        async def send(self, request):
            if request.path.endswith("/eviction"):
                self._left = 0
            return await super().send(request)

    def wrap(inner, clock):
        transports.append(AfterEviction(inner, -1, before=False))
        return transports[-1]

    async with Harness(tmp_path, wrap=wrap) as cluster:
        pod = await web(cluster)
        await cluster.create(a_job("j", pod), settle=False)
        await cluster.advance(5)
        assert any(each.dead for each in transports)
        assert (await job_of(cluster)).condition("Eviction") is None
        await restart(cluster, transports)
        await cluster.advance(30)
        assert (await job_of(cluster)).phase == "Succeeded"


class Network:
    """Faulty transports with a witness of evictions, seeded."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.transports = []
        self.troubled = True

    def wrap(self, inner, clock):
        made = FaultyTransport(
            EvictionWitness(inner), chances=FAULTS, rng=self.rng, clock=clock, enabled=self.troubled
        )
        self.transports.append(made)
        return made

    def set(self, *, troubled):
        self.troubled = troubled
        for each in self.transports:
            each.enabled = troubled

    @property
    def injected(self):
        return sum(len(each.injected_faults) for each in self.transports)


async def trouble(cluster, rng):
    """Let something happen while jobs run."""
    match rng.choice(("restart", "pause", "delete", "stop", "nothing", "nothing")):
        case "restart":
            await cluster.restart_components()
        case "pause":
            name = f"j{rng.randrange(6)}"
            for paused in (True, False):
                await cluster.client.patch(POD_MIGRATION_JOBS, name, {"spec": {"paused": paused}})
                await cluster.advance(rng.random() * 3)
        case "delete":
            pod = rng.choice(await pods_of(cluster, rng.choice(("a", "b"))))
            await cluster.delete(PODS, pod.name, "default")
        case "stop":
            patch = {"status": {"phase": "Aborted"}}
            name = f"j{rng.randrange(6)}"
            await cluster.client.patch(POD_MIGRATION_JOBS, name, patch, subresource="status")


@pytest.mark.parametrize("number", range(rounds(8)))
async def test_jobs_end_well_after_random_faults(tmp_path, number):
    seed = SEED * 1000 + number
    rng, network = random.Random(seed), Network(seed)
    configuration = Configuration(migration=SETTINGS)
    async with Harness(tmp_path, wrap=network.wrap, configuration=configuration) as cluster:
        network.set(troubled=False)
        await cluster.create(a_node("n1", cpu="10"))
        for app in ("a", "b"):
            await cluster.create(a_deployment(app, replicas=5, cpu="1"))
        await cluster.advance(5)
        pods = [*(await pods_of(cluster, "a"))[:3], *(await pods_of(cluster, "b"))[:3]]
        sizes = (rng.choice("12345"), rng.choice("12345"))
        await cluster.create(*(a_node(f"n{i}", cpu=cpu) for i, cpu in enumerate(sizes, 2)))
        network.set(troubled=True)
        for index, pod in enumerate(pods):
            mode = rng.choice(("ReservationFirst", "ReservationFirst", "EvictDirectly"))
            labels = {"koordinator.sh/evict-policy": rng.choice(("Eviction", "Delete"))}
            job = a_job(f"j{index}", pod, ttl="90s", mode=mode, labels=labels)
            await cluster.create(job, settle=False)
            await cluster.advance(rng.random() * 2)
        for _ in range(6):
            await trouble(cluster, rng)
            await cluster.advance(rng.random() * 20)
        network.set(troubled=False)
        assert network.injected > 20
        await cluster.advance(200)
        jobs = (await cluster.client.list(POD_MIGRATION_JOBS)).items
        assert [job.name for job in jobs if not job.finished] == []
        kept = [r.name for r in await reservations(cluster) if r.phase != "Succeeded"]
        assert kept == []
        for app in ("a", "b"):
            assert len(await pods_of(cluster, app)) == 5

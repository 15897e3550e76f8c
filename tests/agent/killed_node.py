"""A node whose agent and driver are killed again and again while pods with devices run."""

import asyncio
import os
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from agent import recording_driver
from agent.recording_driver import EFFECTS, holders
from holdfast.api.scheme import DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from holdfast.client.client import Client
from holdfast.client.informer import Informer
from holdfast.node.agent.claim_checkpoint import CLAIM_CHECKPOINT, read_claims
from holdfast.node.agent.node_pod import NODE_PODS
from holdfast.node.driverkit.checkpoint import Checkpoint
from holdfast.processes.cluster import PKI, Cluster
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import NotFound
from holdfast.runtime.settings import (
    ClusterSettings,
    NodeSettings,
    SchedulerSettings,
    ServerSettings,
)
from holdfast.server.access.credentials import write_node_kubeconfig
from holdfast.server.inprocess import InProcessTransport
from holdfast.testing import a_pod
from holdfast.testing.device_builders import a_claim, a_claim_template, a_device_class
from soak_size import SEED

KILLS = int(os.environ.get("HOLDFAST_KILLS", "0"))
PODS_A_KILL = 2
LONGEST = 3.0
"""Seconds between two kills at most; an agent needs about one to start."""
SECONDS = 120.0
"""How long pods, and then the end of everything, may take after the last kill."""
NODE = "node-0001"
SHARED_BY = 3
SCRIPT = """\
effects=$1 directory=$2 name=$3 seconds=$4 code=$5
held() {
  for device in ${DEVICES:-none}; do
    last=$(grep "^[+-] .* $device\\$" "$effects" | tail -n 1)
    [ "$last" = "+ $CLAIM $device" ] && continue
    echo "$name at its $1: claim ${CLAIM:-none}, $device: $last" >> "$directory/broken"
    exit 9
  done
}
case $name in stubborn*) trap '' TERM ;; esac
held start
echo "$name" >> "$directory/runs"
sleep "$seconds"
held end
exit "$code"
"""


class KilledNode:
    """A cluster in this process; its only node has an agent and a driver in processes."""

    claims = RESOURCE_CLAIMS
    kinds = ("own", "own", "own", "two", "shared", "shared", "deleted", "stubborn", "forced")
    killed = (["agent"], ["driver"], ["driver", "agent"])

    def __init__(self, directory):
        self.directory = directory
        self.node = directory / NODE
        self.effects = directory / "effects"
        for name in ("effects", "runs", "broken"):
            (directory / name).touch()
        (directory / "script").write_text(SCRIPT)
        self.node.mkdir()
        self._settings = ClusterSettings(
            data_dir=directory / "data",
            single_process=True,
            server=ServerSettings(port=0),
            nodes=NodeSettings(0, driver_nodes=0),
            scheduler=SchedulerSettings(check_invariants=True),
        )
        self.kills = []
        self.double = []
        self.pod_of = {}
        self._devices = {}
        self._deadline = None
        self._processes = {}

    async def start(self):
        clock = SystemClock()
        self.cluster = Cluster(self._settings, clock)
        await self.cluster.start()
        pki, path = self.directory / "data" / PKI, self.node / "kubeconfig"
        write_node_kubeconfig(pki, NODE, path, self.cluster.url, clock.now())
        self.client = Client(InProcessTransport(self.cluster.server.server), "test")
        self._watch = Informer(self.client, self.claims, clock=clock, on_event=self._on_claim)
        self._watch.start()
        await self.client.create(DEVICE_CLASSES, a_device_class("d", driver=recording_driver.NAME))
        for count, name in enumerate(("one", "two"), 1):
            template = a_claim_template(name, device_class="d", count=count)
            await self.client.create(RESOURCE_CLAIM_TEMPLATES, template, "default")
        self._start("agent")
        async with asyncio.timeout(SECONDS):
            while not all((self.node / name).is_dir() for name in ("plugins_registry", "cdi")):
                await asyncio.sleep(0.05)
        self._start("driver")

    @property
    def started(self):
        """Names of the processes."""
        return list(self._processes)

    async def stop(self):
        for name in self.started:
            await self._end(name)
        await self._watch.stop()
        await self.cluster.stop()

    def _commands(self):
        node = str(self.node)
        agent = ["--node", NODE, "--node-dir", node, "--kubeconfig", f"{node}/kubeconfig"]
        return {
            "agent": ["-m", "holdfast", "agent", *agent, "--runtime", "process"],
            "driver": [recording_driver.__file__, "--kubelet-dir", node],
        }

    def _start(self, name):
        command = self._commands()[name]
        env = {**os.environ, EFFECTS: str(self.effects)}
        with (self.directory / f"{name}.log").open("a") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, *command], stdout=log, stderr=log, env=env
            )

    async def _end(self, name):
        self._processes[name].kill()
        await asyncio.to_thread(self._processes[name].wait)

    async def effect(self):
        """Wait for the next call of a handler, at most the longest time between two kills."""
        size = self.effects.stat().st_size
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST):
                while self.effects.stat().st_size == size:
                    await asyncio.sleep(0.005)

    async def kill(self, names, when):
        """Kill some processes and start them again; none may have ended alone."""
        for name, process in self._processes.items():
            assert process.poll() is None, self.log(name)
        self.kills.append(f"{' and '.join(names)} {when}")
        for name in names:
            await self._end(name)
        for name in names:
            self._start(name)

    def end_kills(self):
        """Expect the end of every pod from now on.

        The claim of a pod that was deleted while no agent ran is released when an agent starts;
        until then others wait for its device.
        """
        self._deadline = time.monotonic() + SECONDS

    def _on_claim(self, _kind, old, new):
        self._devices.pop((new or old).uid, None)
        if new is None or new.status.allocation is None:
            return
        mine = self._devices_of(new.status.allocation)
        for other, theirs in self._devices.items():
            if both := mine & theirs:
                self.double.append(f"{sorted(both)}: {new.key} {new.uid} and {other}")
        self._devices[new.uid] = mine
        self.pod_of[new.uid] = self._pod_of(new.name)

    @staticmethod
    def _devices_of(allocation):
        return {result.device for result in allocation.devices.results}

    @staticmethod
    def _pod_of(claim):
        return claim if claim.startswith("shared") else claim[:-8]

    @staticmethod
    def named(claim):
        """Return how a pod names a claim."""
        return {"resourceClaimName": claim}

    @staticmethod
    def own(kind):
        """Return how a pod asks for a claim of its own."""
        return {"resourceClaimTemplateName": "two" if kind == "two" else "one"}

    @staticmethod
    def shared_claim(name):
        return a_claim(name, device_class="d")

    def log(self, name):
        return (self.directory / f"{name}.log").read_text()[-4000:]

    def lines(self, name):
        return (self.directory / name).read_text().splitlines()

    async def create(self, name, claim, seconds, code):
        command = ["sh", str(self.directory / "script"), str(self.effects), str(self.directory)]
        pod = a_pod(name, cpu="10m", claims=[{"name": "c", **claim}])
        pod["spec"] |= {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
        pod["spec"]["containers"][0]["command"] = [*command, name, f"{seconds:.2f}", str(code)]
        await self.client.create(NODE_PODS, pod, "default")

    async def until(self, name, reached):
        """Return the pod when something is true of it; None counts as a pod that is gone."""
        while not reached(pod := await self._found(name)):
            late = self._deadline is not None and time.monotonic() > self._deadline
            assert not late, f"pod {name} stays at {pod and pod.status}"
            await asyncio.sleep(0.05)
        return pod

    async def _found(self, name):
        with suppress(NotFound):
            return await self.client.get(NODE_PODS, name, "default")

    async def delete(self, name, grace=None):
        with suppress(NotFound):
            await self.client.delete(NODE_PODS, name, "default", grace_seconds=grace)
        await self.until(name, lambda pod: pod is None)

    async def leftovers(self):
        """Return what is still there, by where it is."""
        pods = (await self.client.list(NODE_PODS)).items
        claims = (await self.client.list(self.claims)).items
        of_driver = self.node / "plugins" / recording_driver.NAME / "checkpoint.json"
        found = {
            "pods": [pod.name for pod in pods],
            "claims": [f"{claim.name}: {claim.status}" for claim in claims],
            "agent's checkpoint": read_claims(self.node / CLAIM_CHECKPOINT),
            "driver's checkpoint": Checkpoint(of_driver).uids(),
            "CDI files": [path.name for path in (self.node / "cdi").iterdir()],
            "pod directories": [path.name for path in (self.node / "pods").iterdir()],
            "processes": processes_in(self.node / "pods"),
            "devices": holders(self.effects.read_text()),
        }
        return {where: what for where, what in found.items() if what}


def processes_in(directory):
    """Return the processes that work in a directory or have files in it open."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            links = [process / "cwd", *(process / "fd").iterdir()]
            if any(_target(link).startswith(f"{directory}/") for link in links):
                found.append(f"{process.name}: {(process / 'cmdline').read_text()!r}")
    return found


def _target(link):
    try:
        return os.readlink(link)
    except OSError:
        return ""


async def live(node, name, rng, shared):
    """Create a pod, perhaps delete it early, and check its end."""
    kind, code = name.split("-")[0], rng.choice((0, 0, 3))
    seconds = 30 if kind == "stubborn" else rng.uniform(0.05, 1)
    joined = await shared.join() if kind == "shared" else ""
    claim = node.named(joined) if joined else node.own(kind)
    await node.create(name, claim, seconds, code)
    if kind in ("deleted", "stubborn", "forced"):
        await asyncio.sleep(rng.uniform(0, 3))
        await node.delete(name, grace=0 if kind == "forced" else None)
        return
    pod = await node.until(name, lambda pod: pod is not None and pod.finished)
    assert pod.status.phase == ("Failed" if code else "Succeeded"), f"{name}: {pod.status}"
    state = pod.status.container_statuses[0].state
    assert state["terminated"]["exitCode"] == code, f"{name}: {pod.status}"
    await node.delete(name)
    if joined:
        await shared.leave(joined)


class SharedClaims:
    """Claims that several pods use, each deleted after its last pod."""

    def __init__(self, node):
        self._node = node
        self._client = node.client
        self._joined = 0
        self._left = Counter()

    async def join(self):
        number, place = divmod(self._joined, SHARED_BY)
        self._joined += 1
        name = f"shared-{number}"
        if place == 0:
            await self._client.create(self._node.claims, self._node.shared_claim(name), "default")
        return name

    async def leave(self, name):
        self._left[name] += 1
        if self._left[name] == SHARED_BY:
            await self._client.delete(self._node.claims, name, "default")

    async def close(self):
        for claim in (await self._client.list(self._node.claims)).items:
            if claim.name.startswith("shared"):
                with suppress(NotFound):
                    await self._client.delete(self._node.claims, claim.name, "default")


async def kill_and_check(node):
    """Start everything, kill it again and again, and check the end."""
    try:
        await node.start()
        await kill_rounds(node, random.Random(SEED))
    except BaseException as error:
        error.add_note(f"seed {SEED}, {len(node.kills)} kills: {', '.join(node.kills)}")
        error.add_note(f"devices that were not held: {node.lines('broken')}")
        error.add_note(f"claims: {node.pod_of}")
        error.add_note(f"effects:\n{node.effects.read_text()[-3000:]}")
        for name in node.started:
            error.add_note(f"{name}:\n{node.log(name)}")
        raise
    finally:
        await node.stop()


async def kill_rounds(node, rng):
    shared, names = SharedClaims(node), []
    async with asyncio.TaskGroup() as pods:
        for _ in range(KILLS):
            for _ in range(PODS_A_KILL):
                names.append(f"{rng.choice(node.kinds)}-{len(names)}")
                pods.create_task(live(node, names[-1], random.Random(rng.random()), shared))
            which = rng.choice(node.killed)
            if rng.random() < 0.5:
                await asyncio.sleep(after := rng.uniform(0, LONGEST))
                await node.kill(which, f"after {after:.2f} s")
            else:
                await node.effect()
                await asyncio.sleep(after := rng.uniform(0, 0.3))
                await node.kill(which, f"{after:.2f} s after an effect")
        node.end_kills()
    await shared.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(SECONDS):
            while await node.leftovers():
                await asyncio.sleep(0.1)
    assert await node.leftovers() == {}
    assert node.double == []
    assert node.lines("broken") == []
    runs = Counter(node.lines("runs"))
    ended = {name for name in names if name.split("-")[0] in ("own", "two", "shared")}
    assert {name for name, times in runs.items() if times > 1} == set()
    assert ended <= set(runs)
    assert_refused_only_after_force(node)


def assert_refused_only_after_force(node):
    """Check that a device was only asked for while held if its pod was deleted by force."""
    for line in node.lines("effects"):
        if line.startswith("!"):
            holder = node.pod_of[line.split()[3]]
            assert holder.startswith("forced"), f"{line}: held by the claim of {holder}"

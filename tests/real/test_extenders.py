"""kube-scheduler and Holdfast send an extender the same requests and report the same results."""

import asyncio
import contextlib
import subprocess
import sys
import time

import pytest
import yaml
from aiohttp import web

from free_port import free_port
from holdfast.api.scheme import NODES, PODS
from holdfast.client.client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import load
from holdfast.testing import a_node, a_pod, a_priority_class
from holdfast.testing.builders import resource_of
from holdfast.testing.fake_extender import FakeExtender, allow, fail, refuse
from real.control_plane import program

pytestmark = pytest.mark.real
NAMES = ("x1", "x2", "x3")
HERE = {"extended": "yes"}


def config(kubeconfig, extender, path):
    path.write_text(
        yaml.safe_dump({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            "leaderElection": {"leaderElect": False},
            "profiles": [{"schedulerName": "extended"}],
            "extenders": [{
                "urlPrefix": extender.url, "filterVerb": "filter", "prioritizeVerb": "prioritize",
                "preemptVerb": "preempt", "bindVerb": "bind", "weight": 1, "nodeCacheCapable": True,
            }],
        })
    )  # fmt: skip
    return path


def theirs(path):
    return [program("kube-scheduler"), "--config", str(path), "--secure-port", "0"]


def ours(path):
    health = ["--health-port", str(free_port())]
    return [sys.executable, "-m", "holdfast", "scheduler", "--config", str(path), *health]


@contextlib.asynccontextmanager
async def scheduling(command, log):
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        yield
        assert process.poll() is None, log.read_text()[-2000:]
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, 30)


@pytest.fixture
async def client(control_plane):
    endpoint = await load(control_plane.kubeconfig)
    made = Client(HttpTransport(endpoint), "test")
    for name in NAMES:
        node = a_node(name, cpu="4", labels=HERE)
        await made.create(NODES, node)
        await made.patch(NODES, name, {"status": node["status"]}, subresource="status")
        await made.patch(NODES, name, {"spec": {"taints": None}})
    high = a_priority_class("extended-high", 1000)
    await made.create(resource_of(high), high)
    yield made
    for name in NAMES:
        await made.delete(NODES, name)
    await made.delete(resource_of(high), "extended-high")
    await made.close()


class Scenes:
    """Create pods and record the requests to the extender and the result."""

    def __init__(self, client, extender):
        self._client = client
        self._extender = extender
        extender.answers = {"prioritize": lambda body: [], "bind": self._bind}

    async def _bind(self, body):
        target = {"kind": "Node", "name": body["Node"]}
        meta = {"name": body["PodName"], "uid": body["PodUID"]}
        made = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        await self._client.bind(body["PodNamespace"], body["PodName"], made)
        return {}

    async def filtered(self, answer, **spec):
        """Schedule one pod on empty nodes."""
        self._extender.answers["filter"] = answer
        return await self._tried(**spec)

    async def preempting(self, answer):
        """Schedule a pod of high priority on full nodes."""
        self._extender.answers["filter"] = allow(*NAMES)
        self._extender.answers["preempt"] = answer
        for name in NAMES:
            await self._create(a_pod(f"s-{name}", cpu="4", node=name))
        return await self._tried(cpu="3", priority_class_name="extended-high")

    async def _tried(self, **spec):
        self._extender.asked.clear()
        pod = a_pod("p", node_selector=HERE, scheduler_name="extended", **spec)
        await self._create(pod)
        try:
            told = await self._told("p")
        finally:
            await self._clear()
        # The number of attempts before this check varies, so repeated requests are removed.
        asked = [self._question(*question) for question in self._extender.asked]
        return {"told": told, "asked": [q for i, q in enumerate(asked) if q not in asked[:i]]}

    async def _told(self, name):
        deadline = time.monotonic() + 30
        while True:
            pod = await self._client.get(PODS, name, "default")
            condition = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
            if pod.spec.node_name or (condition and condition.status == "False"):
                nominated = pod.status.nominated_node_name
                reason, words = (condition.reason, condition.message) if condition else ("", "")
                words = words.replace(self._extender.url, "URL")
                return {"node": pod.spec.node_name, "nominated": nominated, "reason": reason,
                        "message": words}  # fmt: skip
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)

    def _question(self, verb, body):
        """Return a request without the parts that differ from run to run."""
        kept = {"verb": verb, "keys": sorted(body)}
        if "NodeNames" in body:
            kept["nodes"] = sorted(body["NodeNames"])
        if body.get("NodeNameToMetaVictims"):
            kept["victims"] = {
                node: (len(victims["Pods"]), victims["NumPDBViolations"])
                for node, victims in sorted(body["NodeNameToMetaVictims"].items())
            }
        if "Pod" in body:
            kept["container"] = sorted(body["Pod"]["spec"]["containers"][0])
        return kept

    async def _create(self, pod):
        await self._client.create(PODS, pod, "default")

    async def _clear(self):
        while pods := (await self._client.list(PODS, "default")).items:
            for pod in pods:
                with contextlib.suppress(Exception):
                    await self._client.delete(PODS, pod.name, "default", grace_seconds=0)
            await asyncio.sleep(0.05)


def only(*names):
    return lambda body: {
        "NodeNameToMetaVictims": {name: body["NodeNameToMetaVictims"][name] for name in names}
    }


def by_name(name):
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    return {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
    }}  # fmt: skip


async def play(client, extender):
    scenes = Scenes(client, extender)
    mixed = {"NodeNames": [], "FailedNodes": {"x1": "perhaps", "x2": "perhaps"},
             "FailedAndUnresolvableNodes": {"x1": "never"}}  # fmt: skip
    return {
        "allowed": await scenes.filtered(allow("x2")),
        "any case": await scenes.filtered(lambda _b: {"nodenames": ["x3"]}),
        "refused": await scenes.filtered(refuse("no GPU left", *NAMES)),
        "unresolvable": await scenes.filtered(refuse("never", *NAMES, unresolvable=True)),
        "mixed": await scenes.filtered(lambda _b: mixed),
        "silent": await scenes.filtered(allow()),
        "silent and narrowed": await scenes.filtered(allow(), affinity=by_name("x1")),
        "partly": await scenes.filtered(refuse("no", "x1", "x2"), cpu="3", affinity=by_name("x1")),
        "broken": await scenes.filtered(fail(500)),
        "error": await scenes.filtered(lambda _b: {"Error": "out of order"}),
        "stranger": await scenes.filtered(lambda _b: {"NodeNames": ["elsewhere"]}),
        "evict on x2": await scenes.preempting(only("x2")),
        "evict no pod": await scenes.preempting(only()),
        "evict broken": await scenes.preempting(lambda _b: web.Response(status=503)),
        "evict no victims": await scenes.preempting(
            lambda _b: {"NodeNameToMetaVictims": {"x1": {"Pods": []}}}
        ),
    }  # fmt: skip


async def test_extenders_get_the_requests_of_kube_scheduler(
    control_plane, scheduler_kubeconfig, client, tmp_path
):
    if program("kube-scheduler") is None:
        pytest.fail("kube-scheduler not found: run `make binaries` (needs Go) first")
    seen = {}
    for who, kubeconfig in ((theirs, control_plane.kubeconfig), (ours, scheduler_kubeconfig)):
        async with FakeExtender() as extender:
            path = config(kubeconfig, extender, tmp_path / f"{who.__name__}.yaml")
            async with scheduling(who(path), tmp_path / f"{who.__name__}.log"):
                seen[who.__name__] = await play(client, extender)
    differing = {
        scene: (expected, seen["ours"][scene])
        for scene, expected in seen["theirs"].items()
        if seen["ours"][scene] != expected
    }
    assert not differing, "\n".join(f"{k}:\n  {a}\n  {b}" for k, (a, b) in differing.items())

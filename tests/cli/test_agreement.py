"""``holdfast explain`` agrees with kube-scheduler, pod by random pod, on a real control plane.

Each pod is explained over the current objects, once as the server stored it and once as it was
written. Then kube-scheduler schedules it: its node must be among our best nodes, its message of an
unschedulable pod must equal ours, and its victims must equal ours.
"""

import asyncio
import json
import random
import subprocess

import pytest

from cli.explain_requests import ask
from holdfast.api.resource import Resource
from holdfast.client.client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import load
from holdfast.testing import a_node, a_pod, a_priority_class
from real.control_plane import ControlPlane, program

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]
PODS, PER_CASE = 60, 10.0


def raw(group, plural, kind, namespaced=True):
    return Resource(group, "v1", plural, kind, dict, namespaced=namespaced)


NODES, PODS_RAW = raw("", "nodes", "Node", False), raw("", "pods", "Pod")
CLASSES = raw("scheduling.k8s.io", "priorityclasses", "PriorityClass", False)
BUDGETS = raw("policy", "poddisruptionbudgets", "PodDisruptionBudget")


@pytest.fixture
def kubeconfig(tmp_path):
    if any(program(name) is None for name in ("etcd", "kube-apiserver", "kube-scheduler")):
        pytest.fail("the real control plane is not built: run `make binaries` (needs Go) first")
    plane = ControlPlane(tmp_path / "plane").start()
    config = tmp_path / "config.json"
    config.write_text(json.dumps({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100, "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(plane.kubeconfig)},
    }))  # fmt: skip
    with (tmp_path / "kube-scheduler.log").open("wb") as log:
        command = [program("kube-scheduler"), "--config", str(config), "--secure-port", "0"]
        plane.processes.append(subprocess.Popen(command, stdout=log, stderr=log))
        yield plane.kubeconfig
        plane.stop()


def random_node(rng, number):
    taint = {"key": "k", "value": rng.choice("ab"),
             "effect": rng.choice(["NoSchedule", "PreferNoSchedule"])}  # fmt: skip
    gpus = {"example.com/gpu": "2"} if rng.random() < 0.4 else {}
    return a_node(
        f"n{number}", cpu=rng.choice("48"), memory=rng.choice(["8Gi", "16Gi"]),
        pods=rng.choice(["5", "20"]), allocatable=gpus, taints=[taint][: rng.random() < 0.3],
        labels={"zone": f"z{number % 3}", "disk": rng.choice(["ssd", "hdd"])},
        unschedulable=True if rng.random() < 0.1 else None,
    )  # fmt: skip


def random_pod(rng, number):
    maybe = lambda share, value: value if rng.random() < share else None  # noqa: E731
    disk = {"key": "disk", "operator": "In", "values": [rng.choice(["ssd", "hdd", "tape"])]}
    name = {"key": "metadata.name", "operator": "In", "values": [rng.choice(["n1", "nx"])]}
    zone = {"key": "zone", "operator": rng.choice(["NotIn", "Exists"]), "values": ["z0"]}
    if zone["operator"] == "Exists":
        del zone["values"]
    term = rng.choice([{"matchFields": [name]}, {"matchExpressions": [zone]}])
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": rng.randint(1, 100), "preference": {"matchExpressions": [disk]}}
        ],
    }
    spread = {
        "maxSkew": 1, "topologyKey": rng.choice(["zone", "kubernetes.io/hostname"]),
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "a"}},
    }  # fmt: skip
    pod = a_pod(
        f"p{number}", labels={"app": rng.choice("abc")},
        cpu=rng.choice([None, "100m", "1", "1500m", "3", "9"]),
        memory=rng.choice([None, "128Mi", "2Gi", "20Gi"]),
        limits=maybe(0.2, {"example.com/gpu": rng.choice("123")}),
        node_selector=maybe(0.2, {"disk": rng.choice(["ssd", "hdd"])}),
        tolerations=maybe(0.3, [{"key": "k", "operator": "Exists"}]),
        affinity=maybe(0.3, {"nodeAffinity": affinity}),
        topology_spread_constraints=maybe(0.25, [spread]),
        priority_class_name=maybe(0.4, rng.choice(["high", "middle"])),
    )  # fmt: skip
    if rng.random() < 0.2:
        port = {"containerPort": 80, "hostPort": rng.choice([80, 81])}
        pod["spec"]["containers"][0]["ports"] = [port]
    return pod


class Agreement:
    """Schedules one pod after the other with both schedulers."""

    def __init__(self, client, rng):
        self.client, self.rng = client, rng
        self.counts = {"placed": 0, "refused": 0, "preempting": 0}

    async def furnish(self):
        for name, value in (("high", 1000), ("middle", 10)):
            await self.client.create(CLASSES, a_priority_class(name, value))
        selector = {"selector": {"matchLabels": {"app": "a"}}, "minAvailable": 1}
        budget = {"metadata": {"name": "a", "namespace": "default"}, "spec": selector}
        await self.client.create(BUDGETS, budget, "default")
        for number in range(8):
            node = random_node(self.rng, number)
            name = node["metadata"]["name"]
            await self.client.create(NODES, node)
            status = {"status": node["status"]}
            await self.client.patch(NODES, name, status, subresource="status")
            # The API server taints new nodes, and no controller removes the taint here.
            taints = {"spec": {"taints": node.get("spec", {}).get("taints", [])}}
            await self.client.patch(NODES, name, taints)

    async def objects(self):
        return [
            item
            for resource in (NODES, PODS_RAW, CLASSES, BUDGETS)
            for item in (await self.client.list(resource)).items
        ]

    async def compare(self, number):
        before = await self.objects()
        written = random_pod(self.rng, number)
        stored = await self.client.create(PODS_RAW, written, "default")
        key = f"default/{written['metadata']['name']}"
        ours = ask(*before, stored, pod=key, preempt=True)
        assert ours == ask(*before, written, pod=key, preempt=True)
        theirs = await self._decided(stored["metadata"]["name"])
        if node := theirs["spec"].get("nodeName"):
            assert node in ours["best"], written
            await self._run(stored["metadata"]["name"], number)
        elif ours["preemption"]["nominatedNode"]:
            await self._check_victims(stored["metadata"]["name"], ours["preemption"])
        else:
            output = f"{ours['message']} {ours['preemption']['message']}"
            assert _condition(theirs)["message"] == output, written
            self.counts["refused"] += 1
            await self._remove(stored["metadata"]["name"])

    async def _decided(self, name):
        async with asyncio.timeout(PER_CASE):
            while True:
                found = await self.client.get(PODS_RAW, name, "default")
                if found["spec"].get("nodeName") or _condition(found).get("status") == "False":
                    return found
                await asyncio.sleep(0.02)

    async def _run(self, name, number):
        # Without a start time kube-scheduler uses the current time at each comparison.
        began = f"2026-01-01T{self.rng.randint(0, 23):02}:{number % 60:02}:00Z"
        status = {"status": {"phase": "Running", "startTime": began}}
        await self.client.patch(PODS_RAW, name, status, "default", subresource="status")
        self.counts["placed"] += 1

    async def _check_victims(self, name, preemption):
        victims = {c["node"]: set(c["victims"]) for c in preemption["candidates"]}
        async with asyncio.timeout(PER_CASE):
            while True:
                pods = (await self.client.list(PODS_RAW, "default")).items
                mine = next(p for p in pods if p["metadata"]["name"] == name)
                node = mine["status"].get("nominatedNodeName")
                leaving = {p["metadata"]["name"] for p in pods
                           if p["metadata"].get("deletionTimestamp")}  # fmt: skip
                if node and {f"default/{v}" for v in leaving} >= victims.get(node, {""}):
                    break
                await asyncio.sleep(0.02)
        assert node in preemption["tied"]
        assert {f"default/{v}" for v in leaving} == victims[node]
        self.counts["preempting"] += 1
        for gone in (name, *leaving):
            await self._remove(gone)

    async def _remove(self, name):
        await self.client.delete(PODS_RAW, name, "default", grace_seconds=0)


def _condition(pod):
    found = pod["status"].get("conditions") or ()
    return next((c for c in found if c["type"] == "PodScheduled"), {})


async def test_every_decision_equals_that_of_kube_scheduler(kubeconfig):
    client = Client(HttpTransport(await load(kubeconfig)))
    try:
        agreement = Agreement(client, random.Random(7))
        await agreement.furnish()
        for number in range(PODS):
            await agreement.compare(number)
    finally:
        await client.close()
    assert all(agreement.counts.values()), agreement.counts

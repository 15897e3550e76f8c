"""Pods as real processes, through the API of an embedded cluster."""

import asyncio
import tempfile
from pathlib import Path

import pytest

from holdfast.agent.node_pod import NODE_PODS
from holdfast.api.scheme import EVENTS
from holdfast.apiserver.inprocess import InProcessTransport
from holdfast.client.client import Client
from holdfast.clock import SystemClock
from holdfast.cluster import Cluster
from holdfast.errors import NotFound
from holdfast.settings import ClusterSettings, NodeSettings, ServerSettings
from holdfast.testing import a_pod

SECONDS = 30.0


class ProcessCluster:
    """A cluster with one node that runs processes."""

    def __init__(self, cluster, directory):
        self.cluster, self.directory = cluster, directory
        self.client = Client(InProcessTransport(cluster.server.server), "test")

    async def run(self, name, command, **more):
        """Create a pod with one container ``c``; ``more`` replaces fields of pod and container."""
        pod = a_pod(name, node="node-0001", annotations=more.pop("annotations", {}))
        spec = pod["spec"] | {"restartPolicy": "Never"} | more.pop("spec", {})
        spec["containers"] = [a_container("c", command, **more), *more.pop("others", [])]
        return await self.client.create(NODE_PODS, pod | {"spec": spec}, "default")

    async def until(self, name, reached):
        """Return the pod when something is true of it."""
        async with asyncio.timeout(SECONDS):
            while True:
                pod = await self.client.get(NODE_PODS, name, "default")
                if reached(pod):
                    return pod
                await asyncio.sleep(0.02)

    async def ended(self, name):
        return await self.until(name, lambda pod: pod.finished)

    async def running(self, name):
        return await self.until(name, lambda p: p.status.phase == "Running")

    async def gone(self, name):
        async with asyncio.timeout(SECONDS):
            while True:
                try:
                    await self.client.get(NODE_PODS, name, "default")
                except NotFound:
                    return
                await asyncio.sleep(0.02)

    async def events(self, name):
        listed = (await self.client.list(EVENTS, "default")).items
        return {e.reason: e.message for e in listed if e.involved_object.name == name}

    def log(self, pod, container="c", attempt=0):
        path = self.directory / "nodes/node-0001/pods" / pod.uid / "logs" / container
        lines = (path / f"{attempt}.log").read_text().splitlines()
        return [line.split(" ", 3)[3] for line in lines]


def a_container(name, command, **more):
    words = ["sh", "-c", command] if isinstance(command, str) else command
    return {"name": name, "image": "none", "command": words, **more}


@pytest.fixture(scope="module")
def directory():
    return Path(tempfile.mkdtemp(prefix="hf-"))


@pytest.fixture
async def cluster(directory):
    settings = ClusterSettings(
        data_dir=directory, single_process=True, server=ServerSettings(port=0),
        nodes=NodeSettings(1, driver_nodes=1, runtime="process"),
    )  # fmt: skip
    made = Cluster(settings, SystemClock())
    await made.start()
    yield ProcessCluster(made, directory)
    await made.stop()


async def test_a_pod_runs_its_command_and_reports_the_exit_code(cluster):
    await cluster.run("hello", "echo hello; echo oops >&2; exit 3")
    pod = await cluster.ended("hello")
    assert pod.status.phase == "Failed"
    [status] = pod.status.container_statuses
    assert status.state["terminated"]["exitCode"] == 3
    assert sorted(cluster.log(pod)) == ["hello", "oops"]

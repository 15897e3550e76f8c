"""A classic driver in an embedded cluster: scheduler, agents, controllers and driver together."""

import asyncio
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from driverkit.example_modules import load
from holdfast.api.classic_dra.node_inventory import NODE_INVENTORIES
from holdfast.api.classic_dra.types import classic_resources
from holdfast.api.resource import Resource
from holdfast.api.scheme import PODS
from holdfast.testing.driver_cluster import DriverCluster

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "60-classic-gpu"
CLAIMS = classic_resources().claims
PLURALS = {
    "CustomResourceDefinition": "customresourcedefinitions",
    "GPUInit": "gpuinits",
    "GPURequirements": "gpurequirements",
    "ResourceClass": "resourceclasses",
    "Pod": "pods",
    "Deployment": "deployments",
}


async def apply(cluster, name):
    """Create the objects of a file of the example."""
    for raw in yaml.safe_load_all((EXAMPLE / f"{name}.yaml").read_text()):
        group, _, version = raw["apiVersion"].rpartition("/")
        namespaced = raw["kind"] in ("Pod", "GPURequirements", "Deployment")
        plural = PLURALS[raw["kind"]]
        resource = Resource(group, version, plural, raw["kind"], dict, namespaced=namespaced)
        await cluster.client.create(resource, raw, "default" if namespaced else "")


def running(pod):
    return pod.status.phase == "Running"


async def pods(cluster):
    return (await cluster.client.list(PODS, "default")).items


async def booked(cluster):
    listing = await cluster.client.list(NODE_INVENTORIES, cluster.driver.namespace)
    return [claim.name for one in listing.items for claim in one.status.allocated.values()]


@asynccontextmanager
async def controller_process(cluster):
    """Run the controller as a process of its own, with the lease; SIGTERM ends it cleanly."""
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        EXAMPLE / "driver.py",
        "controller",
        "--kubeconfig",
        cluster.kubeconfig,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert await running.stdout.readline() == b"gpu.example.com allocates claims\n"
        yield
    finally:
        running.terminate()
        status = await running.wait()
    assert status == 0


async def test_C082_the_story_of_the_kep_runs_and_survives_kills_of_the_driver(monkeypatch):
    driver = load(EXAMPLE, "driver", monkeypatch).driver
    async with asyncio.timeout(60), DriverCluster(driver, nodes=2) as cluster:
        for name in ("crds", "class"):
            await apply(cluster, name)
        killing = asyncio.create_task(cluster.kill("controller", after="finalizer"))
        await apply(cluster, "pod")
        await killing
        cluster.start_controller()
        pod = await cluster.until_pod("device-consumer", running)
        edits = cluster.edits(pod)
        assert set(edits) == {"workload", "monitor"}
        for container in edits.values():
            assert container["env"]["GPU_MEMORY"] == "2Gi"
            assert (
                container["env"]["GPU_INIT"] == "/usr/local/bin/acme-gpu-init --cluster my-cluster"
            )
        assert await booked(cluster) == ["device-consumer-gpu"]
        claim = await cluster.client.get(CLAIMS, "device-consumer-gpu", "default")
        killing = asyncio.create_task(cluster.kill("controller", after="booking"))
        await cluster.delete_pod("device-consumer")
        await killing
        cluster.start_controller()
        while [
            c for c in (await cluster.client.list(CLAIMS, "default")).items if c.uid == claim.uid
        ]:
            await asyncio.sleep(0.02)
        assert await booked(cluster) == []
        await cluster.stop_controller()
        async with controller_process(cluster):
            await apply(cluster, "deployment")
            while sum(map(running, await pods(cluster))) < 2:
                await asyncio.sleep(0.02)
            assert len(await booked(cluster)) == 2

"""A driver of the kit on a real kube-apiserver, with the rights of its generated manifests."""

import asyncio

import pytest
import yaml

from holdfast.api.scheme import RESOURCE_CLAIMS, RESOURCE_SLICES
from holdfast.cli.driver.project import write_project
from holdfast.client.client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import load
from holdfast.driver import Capacity, CounterSet, Device, Taint, Version
from holdfast.node.driverkit.slice_publisher import SlicePublisher
from holdfast.runtime.clock import SystemClock
from holdfast.testing import a_claim, a_node
from real.programs import create, create_nodes

pytestmark = pytest.mark.real
DRIVER, NODE = "kit.example.com", "kit-1"


@pytest.fixture
def node(control_plane):
    create_nodes(control_plane, a_node(NODE))
    yield
    control_plane.kubectl("delete", "node", NODE)  # other modules expect only their own


@pytest.fixture
def kubeconfig(control_plane, node, tmp_path):
    """A kubeconfig of the service account that ``holdfast driver new`` writes."""
    write_project(DRIVER, tmp_path / "kit")
    control_plane.kubectl("apply", "-f", str(tmp_path / "kit" / "deploy" / "daemonset.yaml"))
    token = control_plane.kubectl("create", "token", "driver", "-n", "kit-example-com").strip()
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(control_plane._kubeconfig(token)))
    return path


def inventory(count, **special):
    yield CounterSet("card", {"memory": "80Gi", "slices": 7})
    yield Device("part", {"profile": "1g"}, consumes={"card": {"memory": "10240Mi", "slices": 1}})
    share = Capacity("81920Mi", default="1Gi", minimum="1Gi", step="1024Mi")
    yield Device("shared", {"version": Version("1.2.3")}, {"memory": share}, shareable=True)
    taints = [Taint("example.com/hot", effect="NoExecute")]
    yield Device("hot", {"on": True, "numaNode": 1}, {"memory": "1.5Gi"}, taints=taints)
    for i in range(count):
        yield special.get(f"gpu_{i}") or Device(f"gpu-{i}")


async def published(client, devices):
    """Publish with a new publisher, as after a restart, and return what is stored."""
    publisher = SlicePublisher(client, SystemClock(), DRIVER, NODE)
    publisher.publish({NODE: list(devices)})
    running = asyncio.create_task(publisher.run())
    async with asyncio.timeout(60):
        await publisher.published.wait()
    running.cancel()
    await asyncio.wait({running})
    assert publisher.dropped == ()
    listing = await client.list(RESOURCE_SLICES, fields=f"spec.driver={DRIVER}")
    return sorted(listing.items, key=lambda one: one.name)


async def test_D087_slices_are_published_and_a_restart_changes_nothing(control_plane, kubeconfig):
    create(control_plane, a_claim("kit"))
    client = Client(HttpTransport(await load(kubeconfig)), "driver")
    try:
        first = await published(client, inventory(100))
        assert [one.spec.pool.generation for one in first] == [1, 1, 1]
        assert await published(client, inventory(100)) == first
        one = await published(client, inventory(100, gpu_5=Device("gpu-5", {"model": "B"})))
        assert [each.spec.pool.generation for each in one] == [1, 1, 1]
        two = await published(client, inventory(99, gpu_5=Device("gpu-5", {"model": "C"})))
        assert [each.spec.pool.generation for each in two] == [2, 2, 2]
        assert len(await published(client, [])) == 1
        assert (await client.get(RESOURCE_CLAIMS, "kit", "default")).name == "kit"
    finally:
        await client.close()

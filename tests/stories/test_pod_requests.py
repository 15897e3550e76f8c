"""The requests of a pod, measured by which other pods still fit on its node."""

import pytest

from holdfast.api.scheme import PODS
from holdfast.client.client import PatchType
from holdfast.testing import a_node, a_pod
from holdfast.testing.harness import Harness


@pytest.fixture
async def cluster(tmp_path):
    async with Harness(tmp_path / "store") as harness:
        yield harness


def container(name, cpu, **more):
    return {"name": name, "image": "i", "resources": {"requests": {"cpu": cpu}}, **more}


INIT = container("init", "3")
SIDECAR = container("side", "500m", restartPolicy="Always")


@pytest.mark.parametrize(("init", "needs"), [((INIT,), 3250), ((SIDECAR, INIT), 3750)])
async def test_S039_init_containers_sidecars_and_overhead(cluster, init, needs):
    pod = a_pod("p", overhead={"cpu": "250m"}, init_containers=list(init))
    pod["spec"]["containers"] = [container("a", "1"), container("b", "1")]
    pod["spec"]["runtimeClassName"] = "heavy"
    await cluster.create(a_node("short", cpu=f"{needs - 1}m"), pod)
    assert "1 Insufficient cpu" in await cluster.why("p")
    await cluster.create(a_node("enough", cpu=f"{needs}m"))
    await cluster.advance(2)
    assert await cluster.node_of("p") == "enough"


async def test_S040_a_resize_counts_until_the_node_calls_it_infeasible(cluster):
    await cluster.create(a_node("n", cpu="4"), a_pod("resized", cpu="2"))
    granted = {"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1"}}
    statuses = [{"name": "main", "ready": True, "image": "i", "imageID": "", "restartCount": 0}]
    statuses[0] |= granted
    await write_status(cluster, "resized", {"containerStatuses": statuses})
    await cluster.create(a_pod("p", cpu="3"))
    assert "1 Insufficient cpu" in await cluster.why("p")
    never = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    await write_status(cluster, "resized", {"conditions": [never]})
    await cluster.advance(2)
    assert await cluster.node_of("p") == "n"


async def write_status(cluster, name, status):
    body = {"status": status}
    await cluster.client.patch(
        PODS, name, body, "default", type=PatchType.STRATEGIC, subresource="status"
    )
    await cluster.settle()

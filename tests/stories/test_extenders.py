"""An extender for shared GPUs, as users run it: it counts GPU memory itself.

It is configured in a file, keeps books of its own, filters nodes by them, prefers the fullest, and
binds the pods itself.
"""

import pytest
import yaml

from holdfast.api.scheme import PODS
from holdfast.scheduling.configuration.reading import read
from holdfast.testing import a_node, a_pod
from holdfast.testing.fake_extender import FakeExtender
from holdfast.testing.harness import Harness

GPU = "example.com/gpu-memory"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- urlPrefix: {url}
  filterVerb: filter
  prioritizeVerb: prioritize
  bindVerb: bind
  weight: 100
  nodeCacheCapable: true
  httpTimeout: 2s
  managedResources:
  - name: example.com/gpu-memory
    ignoredByScheduler: true
"""


class SharedGpus(FakeExtender):
    """An extender that allocates eight units of GPU memory on each node."""

    def __init__(self, client=None):
        super().__init__()
        self.client = client
        self.used = {"n1": 0, "n2": 0}
        self.answers = {"filter": self.filter, "prioritize": self.prioritize, "bind": self.bind}
        self._wanted = {}

    def filter(self, body):
        pod = body["Pod"]
        amount = int(pod["spec"]["containers"][0]["resources"]["limits"][GPU])
        self._wanted[pod["metadata"]["uid"]] = amount
        fits = [name for name in body["NodeNames"] if self.used[name] + amount <= 8]
        failed = {name: "not enough GPU memory" for name in body["NodeNames"] if name not in fits}
        return {"NodeNames": fits, "FailedNodes": failed}

    def prioritize(self, body):
        return [{"Host": name, "Score": self.used[name]} for name in body["NodeNames"]]

    async def bind(self, body):
        node, amount = body["Node"], self._wanted[body["PodUID"]]
        assert self.used[node] + amount <= 8
        self.used[node] += amount
        made = {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": node},
                "metadata": {"name": body["PodName"], "uid": body["PodUID"]}}  # fmt: skip
        await self.client.bind(body["PodNamespace"], body["PodName"], made)
        return {}


@pytest.fixture
async def gpus():
    async with SharedGpus() as extender:
        yield extender


@pytest.fixture
async def cluster(tmp_path, gpus):
    chosen = read(yaml.safe_load(CONFIG.format(url=gpus.url)))
    async with Harness(tmp_path / "store", configuration=chosen) as harness:
        gpus.join(harness)
        gpus.client = harness.client
        await harness.create(a_node("n1", cpu="16"), a_node("n2", cpu="16"))
        yield harness


def sharing(name, amount):
    units = {GPU: str(amount)}
    return a_pod(name, requests=units, limits=units)


async def test_pods_share_gpus_as_the_extender_allocates_them(cluster, gpus):
    await cluster.create(sharing("a", 3))
    first = await cluster.node_of("a")
    await cluster.create(sharing("b", 3), sharing("c", 2))
    # The extender prefers the fullest node, which outweighs the plugins' scores.
    assert [await cluster.node_of(name) for name in "bc"] == [first, first]
    await cluster.create(sharing("d", 3), sharing("e", 6))
    other = {"n1": "n2", "n2": "n1"}[first]
    assert await cluster.node_of("d") == other
    assert await cluster.why("e") == (
        "0/2 nodes are available: 2 not enough GPU memory. no new claims to deallocate, "
        "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
    )
    gpus.used[other] = 0
    await cluster.delete(PODS, "d", "default")
    await cluster.advance(40)
    assert await cluster.node_of("e") == other


async def test_pods_without_gpus_are_not_sent_to_the_extender(cluster, gpus):
    await cluster.create(a_pod("plain"))
    assert await cluster.node_of("plain") != ""
    assert gpus.asked == []


async def test_many_pods_are_scheduled_without_overcommitting_a_gpu(cluster, gpus):
    await cluster.create(*(sharing(f"p{i}", 2) for i in range(10)))
    placed = [name for i in range(10) if (name := await cluster.node_of(f"p{i}"))]
    assert (gpus.used, len(placed)) == ({"n1": 8, "n2": 8}, 8)

"""Pods with devices on nodes that run drivers: API objects in, processes with devices out.

One embedded cluster serves all tests: its nodes run containers as processes, its drivers are on
real sockets. Each test has a driver and a device class of its own.
"""

import asyncio
import shutil
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from agent.device_plugin_server import DevicePluginServer
from holdfast.api.scheme import EVENTS, NODES, PODS, RESOURCE_SLICES
from holdfast.cli.explanation_text import format_explanation
from holdfast.cli.why_command import answer_about
from holdfast.client.backoff import Backoff
from holdfast.client.client import Client
from holdfast.driver import Cdi, Device, Driver
from holdfast.node.agent import plugin_registry, pod_worker
from holdfast.node.agent.node_agent import NodeIdentity
from holdfast.node.agent.node_pod import NODE_PODS
from holdfast.node.agent.node_setup import make_agent
from holdfast.node.driverkit.process import DriverProcess, DriverSettings
from holdfast.processes.cluster import Cluster
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import BadConfiguration, NotFound
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.runtime.settings import ClusterSettings, NodeSettings, ServerSettings
from holdfast.scheduling.configuration.reading import Configuration
from holdfast.scheduling.plugins import default_profiles
from holdfast.server.inprocess import InProcessTransport
from holdfast.testing.builders import a_deployment, a_pod, resource_of
from holdfast.testing.device_builders import a_claim, a_device_class, a_slice
from holdfast.testing.drivers import Block, Fail, FaultyDriver

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("nodes_with_drivers"),
]

NODE = "node-0001"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster():
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(plugin_registry, "SCAN_SECONDS", 0.02)
        monkeypatch.setattr(pod_worker, "PREPARE_BACKOFF", Backoff(0.1, 0.5))
        directory = Path(tempfile.mkdtemp(prefix="hf-"))
        settings = ClusterSettings(
            data_dir=directory, single_process=True, server=ServerSettings(port=0),
            nodes=NodeSettings(2, driver_nodes=2, runtime="process"),
        )  # fmt: skip
        embedded = Cluster(settings, SystemClock())
        await embedded.start()
        yield DriverCluster(embedded, settings)
        await embedded.stop()
        shutil.rmtree(directory, ignore_errors=True)


class DriverCluster:
    """The cluster as a user sees it."""

    def __init__(self, embedded, settings):
        self.embedded, self.settings = embedded, settings
        self.client = Client(InProcessTransport(embedded.server.server), "test")

    def directory(self, node=NODE):
        return self.settings.data_dir / "nodes" / node

    async def create(self, *objects):
        for raw in objects:
            await self.client.create(resource_of(raw), raw, raw["metadata"].get("namespace", ""))

    async def run(self, name, claims, command="env | grep ^GPU; sleep 1000", containers=None):
        """Create a pod whose containers print their devices: ``claims`` are names of claims."""
        listed = [{"name": each, "resourceClaimName": each} for each in claims]
        uses = containers or {"main": [{"name": each} for each in claims]}
        made = [
            {
                "name": container,
                "image": "none",
                "command": ["sh", "-c", command],
                "resources": {"claims": used},
            }
            for container, used in uses.items()
        ]
        pod = a_pod(name, claims=listed, containers=made, restartPolicy="Never")
        pod["spec"]["terminationGracePeriodSeconds"] = 1
        await self.create(pod)

    async def until(self, name, reached, seconds=60):
        async with asyncio.timeout(seconds):
            while True:
                pod = await self.client.get(NODE_PODS, name, "default")
                if reached(pod):
                    return pod
                await asyncio.sleep(0.02)

    async def why(self, name):
        """Return what ``holdfast why`` prints."""
        pod = await self.client.get(PODS, name, "default")
        setup = Configuration(default_profiles()), FeatureGates(), SystemClock().now()
        return format_explanation(await answer_about(self.client, pod, *setup))

    async def running(self, name):
        return await self.until(name, lambda pod: pod.status.phase == "Running")

    async def event(self, name, reason, text):
        """Wait for an event of a pod."""
        async with asyncio.timeout(60):
            while not any(
                (each.involved_object.name, each.reason) == (name, reason) and text in each.message
                for each in (await self.client.list(EVENTS, "default")).items
            ):
                await asyncio.sleep(0.02)

    async def delete(self, name):
        await self.client.delete(NODE_PODS, name, "default")
        await self.until_gone(name)

    async def until_gone(self, name):
        async with asyncio.timeout(60):
            while True:
                try:
                    await self.client.get(NODE_PODS, name, "default")
                except NotFound:
                    return
                await asyncio.sleep(0.02)

    async def printed(self, pod, container="main", lines=1, node=NODE):
        """Wait for what a container printed."""
        path = self.directory(node) / "pods" / pod.uid / "logs" / container / "0.log"
        async with asyncio.timeout(60):
            while True:
                text = path.read_text().splitlines() if path.exists() else []
                if len(text) >= lines:
                    return sorted(line.split(" ", 3)[3] for line in text)
                await asyncio.sleep(0.02)

    @asynccontextmanager
    async def driver(self, faulty, node=NODE):
        """Run a driver on a node, with the rights of that node."""
        directory = self.directory(node)
        settings = DriverSettings(
            node, directory / "plugins_registry", directory / "plugins", directory / "cdi"
        )
        client = self.embedded.server.client(f"system:node:{node}")
        process = DriverProcess(faulty, settings, client, SystemClock())
        await process.start()
        try:
            await process.publisher.published.wait()
            yield faulty
        finally:
            await process.stop()


def a_driver(name, devices=2):
    """A driver whose devices reach a container as GPU_REQUEST=DEVICE."""
    driver = Driver(f"{name}.example.com")
    driver.inventory(lambda: [Device(f"gpu-{number}") for number in range(devices)])

    @driver.prepare
    def prepare(claim, devices):
        return [
            Cdi().env(**{f"GPU_{each.request.replace('-', '_')}": each.name}) for each in devices
        ]

    @driver.unprepare
    def unprepare(claim):
        pass

    return FaultyDriver(driver)


async def test_D078_an_unregistered_driver_keeps_the_pod_pending_until_it_registers(cluster):
    driver = a_driver("d78")
    # A slice of an earlier day: the scheduler allocates a device whose driver is not there.
    old = a_slice("d78", node=NODE, driver=driver.name, pool=NODE)
    await cluster.create(a_device_class("d78", driver=driver.name), old)
    await cluster.create(a_claim("d78", device_class="d78"))
    await cluster.run("d78", ["d78"])
    await cluster.event("d78", "FailedPrepareDynamicResources", f"{driver.name} is not registered")
    pod = await cluster.client.get(NODE_PODS, "d78", "default")
    assert (pod.spec.node_name, pod.status.phase) == (NODE, "Pending")
    first, advice, *_ = (await cluster.why("d78")).splitlines()
    assert first.startswith(f"default/d78 has not started on {NODE}: FailedPrepareDynamicResources")
    assert f"{driver.name} is not registered" in first
    running = f"see whether {driver.name} runs on {NODE} and is registered, and its log"
    assert advice == f"  to do: {running}"
    async with cluster.driver(driver):
        pod = await cluster.running("d78")
        assert "has not started" not in await cluster.why("d78")
        assert await cluster.printed(pod) == ["GPU_req_0=gpu-0"]
        await cluster.delete("d78")
        assert [name for name, _ in driver.calls] == ["prepare", "unprepare"]


async def test_D079_a_failed_prepare_is_tried_again_and_containers_start_once(cluster):
    driver = a_driver("d79")
    driver.inject("prepare", Fail("no such board"), Fail("still none"))
    await cluster.create(
        a_device_class("d79", driver=driver.name), a_claim("d79", device_class="d79")
    )
    async with cluster.driver(driver):
        await cluster.run("d79", ["d79"], "env | grep ^GPU; echo started; sleep 1000")
        await cluster.event("d79", "FailedPrepareDynamicResources", "no such board")
        pod = await cluster.running("d79")
        assert await cluster.printed(pod, lines=2) == ["GPU_req_0=gpu-0", "started"]
        assert pod.status.container_statuses[0].restart_count == 0
        await cluster.delete("d79")
        assert [name for name, _ in driver.calls] == ["prepare", "unprepare"]


async def test_a_driver_that_does_not_answer_is_named_before_it_has_failed(cluster):
    driver, block = a_driver("silent"), Block()
    driver.inject("prepare", block)
    await cluster.create(
        a_device_class("silent", driver=driver.name), a_claim("silent", device_class="silent")
    )
    async with cluster.driver(driver):
        await cluster.run("silent", ["silent"])
        await block.entered.wait()
        said = (await cluster.why("silent")).splitlines()[:2]
        assert said == [
            f"default/silent has not started on {NODE} yet",
            f"  to do: see whether {driver.name} runs on {NODE} and is registered, and its log",
        ]
        block.release.set()
        await cluster.running("silent")
        await cluster.delete("silent")


async def test_D080_a_container_sees_only_the_devices_of_its_requests(cluster):
    driver = a_driver("d80", devices=3)
    requests = [
        {"name": name, "exactly": {"deviceClassName": "d80"}} for name in ("one", "two", "three")
    ]
    await cluster.create(
        a_device_class("d80", driver=driver.name), a_claim("d80", requests=requests)
    )
    uses = {
        "a": [{"name": "d80", "request": "one"}],
        "b": [{"name": "d80", "request": "three"}, {"name": "d80", "request": "two"}],
        "all": [{"name": "d80"}],
    }
    async with cluster.driver(driver):
        await cluster.run("d80", ["d80"], containers=uses)
        pod = await cluster.running("d80")
        first = await cluster.printed(pod, "a")
        others = await cluster.printed(pod, "b", lines=2)
        every = await cluster.printed(pod, "all", lines=3)
        await cluster.delete("d80")
    assert [len(first), len(others), len(every)] == [1, 2, 3]
    assert first[0].startswith("GPU_one=")
    assert sorted([*first, *others]) == every
    assert len({line.partition("=")[2] for line in every}) == 3


async def test_D081_a_restarted_agent_prepares_again_without_doubling(cluster):
    driver = a_driver("d81")
    await cluster.create(
        a_device_class("d81", driver=driver.name), a_claim("d81", device_class="d81")
    )
    async with cluster.driver(driver):
        await cluster.run("d81", ["d81"])
        pod = await cluster.running("d81")
        before = await cluster.printed(pod)
        await cluster.create(a_slice("absent", node=NODE, driver="absent.example.com"))
        async with restarted_agent(cluster) as agent:
            claims = agent._devices.claims._claims
            [claim] = [claim for claim in claims.values() if claim.name == "d81"]
            async with asyncio.timeout(60):
                while not claim.prepared:
                    await asyncio.sleep(0.02)
            [devices] = [
                found
                for each in agent.services.devices
                if (found := each.container_devices(pod, "main").cdi_devices)
            ]
            assert len(devices) == 1
            # The driver may or may not come back; the node may delete its slices.
            async with asyncio.timeout(60):
                while "absent" in {
                    each.name for each in (await cluster.client.list(RESOURCE_SLICES)).items
                }:
                    await asyncio.sleep(0.02)
            await cluster.delete("d81")
        assert before == ["GPU_req_0=gpu-0"]
        # The kit remembers what it prepared: the second call had no second effect.
        assert [name for name, _ in driver.calls] == ["prepare", "unprepare"]


@asynccontextmanager
async def restarted_agent(cluster, node=NODE):
    """Stop the agent of a node without its containers, and start another one."""
    agents = cluster.embedded.components.agents
    [old] = [each for each in agents if each.name == node]
    await old.stop(stop_containers=False)
    client = cluster.embedded.server.client(f"system:node:{node}")
    identity = NodeIdentity(node, cluster.directory(node))
    agent = make_agent(identity, client, SystemClock(), cluster.settings.nodes)
    await agent.start()
    agents[agents.index(old)] = agent
    yield agent


async def test_D082_a_damaged_checkpoint_refuses_the_start_of_the_agent(cluster, node_directory):
    (node_directory / "dra_manager_state").write_text('{"Data": "{}", "Checksum": 1}')
    identity = NodeIdentity("node-0009", node_directory)
    with pytest.raises(BadConfiguration, match="--reset-checkpoint"):
        make_agent(identity, cluster.client, SystemClock(), cluster.settings.nodes)


async def test_D084_a_shared_claim_is_unprepared_after_its_last_pod(cluster):
    driver = a_driver("d84", devices=1)
    await cluster.create(
        a_device_class("d84", driver=driver.name), a_claim("d84", device_class="d84")
    )
    async with cluster.driver(driver):
        for name in ("d84-a", "d84-b"):
            await cluster.run(name, ["d84"])
        pods = [await cluster.running(name) for name in ("d84-a", "d84-b")]
        assert [await cluster.printed(pod) for pod in pods] == [["GPU_req_0=gpu-0"]] * 2
        await cluster.delete("d84-a")
        assert [name for name, _ in driver.calls] == ["prepare"]
        await cluster.delete("d84-b")
        assert [name for name, _ in driver.calls] == ["prepare", "unprepare"]


async def test_D086_a_pod_that_its_claim_is_not_reserved_for_never_starts(cluster):
    driver = a_driver("d86", devices=1)
    await cluster.create(
        a_device_class("d86", driver=driver.name), a_claim("d86", device_class="d86")
    )
    async with cluster.driver(driver):
        await cluster.run("d86", ["d86"])
        await cluster.running("d86")
        listed = [{"name": "d86", "resourceClaimName": "d86"}]
        # Bound past the scheduler, which would have reserved the claim.
        await cluster.create(a_pod("d86-past", node=NODE, claims=listed))
        await cluster.event("d86-past", "FailedPrepareDynamicResources", "is not allowed to use")
        pod = await cluster.client.get(NODE_PODS, "d86-past", "default")
        assert pod.status.phase == "Pending"
        assert not any("running" in each.state for each in pod.status.container_statuses)
        await cluster.delete("d86-past")
        assert [name for name, _ in driver.calls] == ["prepare"]
        await cluster.delete("d86")


async def test_D092_one_deployment_runs_on_a_device_plugin_and_on_a_driver(cluster):
    resource = "example.com/d92"
    driver = a_driver("d92", devices=2)
    async with (
        DevicePluginServer(cluster.directory(NODE), resource, cdi=False) as plugin,
        cluster.driver(driver, "node-0002"),
    ):
        async with asyncio.timeout(60):
            while (
                str((await cluster.client.get(NODES, NODE)).status.allocatable.get(resource)) != "2"
            ):
                await asyncio.sleep(0.02)
        await cluster.create(
            a_device_class("d92", driver=driver.name, extended_resource_name=resource)
        )
        deployment = a_deployment("d92", replicas=4, requests={resource: 1}, cpu="100m")
        spec = deployment["spec"]["template"]["spec"]
        spec["containers"][0]["command"] = ["sh", "-c", "env | grep ^GPU; sleep 1000"]
        spec["terminationGracePeriodSeconds"] = 1
        await cluster.create(deployment)
        async with asyncio.timeout(60):
            while True:
                listed = (await cluster.client.list(NODE_PODS, "default")).items
                pods = [pod for pod in listed if pod.name.startswith("d92-")]
                if [pod.status.phase for pod in pods] == ["Running"] * 4:
                    break
                await asyncio.sleep(0.02)
        seen = sorted([(await cluster.printed(pod, node=pod.spec.node_name))[0] for pod in pods])
        assert sorted(pod.spec.node_name for pod in pods) == [NODE, NODE, "node-0002", "node-0002"]
        assert seen == [
            "GPUS=gpu-0", "GPUS=gpu-1",
            "GPU_container_0_request_1=gpu-0", "GPU_container_0_request_1=gpu-1",
        ]  # fmt: skip
        await cluster.client.delete(
            resource_of(deployment), "d92", "default", propagation="Background"
        )
        for pod in pods:
            await cluster.until_gone(pod.name)
        assert sorted(plugin.calls) == [("allocate", ("gpu-0",)), ("allocate", ("gpu-1",))]
        assert sorted(name for name, _ in driver.calls) == ["prepare"] * 2 + ["unprepare"] * 2

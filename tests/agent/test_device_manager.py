"""Device plugins on real sockets: registration, capacity, allocation, restart."""

import asyncio
from contextlib import asynccontextmanager

import grpc
import pytest

from agent.device_plugin_server import DevicePluginServer
from agent.polling import until
from holdfast.node.agent import plugin_registry
from holdfast.node.agent.device_manager import DeviceManager
from holdfast.node.agent.plugin_registry import PluginRegistry
from holdfast.node.agent.pod_devices import NotPrepared
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import BadConfiguration, Refused
from holdfast.testing.builders import a_pod, typed
from holdfast.testing.clock import VirtualClock

GPU = "example.com/gpu"


class Node:
    """A node's device plugins, and what they say of its capacity."""

    def __init__(self, directory):
        self.directory = directory
        self.active = None
        self.counts = {}
        self.clock = VirtualClock()
        self.devices = DeviceManager(directory, self.clock, lambda: self.active, self._count)

    def _count(self, counts):
        self.counts |= {name: (c.capacity, c.allocatable) for name, c in counts.items()}

    async def counted(self, capacity, allocatable, resource=GPU):
        await until(lambda: self.counts.get(resource) == (capacity, allocatable))

    def env(self, pod, container="main"):
        return self.devices.container_devices(pod, container).env.get("GPUS")


@asynccontextmanager
async def running_node(directory):
    node = Node(directory)
    (directory / "device-plugins" / "kubelet.sock").unlink(missing_ok=True)
    task = asyncio.create_task(node.devices.run())
    await until((directory / "device-plugins" / "kubelet.sock").exists)
    try:
        yield node
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def node(node_directory):
    async with running_node(node_directory) as running:
        yield running


def a_gpu_pod(name="p", amount=1, **fields):
    return typed(a_pod(name, requests={GPU: amount}, **fields), uid=f"uid-{name}")


async def test_capacity_follows_the_plugin(node):
    async with DevicePluginServer(node.directory, devices=3) as plugin:
        await node.counted(3, 3)
        plugin.set_devices(gpu_0=True, gpu_1=False)
        await node.counted(2, 1)
        await plugin.stop()
        await node.counted(2, 0)
        await node.clock.advance(299)
        assert node.counts[GPU] == (2, 0)
        await plugin.serve()
        await plugin.register()
        await node.counted(2, 1)
        await plugin.stop()
        await node.counted(2, 0)
        await node.clock.advance(301)
        assert node.counts[GPU] == (0, 0)


async def test_containers_get_devices_of_their_own_and_give_them_back(node):
    limits = {"limits": {GPU: 1}}
    pod = typed(
        a_pod(
            "p",
            init_containers=[
                {"name": "first", "image": "i", "resources": limits},
                {"name": "side", "image": "i", "resources": limits, "restartPolicy": "Always"},
            ],
            containers=[
                {"name": "a", "image": "i", "resources": limits},
                {"name": "b", "image": "i", "resources": limits},
                {"name": "none", "image": "i", "resources": {"limits": {GPU: 0, "cpu": 1}}},
            ],
        ),
        uid="u",
    )
    async with DevicePluginServer(node.directory, devices=3) as plugin:
        await node.counted(3, 3)
        await node.devices.prepare(pod)
        given = {name: node.env(pod, name) for name in ("first", "side", "a", "b", "none")}
        # The sidecar keeps running, with the device that the first init container had before.
        assert given == {
            "first": "gpu-0", "side": "gpu-0", "a": "gpu-1", "b": "gpu-2", "none": None,
        }  # fmt: skip
        got = node.devices.container_devices(pod, "b")
        assert (got.cdi_devices, got.mounts, got.device_nodes, got.annotations) == (
            ("example.com/gpu=gpu-2",), ("/usr/lib/gpu",), ("/dev/gpu-2",),
            {"example.com/gpus": "gpu-2"},
        )  # fmt: skip
        calls = list(plugin.calls)
        await node.devices.prepare(pod)
        assert plugin.calls == calls
        with pytest.raises(NotPrepared, match="Requested: 1, Available: 0") as error:
            await node.devices.prepare(a_gpu_pod("late"))
        assert (error.value.reason, error.value.permanent) == ("UnexpectedAdmissionError", True)
        await node.devices.unprepare(pod)
        assert node.env(pod, "a") is None
        await node.devices.prepare(a_gpu_pod("late"))


async def test_the_plugin_may_prefer_devices_and_prepare_them_for_a_start(node):
    plugin = DevicePluginServer(node.directory, devices=4)
    plugin.options.get_preferred_allocation_available = True
    plugin.options.pre_start_required = True
    plugin.prefer = ["gpu-3", "stranger", "gpu-1"]
    async with plugin:
        await node.counted(4, 4)
        pod = a_gpu_pod(amount=3)
        await node.devices.prepare(pod)
        assert node.env(pod) == "gpu-3,gpu-1,gpu-0"
        await node.devices.before_start(pod, "main")
        assert [name for name, _ in plugin.calls] == ["prefer", "allocate", "start"]


async def test_pods_at_one_time_never_share_a_device_and_a_failure_frees_them(node):
    async with DevicePluginServer(node.directory, devices=2) as plugin:
        await node.counted(2, 2)
        release = asyncio.Event()
        plugin.before_allocate = lambda: asyncio.ensure_future(release.wait())
        pods = [a_gpu_pod(name) for name in "abc"]
        preparing = [asyncio.create_task(node.devices.prepare(pod)) for pod in pods]
        await until(lambda: len(plugin.calls) == 2)
        release.set()
        done = await asyncio.gather(*preparing, return_exceptions=True)
        assert [type(each) for each in done] == [type(None), type(None), NotPrepared]
        assert {node.env(pod) for pod in pods} == {"gpu-0", "gpu-1", None}
        # The first pod was deleted by force; its device goes to the next.
        node.active = {"uid-b"}

        async def fail():
            raise ValueError("board on fire")

        plugin.before_allocate = lambda: asyncio.ensure_future(fail())
        with pytest.raises(NotPrepared, match=r"plugin of example\.com/gpu: UNKNOWN: .*on fire"):
            await node.devices.prepare(pods[2])
        plugin.before_allocate = lambda: None
        await node.devices.prepare(pods[2])
        assert node.env(pods[2]) == "gpu-0"


async def test_resources_that_a_claim_serves_are_skipped(node):
    mapping = {"containerName": "main", "resourceName": GPU, "requestName": "r"}
    status = {"extendedResourceClaimStatus": {
        "resourceClaimName": "c", "requestMappings": [mapping],
    }}  # fmt: skip
    async with DevicePluginServer(node.directory) as plugin:
        await node.counted(2, 2)
        await node.devices.prepare(a_gpu_pod(status=status))
        assert plugin.calls == []


async def test_after_a_restart_pods_keep_their_devices(node_directory):
    pod = a_gpu_pod()
    async with running_node(node_directory) as node:
        plugin = DevicePluginServer(node.directory, devices=2)
        await plugin.serve()
        await plugin.register()
        await node.counted(2, 2)
        await node.devices.prepare(pod)
    assert plugin.socket.exists()
    async with running_node(node_directory) as node:
        await node.counted(0, 0)
        # The node removed the plugin's socket with its own: the plugin starts and registers anew.
        await until(lambda: not plugin.socket.exists())
        await plugin.stop()
        await node.devices.prepare(pod)
        assert node.env(pod) == "gpu-0"
        async with plugin:
            await node.counted(2, 2)
            node.active = {pod.uid}
            other = a_gpu_pod("other")
            await node.devices.prepare(other)
            assert node.env(other) == "gpu-1"


async def test_a_damaged_checkpoint_refuses_the_start(node_directory):
    (node_directory / "kubelet_internal_checkpoint").write_text('{"Data": "{}", "Checksum": 7}')
    with pytest.raises(BadConfiguration, match="--reset-checkpoint"):
        Node(node_directory)


async def test_a_directory_that_another_agent_serves_is_refused(node):
    with pytest.raises(Refused, match="another agent serves"):
        Node(node.directory)


async def test_wrong_registrations_are_refused_with_the_reason(node):
    plugin = DevicePluginServer(node.directory)
    await plugin.serve()
    for change, said in (
        ({"version": "v1alpha"}, "'v1alpha' is not supported, only v1beta1"),
        ({"resource_name": "cpu"}, "'cpu' is not the name of an extended resource"),
        ({"endpoint": "../x.sock"}, "is not the name of a socket"),
        ({"endpoint": "/x.sock"}, "is not the name of a socket"),
        ({"endpoint": ""}, "is not the name of a socket"),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await plugin.register(**change)
        assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert said in error.value.details()
    await plugin.stop()
    assert node.counts == {}


async def test_a_plugin_may_register_in_the_directory_of_plugins(node, monkeypatch):
    monkeypatch.setattr(plugin_registry, "SCAN_SECONDS", 0.01)
    registry = PluginRegistry(
        node.directory / "plugins_registry", node.devices.handlers, SystemClock()
    )
    watching = asyncio.create_task(registry.run())
    plugin = DevicePluginServer(node.directory)
    plugin.socket = node.directory / "plugins_registry" / "gpu.sock"
    await plugin.serve()
    await node.counted(2, 2)
    await plugin.stop()
    await node.counted(2, 0)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)

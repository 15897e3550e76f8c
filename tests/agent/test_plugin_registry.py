"""Plugins that register by a socket in a directory, on real sockets."""

import asyncio
import socket

import pytest

from agent.driver_server import DriverServer
from agent.polling import until
from holdfast.node.agent import plugin_registry
from holdfast.node.agent.dra_plugins import DraPlugins, NotRegistered, chosen_services
from holdfast.node.agent.plugin_registry import PluginInfo, PluginRegistry, RegistrationRefused
from holdfast.node.kubelet_api import CLASSIC_PLUGIN, DRA_PLUGIN, DRA_V1, DRA_V1BETA1
from holdfast.runtime.clock import SystemClock


@pytest.fixture
async def node(node_directory, monkeypatch):
    monkeypatch.setattr(plugin_registry, "SCAN_SECONDS", 0.01)
    async with _Node(node_directory) as running:
        yield running


class _Node:
    """The registry of a node, with its drivers."""

    def __init__(self, directory):
        self.directory = directory
        self.usable = {}
        self.drivers = DraPlugins(self.usable.__setitem__, call_seconds=5)
        handlers = {DRA_PLUGIN: self.drivers, CLASSIC_PLUGIN: self.drivers}
        path = directory / "plugins_registry"
        self.registry = PluginRegistry(path, handlers, SystemClock(), call_seconds=0.5)

    async def __aenter__(self):
        self._task = asyncio.create_task(self.registry.run())
        return self

    async def __aexit__(self, *_):
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.drivers.close()


def registered(node, driver):
    try:
        return node.drivers.endpoint(driver.name)
    except NotRegistered:
        return None


async def test_a_driver_registers_reconnects_and_deregisters(node):
    async with DriverServer(node.directory) as driver:
        assert (await driver.statuses.get()).plugin_registered
        await until(lambda: node.usable.get(driver.name))
        first = registered(node, driver)
        await driver.stop()
        await until(lambda: not registered(node, driver))
        assert node.usable[driver.name] is False
        await driver.start()
        assert (await driver.statuses.get()).plugin_registered
        assert registered(node, driver) is not first


@pytest.mark.parametrize("type_", [CLASSIC_PLUGIN, DRA_PLUGIN])
async def test_C058_a_classic_driver_registers_again_after_a_restart_and_deregisters(node, type_):
    def endpoint():
        try:
            return node.drivers.endpoint("gpu.example.com", classic=True)
        except NotRegistered:
            return None

    first, second = (DriverServer(node.directory, suffix=each) for each in ("-1", "-2"))
    for driver in (first, second):
        driver.type, driver.versions = type_, ["1.0.0"]
    async with first:
        assert (await first.statuses.get()).plugin_registered
        await until(lambda: endpoint().connected)
        # The next process of the same version has another socket for its registration only; that
        # of the first is still there, as after a kill.
        second.endpoint = second.listen_at = first.endpoint
        async with second:
            assert (await second.statuses.get()).plugin_registered
            first.registration.unlink()
            await until(lambda: len(node.drivers._drivers["gpu.example.com", True]) == 1)
            await until(lambda: endpoint().connected)
            second.registration.unlink()
            await until(lambda: endpoint() is None)
    assert node.usable == {}  # no slices are published for it


async def test_two_endpoints_newest_connected_wins(node):
    async with DriverServer(node.directory, suffix="-a") as old:
        await until(lambda: (found := registered(node, old)) and found.connected)
        async with DriverServer(node.directory, suffix="-b") as new:
            await until(lambda: registered(node, new).path == str(new.endpoint))
            thief = DriverServer(node.directory, suffix="-c")
            thief.endpoint = old.endpoint
            async with thief:
                refused = await thief.statuses.get()
                assert not refused.plugin_registered
                assert "already registered" in refused.error
        await until(lambda: registered(node, old).path == str(old.endpoint))


@pytest.mark.parametrize(
    ("type_", "versions", "chosen"),
    [
        (DRA_PLUGIN, (DRA_V1, DRA_V1BETA1), (DRA_V1,)),
        (DRA_PLUGIN, ("v9.DRAPlugin", DRA_V1BETA1, DRA_V1), (DRA_V1BETA1,)),
        (DRA_PLUGIN, ("v1alpha1.DRAResourceHealth", DRA_V1), (DRA_V1,)),
        (DRA_PLUGIN, ("1.0.0",), ("v1alpha1.Node",)),
        (DRA_PLUGIN, ("1.0.0", DRA_V1), (DRA_V1, "v1alpha1.Node")),
        (CLASSIC_PLUGIN, ("1.2", DRA_V1), ("v1alpha1.Node",)),
        (CLASSIC_PLUGIN, ("v1.0.0",), ("v1alpha1.Node",)),
        (CLASSIC_PLUGIN, (DRA_V1,), None),
        (DRA_PLUGIN, ("v9.DRAPlugin", "2.0.0", "10.0", "1.x", "", "v1alpha3.Node"), None),
        (DRA_PLUGIN, (), None),
    ],
)
def test_the_service_is_the_first_known_in_the_plugins_order(type_, versions, chosen):
    plugin = PluginInfo(type_, "d", "/d", versions)
    if chosen is None:
        with pytest.raises(RegistrationRefused):
            chosen_services(plugin)
    else:
        assert chosen_services(plugin) == chosen


async def test_refused_plugins_are_told_why_and_may_try_again(node):
    wrong = [
        ({"type": "CSIPlugin"}, "'CSIPlugin' are not supported; supported are DRAPlugin"),
        ({"versions": []}, "lists no supported versions"),
        ({"versions": ["v7.DRAPlugin"]}, "none of the versions"),
        ({"name": ""}, "has no name"),
        ({"name": "x,spec.nodeName=y"}, "the name of the driver: "),
        ({"endpoint": "dra.sock"}, "not an absolute path"),
    ]

    async def refused_then_registered(number, change, said):
        driver = DriverServer(node.directory, f"d{number}.example.com")
        good = {name: getattr(driver, name) for name in change}
        for name, value in change.items():
            setattr(driver, name, value)
        async with driver:
            status = await driver.statuses.get()
            assert not status.plugin_registered
            assert said in status.error
            for name, value in good.items():
                setattr(driver, name, value)
            while not (await driver.statuses.get()).plugin_registered:
                pass

    await asyncio.gather(
        *(refused_then_registered(number, *each) for number, each in enumerate(wrong))
    )


async def test_odd_files_and_silent_sockets_do_not_keep_a_driver_out(node):
    directory = node.directory / "plugins_registry"
    directory.mkdir(exist_ok=True)
    (directory / "file.sock").write_text("no socket")
    (directory / "folder.sock").mkdir()
    (directory / "nothing.sock").symlink_to(node.directory / "nowhere")
    (directory / "loop.sock").symlink_to(directory)
    silent = [socket.socket(socket.AF_UNIX) for _ in range(1000)]
    for number, each in enumerate(silent):
        each.bind(str(directory / f"{number}.sock"))  # most have no listener
    for each in silent[:3]:
        each.listen()
    babbling = await asyncio.start_unix_server(_babble, directory / "babble.sock")
    slow = DriverServer(node.directory, "slow.example.com")
    slow.info_delay = 60
    hidden = DriverServer(node.directory, "hidden.example.com")
    hidden.registration = directory / ".hidden.sock"
    nested = DriverServer(node.directory, "nested.example.com")
    nested.registration = directory / "folder.sock" / "reg.sock"
    linked = DriverServer(node.directory, "linked.example.com")
    linked.registration = node.directory / "elsewhere.sock"
    async with slow, hidden, nested, linked, DriverServer(node.directory) as driver:
        (directory / "link.sock").symlink_to(linked.registration)
        for each in (driver, nested, linked):
            assert (await each.statuses.get()).plugin_registered
            assert registered(node, each)
        assert not registered(node, hidden)
        assert hidden.statuses.empty() and slow.statuses.empty()
        babbling.close()
        for each in silent:
            each.close()


async def _babble(reader, writer):
    writer.write(b"HTTP/1.0 200 OK\r\n\r\nhello" * 100)
    writer.close()

"""The command of a driver: its flags, its page, its errors."""

import asyncio
import tempfile
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from free_port import free_port
from holdfast.driver import Cdi, Device, Driver, DriverError
from holdfast.node.driverkit.command import _parser, run_driver, settings_of
from holdfast.node.driverkit.plugin_service import PluginSockets
from holdfast.runtime.errors import BadConfiguration
from holdfast.testing.drivers import DriverNode


def a_driver():
    driver = Driver("gpu.example.com")
    driver.inventory(lambda: [Device("a")])
    driver.prepare(lambda claim: Cdi().env(A="1"))
    return driver


@pytest.fixture
def node_dir(monkeypatch):
    """The directory of a node; its path is short, because it contains sockets."""
    monkeypatch.delenv("NODE_NAME", raising=False)
    with tempfile.TemporaryDirectory(prefix="hf-") as name:
        directory = Path(name) / "node-0001"
        (directory / "plugins_registry").mkdir(parents=True)
        yield directory


def settings(*flags):
    return settings_of(_parser(a_driver()).parse_args([str(flag) for flag in flags]))


def test_the_directory_of_a_node_of_holdfast_is_enough(node_dir):
    (node_dir / "cdi").mkdir()
    (node_dir / "kubeconfig").touch()
    found, kubeconfig = settings("--kubelet-dir", node_dir)
    assert kubeconfig == node_dir / "kubeconfig"
    assert (found.node_name, found.cdi_dir) == ("node-0001", node_dir / "cdi")
    assert found.registry_dir == node_dir / "plugins_registry"
    assert found.plugins_dir == node_dir / "plugins"


def test_a_real_kubelet_has_its_cdi_files_elsewhere(node_dir, monkeypatch):
    monkeypatch.setenv("NODE_NAME", "worker-1")
    found, kubeconfig = settings("--kubelet-dir", node_dir, "--health-port", 8080)
    assert (found.node_name, found.cdi_dir) == ("worker-1", Path("/var/run/cdi"))
    assert (kubeconfig, found.health_port) == (None, 8080)
    found, kubeconfig = settings(
        "--node-name",
        "n",
        "--plugins-registry-dir",
        node_dir,
        "--plugins-dir",
        "/p",
        "--cdi-dir",
        "/c",
        "--kubeconfig",
        "/k",
    )
    assert (found.node_name, found.plugins_dir, found.cdi_dir) == ("n", Path("/p"), Path("/c"))
    assert (found.registry_dir, kubeconfig) == (node_dir, Path("/k"))


def test_wrong_flags_say_what_to_do(node_dir, capsys):
    with pytest.raises(BadConfiguration, match="give --node-name or set NODE_NAME"):
        settings("--kubelet-dir", node_dir)
    with pytest.raises(BadConfiguration, match="is not a directory: does a kubelet use /nowhere"):
        settings("--kubelet-dir", "/nowhere", "--node-name", "n")
    with pytest.raises(BadConfiguration, match="longer than 107 bytes: choose a shorter directory"):
        PluginSockets("gpu.example.com", Path("/" + "x" * 90), Path("/tmp"))
    with pytest.raises(SystemExit) as ended:
        run_driver(a_driver(), ["--kubelet-dir", str(node_dir)])
    assert ended.value.code == 1
    assert capsys.readouterr().err.endswith(
        "gpu.example.com: the node is not known: give --node-name or set NODE_NAME\n"
    )


def test_an_unusable_directory_is_named(node_dir, capsys):
    (node_dir / "plugins").write_text("a file")
    (node_dir / "kubeconfig").write_text(
        "{clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}], contexts: [{name: a, "
        "context: {cluster: a, user: a}}], users: [{name: a, user: {}}], current-context: a}"
    )
    with pytest.raises(SystemExit) as ended:
        run_driver(a_driver(), ["--kubelet-dir", str(node_dir)])
    assert ended.value.code == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("gpu.example.com: [Errno ") and str(node_dir / "plugins") in error


async def test_the_page_is_ready_when_slices_are_published_and_the_driver_is_registered():
    driver, broken = Driver("gpu.example.com", refresh_seconds=0.01), []

    @driver.inventory
    def inventory():
        if broken:
            raise DriverError(broken[0])
        return [Device("a")]

    driver.prepare(lambda: None)
    node = DriverNode(driver)
    node.settings = replace(node.settings, health_port=free_port())

    def page(name):
        url = f"http://127.0.0.1:{node.settings.health_port}/{name}"
        try:
            with urllib.request.urlopen(url) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    async with node:
        assert await asyncio.to_thread(page, "readyz") == (200, "ok")
        broken.append("card is gone")
        while not node.process.problems()["inventory"]:
            await asyncio.sleep(0.01)
        assert await asyncio.to_thread(page, "livez") == (200, "ok")
        status, text = await asyncio.to_thread(page, "readyz")
        assert (status, text.splitlines()[0]) == (500, "[-]inventory failed: card is gone")
        assert (await node.slices())[0].spec.devices

"""Commands follow the configuration and the gates of the cluster that their kubeconfig names."""

import asyncio
import json
import shutil

import pytest
import yaml

from cli.conftest import processes, read_until, with_client
from holdfast.api.scheme import NODES, PODS
from holdfast.cli import published_setup
from holdfast.cli.published_setup import PublishedSetup, publish, read_published
from holdfast.runtime.errors import Refused
from holdfast.runtime.settings import SchedulerSettings
from holdfast.testing import a_pod

pytestmark = [pytest.mark.long]
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "clientConnection": {"kubeconfig": "/secret/place"},
    "profiles": [{"schedulerName": "packing", "plugins": {
        "multiPoint": {"disabled": [{"name": "TaintToleration"}]},
    }}],
}  # fmt: skip
UNKNOWN = "does not say which"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Start a cluster with a configuration and a gate; return its kubeconfig, copied elsewhere."""
    folder = tmp_path_factory.mktemp("published")
    (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    data = folder / "data"
    flags = ("--data-dir", data, "--port", "0", "--nodes", "1", "--driver-nodes", "0")
    with processes() as start:
        process = start(
            "up", *flags, "--config", folder / "config.yaml",
            "--feature-gates", "DRADeviceTaintRules=true",
        )  # fmt: skip
        read_until(process, "Stop it with")
        elsewhere = folder / "elsewhere"
        elsewhere.mkdir()
        yield shutil.copy(data / "kubeconfig", elsewhere / "kubeconfig")


@pytest.fixture(autouse=True)
def no_local_state(monkeypatch, tmp_path):
    """Make the default data directory empty, as on another machine."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.delenv("KUBECONFIG", raising=False)


def test_why_uses_the_profiles_of_the_cluster(cluster, holdfast):
    async def prepare(client):
        await client.patch(NODES, "node-0001", {"spec": {"taints": [
            {"key": "k", "effect": "PreferNoSchedule"}]}})  # fmt: skip
        await client.create(PODS, a_pod("p", cpu="99", schedulerName="packing"), "default")

    with_client(cluster, prepare)
    done = holdfast("why", "p", "--kubeconfig", cluster, "-o", "json")
    assert done.code == 0, done.err
    assert UNKNOWN not in done.err
    answer = json.loads(done.out)
    assert answer["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_devices_uses_the_gates_of_the_cluster(cluster, holdfast):
    setup = with_client(cluster, read_published)
    assert setup.feature_gates == "DRADeviceTaintRules=true"
    assert UNKNOWN not in holdfast("devices", "--kubeconfig", cluster).err


def test_gates_that_are_not_known_here_are_named_and_ignored(cluster, holdfast):
    """The cluster may run a newer release of Holdfast than the command."""

    def publish_gates(text):
        body = json.dumps({"data": {"featureGates": text}}).encode()
        merge = "application/merge-patch+json"
        with_client(cluster, lambda c: c.write("PATCH", published_setup._MAP, body, merge))

    publish_gates("NewGate=true,DRADeviceTaintRules=true,\x1b[2J")
    try:
        done = holdfast("devices", "--kubeconfig", cluster)
        assert done.code == 0, done.err
        assert "are not known here and are ignored: 'NewGate=true, \\x1b[2J'" in done.err
    finally:
        publish_gates("DRADeviceTaintRules=true")
    assert "ignored" not in holdfast("devices", "--kubeconfig", cluster).err


def test_nothing_private_is_published(cluster):
    raw = with_client(cluster, lambda client: client.raw(published_setup._MAP)).decode()
    assert "packing" in raw
    assert "/secret/place" not in raw


async def test_credentials_and_arguments_of_own_plugins_are_left_out(tmp_path):
    document = {
        **CONFIG,
        "extenders": [
            {"urlPrefix": "https://me:secret@x/a@b", "tlsConfig": {"keyData": "c2VjcmV0"}},
            {"urlPrefix": "http://y:80"},
        ],
        "profiles": [{"pluginConfig": [
            {"name": "my:Plugin", "args": {"token": "secret"}},
            {"name": "NodeResourcesFit", "args": {}},
        ]}, {}],
    }  # fmt: skip
    public = published_setup._public(document)
    assert "secret" not in str(public) and "c2VjcmV0" not in str(public)
    assert public["extenders"] == [{"urlPrefix": "https://x/a@b"}, {"urlPrefix": "http://y:80"}]
    assert public["profiles"][0]["pluginConfig"] == [{"name": "NodeResourcesFit", "args": {}}]


def test_a_cluster_that_says_nothing_is_named_on_standard_error(server, holdfast):
    with_client(server, lambda client: client.create(PODS, a_pod("q", cpu="99"), "default"))
    done = holdfast("why", "q", "--kubeconfig", server, "-o", "json")
    assert done.code == 0
    words = f"{UNKNOWN} configuration and feature gates its scheduler has: the defaults are assumed"
    assert words in done.err
    gates = ("--feature-gates", "DRADeviceTaintRules=true")
    half = holdfast("why", "q", "--kubeconfig", server, *gates).err
    assert f"{UNKNOWN} configuration its scheduler has" in half
    assert f"{UNKNOWN} feature gates" in holdfast("devices", "--kubeconfig", server).err
    assert UNKNOWN not in holdfast("devices", "--kubeconfig", server, *gates).err


def test_a_configuration_with_an_own_plugin_loads_no_code():
    document = json.dumps(
        {"profiles": [{"plugins": {"filter": {"enabled": [{"name": "os:path"}]}}}]}
    )
    with pytest.raises(Refused, match="name its file with --config FILE"):
        PublishedSetup("", document).read_configuration("https://x")
    with pytest.raises(Refused, match="cannot be used here"):
        PublishedSetup("", "{nonsense").read_configuration("https://x")


def test_a_server_that_runs_alone_forgets_the_scheduler_of_an_earlier_cluster(tmp_path):
    data = tmp_path / "data"
    settings = SchedulerSettings()
    with processes() as start:
        first = start("apiserver", "--data-dir", data, "--port", "0")
        read_until(first, "export KUBECONFIG=")
        asyncio.run(publish(data / "kubeconfig", settings))
        assert with_client(data / "kubeconfig", read_published) == PublishedSetup()
    with processes() as start:
        read_until(start("apiserver", "--data-dir", data, "--port", "0"), "export KUBECONFIG=")
        assert with_client(data / "kubeconfig", read_published) is None

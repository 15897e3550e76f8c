"""Two clusters of one user: `down` stops the one that is meant, and kubeconfigs can be merged."""

import json
import os
import socket
import subprocess
import time
from dataclasses import asdict

import pytest
import yaml

from cli.conftest import read_until
from free_port import free_port
from holdfast.cli import running_cluster
from holdfast.cli.running_cluster import RunningCluster, started_at
from holdfast.server.access.credentials import ensure_credentials, write_kubeconfig


@pytest.fixture
def ended():
    """Return a function that starts a process which stands for a cluster, and tells if it ended."""
    processes = []

    def start():
        processes.append(subprocess.Popen(["sleep", "600"]))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


def run_in(directory, process):
    """Write the state file of a cluster that runs in a process."""
    directory.mkdir(parents=True)
    (directory / "kubeconfig").touch()
    state = RunningCluster(
        process.pid, "https://x", str(directory / "kubeconfig"), started_at(process.pid)
    )
    (directory / running_cluster.FILE).write_text(json.dumps(asdict(state)))


def test_down_without_a_flag_does_not_stop_another_cluster_than_that_of_kubeconfig(
    ended, holdfast, tmp_path, monkeypatch
):
    default, other = tmp_path / "share" / "holdfast", tmp_path / "other place"
    processes = {place: ended() for place in (default, other)}
    for place, process in processes.items():
        run_in(place, process)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.setenv("KUBECONFIG", str(other / "kubeconfig"))
    refused = holdfast("down")
    assert refused.code == 1
    assert f"`holdfast down --data-dir '{other}'` stops it" in refused.err
    assert [process.poll() for process in processes.values()] == [None, None]


def a_cluster_in(directory, kubeconfig, url):
    """Write credentials and the kubeconfig of a cluster, as `up --kubeconfig` does."""
    write_kubeconfig(ensure_credentials(directory / "pki", time.time()), kubeconfig, url)


@pytest.mark.parametrize("merged", [False, True])
def test_down_without_a_flag_knows_a_cluster_by_its_kubeconfig_wherever_that_lies(
    ended, holdfast, tmp_path, monkeypatch, merged
):
    default, elsewhere = tmp_path / "share" / "holdfast", tmp_path / "elsewhere" / "config"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    process = ended()
    run_in(default, process)
    own = tmp_path / "own"
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"https://127.0.0.1:{server.getsockname()[1]}"
        a_cluster_in(default, own, url)
        a_cluster_in(tmp_path / "other", elsewhere, url)
        files = [elsewhere, own] if merged else [elsewhere]
        monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, files)))
        refused = holdfast("down")
        assert refused.code == 1
        assert f"KUBECONFIG names another cluster, at {url}" in refused.err
        assert f"`holdfast down --data-dir {default}` the default one" in refused.err
        assert process.poll() is None
        # The current context decides, not the order of the files alone.
        config = yaml.safe_load(elsewhere.read_text())
        config["current-context"] = yaml.safe_load(own.read_text())["current-context"]
        elsewhere.write_text(yaml.safe_dump(config))
        assert running_cluster.other_cluster(default) == ""
        monkeypatch.setenv("KUBECONFIG", str(own))
        assert running_cluster.other_cluster(default) == ""
    monkeypatch.setenv("KUBECONFIG", str(elsewhere))
    a_cluster_in(tmp_path / "other", elsewhere, url)  # it has ended
    assert holdfast("down").out == "stopped\n"
    process.wait()


@pytest.mark.parametrize("text", ["", "nonsense: [", "[]", "contexts: 5", "clusters: [{name: 1}]"])
def test_down_does_not_mind_a_kubeconfig_of_another_kind(holdfast, tmp_path, monkeypatch, text):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (tmp_path / "config").write_text(text)
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'config'}:{tmp_path / 'missing'}")
    assert holdfast("down").out.startswith("no cluster is running on")


def test_hints_carry_the_data_directory(ended, holdfast, tmp_path, start):
    data = tmp_path / "the data"
    flag = f"holdfast down --data-dir '{data}'"
    status = holdfast("status", "--data-dir", data)
    assert status.out.endswith(f"start one with `holdfast up --data-dir '{data}'`\n")
    flags = ("--data-dir", data, "--port", "0", "--nodes", "0", "--driver-nodes", "0")
    up = start("up", *flags)
    assert f"Stop it with Ctrl-C or `{flag}`." in read_until(up, "Stop it with")
    again = holdfast("up", *flags)
    assert f"stop it with `{flag}`" in again.err
    assert holdfast("down", "--data-dir", data).out == "stopped\n"


@pytest.mark.parametrize("beside", [True, False])
def test_the_hint_of_a_cluster_that_does_not_answer_names_its_data_directory(
    holdfast, tmp_path, monkeypatch, beside
):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    data = tmp_path / "data"
    kubeconfig = data / "kubeconfig" if beside else tmp_path / "kubeconfig"
    a_cluster_in(data, kubeconfig, f"https://127.0.0.1:{free_port()}")
    flag = f" --data-dir {data}" if beside else ""
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    for flags in ((), ("--kubeconfig", kubeconfig)):
        assert f"with `holdfast up{flag}`, or name" in holdfast("why", "p", *flags).err


def test_hints_for_the_default_directory_need_no_flag(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert running_cluster.flag_for(running_cluster.data_dir(None)) == ""


@pytest.mark.long
@pytest.mark.parametrize("detached", [False, True])
def test_down_stops_a_cluster_that_is_starting(holdfast, tmp_path, start, detached):
    data = tmp_path / "data"
    flags = ("--data-dir", data, "--port", "0", "--nodes", "1", *(["--detach"] * detached))
    up = start("up", *flags)
    while not (starting := running_cluster.find_starting(data)):
        assert up.returncode is None
    assert running_cluster.find(data) is None
    assert f"starting (pid {starting.pid})" in holdfast("status", "--data-dir", data).out
    assert "a cluster is starting" in holdfast("up", *flags).err
    assert holdfast("down", "--data-dir", data).out == "stopped\n"
    out, _ = up.communicate(timeout=60)
    assert not starting.alive
    assert running_cluster.find(data) is None
    if detached:
        assert up.returncode == 1
        assert "the cluster was stopped while it started" in out
    else:
        assert up.returncode in (0, -15)


def test_names_in_the_kubeconfigs_of_two_clusters_are_different(tmp_path):
    names = []
    for place in ("a", "b"):
        credentials = ensure_credentials(tmp_path / place, time.time())
        write_kubeconfig(credentials, tmp_path / place / "kubeconfig", "https://127.0.0.1:6443")
        config = yaml.safe_load((tmp_path / place / "kubeconfig").read_text())
        names.append({
            (part, entry["name"]) for part in ("clusters", "users", "contexts")
            for entry in config[part]
        })  # fmt: skip
        assert config["current-context"] in {name for part, name in names[-1]}
    assert [len(found) for found in names] == [5, 5]
    assert not names[0] & names[1]


def test_the_token_in_a_kubeconfig_with_the_former_names_is_kept(tmp_path):
    credentials = ensure_credentials(tmp_path, time.time())
    path = tmp_path / "kubeconfig"
    write_kubeconfig(credentials, path, "https://127.0.0.1:6443")
    config = yaml.safe_load(path.read_text())
    token = config["users"][1]["user"]["token"]
    config["users"][1]["name"] = "holdfast-admin-token"
    path.write_text(yaml.safe_dump(config))
    os.chmod(path, 0o600)
    write_kubeconfig(credentials, path, "https://127.0.0.1:6443")
    assert yaml.safe_load(path.read_text())["users"][1]["user"]["token"] == token
    assert len(credentials.tokens) == 1

"""``holdfast up --detach``, ``status``, ``why`` and ``down`` on one running cluster."""

import asyncio
import json
import os
import re
import urllib.request
from pathlib import Path

import pytest
import yaml

from cli.conftest import mode, run_program
from holdfast.api.scheme import NODES, PODS
from holdfast.cli import running_cluster
from holdfast.client.client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import load
from holdfast.testing import a_pod

EXAMPLE = Path(__file__).parents[2] / "examples" / "40-own-plugin"
pytestmark = [pytest.mark.long, pytest.mark.xdist_group("cli-up")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    directory = tmp_path_factory.mktemp("up") / "data"
    config = EXAMPLE / "config.yaml"
    flags = ("--data-dir", directory, "--port", "0", "--nodes", "2", "--config", config)
    up = run_program("up", *flags, "--detach", "--check-invariants", "--health-port", "0")
    assert up.code == 0, up.err
    assert up.out.endswith(f"  curl {running_cluster.find(directory).pages}/metrics\n")
    yield directory
    assert run_program("down", "--data-dir", directory).code == 0


async def _with_client(directory, work):
    client = Client(HttpTransport(await load(directory / "kubeconfig")))
    try:
        return await work(client)
    finally:
        await client.close()


def create_pod(directory, pod, *, until):
    """Create a pod and wait until a condition holds for it."""

    async def work(client):
        found = await client.create(PODS, pod, "default")
        while not until(found):
            await asyncio.sleep(0.02)
            found = await client.get(PODS, pod["metadata"]["name"], "default")
        return found

    return asyncio.run(_with_client(directory, work))


@pytest.fixture(scope="module")
def running_pod(cluster):
    return create_pod(cluster, a_pod("runs"), until=lambda p: p.status.phase == "Running")


@pytest.fixture(scope="module")
def pending_pod(cluster):
    pod = a_pod("waits", cpu="4000")
    return create_pod(cluster, pod, until=lambda p: p.status.conditions)


def test_status_prints_address_and_readiness(cluster, holdfast):
    done = holdfast("status", "--data-dir", cluster)
    found = running_cluster.find(cluster)
    lines = done.out.splitlines()
    assert done.code == 0
    assert lines[0] == f"running: pid {found.pid}, {found.url}"
    assert lines[1] == f"export KUBECONFIG={cluster / 'kubeconfig'}"
    assert lines[2].startswith("ready: 2 nodes, ")
    assert lines[3] == f"scheduler: {found.pages}/metrics"


def test_the_scheduler_serves_health_and_metrics_on_loopback(cluster, running_pod):
    pages = running_cluster.find(cluster).pages
    assert pages.startswith("http://127.0.0.1:")

    def page(path):
        with urllib.request.urlopen(pages + path, timeout=10) as answer:
            return answer.read().decode()

    # The attempt is counted after the bind, so perhaps after the node has started the pod.
    while 'scheduler_schedule_attempts_total{profile="default-scheduler"' not in page("/metrics"):
        pass
    assert page("/readyz") == "ok"
    assert "AvoidCrowds" in page("/configz")
    assert "check_invariants=True" in page("/flagz")


def test_a_busy_health_port_of_up_is_named(cluster, holdfast, tmp_path):
    port = running_cluster.find(cluster).pages.rpartition(":")[2]
    flags = ("--data-dir", tmp_path, "--port", "0", "--nodes", "0", "--single-process")
    done = holdfast("up", *flags, "--health-port", port)
    assert done.code == 1
    assert f"cannot serve health checks on 127.0.0.1:{port} (" in done.err
    assert running_cluster.find(tmp_path) is None


def test_only_the_user_can_read_the_data_directory(cluster):
    # A socket has the mode that gRPC gives it: its directory protects it.
    everything = [cluster, *(path for path in cluster.rglob("*") if not path.is_socket())]
    for path in everything:
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path


def test_the_api_server_listens_on_loopback_only(cluster):
    assert running_cluster.find(cluster).url.startswith("https://127.0.0.1:")


def test_no_secret_is_ever_printed(cluster, holdfast):
    users = yaml.safe_load((cluster / "kubeconfig").read_text())["users"]
    secrets = [value for user in users for key, value in user["user"].items() if "cert" not in key]
    assert len(secrets) == 2
    output = (cluster / running_cluster.LOG).read_text() + holdfast(
        "status", "--data-dir", cluster
    ).out
    assert not any(secret in output for secret in secrets)


def test_a_node_fails_and_recovers_on_request(cluster, holdfast):
    flags = ("--kubeconfig", cluster / "kubeconfig")
    missing = holdfast("node", "fail", "node-0002", "elsewhere", *flags)
    assert missing.code == 1
    assert missing.err == "holdfast: node elsewhere is not found; no node was changed\n"
    done = holdfast("node", "fail", "node-0002", *flags)
    assert done.out == "node/node-0002 has failed; it is reported as unreachable after 50 s\n"
    listed = json.loads(holdfast("node", "list", *flags, "-o", "json").out)
    (found,) = (n for n in listed if n["name"] == "node-0002")
    assert (found["failed"], found["agent"], found["ready"]) == (True, "simulated", "True")
    table = [line.split()[:3] for line in holdfast("node", "list", *flags).out.splitlines()]
    assert table[0] == ["NAME", "READY", "AGENT"]
    assert table[2] == ["node-0002", "True", "failed"]
    assert holdfast("node", "recover", "node-0002", *flags).out == "node/node-0002 recovers\n"


def test_a_second_start_names_the_running_cluster(cluster, holdfast):
    found = running_cluster.find(cluster)
    for command in ("up", "apiserver"):
        done = holdfast(command, "--data-dir", cluster)
        assert done.code == 1
        assert (
            f"a cluster is already running on {cluster} (pid {found.pid}, {found.url})" in done.err
        )


def test_a_locked_directory_names_the_process_that_holds_it(cluster, holdfast, tmp_path):
    (cluster / running_cluster.FILE).rename(tmp_path / "hidden")
    try:
        done = holdfast("up", "--data-dir", cluster, "--port", "0")
    finally:
        (tmp_path / "hidden").rename(cluster / running_cluster.FILE)
    assert done.code == 1
    holder = re.search(r"is in use by process (\d+): stop that process, or choose", done.err)
    os.kill(int(holder[1]), 0)


def test_a_busy_port_is_named_with_advice(cluster, holdfast, tmp_path):
    port = running_cluster.find(cluster).url.rpartition(":")[2]
    refusal = (
        f"cannot listen on 127.0.0.1:{port} (Address already in use): choose another port with "
        "--port"
    )
    here = holdfast("up", "--data-dir", tmp_path / "a", "--port", port)
    assert (here.code, here.out) == (1, "")
    assert refusal in here.err
    flags = ("--data-dir", tmp_path / "b", "--port", port, "--single-process")
    behind = holdfast("up", *flags, "--detach")
    assert behind.code == 1
    assert f"the cluster did not start:\n{refusal}" in behind.err


def test_why_explains_a_pending_pod(cluster, pending_pod, holdfast):
    done = holdfast("why", "waits", "--kubeconfig", cluster / "kubeconfig")
    assert done.code == 0
    assert done.out.splitlines() == [
        "default/waits: 0/2 nodes are available: 2 Insufficient cpu.",
        "      2  Insufficient cpu  [NodeResourcesFit]: node-0001, node-0002",
        "  no new claims to deallocate, preemption: 0/2 nodes are available: "
        "2 Preemption is not helpful for scheduling.",
    ]


def test_why_explains_a_bound_pod(cluster, running_pod, holdfast):
    done = holdfast("why", "default/runs", "--kubeconfig", cluster / "kubeconfig")
    node = running_pod.spec.node_name
    first, second, *_ = done.out.splitlines()
    assert first == (
        f"default/runs is on {node}, which is still among the best; if it were scheduled now:"
    )
    assert second == "default/runs: fits on node-0001, node-0002"


def test_why_prints_json(cluster, running_pod, holdfast):
    done = holdfast("why", "runs", "-o", "json", "--kubeconfig", cluster / "kubeconfig")
    answer = json.loads(done.out)
    assert answer["nodeName"] == running_pod.spec.node_name
    assert answer["best"] == ["node-0001", "node-0002"]


def test_why_gives_advice_about_a_missing_pod(cluster, holdfast):
    done = holdfast("why", "missing", "-n", "else", "--kubeconfig", cluster / "kubeconfig")
    assert done.code == 1
    assert 'there is no pod "missing" in namespace "else" at https://127.0.0.1:' in done.err
    assert "`kubectl get pods -A`" in done.err


def test_why_without_a_kubeconfig_names_the_running_cluster(
    cluster, holdfast, monkeypatch, tmp_path
):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    nothing = holdfast("why", "p")
    assert nothing.code == 1
    assert f"no kubeconfig at {tmp_path}/.kube/config: give --kubeconfig FILE" in nothing.err
    assert "export KUBECONFIG" not in nothing.err
    (tmp_path / "holdfast").symlink_to(cluster)
    something = holdfast("why", "p")
    assert (
        f"an embedded cluster is running: export KUBECONFIG={cluster / 'kubeconfig'}"
        in something.err
    )


def test_why_reports_a_server_that_does_not_answer(cluster, holdfast, tmp_path):
    config = yaml.safe_load((cluster / "kubeconfig").read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    done = holdfast("why", "p", "--kubeconfig", tmp_path / "config")
    assert done.code == 1
    assert "https://127.0.0.1:1 does not answer" in done.err
    assert "`holdfast up`" in done.err


def test_down_is_fast_and_a_new_start_finds_the_data(holdfast, tmp_path):
    data = tmp_path / "data"
    flags = ("--data-dir", data, "--port", "0", "--detach")
    up = run_program("up", *flags, "--nodes", "2")
    assert up.code == 0, up.err
    pod = create_pod(data, a_pod("kept"), until=lambda p: p.status.phase == "Running")
    first = running_cluster.find(data)
    down = holdfast("down", "--data-dir", data)
    assert (down.code, down.out) == (0, "stopped\n")
    assert running_cluster.find(data) is None
    assert not (data / running_cluster.FILE).exists()
    assert holdfast("status", "--data-dir", data).code == 1
    # The state file of an ended process is ignored.
    running_cluster.write_file(data, first.url, data / "kubeconfig")
    leftover = json.loads((data / running_cluster.FILE).read_text()) | {"pid": first.pid}
    (data / running_cluster.FILE).write_text(json.dumps(leftover))
    again = run_program("up", *flags, "--nodes", "1", "--two-processes")
    assert again.code == 0, again.err
    try:

        async def look(client):
            nodes = [n.name for n in (await client.list(NODES)).items]
            return nodes, await client.get(PODS, "kept", "default")

        nodes, found = asyncio.run(_with_client(data, look))
        assert nodes == ["node-0001", "node-0002"]
        assert found.spec.node_name == pod.spec.node_name
        assert "1 more than --nodes" in (data / running_cluster.LOG).read_text()
        assert holdfast("status", "--data-dir", data).out.endswith("ready: 2 nodes, 1 pod\n")
    finally:
        assert holdfast("down", "--data-dir", data).code == 0
    assert "error" not in (data / running_cluster.LOG).read_text().lower()


def test_another_process_with_the_same_pid_is_not_the_cluster(tmp_path):
    running_cluster.write_file(tmp_path, "https://x", tmp_path / "kubeconfig")
    assert running_cluster.find(tmp_path).pid == os.getpid()
    other = json.loads((tmp_path / running_cluster.FILE).read_text()) | {"started": "1"}
    (tmp_path / running_cluster.FILE).write_text(json.dumps(other))
    assert running_cluster.find(tmp_path) is None


def test_status_and_down_without_a_cluster(holdfast, tmp_path):
    status = holdfast("status", "--data-dir", tmp_path)
    assert status.code == 1
    start = f"`holdfast up --data-dir {tmp_path}`"
    assert status.out == f"no cluster is running on {tmp_path}: start one with {start}\n"
    down = holdfast("down", "--data-dir", tmp_path)
    assert (down.code, down.out) == (0, f"no cluster is running on {tmp_path}\n")


def test_an_unusable_data_directory_is_rejected(holdfast, tmp_path):
    (tmp_path / "file").touch()
    done = holdfast("up", "--data-dir", tmp_path / "file" / "data", "--detach")
    assert done.code == 1
    assert "(Not a directory): choose another directory with --data-dir DIR" in done.err


def test_an_unwritable_kubeconfig_is_rejected(holdfast, tmp_path):
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "kubeconfig"
    flags = ("--data-dir", tmp_path / "d", "--port", "0", "--single-process")
    done = holdfast("up", *flags, "--kubeconfig", path)
    assert done.code == 1
    assert f"cannot write the kubeconfig to {path}" in done.err
    assert "choose another place with --kubeconfig FILE" in done.err


def test_listening_on_other_addresses_prints_a_warning(holdfast, tmp_path):
    flags = ("--data-dir", tmp_path, "--port", "0", "--single-process")
    done = holdfast("up", *flags, "--host", "nowhere.invalid")
    assert done.code == 1
    assert done.err.startswith("warning: --host nowhere.invalid lets other machines connect")
    assert "or another address with --host" in done.err


def test_a_users_own_plugin_is_used(cluster, holdfast):
    async def close(client):
        await client.patch(NODES, "node-0002", {"metadata": {"labels": {"rack": "r3"}}})

    asyncio.run(_with_client(cluster, close))
    pod = a_pod("racked", nodeSelector={"rack": "r3"})
    words = "1 node(s) were in a rack under repair"
    # The scheduler may see the pod before the label.
    create_pod(cluster, pod, until=lambda p: any(words in c.message for c in p.status.conditions))
    kubeconfig = ("--kubeconfig", cluster / "kubeconfig")
    result = holdfast("why", "racked", *kubeconfig, "--config", EXAMPLE / "config.yaml")
    assert "[AvoidCrowds]: node-0002" in result.out
    assert holdfast("why", "racked", *kubeconfig) == result


def test_the_configuration_of_another_cluster_is_not_used(cluster, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    found = running_cluster.find(cluster)
    assert running_cluster.find_by_url(found.url, cluster / "kubeconfig") == found
    assert running_cluster.find_by_url("https://127.0.0.1:1", cluster / "kubeconfig") is None
    assert running_cluster.find_by_url(found.url, tmp_path / "kubeconfig") is None
    monkeypatch.setenv("KUBECONFIG", f"{cluster / 'kubeconfig'}:elsewhere")
    assert running_cluster.find_by_url(found.url, None) == found


def test_an_invalid_configuration_is_reported(holdfast, tmp_path):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("kind: KubeSchedulerConfiguration\n")
    for more in ((), ("--detach",)):
        done = holdfast("up", "--data-dir", tmp_path / "data", "--config", wrong, *more)
        assert done.code == 1
        assert f"{wrong}: apiVersion missing" in done.err

"""``holdfast apiserver`` and ``holdfast scheduler`` as separate processes."""

import asyncio
import json
import re
import signal
import socket

import pytest

from cli.conftest import mode, placed, read_until, with_client
from cli.process_requests import HEAD, LEASES, asked
from free_port import free_port
from holdfast.api.scheme import PODS
from holdfast.runtime.errors import NotFound
from holdfast.testing import a_pod

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("cli-processes")]


def holder(kubeconfig):
    async def work(client):
        return (await client.get(LEASES, "kube-scheduler", "kube-system"))["spec"]["holderIdentity"]

    return with_client(kubeconfig, work)


def give_lease(kubeconfig, to):
    """Set the holder of the lease; "" releases it."""

    async def work(client):
        spec = {"holderIdentity": to, "leaseDurationSeconds": 600}
        try:  # whatever version it has: a leader of the test before may still renew it
            await client.patch(LEASES, "kube-scheduler", {"spec": spec}, "kube-system")
        except NotFound:
            meta = {"name": "kube-scheduler", "namespace": "kube-system"}
            await client.create(LEASES, {"metadata": meta, "spec": spec}, "kube-system")

    with_client(kubeconfig, work)


def test_a_standby_takes_over_after_the_leader_stops(server, start):
    """The leader schedules, a standby is ready, and a stopping leader releases the lease."""
    give_lease(server, to="")
    ports = free_port(), free_port()
    flags = ("--kubeconfig", server, "--check-invariants", "--health-port")
    first = start("scheduler", *flags, ports[0])
    read_until(first, "scheduling for https://127.0.0.1:")
    second = start("scheduler", *flags, ports[1])
    read_until(second, "waiting for the lease kube-system/kube-scheduler as ")
    assert holder(server).endswith(f"_{first.pid}")
    assert placed(server, "a") == "n"
    for port in ports:
        assert asked(port, "/readyz") == (200, "ok")
        assert asked(port, "/healthz") == (200, "ok")
    metrics = asked(ports[0], "/metrics")[1]
    assert "scheduler_schedule_attempts_total" in metrics
    assert 'leader_election_master_status{name="kube-scheduler"} 1.0' in metrics
    assert 'workqueue_depth{name="reservation-controller"} 0.0' in metrics
    assert [("Leading: yes" in asked(port, "/statusz")[1]) for port in ports] == [True, False]
    assert "check_invariants=True" in asked(ports[0], "/flagz")[1]
    first.send_signal(signal.SIGTERM)
    out, _ = first.communicate(timeout=30)
    assert (first.returncode, out) == (0, "stopped\n")
    read_until(second, "scheduling for https://127.0.0.1:")
    assert placed(server, "b") == "n"
    give_lease(server, to="thief")
    out, _ = second.communicate(timeout=60)
    assert second.returncode == 1
    assert "lease kube-system/kube-scheduler could not be renewed" in out
    assert "thief" in out
    assert holder(server) == "thief"


def test_a_paused_leader_that_lost_its_lease_exits(server, start, tmp_path):
    """Another replica leads by then: bindings of the paused one must not be written."""
    give_lease(server, to="")
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "leaderElection: {leaseDuration: 5s, renewDeadline: 4s, retryPeriod: 500ms}\n"
    )
    flags = ("--kubeconfig", server, "--config", config, "--health-port", "0")
    first = start("scheduler", *flags)
    read_until(first, "scheduling for")
    second = start("scheduler", *flags)
    read_until(second, "waiting for the lease")
    first.send_signal(signal.SIGSTOP)
    try:
        assert placed(server, "stopped") == "n"
        read_until(second, "scheduling for")
        assert holder(server).endswith(f"_{second.pid}")
    finally:
        first.send_signal(signal.SIGCONT)
    out, _ = first.communicate(timeout=30)
    assert first.returncode == 1
    assert "holdfast: lease kube-system/kube-scheduler could not be renewed for 4 s" in out
    assert holder(server).endswith(f"_{second.pid}")
    second.send_signal(signal.SIGTERM)
    assert second.communicate(timeout=30)[0].endswith("stopped\n")


def test_a_scheduler_without_leader_election_reads_a_configuration(server, start, tmp_path):
    give_lease(server, to="another")
    config = tmp_path / "config.json"
    alone = {"leaderElection": {"leaderElect": False}, "clientConnection": {
        "kubeconfig": str(server), "qps": 500, "burst": 1000,
    }}  # fmt: skip
    config.write_text(json.dumps(HEAD | alone | {"profiles": [{}]}))
    lone = start("scheduler", "--config", config, "--health-port", "0")
    output = read_until(lone, "scheduling for")
    assert output.endswith(" as default-scheduler\n")
    assert placed(server, "c") == "n"
    lone.send_signal(signal.SIGUSR2)
    dumped = read_until(lone, "activeQ:0; backoffQ:0; unschedulablePods:0")
    # Each line of the dump is a log record, because line breaks in a record are escaped.
    lines = [
        line.removeprefix("W holdfast.scheduling.scheduler.dump: ") for line in dumped.splitlines()
    ]
    assert lines[:2] == [
        "dump of the scheduler's cache and queue",
        "Nodes: missed [], redundant []",
    ]
    assert any(line.startswith("  default/c uid") for line in lines)
    lone.send_signal(signal.SIGINT)
    out, _ = lone.communicate(timeout=30)
    assert (lone.returncode, out) == (0, "stopped\n")
    assert holder(server) == "another"


def test_the_lease_name_is_read_from_the_configuration(server, start, tmp_path):
    config = tmp_path / "config.json"
    terms = {"resourceName": "mine", "resourceNamespace": "default", "leaseDuration": "30s"}
    config.write_text(json.dumps(HEAD | {"leaderElection": terms}))
    flags = ("--kubeconfig", server, "--config", config, "--health-port", "0")
    leader = start("scheduler", *flags)
    output = read_until(leader, "scheduling for")
    assert "waiting for the lease default/mine as " in output
    assert output.endswith(" as default-scheduler, koord-scheduler\n")

    async def lease(client):
        return await client.get(LEASES, "mine", "default")

    spec = with_client(server, lease)["spec"]
    assert spec["holderIdentity"].endswith(f"_{leader.pid}")
    assert spec["leaseDurationSeconds"] == 30


def test_the_extenders_of_the_configuration_are_called(server, start, tmp_path):
    config = tmp_path / "config.json"
    asking = {
        "leaderElection": {"leaderElect": False}, "profiles": [{"schedulerName": "asking"}],
        "extenders": [{"urlPrefix": "http://127.0.0.1:9/unreachable", "filterVerb": "filter"}],
    }  # fmt: skip
    config.write_text(json.dumps(HEAD | asking))
    scheduler = start("scheduler", "--kubeconfig", server, "--config", config, "--health-port", "0")
    read_until(scheduler, "scheduling for")

    async def why(client):
        await client.create(PODS, a_pod("asked-about", scheduler_name="asking"), "default")
        for _ in range(300):
            pod = await client.get(PODS, "asked-about", "default")
            if pod.status.conditions:
                return pod.status.conditions[0].message
            await asyncio.sleep(0.1)
        return "no message"

    words = with_client(server, why)
    assert words.startswith('Post "http://127.0.0.1:9/unreachable/filter": ')


def test_a_scheduler_that_cannot_start_prints_the_reason(holdfast, tmp_path):
    missing = holdfast("scheduler", "--kubeconfig", tmp_path / "none")
    assert missing.code == 1
    assert f"no kubeconfig at {tmp_path / 'none'}" in missing.err
    bad = tmp_path / "config.json"
    bad.write_text(json.dumps(HEAD | {"profiles": [{"plugins": {"nope": {}}}]}))
    wrong = holdfast("scheduler", "--kubeconfig", tmp_path / "none", "--config", bad)
    assert wrong.code == 1
    assert f'{bad}: profiles[0].plugins.nope: unknown field "nope"' in wrong.err


def test_sigterm_during_the_start_of_a_scheduler_ends_it_cleanly(server, start, tmp_path):
    """The server hangs, so that the first lists are pending when the signal arrives."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = tmp_path / "config"
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        config.write_text(re.sub(r"https://127\.0\.0\.1:\d+", url, server.read_text()))
        lone = start("scheduler", "--kubeconfig", config, "--no-leader-elect", "--health-port", "0")
        silent.accept()[0].close()
        lone.send_signal(signal.SIGTERM)
        out, _ = lone.communicate(timeout=30)
    assert lone.returncode == 0
    assert out.endswith("stopped\n")
    assert "holdfast: " not in out


def test_a_busy_health_port_is_named(server, holdfast):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = holdfast("scheduler", "--kubeconfig", server, "--health-port", port)
    assert done.code == 1
    assert f"cannot serve health checks on 127.0.0.1:{port}" in done.err
    assert "--health-port" in done.err


def test_the_api_server_alone_has_private_files_and_stops_on_sigterm(start, tmp_path):
    data, kubeconfig = tmp_path / "data", tmp_path / "config"
    server = start("apiserver", "--data-dir", data, "--port", "0", "--kubeconfig", kubeconfig)
    output = read_until(server, "export KUBECONFIG=")
    assert output.startswith("serving https://127.0.0.1:")
    assert mode(kubeconfig) == 0o600
    assert mode(data) == 0o700
    server.send_signal(signal.SIGTERM)
    out, _ = server.communicate(timeout=30)
    assert (server.returncode, out) == (0, "")

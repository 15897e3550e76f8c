"""Who may run processes, and what becomes of them when the agent stops, dies or comes back."""

import asyncio
import os
import signal
import sys

import pytest

from agent.process_cluster import SECONDS, ProcessCluster, alive, ended, exit_codes
from holdfast.api.scheme import NODES
from holdfast.client.transport import Request
from holdfast.node.agent import process_runtime
from holdfast.node.agent.node_agent import prepare_directory
from holdfast.node.agent.node_pod import NODE_PODS
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import Refused
from holdfast.server.access.credentials import write_node_kubeconfig

PROCESS = {"holdfast.dev/runtime": "process"}
WAIT = "echo up; while ! test -e go; do sleep 0.02; done; exit 4"


@pytest.fixture
async def start(node_directory):
    """Return a function that starts a cluster on the same directory."""
    started = []

    async def run(**nodes):
        started.append(await ProcessCluster(node_directory, **nodes).start())
        return started[-1]

    yield run
    if started:
        await started[-1].stop()


async def test_without_the_flag_no_pod_runs_a_process(start):
    """A pod's creator cannot run code on the host: neither by annotation nor without."""
    cluster = await start()
    touch = f"touch {cluster.directory}/owned"
    await cluster.run("asks", touch, annotations=PROCESS)
    await cluster.run("odd", touch, annotations={"holdfast.dev/runtime": "vm"})
    await cluster.run("plain", touch)
    pod = await cluster.ended("asks")
    assert (pod.status.phase, pod.status.reason) == ("Failed", "RuntimeNotAllowed")
    assert "--allow-process-runtime" in await cluster.event("asks", "RuntimeNotAllowed")
    assert (await cluster.ended("odd")).status.reason == "UnknownRuntime"
    pod = await cluster.running("plain")
    assert pod.status.pod_ip.startswith("100.")
    await cluster.delete("plain")
    assert not (cluster.directory / "owned").exists()


async def test_with_the_flag_pods_ask_by_annotation(start):
    cluster = await start(allow_process_runtime=True)
    await cluster.run("asks", "exit 6", annotations=PROCESS)
    await cluster.run("plain", "exit 6")
    assert exit_codes(await cluster.ended("asks")) == {"c": 6}
    await cluster.running("plain")


async def test_processes_outlive_the_agent_and_are_found_again(start):
    first = await start(runtime="process")
    pod = await first.run("p", WAIT)
    await first.logged(pod, "up")
    before = await first.running("p")
    unreported = await first.run("unreported", WAIT)
    await first.logged(unreported, "up")
    await first.running("unreported")
    gone = await first.run("gone", "echo up; sleep 1000")
    await first.logged(gone, "up")
    pids = [first.state(each)["pid"] for each in (pod, gone)]
    await first.agent.stop(stop_containers=False)
    await first.client.delete(NODE_PODS, "gone", "default", grace_seconds=0)
    lost = {"status": {"containerStatuses": None}}  # as if killed before it was written
    await first.client.patch(NODE_PODS, "unreported", lost, "default", subresource="status")
    await first.stop()
    assert all(map(alive, pids))

    (first.node_directory / "pods/.not a uid").touch()  # as any process could
    second = await start(runtime="process")
    await second.until("p", lambda p: p.status.phase == "Running")
    async with asyncio.timeout(SECONDS):
        while alive(pids[1]) or second.pod_directory(gone).exists():
            await asyncio.sleep(0.02)
    assert alive(pids[0])
    (second.pod_directory(pod) / "work/go").touch()
    after = await second.ended("p")
    assert exit_codes(after) == {"c": 4}
    [status] = after.status.container_statuses
    assert status.restart_count == 0
    started = before.status.container_statuses[0].state["running"]["startedAt"]
    assert status.state["terminated"]["startedAt"] == started
    (second.pod_directory(unreported) / "work/go").touch()
    assert exit_codes(await second.ended("unreported")) == {"c": 4}
    assert second.log(pod) == second.log(unreported) == ["up"]


async def test_an_exit_while_no_agent_ran_is_reported_and_the_container_restarted(start):
    first = await start(runtime="process")
    pod = await first.run("p", WAIT, spec={"restartPolicy": "OnFailure"})
    await first.logged(pod, "up")
    await first.running("p")
    pid = first.state(pod)["shim"]
    await first.agent.stop(stop_containers=False)
    (first.pod_directory(pod) / "work/go").touch()
    async with asyncio.timeout(SECONDS):
        while alive(pid):
            await asyncio.sleep(0.02)
    (first.pod_directory(pod) / "work/go").unlink()
    await first.stop()
    second = await start(runtime="process")
    pod = await second.until("p", lambda p: p.status.container_statuses[0].restart_count == 1)
    assert pod.status.container_statuses[0].last_state["terminated"]["exitCode"] == 4


async def test_a_stopped_cluster_leaves_no_process_and_a_later_one_without_flag_none_too(start):
    first = await start(runtime="process")
    pod = await first.run("p", "echo up; trap '' TERM; while :; do sleep 0.1; done")
    kept = await first.run("kept", "echo up; while :; do sleep 0.1; done")
    await first.logged(pod, "up")
    await first.logged(kept, "up")
    await first.agent.stop(stop_containers=False)
    pids = [first.state(each)["pid"] for each in (pod, kept)]
    os.kill(first.state(kept)["shim"], signal.SIGKILL)  # its process is an orphan now
    await first.stop()
    assert all(map(alive, pids))
    # This one must not run processes: those of its pods are killed.
    second = await start()
    await ended(*pids)
    assert (await second.running("p")).status.pod_ip


async def test_a_container_that_stops_its_parent_is_killed_all_the_same(start, monkeypatch):
    monkeypatch.setattr(process_runtime, "KILL_SECONDS", 0.5)
    cluster = await start(runtime="process")
    wait = "while ! test -e stop; do sleep 0.02; done"
    pod = await cluster.run("p", f"{wait}; kill -STOP $PPID; touch up; exec sleep 1000")
    await cluster.running("p")
    work = cluster.pod_directory(pod) / "work"
    (work / "stop").touch()
    async with asyncio.timeout(SECONDS):
        while not (work / "up").exists():
            await asyncio.sleep(0.02)
    state = cluster.state(pod)
    await cluster.delete("p", grace=0)
    await ended(state["pid"], state["shim"])


async def test_a_failed_node_leaves_its_processes_alone_until_it_recovers(start):
    cluster = await start(runtime="process")
    pod = await cluster.run("p", WAIT)
    await cluster.logged(pod, "up")
    await cluster.running("p")
    gone = await cluster.run("gone", "echo up; sleep 1000")
    await cluster.logged(gone, "up")
    left = cluster.state(gone)["pid"]
    failed = {"metadata": {"annotations": {"holdfast.dev/failed": "true"}}}
    await cluster.client.patch(NODES, "node-0001", failed)
    async with asyncio.timeout(SECONDS):
        while cluster.agent.pods:
            await asyncio.sleep(0.02)
    (cluster.pod_directory(pod) / "work/go").touch()
    late = await cluster.run("late", "exit 0")
    async with asyncio.timeout(SECONDS):
        while alive(cluster.state(pod)["shim"]):
            await asyncio.sleep(0.02)
    assert not cluster.pod_directory(late).exists()
    await cluster.client.delete(NODE_PODS, "gone", "default", grace_seconds=0)
    assert alive(left)
    failed["metadata"]["annotations"]["holdfast.dev/failed"] = None
    await cluster.client.patch(NODES, "node-0001", failed)
    assert exit_codes(await cluster.ended("p")) == {"c": 4}
    assert (await cluster.ended("late")).status.phase == "Succeeded"
    await ended(left)


async def test_an_agent_in_its_own_process_survives_kill_9(start):
    """The container of a killed agent runs on; the next agent reports its exit code."""
    cluster = await start()
    node_dir = cluster.directory / "own"
    node_dir.mkdir()
    kubeconfig = cluster.directory / "own.kubeconfig"
    write_node_kubeconfig(
        cluster.directory / "pki", "own", kubeconfig, cluster.cluster.url, SystemClock().now()
    )
    command = [
        sys.executable, "-m", "holdfast", "agent", "--node", "own", "--node-dir", str(node_dir),
        "--kubeconfig", str(kubeconfig), "--runtime", "process", "--health-port", "0",
    ]  # fmt: skip

    async def run_agent():
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, start_new_session=True
        )
        async with asyncio.timeout(SECONDS):
            lines = []
            while not lines or b"Ctrl-C" not in lines[-1]:
                lines.append(await process.stdout.readline())
                assert lines[-1], lines
        return process, b"".join(lines).decode()

    agent, printed = await run_agent()
    assert "not isolated" in printed
    try:
        cluster.node_directory = node_dir
        pod = await cluster.run("p", WAIT, node="own")
        await cluster.logged(pod, "up")
        agent.kill()
        await agent.wait()
        (cluster.pod_directory(pod) / "work/go").touch()
        agent, _ = await run_agent()
        assert exit_codes(await cluster.ended("p")) == {"c": 4}
        [status] = (await cluster.ended("p")).status.container_statuses
        assert status.restart_count == 0
        log = Request("GET", "/api/v1/namespaces/default/pods/p/log")
        answer = await cluster.client.transport.send(log)
        assert (answer.status, answer.body[:3]) == (200, b"up\n")
        agent.send_signal(signal.SIGTERM)
        assert await agent.wait() == 0
    finally:
        if agent.returncode is None:
            agent.kill()
            await agent.wait()


def test_a_directory_with_a_long_path_is_refused(tmp_path):
    with pytest.raises(Refused, match="too long for the sockets of drivers"):
        prepare_directory(tmp_path / ("x" * 90))

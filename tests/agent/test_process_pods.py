"""Pods as real processes, through the API of an embedded cluster with one node.

The cluster is shared by all tests of a module; each uses pods of its own names.
"""

import asyncio
import os
import signal

import pytest
import pytest_asyncio

from agent.process_cluster import (
    SECONDS,
    ProcessCluster,
    a_container,
    alive,
    ended,
    exit_codes,
    short_directory,
    states,
)
from holdfast.api.node_names import CERTIFICATE_ANNOTATION
from holdfast.api.scheme import NODES
from holdfast.node.agent.node_pod import CONFIG_MAPS, NODE_PODS, SECRETS
from holdfast.testing import a_pod

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster():
    with short_directory() as directory:
        made = await ProcessCluster(directory, runtime="process").start()
        yield made
        await made.stop()


async def test_command_environment_and_exit_code(cluster):
    """Everything about one process: what it sees, what it writes, how it ends."""
    await cluster.client.create(CONFIG_MAPS, {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"},
        "data": {"COLOR": "red", "size": "9"},
    }, "default")  # fmt: skip
    await cluster.client.create(SECRETS, {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
        "data": {"password": "aHVudGVyMg=="},
    }, "default")  # fmt: skip
    os.environ["HOLDFAST_SECRET_OF_THE_HOST"] = "no"
    env = [
        {"name": "WHO", "value": "world"},
        {"name": "GREETING", "value": "hello $(WHO) $$(WHO) $(NONE)"},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "TEAM", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['team']"}}},
        {"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory",
                                                             "divisor": "1Mi"}}},
        {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "SIZE", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "size"}}},
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "password"}}},
        {"name": "MAYBE", "valueFrom": {"configMapKeyRef": {"name": "no", "key": "x",
                                                            "optional": True}}},
    ]  # fmt: skip
    (cluster.directory / "here").mkdir()
    pod = a_pod("env", node="node-0001", labels={"team": "blue"})
    pod["spec"]["restartPolicy"] = "Never"
    pod["spec"]["containers"] = [
        a_container(
            "c", ["sh", "-c", 'env; echo "arg $1"; pwd; printf oops >&2; exit 3', "sh"],
            args=["$(WHO)"], env=env, envFrom=[{"prefix": "CM_", "configMapRef": {"name": "cm"}}],
            workingDir=str(cluster.directory / "here"),
            resources={"limits": {"memory": "64Mi"}},
        )
    ]  # fmt: skip
    await cluster.client.create(NODE_PODS, pod, "default")
    pod = await cluster.ended("env")
    assert pod.status.phase == "Failed"
    assert exit_codes(pod) == {"c": 3}
    lines = cluster.log(pod)
    seen = dict(line.split("=", 1) for line in lines if "=" in line)
    wanted = {
        "WHO": "world", "GREETING": "hello world $(WHO) $(NONE)", "NODE": "node-0001",
        "TEAM": "blue", "LIMIT": "64", "CPUS": "32", "SIZE": "9", "PASSWORD": "hunter2",
        "CM_COLOR": "red", "CM_size": "9", "HOSTNAME": "env",
    }  # fmt: skip
    assert seen.items() >= wanted.items()
    kept = {"PATH", "HOME", "LANG", "PWD", "OLDPWD", "SHLVL", "_"}
    assert seen.keys() <= wanted.keys() | kept
    assert "arg world" in lines
    assert str(cluster.directory / "here") in lines
    path = cluster.pod_directory(pod) / "logs/c/0.log"
    assert " stderr P oops" in path.read_text()
    assert path.stat().st_mode & 0o077 == 0


async def test_containers_that_cannot_start_wait_with_a_reason(cluster):
    missing = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "x"}}}]
    await cluster.run("no-program", ["/no/such/program"])
    await cluster.run("no-map", "true", env=missing)
    await cluster.run("no-directory", "true", workingDir="/no/such/directory")
    asks = a_pod("no-command", node="node-0001", annotations={"holdfast.dev/runtime": "process"})
    await cluster.client.create(NODE_PODS, asks, "default")

    def waiting(pod):
        return next((s["waiting"] for s in states(pod).values() if "waiting" in s), {})

    found = {}
    for name in ("no-program", "no-map", "no-directory", "no-command"):
        pod = await cluster.until(name, lambda p: waiting(p).get("message"))
        assert pod.status.phase == "Pending"
        found[name] = (waiting(pod)["reason"], waiting(pod)["message"])
    assert found["no-program"][0] == "RunContainerError"
    assert "No such file or directory" in found["no-program"][1]
    assert "annotate the pod with holdfast.dev/runtime: simulated" in found["no-program"][1]
    assert found["no-map"] == ("CreateContainerConfigError", 'configmap "none" not found')
    assert "/no/such/directory" in found["no-directory"][1]
    assert found["no-command"][0] == "CreateContainerError"
    assert "no image" in found["no-command"][1]
    assert "no image" in await cluster.event("no-command", "Failed")
    await cluster.delete("no-map")
    simulated = a_pod(
        "as-said", node="node-0001", annotations={"holdfast.dev/runtime": "simulated"}
    )
    simulated["spec"]["containers"] = [a_container("c", ["/no/such/program"])]
    await cluster.client.create(NODE_PODS, simulated, "default")
    await cluster.running("as-said")


@pytest.mark.parametrize("garbage", ["nonsense", None])
async def test_a_changed_certificate_annotation_of_the_node_is_repaired(cluster, garbage):
    """With another one the API server trusts no server of the node: no log could be read."""

    async def annotation():
        node = await cluster.client.get(NODES, "node-0001")
        return node.metadata.annotations.get(CERTIFICATE_ANNOTATION)

    before = await annotation()
    change = {"metadata": {"annotations": {CERTIFICATE_ANNOTATION: garbage}}}
    changed = await cluster.client.patch(NODES, "node-0001", change)
    assert changed.metadata.annotations.get(CERTIFICATE_ANNOTATION) == garbage
    async with asyncio.timeout(SECONDS):
        while await annotation() != before:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("init", [False, True])
async def test_a_pod_whose_image_says_what_to_run_is_simulated(cluster, init):
    name = f"web-{init}".lower()
    pod = a_pod(name, node="node-0001")
    if init:
        pod["spec"]["initContainers"] = pod["spec"]["containers"]
        pod["spec"]["containers"] = [a_container("second", ["false"])]
    await cluster.client.create(NODE_PODS, pod, "default")
    found = await cluster.running(name)
    assert found.status.pod_ip.startswith("100.")
    assert "has no command" in await cluster.event(name, "Simulated")
    assert not cluster.pod_directory(found).exists()


async def test_init_containers_sidecars_and_main_containers_in_order(cluster):
    write = 'echo {} >> "$OLDPWD/order" 2>/dev/null; echo {} >> order'
    init = [
        a_container("first", write.format(1, 1)),
        a_container("side", f"{write.format(2, 2)}; trap 'echo 5 >> order; exit 0' TERM; "
                            "echo up; while :; do sleep 0.05; done", restartPolicy="Always",
                    startupProbe={"exec": {"command": ["grep", "-q", "2", "order"]},
                                  "periodSeconds": 1}),
        a_container("third", write.format(3, 3)),
    ]  # fmt: skip
    created = await cluster.run("order", "echo 4 >> order; sleep 0.2; cat order", init=init)
    pod = await cluster.ended("order")
    assert pod.status.phase == "Succeeded", states(pod)
    assert exit_codes(pod) == {"first": 0, "side": 0, "third": 0, "c": 0}
    assert cluster.log(pod) == ["1", "2", "3", "4"]
    assert (cluster.pod_directory(created) / "work/order").read_text().split()[-1] == "5"


async def test_a_failed_init_container_ends_the_pod_and_is_retried_on_failure(cluster):
    await cluster.run("never", "true", init=[a_container("i", "exit 7")])
    pod = await cluster.ended("never")
    assert pod.status.phase == "Failed"
    assert states(pod)["i"]["terminated"]["exitCode"] == 7
    assert "waiting" in states(pod)["c"]

    retry = "test -e done || { touch done; exit 1; }"
    await cluster.run(
        "retry", "true", init=[a_container("i", retry)], spec={"restartPolicy": "OnFailure"}
    )
    pod = await cluster.ended("retry")
    assert pod.status.phase == "Succeeded"
    [status] = pod.status.init_container_statuses
    assert status.restart_count == 1
    assert status.last_state["terminated"]["exitCode"] == 1


async def test_a_crashing_container_is_restarted_at_once_then_with_back_off(cluster):
    await cluster.run("crash", "echo try; exit 5", spec={"restartPolicy": "Always"})
    pod = await cluster.until(
        "crash",
        lambda p: states(p).get("c", {}).get("waiting", {}).get("reason") == "CrashLoopBackOff",
    )
    [status] = pod.status.container_statuses
    assert pod.status.phase == "Running"
    assert status.restart_count == 1
    assert status.last_state["terminated"]["exitCode"] == 5
    assert "back-off 10s restarting failed container=c" in status.state["waiting"]["message"]
    assert not status.ready
    assert cluster.log(pod, attempt=0) == cluster.log(pod, attempt=1) == ["try"]
    assert "Back-off restarting failed container c" in await cluster.event("crash", "BackOff")
    await cluster.delete("crash")


async def test_probes_decide_readiness_and_restarts(cluster):
    ready = {"exec": {"command": ["test", "-e", "ready"]}, "periodSeconds": 1}
    alive = {"exec": {"command": ["sh", "-c", "echo ill; test ! -e dead"]},
             "periodSeconds": 1, "failureThreshold": 1}  # fmt: skip
    await cluster.run("probed", "echo $$; exec sleep 1000", readinessProbe=ready,
                      livenessProbe=alive, spec={"restartPolicy": "Always",
                                                 "terminationGracePeriodSeconds": 1})  # fmt: skip
    pod = await cluster.running("probed")
    assert "Readiness probe failed" in await cluster.event("probed", "Unhealthy")
    assert not pod.status.container_statuses[0].ready
    work = cluster.pod_directory(pod) / "work"
    (work / "ready").touch()
    pod = await cluster.until("probed", lambda p: p.status.container_statuses[0].ready)
    assert {c.type: c.status for c in pod.status.conditions}["Ready"] == "True"
    (work / "dead").touch()
    pod = await cluster.until("probed", lambda p: p.status.container_statuses[0].restart_count)
    (work / "dead").unlink()
    assert await cluster.event("probed", "Killing") == (
        "Container c failed liveness probe, will be restarted"
    )
    assert pod.status.container_statuses[0].last_state["terminated"]["signal"] == signal.SIGTERM
    await cluster.delete("probed", grace=0)


async def test_http_and_tcp_probes_reach_the_process(cluster):
    serve = (
        "import http.server\n"
        "s = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n"
        "open('port', 'w').write(str(s.server_port)); s.serve_forever()"
    )
    await cluster.run("server", ["python3", "-c", serve])
    pod = await cluster.running("server")
    path = cluster.pod_directory(pod) / "work/port"
    async with asyncio.timeout(SECONDS):
        while not path.exists() or not path.read_text():
            await asyncio.sleep(0.02)
    port = int(path.read_text())
    http = {"httpGet": {"path": "/", "port": port}, "periodSeconds": 1}
    bad = {"httpGet": {"path": "/none", "port": "web"}, "periodSeconds": 1}
    tcp = {"tcpSocket": {"port": port}, "periodSeconds": 1}
    grpc = {"grpc": {"port": port}, "periodSeconds": 1}
    ports = [{"name": "web", "containerPort": port}]
    sleeps = "exec sleep 1000"
    await cluster.run("good", sleeps, readinessProbe=http, startupProbe=tcp, livenessProbe=http)
    await cluster.run("bad", sleeps, readinessProbe=bad, ports=ports)
    await cluster.run("grpc", sleeps, readinessProbe=grpc)
    await cluster.until("good", lambda p: p.status.phase == "Running"
                        and p.status.container_statuses[0].ready)  # fmt: skip
    assert "statuscode: 404" in await cluster.event("bad", "Unhealthy")
    assert "not supported (gRPC)" in await cluster.event("grpc", "Unhealthy")
    for name in ("good", "bad", "grpc", "server"):
        await cluster.delete(name, grace=0)


async def test_a_deleted_pod_gets_its_hook_its_signal_and_its_grace_period(cluster):
    polite = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    hook = {"preStop": {"exec": {"command": ["touch", "{}/hooked"]}}}
    hook["preStop"]["exec"]["command"][1] = str(cluster.directory / "hooked")
    pod = await cluster.run("polite", polite, lifecycle=hook)
    await cluster.running("polite")
    await cluster.logged(pod, "up")
    await cluster.delete("polite")
    assert (cluster.directory / "hooked").exists()

    # Ignores SIGTERM, and its child has left the process group.
    rude = "trap '' TERM; setsid sleep 1000 & echo $! > pid; echo up; while :; do sleep 0.05; done"
    pod = await cluster.run("rude", rude, spec={"terminationGracePeriodSeconds": 1})
    await cluster.logged(pod, "up")
    children = [
        int((cluster.pod_directory(pod) / "work/pid").read_text()),
        int(cluster.state(pod)["pid"]),
    ]
    assert all(alive(pid) for pid in children)
    await cluster.delete("rude")
    await ended(*children)


async def test_what_a_process_leaves_behind_ends_with_it(cluster):
    pod = await cluster.run("daemon", "setsid sleep 1000 >/dev/null 2>&1 & echo $! > pid; exit 0")
    pod = await cluster.ended("daemon")
    assert pod.status.phase == "Succeeded"
    await ended(int((cluster.pod_directory(pod) / "work/pid").read_text()))


async def test_the_active_deadline_fails_the_pod(cluster):
    await cluster.run("slow", "sleep 1000", spec={"activeDeadlineSeconds": 1})
    pod = await cluster.ended("slow")
    assert (pod.status.phase, pod.status.reason) == ("Failed", "DeadlineExceeded")
    assert exit_codes(pod)["c"] == 128 + signal.SIGTERM


async def test_the_node_rejects_what_does_not_fit(cluster):
    await cluster.run("huge", "true", resources={"requests": {"cpu": "1000"}})
    pod = await cluster.ended("huge")
    assert (pod.status.phase, pod.status.reason) == ("Failed", "OutOfcpu")
    assert "requested: 1000000" in await cluster.event("huge", "OutOfcpu")
    await cluster.run("elsewhere", "true", spec={"nodeSelector": {"a": "b"}})
    assert (await cluster.ended("elsewhere")).status.reason == "NodeAffinity"

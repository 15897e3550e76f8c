"""First steps with the real kubectl."""

import asyncio

import pytest

from apiserver.sample_objects import PODS, binding
from kubectl_program import find_kubectl

pytestmark = pytest.mark.kubectl

POD = """
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers: [{name: c, image: nginx}]
"""


async def test_A001_version_shows_the_server_and_readyz_says_ok(api):
    version = await api.kubectl("version", "-o", "json")
    assert version.code == 0, version.err
    assert '"gitVersion": "v1.36' in version.out.split('"serverVersion"')[1]
    ready = await api.kubectl("get", "--raw", "/readyz")
    assert ready.out == "ok"


async def test_A004_an_empty_namespace_has_no_resources(api):
    answer = await api.kubectl("get", "pods")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == "No resources found in default namespace.\n"


async def test_A005_a_created_pod_is_shown_with_its_columns(api):
    created = await api.kubectl("create", "-f", "-", stdin=POD)
    assert (created.code, created.out) == (0, "pod/a created\n"), created.err
    shown = await api.kubectl("get", "pods")
    header, row = shown.out.splitlines()
    assert header.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row.split()[:4] == ["a", "0/1", "Pending", "0"]
    await api.call("POST", f"{PODS}/a/binding", binding("a", "n1"))
    wide = await api.kubectl("get", "pods", "-o", "wide")
    header, row = wide.out.splitlines()
    assert row.split()[header.split().index("NODE")] == "n1"


async def test_A006_creating_a_pod_again_fails_with_already_exists(api):
    await api.kubectl("create", "-f", "-", stdin=POD)
    again = await api.kubectl("create", "-f", "-", stdin=POD)
    assert again.code == 1
    assert "Error from server (AlreadyExists)" in again.err
    assert 'pods "a" already exists' in again.err


async def test_A024_get_w_shows_creation_status_and_deletion(api):
    process = await asyncio.create_subprocess_exec(
        find_kubectl(), "--kubeconfig", str(api.kubeconfig), "get", "pods", "-w", "--no-headers",
        "--output-watch-events", stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        while not api.server.context.watches:
            await asyncio.sleep(0.02)
        rows = []
        await api.create(PODS, {"metadata": {"name": "a"}, "spec": {
            "containers": [{"name": "c", "image": "nginx"}]}})  # fmt: skip
        rows.append(await asyncio.wait_for(process.stdout.readline(), 20))
        change = {"status": {"phase": "Running"}}
        merge = {"content-type": "application/merge-patch+json"}
        await api.call("PATCH", f"{PODS}/a/status", change, headers=merge)
        rows.append(await asyncio.wait_for(process.stdout.readline(), 20))
        await api.call("DELETE", f"{PODS}/a")
        rows.append(await asyncio.wait_for(process.stdout.readline(), 20))
    finally:
        process.kill()
        await process.wait()
    shown = [row.decode().split() for row in rows]
    assert [(row[0], row[1], row[3]) for row in shown] == [
        ("ADDED", "a", "Pending"), ("MODIFIED", "a", "Running"), ("DELETED", "a", "Terminating"),
    ]  # fmt: skip

"""The real kubectl, where one is found, in each version found."""

import asyncio
from pathlib import Path

import pytest

from apiserver.server_fixture import KUBECTLS
from apiserver.shapes import PODS, binding

FOUND = [path for path in KUBECTLS if path and Path(path).exists()]
pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(not FOUND, reason="no kubectl on this machine"),
]
every_kubectl = pytest.mark.parametrize("kubectl", FOUND, ids=lambda path: Path(path).parent.name)

POD = """
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers: [{name: c, image: nginx}]
"""


@every_kubectl
async def test_A001_version_shows_the_server_and_readyz_says_ok(api, kubectl):
    version = await api.kubectl("version", "-o", "json", binary=kubectl)
    assert version.code == 0, version.err
    assert '"gitVersion": "v1.36' in version.out.split('"serverVersion"')[1]
    ready = await api.kubectl("get", "--raw", "/readyz", binary=kubectl)
    assert ready.out == "ok"


@every_kubectl
async def test_A004_an_empty_namespace_has_no_resources(api, kubectl):
    answer = await api.kubectl("get", "pods", binary=kubectl)
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == "No resources found in default namespace.\n"


@every_kubectl
async def test_A005_a_created_pod_is_shown_with_its_columns(api, kubectl):
    created = await api.kubectl("create", "-f", "-", stdin=POD, binary=kubectl)
    assert (created.code, created.out) == (0, "pod/a created\n"), created.err
    shown = await api.kubectl("get", "pods", binary=kubectl)
    header, row = shown.out.splitlines()
    assert header.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row.split()[:4] == ["a", "0/1", "Pending", "0"]
    await api.call("POST", f"{PODS}/a/binding", binding("a", "n1"))
    wide = await api.kubectl("get", "pods", "-o", "wide", binary=kubectl)
    header, row = wide.out.splitlines()
    assert row.split()[header.split().index("NODE")] == "n1"


@every_kubectl
async def test_A006_creating_a_pod_again_fails_with_already_exists(api, kubectl):
    await api.kubectl("create", "-f", "-", stdin=POD, binary=kubectl)
    again = await api.kubectl("create", "-f", "-", stdin=POD, binary=kubectl)
    assert again.code == 1
    assert "Error from server (AlreadyExists)" in again.err
    assert 'pods "a" already exists' in again.err


@every_kubectl
async def test_A024_get_w_shows_creation_status_and_deletion(api, kubectl):
    process = await asyncio.create_subprocess_exec(
        kubectl, "--kubeconfig", str(api.kubeconfig), "get", "pods", "-w", "--no-headers",
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

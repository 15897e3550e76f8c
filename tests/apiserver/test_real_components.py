"""The real kube-scheduler and kube-controller-manager with our API server."""

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from apiserver.sample_objects import NAMESPACES, PODS, pod

BIN = Path.home() / ".cache/holdfast/bin/v1.36.2"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not (BIN / "kube-scheduler").exists(), reason="no upstream binaries"),
]


@asynccontextmanager
async def component(api, name, *flags):
    config = str(api.kubeconfig)
    process = await asyncio.create_subprocess_exec(
        str(BIN / name), "--kubeconfig", config, "--authentication-kubeconfig", config,
        "--authorization-kubeconfig", config, "--secure-port=0", *flags,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield
    finally:
        process.kill()
        await process.wait()


async def until(api, path, holds, **query):
    """Watch a collection until its list meets a condition."""
    listed = (await api.call("GET", path, **query)).json
    while not holds(listed["items"]):
        version = listed["metadata"]["resourceVersion"]
        async with api.watch(path, resourceVersion=version, **query) as w:
            await w.next(timeout=60)
        listed = (await api.call("GET", path, **query)).json
    return listed["items"]


async def test_the_real_scheduler_binds_a_pod_and_writes_an_event(api):
    status = {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
    await api.create("/api/v1/nodes", {"metadata": {"name": "n1"}, "status": status})
    async with component(api, "kube-scheduler"):
        await api.create(PODS, pod("a"))
        placed = await until(api, PODS, lambda items: items[0]["spec"].get("nodeName"))
        assert placed[0]["spec"]["nodeName"] == "n1"
        events = "/apis/events.k8s.io/v1/namespaces/default/events"
        said = await until(api, events, bool)
    assert (said[0]["reason"], said[0]["regarding"]["name"]) == ("Scheduled", "a")


async def test_the_real_controllers_roll_out_collect_garbage_and_delete_namespaces(api):
    left_out = "*,-serviceaccount-token-controller,-node-ipam-controller,-node-route-controller"
    async with component(api, "kube-controller-manager", "--controllers", left_out):
        template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
        spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        await api.create(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
        await until(api, PODS, lambda items: len(items) == 2)
        await api.create(NAMESPACES, {"metadata": {"name": "going"}})
        accounts = f"{NAMESPACES}/going/serviceaccounts"
        await until(api, accounts, bool)
        await api.call("DELETE", f"{DEPLOYMENTS}/d", {"propagationPolicy": "Foreground"})
        await until(api, PODS, lambda items: not items)
        await until(api, DEPLOYMENTS, lambda items: not items)
        await api.call("DELETE", f"{NAMESPACES}/going")
        only = {"fieldSelector": "metadata.name=going"}
        await until(api, NAMESPACES, lambda items: not items, **only)

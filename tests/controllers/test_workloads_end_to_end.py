"""Deployments, ReplicaSets and garbage collection on the embedded API server."""

from __future__ import annotations

import pytest

from holdfast.api.scheme import DEPLOYMENTS, EVENTS, PODS, REPLICASETS
from holdfast.runtime.errors import NotFound
from holdfast.testing import a_deployment, a_node, a_priority_class, a_replica_set


async def test_a_deployment_of_three_replicas_has_three_running_pods(cluster):
    await cluster.create(a_node("n"), a_deployment("web", replicas=3))

    assert len(await cluster.pods()) == 3
    assert {p.status.phase for p in await cluster.pods()} == {"Pending"}
    await cluster.bind_all("n")

    pods = await cluster.pods()
    assert {p.status.phase for p in pods} == {"Running"}
    (replicaset,) = (await cluster.client.list(REPLICASETS, "default")).items
    digest = replicaset.metadata.labels["pod-template-hash"]
    assert replicaset.name == f"web-{digest}"
    assert all(p.metadata.labels["pod-template-hash"] == digest for p in pods)
    web = await cluster.get(DEPLOYMENTS, "web", "default")
    assert web.status.available_replicas == web.status.updated_replicas == 3
    assert web.status.observed_generation == web.metadata.generation
    said = {c.type: (c.status, c.reason) for c in web.status.conditions}
    assert said["Available"] == ("True", "MinimumReplicasAvailable")
    assert said["Progressing"] == ("True", "NewReplicaSetAvailable")
    assert web.metadata.annotations["deployment.kubernetes.io/revision"] == "1"


async def test_scaling_to_one_leaves_one_pod(cluster):
    await cluster.create(a_node("n"), a_deployment("web", replicas=3))
    await cluster.bind_all("n")

    await cluster.client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 1}}, "default")
    await cluster.clock.settle()

    (pod,) = await cluster.pods()
    assert pod.status.phase == "Running"
    web = await cluster.get(DEPLOYMENTS, "web", "default")
    assert (web.status.replicas, web.status.available_replicas) == (1, 1)


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_deleting_a_deployment_deletes_its_replica_sets_and_pods(cluster, propagation):
    await cluster.create(a_node("n"), a_deployment("web", replicas=3))
    await cluster.bind_all("n")

    await cluster.client.delete(DEPLOYMENTS, "web", "default", propagation=propagation)
    await cluster.clock.advance(1)  # conflicts with writes of the status are retried

    for resource in (DEPLOYMENTS, REPLICASETS, PODS):
        assert (await cluster.client.list(resource, "default")).items == ()


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
async def test_A035_deleting_a_replica_set(cluster, propagation):
    slow = {"holdfast.dev/stop-after": "10s"}
    await cluster.create(a_node("n"), a_replica_set("rs", replicas=2, annotations=slow))
    await cluster.bind_all("n")

    await cluster.client.delete(REPLICASETS, "rs", "default", propagation=propagation)
    await cluster.clock.advance(1)
    owners = (await cluster.client.list(REPLICASETS, "default")).items
    pods = await cluster.pods()
    assert len(owners) == (1 if propagation == "Foreground" else 0)
    assert [p.terminating for p in pods] == [propagation != "Orphan"] * 2
    if propagation == "Orphan":
        assert [p.metadata.owner_references for p in pods] == [(), ()]
        return
    await cluster.clock.advance(12)
    assert await cluster.pods() == ()
    assert (await cluster.client.list(REPLICASETS, "default")).items == ()


async def test_orphaned_pods_are_kept_and_adopted_again(cluster):
    await cluster.create(a_node("n"), a_replica_set("rs", replicas=2))
    await cluster.bind_all("n")
    before = {p.uid for p in await cluster.pods()}

    await cluster.client.delete(REPLICASETS, "rs", "default", propagation="Orphan")
    await cluster.clock.advance(1)
    with pytest.raises(NotFound):
        await cluster.get(REPLICASETS, "rs", "default")
    assert {p.uid for p in await cluster.pods()} == before
    assert all(not p.metadata.owner_references for p in await cluster.pods())

    await cluster.create(a_replica_set("rs", replicas=2))
    adopted = await cluster.pods()
    assert {p.uid for p in adopted} == before
    rs = await cluster.get(REPLICASETS, "rs", "default")
    assert {o.uid for p in adopted for o in p.metadata.owner_references} == {rs.uid}


async def test_a_new_template_is_rolled_out_and_an_old_one_rolled_back(cluster):
    await cluster.create(a_node("n"), a_deployment("web", replicas=4))
    await cluster.bind_all("n")
    template = {"spec": {"template": {"metadata": {"labels": {"release": "two"}}}}}
    await cluster.client.patch(DEPLOYMENTS, "web", template, "default")

    most = 0
    for _ in range(12):
        await cluster.clock.advance(1)
        pods = await cluster.pods()
        most = max(most, len(pods))
        ready = [p for p in pods if p.status.phase == "Running"]
        assert len(ready) >= 3, "maxUnavailable is a quarter of four"
        await cluster.bind_all("n")
    assert most == 5, "maxSurge is a quarter of four"
    assert [p.metadata.labels["release"] for p in await cluster.pods()] == ["two"] * 4
    web = await cluster.get(DEPLOYMENTS, "web", "default")
    assert web.metadata.annotations["deployment.kubernetes.io/revision"] == "2"

    undo = {"spec": {"template": {"metadata": {"labels": {"release": None}}}}}
    await cluster.client.patch(DEPLOYMENTS, "web", undo, "default")
    for _ in range(12):
        await cluster.clock.advance(1)
        await cluster.bind_all("n")
    assert all("release" not in p.metadata.labels for p in await cluster.pods())
    assert len((await cluster.client.list(REPLICASETS, "default")).items) == 2
    web = await cluster.get(DEPLOYMENTS, "web", "default")
    assert web.metadata.annotations["deployment.kubernetes.io/revision"] == "3"


async def test_a_refused_pod_is_reported_and_retried(cluster):
    await cluster.create(a_replica_set("rs", replicas=2, priority_class_name="missing"))
    await cluster.clock.advance(1)
    rs = await cluster.get(REPLICASETS, "rs", "default")
    (condition,) = rs.status.conditions
    assert (condition.type, condition.reason) == ("ReplicaFailure", "FailedCreate")
    assert "missing" in condition.message
    events = (await cluster.client.list(EVENTS, "default")).items
    assert {e.reason for e in events} == {"FailedCreate"}

    await cluster.create(a_priority_class("missing", 7))
    await cluster.clock.advance(10)
    assert len(await cluster.pods()) == 2
    assert (await cluster.get(REPLICASETS, "rs", "default")).status.conditions == ()

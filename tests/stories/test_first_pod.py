"""The whole cluster: a pod is created, scheduled, runs and is deleted.

``cluster`` is a ``Harness`` (``holdfast.testing.harness``): all components in one process, and time
passes only in ``advance``.
"""

from holdfast.api.scheme import DEPLOYMENTS, PODS
from holdfast.testing import a_deployment, a_node, a_pod


async def test_a_pod_is_scheduled_and_runs(cluster):
    await cluster.create(a_node("n1"), a_pod("p", cpu="2"))
    pod = await cluster.pod("p")
    assert pod.spec.node_name == "n1"
    assert pod.status.phase == "Running"
    assert ("Scheduled", "Successfully assigned default/p to n1") in await cluster.events("p")


async def test_a_deployment_runs_scales_and_is_deleted(cluster):
    await cluster.create(a_node("n1"), a_node("n2"), a_deployment("web", replicas=3))
    pods = (await cluster.client.list(PODS)).items
    assert [p.status.phase for p in pods] == ["Running"] * 3
    await cluster.client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 1}}, "default")
    await cluster.settle()
    assert len((await cluster.client.list(PODS)).items) == 1
    await cluster.delete(DEPLOYMENTS, "web", "default")
    assert not (await cluster.client.list(PODS)).items


async def test_a_pending_pod_is_scheduled_when_a_node_is_added(cluster):
    await cluster.create(a_pod("p"))
    assert await cluster.node_of("p") == ""
    await cluster.create(a_node("n1"))
    await cluster.advance(15)
    assert await cluster.node_of("p") == "n1"


async def test_a_rejected_pod_is_requeued_when_resources_are_freed(cluster):
    await cluster.create(a_node("n1", cpu="4"), a_pod("big", cpu="3"), a_pod("waits", cpu="2"))
    assert await cluster.node_of("waits") == ""
    await cluster.delete(PODS, "big", "default")
    await cluster.advance(12)
    assert await cluster.node_of("waits") == "n1"


async def test_everything_survives_a_restart(cluster):
    await cluster.create(a_node("n1", cpu="4"), a_pod("a", cpu="3"))
    await cluster.restart()
    await cluster.create(a_pod("b", cpu="2"))
    assert await cluster.node_of("a") == "n1"
    assert await cluster.node_of("b") == ""

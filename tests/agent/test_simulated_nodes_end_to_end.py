from __future__ import annotations

import pytest

from holdfast.api.node_names import LEASE_NAMESPACE
from holdfast.api.scheme import EVENTS, LEASES, NODES, PODS, RESOURCE_CLAIMS
from holdfast.api.timestamps import parse_rfc3339, rfc3339_micro
from holdfast.node.agent.addresses import AGENT_NODES, AGENT_PODS
from holdfast.node.agent.simulated_nodes import SimulatedNodes
from holdfast.runtime.errors import NotFound
from holdfast.runtime.settings import NodeShape
from holdfast.testing import a_claim, a_node, a_pod


async def renewed(cluster, name):
    lease = await cluster.get(LEASES, name, LEASE_NAMESPACE)
    return parse_rfc3339(lease.spec.renew_time)


def ready(node):
    return next((c.status for c in node.status.conditions if c.type == "Ready"), None)


async def test_registered_nodes_are_ready_and_untainted_and_their_leases_renewed(cluster):
    await cluster.simulated_nodes.register(3, NodeShape(cpu="4"))
    await cluster.clock.settle()
    nodes = (await cluster.client.list(AGENT_NODES)).items
    assert [n.name for n in nodes] == ["node-0001", "node-0002", "node-0003"]
    assert {ready(n) for n in nodes} == {"True"}
    assert len({n.internal_ip for n in nodes}) == 3
    assert all(n.status.allocatable["cpu"] == "4" and not n.spec.taints for n in nodes)

    await cluster.clock.advance(25)
    for node in nodes:
        assert cluster.clock.now() - await renewed(cluster, node.name) <= 11


async def test_the_leases_of_many_nodes_are_not_renewed_at_the_same_time(cluster):
    await cluster.simulated_nodes.register(100)
    await cluster.clock.advance(20)
    times = {await renewed(cluster, f"node-{i:04d}") for i in range(1, 101)}
    assert len(times) >= 40
    assert cluster.clock.now() - min(times) <= 11


async def test_a_node_created_by_a_user_is_adopted(cluster):
    raw = a_node("mine", cpu="4", ready=False)
    raw["status"].pop("allocatable", None)
    raw["status"]["capacity"] = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    await cluster.create(raw)
    node = await cluster.get(NODES, "mine")
    assert ready(node) == "True"
    assert node.status.allocatable["cpu"] == "4"
    assert not [t for t in node.spec.taints if "not-ready" in t.key]
    assert cluster.clock.now() - await renewed(cluster, "mine") <= 1


async def test_a_node_of_another_agent_is_adopted_when_its_lease_expires(cluster):
    lease = {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "theirs", "namespace": LEASE_NAMESPACE},
        "spec": {
            "holderIdentity": "theirs", "leaseDurationSeconds": 40,
            "renewTime": rfc3339_micro(cluster.clock.now()),
        },
    }  # fmt: skip
    await cluster.client.create(LEASES, lease, LEASE_NAMESPACE)
    await cluster.create(a_node("theirs", ready=False), a_pod("p", node="theirs"))
    assert ready(await cluster.get(NODES, "theirs")) != "True"
    await cluster.clock.advance(30)
    assert (await cluster.get(PODS, "p", "default")).status.phase == "Pending"

    await cluster.clock.advance(15)
    assert ready(await cluster.get(NODES, "theirs")) == "True"
    assert (await cluster.get(PODS, "p", "default")).status.phase == "Running"


async def test_the_lease_of_a_deleted_node_is_deleted(cluster):
    await cluster.create(a_node("n"))
    await cluster.client.delete(NODES, "n")
    await cluster.clock.advance(15)
    with pytest.raises(NotFound):
        await cluster.get(LEASES, "n", LEASE_NAMESPACE)


async def test_pods_keep_their_addresses_over_a_restart(cluster):
    await cluster.create(a_node("n"), *(a_pod(f"p{i}", node="n", cpu="1") for i in range(3)))
    before = {p.name: p.status.pod_ip for p in (await cluster.client.list(AGENT_PODS)).items}
    assert len(set(before.values())) == 3

    await cluster.simulated_nodes.stop()
    cluster.simulated_nodes = SimulatedNodes(cluster.client, cluster.clock)
    await cluster.simulated_nodes.start()
    await cluster.create(a_pod("late", node="n"))
    after = {p.name: p.status.pod_ip for p in (await cluster.client.list(AGENT_PODS)).items}
    assert after.items() >= before.items()
    assert after["late"] not in before.values()


async def test_the_pod_scheduled_condition_is_kept_when_the_pod_starts(cluster):
    await cluster.create(a_node("n"), a_pod("p"))
    await cluster.bind_all("n")
    pod = await cluster.get(PODS, "p", "default")
    assert {c.type for c in pod.status.conditions} >= {"PodScheduled", "Ready", "Initialized"}


async def test_a_slow_pod_exists_until_it_has_stopped(cluster):
    slow = {"holdfast.dev/stop-after": "20s"}
    await cluster.create(a_node("n"), a_pod("p", node="n", annotations=slow))
    await cluster.client.delete(PODS, "p", "default")
    await cluster.clock.advance(19)
    assert (await cluster.get(PODS, "p", "default")).terminating
    await cluster.clock.advance(2)
    with pytest.raises(NotFound):
        await cluster.get(PODS, "p", "default")


async def test_D086_a_pod_starts_only_when_its_claim_is_reserved_for_it(cluster):
    claims = [{"name": "gpu", "resourceClaimName": "c"}]
    await cluster.create(a_node("n"), a_claim("c"), a_pod("p", node="n", claims=claims))
    await cluster.clock.advance(1)
    pod = await cluster.get(PODS, "p", "default")
    assert pod.status.phase == "Pending"
    events = (await cluster.client.list(EVENTS, "default")).items
    assert "FailedPrepareDynamicResources" in {e.reason for e in events}

    claim = await cluster.get(RESOURCE_CLAIMS, "c", "default")
    request = claim.spec.devices.requests[0].name
    result = {"request": request, "driver": "d.example.com", "pool": "n", "device": "x"}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "p", "uid": pod.uid}],
    }
    await cluster.client.patch(
        RESOURCE_CLAIMS, "c", {"status": status}, "default", subresource="status"
    )
    await cluster.clock.settle()
    assert (await cluster.get(PODS, "p", "default")).status.phase == "Running"


async def test_stopped_components_are_not_healthy(cluster):
    assert cluster.simulated_nodes.healthy
    assert cluster.controllers.healthy
    await cluster.simulated_nodes.stop()
    await cluster.controllers.stop()
    assert not cluster.simulated_nodes.healthy
    assert not cluster.controllers.healthy


async def test_a_status_too_large_for_the_store_is_reported_and_retried_after_ten_minutes(
    cluster, caplog
):
    """The image is stored three times: in the spec and twice in the status."""
    await cluster.create(a_node("n"), a_pod("odd", node="n", image="i" * 600_000))
    await cluster.create(a_pod("good", node="n"))
    assert (await cluster.get(PODS, "odd", "default")).status.phase == "Pending"
    assert (await cluster.get(PODS, "good", "default")).status.phase == "Running"
    await cluster.clock.advance(300)
    events = (await cluster.client.list(EVENTS, "default")).items
    told = [e for e in events if e.reason == "FailedStatusUpdate"]
    assert [e.involved_object.name for e in told] == ["odd"]
    assert "the limit is 1572864" in told[0].message
    lines = [r for r in caplog.records if "the status cannot be stored" in r.message]
    assert len(lines) == 1
    await cluster.clock.advance(310)
    lines = [r for r in caplog.records if "the status cannot be stored" in r.message]
    assert len(lines) == 2
    await cluster.client.delete(PODS, "odd", "default")
    await cluster.clock.advance(40)
    assert [p.name for p in (await cluster.client.list(PODS)).items] == ["good"]

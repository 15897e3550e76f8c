"""The resource policy controller against an API server: many policies, faults, failures."""

from __future__ import annotations

import pytest

from holdfast.api.deletion_cost import DELETION_COST
from holdfast.api.scheme import EVENTS, PODS, RESOURCE_POLICIES
from holdfast.testing import Fault, FaultyTransport, a_node, a_pod, a_resource_policy, a_unit
from laws.deletion_cost_steps import PolicyCluster
from policies.costs import RecordedWrites

WRITTEN = ("unavailable_after", "lost")
"""Faults after the write took effect."""
OD = a_unit("od", 5, nodes={"tier": "od"}, max_count=2)


class Layer:
    """Wraps the controller's transport with scripted faults."""

    def __init__(self):
        self.transport = None

    def wrap(self, inner, clock):
        self.transport = FaultyTransport(inner, clock=clock)
        return self.transport


@pytest.fixture
async def faults():
    return Layer()


@pytest.fixture
async def writes():
    return RecordedWrites()


@pytest.fixture
async def cluster(tmp_path, faults, writes):
    layers = (writes, faults)
    async with PolicyCluster(tmp_path, layers, drain_excess=False) as running:
        await running.create(a_node("a", labels={"tier": "od"}), a_node("b"))
        yield running


async def cost(cluster, name="w"):
    found = await cluster.client.get(PODS, name, "default")
    return found.metadata.annotations.get(DELETION_COST)


async def conditions(cluster, name):
    found = (await cluster.client.get(RESOURCE_POLICIES, name, "default")).status
    return {c.type: (c.status, c.message) for c in found.conditions}


def web(name="w", node="a", **more):
    return a_pod(name, node=node, labels={"app": "web"}, **more)


def governing(name="p", **more):
    return a_resource_policy(name, pods={"app": "web"}, units=[OD], **more)


async def test_hundreds_of_policies_in_a_namespace(cluster):
    await cluster.create(*(web(f"w{i}") for i in range(3)), governing("p000"))
    await cluster.clock.advance(2)
    await cluster.stop_controller()
    await cluster.create(*(governing(f"p{i:03}") for i in range(1, 300)))
    await cluster.start_controller()
    await cluster.clock.advance(30)
    assert await cost(cluster, "w0") == "100"  # of the first policy, as long as it was alone
    status, message = (await conditions(cluster, "p299"))["Conflicting"]
    assert status == "True"
    assert message == (
        "pods such as w0 are also selected by ResourcePolicy p000, p001, p002, p003, p004 and 294 "
        "more"
    )
    await cluster.create(web("late"))
    await cluster.client.delete(PODS, "w0", "default", grace_seconds=0)
    await cluster.clock.advance(5)
    assert "such as late are" in (await conditions(cluster, "p000"))["Conflicting"][1]
    await cluster.stop_controller()
    for i in range(1, 300):
        await cluster.client.delete(RESOURCE_POLICIES, f"p{i:03}", "default")
    await cluster.start_controller()
    await cluster.clock.advance(5)
    assert [await cost(cluster, name) for name in ("w1", "late")] == ["100", "100"]
    assert (await conditions(cluster, "p000"))["Conflicting"][0] == "False"


@pytest.mark.parametrize("trouble", ("conflict", "unavailable", "unavailable_after", "lost"))
@pytest.mark.parametrize("path", ("/pods", "/resourcepolicies"))
async def test_a_failed_write_is_tried_again(cluster, faults, trouble, path):
    faults.transport.add(Fault(trouble, method="PATCH", path=path, times=5))
    await cluster.create(web(), governing())
    await cluster.clock.advance(10)
    assert len(faults.transport.injected_faults) == (1 if trouble in WRITTEN else 5)
    assert await cost(cluster) == "100"
    assert (await conditions(cluster, "p"))["Ready"][0] == "True"


async def test_a_cost_that_a_user_sets_during_the_write_wins(cluster, faults):
    faults.transport.add(Fault("delay", method="PATCH", path="/pods", seconds=5))
    await cluster.create(web(), governing())
    await cluster.clock.advance(1)
    assert await cost(cluster) is None  # the controller's write is under way
    patch = {"metadata": {"annotations": {DELETION_COST: "777"}}}
    await cluster.client.patch(PODS, "w", patch, "default")
    await cluster.clock.advance(30)
    found = (await cluster.client.get(PODS, "w", "default")).metadata.annotations
    assert found == {DELETION_COST: "777"}


async def test_one_event_for_each_pod_even_after_restarts(cluster):
    await cluster.create(web(annotations={DELETION_COST: "777"}), governing())
    await cluster.clock.advance(2)
    for number in range(3):
        await cluster.stop_controller()
        await cluster.start_controller()
        patch = {"metadata": {"labels": {"number": str(number)}}}
        await cluster.client.patch(PODS, "w", patch, "default")
        await cluster.clock.advance(70)
    found = [e for e in (await cluster.client.list(EVENTS)).items if e.reason.startswith("Del")]
    assert [(e.reason, e.count, e.involved_object.name) for e in found] == [
        ("DeletionCostManual", 1, "w")
    ]
    # A new pod of the name is another pod.
    await cluster.client.delete(PODS, "w", "default", grace_seconds=0)
    await cluster.create(web(annotations={DELETION_COST: "777"}))
    await cluster.clock.advance(2)
    found = [e for e in (await cluster.client.list(EVENTS)).items if e.reason.startswith("Del")]
    assert len(found) == 2


async def test_a_replaced_policy_of_the_same_name_takes_over(cluster, writes):
    await cluster.create(web(), governing())
    await cluster.clock.advance(2)
    first = (await cluster.client.get(PODS, "w", "default")).metadata.annotations
    await cluster.stop_controller()
    await cluster.client.delete(RESOURCE_POLICIES, "p", "default")
    await cluster.create(governing())
    await cluster.start_controller()
    await cluster.clock.advance(2)
    second = (await cluster.client.get(PODS, "w", "default")).metadata.annotations
    assert first.keys() == second.keys()
    assert {key for key in first if first[key] != second[key]} == {
        "resourcepolicy.scheduling.sigs.x-k8s.io/policy-uid"
    }
    assert len(writes.of("/pods/w")) == 2


async def test_a_pod_on_a_node_that_does_not_exist_waits_for_the_node(cluster):
    await cluster.create(web(node="late"), governing())
    await cluster.clock.advance(2)
    assert await cost(cluster) is None
    await cluster.create(a_node("late"))
    await cluster.clock.advance(2)
    assert await cost(cluster) == "0"


async def test_a_namespace_without_policies_costs_nothing(cluster, writes):
    await cluster.create(*(web(f"w{i}") for i in range(20)))
    await cluster.clock.advance(5)
    assert writes.of("/pods") == []

"""Classic claims through the API: scheduler, claim controller and a resource driver negotiate."""

import msgspec
import pytest

from holdfast.api.classic_dra.names import POD_CLAIMS
from holdfast.api.scheme import NODES, PODS
from holdfast.runtime.errors import NotFound
from holdfast.testing import Fault, FaultyTransport, a_node, a_pod
from holdfast.testing.classic_dra.builders import (
    a_classic_claim,
    a_classic_class,
    an_allocation,
    inline,
    named,
    on_nodes,
)
from holdfast.testing.classic_dra.driver import KINDS, ClassicDriver
from holdfast.testing.harness import Harness

WAITING = "0/1 nodes are available: 1 waiting for resource driver to allocate resource."


@pytest.fixture
async def cluster(tmp_path):
    async with Harness(tmp_path / "store") as harness:
        yield harness


async def claim_of(cluster, name):
    return await cluster.client.get(KINDS.claims, name, "default")


async def users(cluster, name):
    return [consumer.name for consumer in (await claim_of(cluster, name)).status.reserved_for]


async def negotiation(cluster, pod):
    try:
        return await cluster.client.get(KINDS.pod_scheduling, pod, "default")
    except NotFound:
        return None


async def finish(cluster, pod):
    """Let the pod succeed, as its node's agent would report it."""
    await cluster.client.patch(
        PODS, pod, {"status": {"phase": "Succeeded"}}, "default", subresource="status"
    )
    await cluster.settle()


async def allocate(cluster, name, status):
    await cluster.client.patch(
        KINDS.claims, name, {"status": status}, "default", subresource="status"
    )
    await cluster.settle()


async def test_C023_C024_a_pod_follows_an_immediate_claim(cluster):
    driver = ClassicDriver(cluster.client, devices={"n2": 1})
    claim = a_classic_claim("c", immediate=True)
    await cluster.create(a_node("n1"), a_node("n2"), a_classic_class(), claim)
    await cluster.create(a_pod("p", claims=[named("x", "c")]))
    waiting = "0/2 nodes are available: unallocated immediate resourceclaim. still not schedulable"
    assert (await cluster.why("p")).startswith(waiting)
    await driver.serve(cluster.settle)
    # No time has passed.
    assert await cluster.node_of("p") == "n2"
    assert await users(cluster, "c") == ["p"]


async def test_C025_a_delayed_claim_is_allocated_for_the_selected_node(cluster):
    driver = ClassicDriver(cluster.client)
    await cluster.create(a_node("n1"), a_classic_class(), a_pod("p", claims=[inline("x")]))
    asked = await negotiation(cluster, "p")
    assert asked.spec.selected_node == "n1"
    assert await cluster.why("p") == WAITING
    assert (await cluster.pod("p")).status.nominated_node_name == ""
    await driver.serve(cluster.settle)
    assert await cluster.node_of("p") == "n1"
    assert await users(cluster, "p-x") == ["p"]
    assert await negotiation(cluster, "p") is None
    assert driver.writes == 2


async def test_C026_two_drivers_answer_before_a_node_is_selected(cluster):
    first = ClassicDriver(cluster.client, devices={"n1": 1, "n3": 1})
    second = ClassicDriver(cluster.client, "nic.example.com", devices={"n2": 1, "n3": 1})
    await cluster.create(
        *map(a_node, ("n1", "n2", "n3")),
        a_classic_class(),
        a_classic_class("nic", "nic.example.com"),
        a_pod("p", claims=[inline("x"), inline("y", "nic")]),
    )
    await first.serve(cluster.settle)
    assert (await negotiation(cluster, "p")).spec.selected_node == ""
    assert "provide information" in await cluster.why("p")
    await second.serve(cluster.settle)
    assert (await negotiation(cluster, "p")).spec.selected_node == "n3"
    await first.serve(cluster.settle)
    await second.serve(cluster.settle)
    assert await cluster.node_of("p") == "n3"
    assert first.deallocations == second.deallocations == []


async def test_C030_an_unsuitable_node_is_replaced_at_once(cluster):
    driver = ClassicDriver(cluster.client, devices={"n2": 1})
    await cluster.create(
        a_node("n1", cpu="64"), a_node("n2"), a_classic_class(), a_pod("p", claims=[inline("x")])
    )
    assert (await negotiation(cluster, "p")).spec.selected_node == "n1"
    await driver.serve(cluster.settle)
    assert await cluster.node_of("p") == "n2"


async def test_C032_C033_a_claim_on_the_wrong_node_moves(cluster):
    a = ClassicDriver(cluster.client, devices={"n1": 1, "n2": 1})
    b = ClassicDriver(cluster.client, "nic.example.com", devices={"n2": 1})
    claim = a_classic_claim("a", metadata={"finalizers": ["gpu.example.com/deletion-protection"]})
    await cluster.create(
        a_node("n1"), a_node("n2"), a_classic_class(), a_classic_class("nic", b.name), claim
    )
    a.records[(await claim_of(cluster, "a")).uid] = "n1"
    await allocate(cluster, "a", an_allocation("n1"))
    await cluster.create(a_pod("p", claims=[named("a"), inline("y", "nic")]))
    assert (await negotiation(cluster, "p")).spec.selected_node == "n1"
    await b.serve(cluster.settle)
    # The driver was told first that no node is selected.
    assert (await negotiation(cluster, "p")).spec.selected_node == ""
    assert (await claim_of(cluster, "a")).status.deallocation_requested
    for driver in (a, b, a, b):
        await driver.serve(cluster.settle)
    assert await cluster.node_of("p") == "n2"
    assert (a.deallocations, b.deallocations) == (["a"], [])


async def test_C041_C034_claims_on_different_nodes_are_moved_one_by_one(cluster):
    nodes = {"n1": 3, "n2": 3, "n3": 3}
    driver = ClassicDriver(cluster.client, devices=nodes)
    protected = {"finalizers": ["gpu.example.com/deletion-protection"]}
    claims = [a_classic_claim(name, metadata=protected) for name in "abc"]
    await cluster.create(*map(a_node, nodes), a_classic_class(), *claims)
    for name, node in zip("abc", nodes, strict=True):
        driver.records[(await claim_of(cluster, name)).uid] = node
        await allocate(cluster, name, an_allocation(node))
    await cluster.create(a_pod("p", claims=[named(name) for name in "abc"]))
    for _ in range(20):
        found = [(await claim_of(cluster, name)).status for name in "abc"]
        releasing = [status for status in found if status.deallocation_requested]
        assert len(releasing) <= 1
        if releasing:
            await cluster.advance(10)  # the pod does not ask for another release meanwhile
            assert [(await claim_of(cluster, name)).status for name in "abc"] == found
        await driver.step()
        await cluster.settle()
        if await cluster.node_of("p"):
            break
    assert await cluster.node_of("p") in nodes
    assert len(driver.deallocations) >= 2


async def test_C036_C039_pods_take_turns_with_exclusive_claims(cluster):
    driver = ClassicDriver(cluster.client, devices={"n1": 2, "n2": 2})
    claims = [a_classic_claim("a"), a_classic_claim("b")]
    await cluster.create(a_node("n1"), a_node("n2"), a_classic_class(), *claims)
    both = [named("a"), named("b")]
    await cluster.create(a_pod("p", claims=both), a_pod("q", claims=both[::-1]))
    # The worst case: each pod gets one of the claims.
    for name, pod in (("a", "p"), ("b", "q")):
        found = await cluster.pod(pod)
        driver.records[(await claim_of(cluster, name)).uid] = "n1"
        mine = {"resource": "pods", "name": pod, "uid": found.uid}
        await allocate(cluster, name, an_allocation("n1") | {"reservedFor": [mine]})
    await cluster.advance(30)
    nodes = [await cluster.node_of("p"), await cluster.node_of("q")]
    assert sorted(nodes) == ["", "n1"]
    running, waiting = ("p", "q") if nodes[0] else ("q", "p")
    assert await users(cluster, "a") == await users(cluster, "b") == [running]
    assert "resourceclaim in use" in await cluster.why(waiting)
    await finish(cluster, running)
    assert await cluster.node_of(waiting) == "n1"
    assert driver.deallocations == []


async def test_C038_a_shared_claim_serves_pods_on_two_nodes(cluster):
    driver = ClassicDriver(cluster.client, shared=True)
    claim = a_classic_claim("c")
    await cluster.create(a_node("n1", cpu="2"), a_node("n2", cpu="1"), a_classic_class(), claim)
    await cluster.create(*[a_pod(name, claims=[named("c")]) for name in "pqr"])
    await driver.serve(cluster.settle)
    await cluster.advance(1)  # after a conflict of two reservations
    nodes = sorted([await cluster.node_of(name) for name in "pqr"])
    assert nodes == ["n1", "n1", "n2"]
    assert sorted(await users(cluster, "c")) == ["p", "q", "r"]


async def test_C040_a_failed_bind_gives_the_claim_back(tmp_path):
    fault = Fault("conflict", method="POST", path="/binding")
    harness = Harness(
        tmp_path / "store", wrap=lambda transport, _clock: FaultyTransport(transport, [fault])
    )
    async with harness as cluster:
        await cluster.create(a_node("n1"), a_classic_class(), a_classic_claim("c"))
        await allocate(cluster, "c", an_allocation())
        await cluster.create(a_pod("p", claims=[named("c")]))
        assert await cluster.node_of("p") == ""
        assert await users(cluster, "c") == []
        await cluster.advance(5)
        assert await cluster.node_of("p") == "n1"
        assert await users(cluster, "c") == ["p"]


async def test_C042_a_recreated_pod_negotiates_anew(cluster):
    driver = ClassicDriver(cluster.client)
    await cluster.create(a_node("n1"), a_classic_class(), a_pod("p", claims=[inline("x")]))
    old = await negotiation(cluster, "p")
    async with cluster.components_stopped():
        await cluster.client.delete(PODS, "p", "default")
        await cluster.client.create(PODS, a_pod("p", claims=[inline("x")]), "default")
    await driver.serve(cluster.settle)
    found = await negotiation(cluster, "p")
    assert found is None or found.uid != old.uid
    await cluster.advance(30)
    await driver.serve(cluster.settle)
    assert await cluster.node_of("p") == "n1"


async def test_C029_C027_only_nodes_that_fit_are_asked_about(cluster):
    await cluster.create(
        *map(a_node, ("n1", "n2", "n3")),
        a_classic_class(suitable=on_nodes("n2", "n3")),
        a_pod("p", claims=[inline("x")]),
        a_pod("q", claims=[inline("x")], node_selector={"kubernetes.io/hostname": "n3"}),
    )
    assert (await negotiation(cluster, "p")).spec.potential_nodes == ("n2", "n3")
    asked = (await negotiation(cluster, "q")).spec
    assert (asked.selected_node, asked.potential_nodes) == ("n3", ("n3",))


async def test_a_claim_without_class_waits_for_the_class(cluster):
    driver = ClassicDriver(cluster.client)
    await cluster.create(a_node("n1"), a_pod("p", claims=[inline("x")]))
    assert 'resourceclass "gpu"' in await cluster.why("p")
    await cluster.create(a_classic_class())
    await cluster.advance(5)
    await driver.serve(cluster.settle)
    assert await cluster.node_of("p") == "n1"


async def test_a_restarted_scheduler_goes_on_where_it_was(cluster):
    driver = ClassicDriver(cluster.client)
    await cluster.create(a_node("n1"), a_classic_class(), a_pod("p", claims=[inline("x")]))
    asked = await negotiation(cluster, "p")
    await cluster.restart_components()
    assert (await negotiation(cluster, "p")).metadata == asked.metadata
    async with cluster.components_stopped():
        await driver.step()
    assert await cluster.node_of("p") == "n1"
    assert await negotiation(cluster, "p") is None


async def test_a_node_that_leaves_while_a_driver_allocates_does_not_end_the_negotiation(cluster):
    driver = ClassicDriver(cluster.client, devices={"n1": 1, "n2": 1}, delayed={"p-x"})
    await cluster.create(a_node("n1", cpu="64"), a_node("n2"), a_classic_class())
    await cluster.create(a_pod("p", claims=[inline("x")]))
    assert (await negotiation(cluster, "p")).spec.selected_node == "n1"
    await cluster.delete(NODES, "n1")
    await cluster.create(a_node("n3"))
    await cluster.advance(20)
    assert (await negotiation(cluster, "p")).spec.selected_node in ("n2", "n3")
    driver.delayed.clear()
    await driver.serve(cluster.settle)
    await cluster.advance(20)
    await driver.serve(cluster.settle)
    assert await cluster.node_of("p") == "n2"


async def test_a_negotiation_that_a_user_deleted_begins_again(cluster):
    await cluster.create(a_node("n1"), a_classic_class(), a_pod("p", claims=[inline("x")]))
    await cluster.delete(KINDS.pod_scheduling, "p", "default")
    await cluster.advance(5)
    assert (await negotiation(cluster, "p")).spec.selected_node == "n1"


async def test_odd_forms_of_claims(cluster):
    driver = ClassicDriver(cluster.client)
    await cluster.create(a_node("n1"), a_classic_class(), a_classic_claim("c"))
    await cluster.create(
        a_pod("twice", claims=[named("x", "c"), named("y", "c")]),
        a_pod("unreadable", annotations={POD_CLAIMS: "{"}),
    )
    await driver.serve(cluster.settle)
    assert await cluster.node_of("twice") == "n1"
    assert await users(cluster, "c") == ["twice"]
    message = f"0/1 nodes are available: annotation {POD_CLAIMS}: "
    assert (await cluster.why("unreadable")).startswith(message)
    text = msgspec.json.encode([inline("x")]).decode()
    annotation = {"metadata": {"annotations": {POD_CLAIMS: text}}}
    await cluster.client.patch(PODS, "unreadable", annotation, "default")
    await cluster.advance(5)
    await driver.serve(cluster.settle)
    assert await cluster.node_of("unreadable") == "n1"


async def test_C076_pods_without_claims_write_nothing_of_classic_dra(cluster):
    await cluster.create(a_node("n1"), a_pod("p"))
    assert await cluster.node_of("p") == "n1"
    assert not (await cluster.client.list(KINDS.pod_scheduling)).items
    raw = msgspec.json.decode(await cluster.client.raw("/api/v1/events"))
    assert [event["reason"] for event in raw["items"]] == ["Scheduled"]

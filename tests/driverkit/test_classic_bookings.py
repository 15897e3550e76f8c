"""Bookings of a classic driver: no device is booked twice, none is lost."""

from tests.driverkit.classic_controller import (
    CLAIMS,
    DriverTest,
    a_driver,
)

from holdfast.api.classic_dra.node_inventory import NODE_INVENTORIES
from holdfast.driver import Device
from holdfast.testing import Fault


async def test_two_pods_of_one_pending_claim_get_one_allocation(tmp_path):
    async with DriverTest(tmp_path, a_driver(), Fault("delay", "PATCH", "/claim")) as test:
        await test.create_class()
        for node in ("n1", "n2"):
            await test.create_node(node)
        await test.create_claim()
        first = await test.create_pod("p1", selected="n1")
        await test.create_pod("p2", selected="n2")
        await test.clock.advance(60)
        assert [user.uid for user in (await test.claim()).status.reserved_for] == [first.uid]
        assert (await test.booked("n1"), await test.booked("n2")) == (["claim"], [])


async def test_claims_of_one_pod_fit_together_or_not_at_all(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_class("other", "other.example.com")
        await test.create_node("n1")
        await test.create_node("n2", *(Device(f"g{i}", {}, {"memory": "8Gi"}) for i in range(2)))
        await test.create_claim("a")
        await test.create_claim("b")
        await test.create_claim("c", resourceClassName="other")
        await test.create_pod("pod", "a", "b", "c", potential=["n1", "n2"], selected="n1")
        assert await test.answers() == {"a": ["n1"], "b": ["n1"]}
        await test.ask(potential=["n2"], selected="n2")
        assert await test.booked("n2") == ["a", "b"]
        assert not (await test.claim("c")).metadata.finalizers


async def test_a_claim_removed_by_force_gives_its_devices_back(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        await test.create_pod(selected="n1")
        await test.client.patch(CLAIMS, "claim", {"metadata": {"finalizers": None}}, "default")
        await test.delete_claim()
        assert await test.booked() == ["claim"]
        await test.clock.advance(31)
        assert await test.booked() == []


async def test_an_inventory_created_again_gets_its_bookings_back(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1", *(Device(f"g{i}", {}, {"memory": "8Gi"}) for i in range(2)))
        for name in ("a", "b", "c"):
            await test.create_claim(name)
        await test.create_pod("pa", "a", selected="n1")
        await test.client.delete(NODE_INVENTORIES, "n1", test.driver.namespace)
        await test.create_node("n1", *(Device(f"g{i}", {}, {"memory": "8Gi"}) for i in range(2)))
        await test.create_pod("pb", "b", selected="n1")
        await test.create_pod("pc", "c", selected="n1")
        assert await test.booked() == ["a", "b"]
        assert await test.answers("pc") == {"c": ["n1"]}


async def test_devices_that_another_writer_has_booked_are_not_booked_again(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        await test.freeze(NODE_INVENTORIES, namespace=test.driver.namespace)
        other = {"namespace": "default", "name": "other", "devices": ["gpu-0"]}
        await test.client.patch(
            NODE_INVENTORIES,
            "n1",
            {"status": {"allocated": {"other": other}}},
            test.driver.namespace,
            subresource="status",
        )
        await test.create_pod(selected="n1")
        assert await test.booked() == ["other"]
        assert await test.answers() == {"claim": ["n1"]}


async def test_a_late_response_does_not_bring_a_deleted_claim_back(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        claim = await test.create_claim()
        await test.delete_claim()
        claims = test.process.controller.claims
        claims.put(claim)
        assert claims.get(claim.key) is None


async def test_own_writes_are_known_before_their_events(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        await test.freeze(CLAIMS)
        await test.create_pod(selected="n1")
        claim = await test.claim()
        assert claim.is_allocated
        refused = len(test.transport.injected_faults)
        await test.ask(potential=["n1"], selected="n1")
        assert await test.claim() == claim
        assert test.process.controller.queue.failures("podscheduling:default/pod") == refused == 0


async def test_C073_a_node_is_unsuitable_until_its_inventory_is_ready(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_claim()
        await test.create_node("n1", ready=False)
        await test.create_pod(potential=["n1"], selected="n1")
        assert await test.answers() == {"claim": ["n1"]}
        await test.client.patch(
            NODE_INVENTORIES, "n1", {"spec": {"ready": True}}, test.driver.namespace
        )
        await test.clock.advance(1)
        assert (await test.claim()).is_allocated

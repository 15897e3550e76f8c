"""The controller of a classic driver, rule by rule, through an API server."""

from tests.driverkit.classic_controller import CLAIMS, DriverTest, a_driver

from holdfast.api.classic_names import IMMEDIATE
from holdfast.testing import Fault

OURS = "gpu.example.com/deletion-protection"


async def test_C025_one_write_allocates_and_reserves_and_nothing_is_answered(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        before = (await test.claim()).metadata.resource_version
        pod = await test.create_pod(potential=["n1"], selected="n1")
        claim = await test.claim()
        assert [consumer.uid for consumer in claim.status.reserved_for] == [pod.uid]
        assert claim.status.driver_name == "gpu.example.com"
        assert claim.status.allocation.available_on_nodes is not None
        assert claim.metadata.finalizers == (OURS,)
        assert await test.answers() == {}
        assert await test.booked() == ["claim"]
        assert before != claim.metadata.resource_version


async def test_C018_a_class_that_comes_later_lets_an_immediate_claim_be_allocated(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_node("n1")
        await test.create_claim(allocationMode=IMMEDIATE)
        assert not (await test.claim()).metadata.finalizers
        assert await test.events("claim") == []
        await test.create_class()
        await test.clock.settle()
        claim = await test.claim()
        assert claim.is_allocated
        assert claim.status.reserved_for == ()


async def test_C031_a_selected_node_without_capacity_is_answered_although_it_was_not_potential(
    tmp_path,
):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim("first")
        await test.create_claim()
        await test.create_pod("one", "first", selected="n1")
        await test.create_pod(potential=["n3", "n2"], selected="n1")
        assert await test.answers() == {"claim": ["n1", "n2", "n3"]}
        await test.delete_claim("first")  # still reserved: nothing happens
        assert await test.answers() == {"claim": ["n1", "n2", "n3"]}
        await test.set_status("first", reservedFor=None)
        assert await test.claim("first") is None
        await test.clock.advance(1)
        assert (await test.claim()).is_allocated


async def test_C043_a_claim_deleted_while_pending_is_not_allocated(tmp_path):
    async with DriverTest(tmp_path, a_driver(), Fault("delay", "PATCH", "/claim")) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        await test.create_pod(selected="n1")  # its finalizer is under way
        await test.delete_claim()
        await test.clock.advance(10)
        assert await test.claim() is None
        assert await test.booked() == []


async def test_C044_a_claim_deleted_while_it_is_allocated_is_freed(tmp_path):
    fault = Fault("delay", "PATCH", "/claim/status")
    async with DriverTest(tmp_path, a_driver(), fault) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim(allocationMode=IMMEDIATE)
        assert await test.booked() == ["claim"]
        await test.client.delete(CLAIMS, "claim", "default")
        await test.clock.advance(10)
        assert await test.claim() is None
        assert await test.booked() == []

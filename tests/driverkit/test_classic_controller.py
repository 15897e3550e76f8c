"""The controller of a classic driver, rule by rule, through an API server."""

import pytest
from tests.driverkit.classic_controller import (
    CLAIMS,
    CLASSES,
    SCHEDULINGS,
    DriverTest,
    a_driver,
)

from holdfast.api.classic_dra.names import IMMEDIATE
from holdfast.api.scheme import PODS
from holdfast.driver import Device
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


async def test_an_immediate_claim_without_room_waits_without_writes(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        for name in ("a", "b"):
            await test.create_claim(name, allocationMode=IMMEDIATE)
        before = await test.claim("b")
        assert not before.metadata.finalizers
        await test.clock.advance(300)
        assert (await test.claim("b")) == before
        assert set(await test.events("b")) == {"claim b: no node has what the claim needs"}
        await test.delete_claim("a")
        await test.clock.advance(0.02)
        assert (await test.claim("b")).is_allocated


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


async def test_C043_a_claim_deleted_while_pending_is_not_allocated(tmp_path, caplog):
    async with DriverTest(tmp_path, a_driver(), Fault("delay", "PATCH", "/claim")) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        await test.create_pod(selected="n1")  # its finalizer is under way
        await test.delete_claim()
        await test.clock.advance(10)
        assert await test.claim() is None
        assert await test.booked() == []
    assert not [line for line in caplog.records if line.exc_info]


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


@pytest.mark.parametrize("point", ["finalizer", "booking", "status"])
async def test_C045_a_killed_driver_finishes_and_leaks_nothing(tmp_path, point):
    released = []
    driver = a_driver()

    @driver.release
    async def release(handle):
        released.append(handle)

    async with DriverTest(tmp_path, driver) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_node("n2")
        await test.create_claim()
        test.kills.kill(after=point)
        await test.create_pod(potential=["n1", "n2"], selected="n1")
        assert test.kills.killed.is_set()
        # The scheduler has changed its mind, unless the claim is allocated.
        await test.ask(selected="n2")
        await test.restart()
        claim = await test.claim()
        assert claim.is_allocated
        node = "n1" if point == "status" else "n2"
        assert node in claim.status.allocation.resource_handle
        assert await test.booked(node) == ["claim"]
        assert await test.booked("n1" if node == "n2" else "n2") == []
        assert len(released) == (point == "booking")  # its allocation may have begun
        await test.set_status(reservedFor=None)
        await test.delete_claim()
        assert await test.claim() is None
        assert await test.booked(node) == []


async def test_C045_an_allocation_that_does_not_go_on_is_undone(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        test.kills.kill(after="booking")
        await test.create_pod(selected="n1")
        await test.client.delete(PODS, "pod", "default", grace_seconds=0)
        await test.client.delete(SCHEDULINGS, "pod", "default")
        await test.restart()
        assert (await test.claim()).metadata.finalizers == (OURS,)
        await test.clock.advance(61)
        assert (await test.claim()).metadata.finalizers == ()
        assert await test.booked() == []


async def test_a_claim_that_another_driver_has_allocated_is_left_to_it(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        test.kills.kill(after="booking")
        pod = await test.create_pod(selected="n1")
        await test.client.patch(CLASSES, "gpu", {"driverName": "other.example.com"})
        theirs = {"allocation": {"resourceHandle": "theirs"}, "driverName": "other.example.com"}
        user = {"resource": "pods", "name": "pod", "uid": pod.uid}
        await test.set_status(**theirs, reservedFor=[user])
        await test.restart()
        found = await test.claim()
        assert (found.metadata.finalizers, await test.booked()) == ((), [])
        assert found.status.allocation.resource_handle == "theirs"
        assert found.is_reserved_for(pod.uid)


async def test_C046_a_claim_created_again_during_the_finalizer_is_another_claim(tmp_path):
    fault = Fault("delay", "PATCH", "/claim", seconds=5.0)
    async with DriverTest(tmp_path, a_driver(), fault) as test:
        await test.create_class()
        await test.create_node("n1")
        first = await test.create_claim()
        await test.create_pod(selected="n1")
        await test.client.delete(CLAIMS, "claim", "default")
        second = await test.create_claim()
        await test.clock.advance(10)
        claim = await test.claim()
        assert claim.uid == second.uid != first.uid
        assert claim.is_allocated
        assert await test.booked() == ["claim"]


async def test_C047_a_reserved_claim_is_deallocated_when_its_pods_have_ended(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        await test.create_pod(selected="n1")
        await test.delete_claim()
        await test.clock.advance(100)
        assert (await test.claim()).is_allocated
        await test.set_status(reservedFor=None)
        assert await test.claim() is None
        assert await test.booked() == []


async def test_C048_a_claim_is_released_although_its_class_is_gone(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        await test.create_pod(selected="n1")
        await test.client.delete(CLASSES, "gpu")
        await test.set_status(reservedFor=None, deallocationRequested=True)
        claim = await test.claim()
        assert (claim.status.allocation, claim.status.deallocation_requested) == (None, False)
        assert (claim.status.driver_name, claim.metadata.finalizers) == ("", ())
        assert await test.booked() == []


async def test_a_stale_negotiation_and_dead_pods_are_ignored(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        pod = await test.create_pod()  # neither nodes nor a selected node
        assert await test.answers() == {}
        other = {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "older"}
        await test.client.patch(
            SCHEDULINGS,
            "pod",
            {"metadata": {"ownerReferences": [{**other, "controller": True}]}},
            "default",
        )
        await test.ask(selected="n1")
        assert not (await test.claim()).metadata.finalizers
        assert pod.uid != "older"


async def test_nothing_is_allocated_for_pods_that_have_ended_or_have_a_node(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        for name in ("ended", "bound"):
            await test.create_pod(name)
        ended = {"status": {"phase": "Succeeded"}}
        await test.client.patch(PODS, "ended", ended, "default", subresource="status")
        to_node = {"target": {"kind": "Node", "name": "n1"}, "metadata": {"name": "bound"}}
        await test.client.bind("default", "bound", to_node)
        for name in ("ended", "bound"):
            await test.ask(name, selected="n1")
        assert not (await test.claim()).metadata.finalizers


async def test_C033_a_released_claim_is_not_allocated_by_an_older_negotiation(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        await test.create_pod(selected="n1")
        await test.freeze(SCHEDULINGS)
        await test.ask(potential=["n1", "n2"])
        await test.set_status(reservedFor=None, deallocationRequested=True)
        await test.clock.advance(1)
        assert not (await test.claim()).metadata.finalizers
        assert await test.answers() == {"claim": ["n2"]}


async def test_a_released_claim_is_answered_at_once(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        await test.create_pod(selected="n1")
        await test.ask(potential=["n1", "n2"])
        assert await test.answers() == {}
        await test.set_status(reservedFor=None, deallocationRequested=True)
        await test.clock.advance(1)
        assert await test.answers() == {"claim": ["n2"]}


async def test_what_waits_is_looked_at_again_one_by_one(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1", Device("gpu-0", {}, {"memory": "1Gi"}))
        for i in range(20):
            await test.create_claim(f"claim-{i}", allocationMode=IMMEDIATE)
        await test.create_node("n2")  # the first turn is at once, although many wait
        waiting = [i for i in range(20) if not (await test.claim(f"claim-{i}")).is_allocated]
        assert len(waiting) == 19

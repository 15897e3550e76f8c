"""The claim controller beside the controller of a classic driver; the test is the scheduler."""

from __future__ import annotations

from contextlib import asynccontextmanager

from controllers.classic_objects import a_user, inline
from driverkit.classic_controller import DriverTest, a_driver
from holdfast.api.devices import pod_consumer
from holdfast.api.scheme import NODES, PODS
from holdfast.controllers.controller_manager import ControllerManager
from holdfast.runtime.settings import ClassicClaimSettings, ControllerSettings
from holdfast.testing import a_node

IMMEDIATE = inline(resourceClassName="gpu", allocationMode="Immediate")


@asynccontextmanager
async def driver_and_controllers(directory, **settings):
    async with DriverTest(directory, a_driver()) as test:
        chosen = ControllerSettings(classic_claims=ClassicClaimSettings(**settings))
        controllers = ControllerManager(test.client, test.clock, settings=chosen)
        await controllers.start()
        try:
            yield test
        finally:
            await controllers.stop()


async def test_C081_an_inline_immediate_claim_is_allocated_before_its_pod_is_scheduled(tmp_path):
    async with driver_and_controllers(tmp_path) as test:
        await test.create_node("n1")
        pod = await test.client.create(PODS, a_user("p", IMMEDIATE), "default")
        await test.clock.settle()
        assert not (await test.claim("p-gpu")).is_allocated, "C018: its class is missing"
        await test.create_class()
        await test.clock.settle()
        claim = await test.claim("p-gpu")
        assert claim.is_allocated and claim.status.reserved_for == ()
        assert await test.booked() == ["p-gpu"]

        # C050: the resource is free as soon as the pod has finished.
        await test.set_status("p-gpu", reservedFor=[pod_consumer(pod)])
        done = {"status": {"phase": "Succeeded"}}
        await test.client.patch(PODS, "p", done, "default", subresource="status")
        await test.clock.settle()
        assert await test.claim("p-gpu") is None
        assert await test.booked() == []


async def test_C079_the_resource_of_a_dead_node_is_allocated_again(tmp_path):
    async with driver_and_controllers(tmp_path) as test:
        await test.create_class()
        await test.client.create(NODES, a_node("dead", ready=False))
        for name in ("dead", "n2"):
            await test.create_node(name)
        await test.create_claim("c")
        lost = await test.create_pod("lost", "c", selected="dead")
        assert (await test.claim("c")).is_reserved_for(lost.uid)
        binding = {"target": {"kind": "Node", "name": "dead"}, "metadata": {"name": "lost"}}
        await test.client.bind("default", "lost", binding)
        inlined = a_user("inlined", IMMEDIATE, node="dead")
        await test.client.create(PODS, inlined, "default")
        taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute", "value": "x"}
        await test.client.patch(NODES, "dead", {"spec": {"taints": [taint]}})
        await test.clock.advance(60)
        assert not (await test.client.list(PODS, "default")).items
        claim = await test.claim("c")
        assert claim.is_allocated and claim.status.reserved_for == ()
        assert await test.claim("inlined-gpu") is None
        assert await test.booked("dead") == ["c"]

        # The scheduler finds no node for the next pod: it asks for the deallocation.
        await test.set_status("c", deallocationRequested=True)
        assert await test.booked("dead") == []
        following = await test.create_pod("next", "c", selected="n2")
        assert (await test.claim("c")).is_reserved_for(following.uid)
        assert await test.booked("n2") == ["c"]


async def test_a_setting_lets_unused_claims_be_deallocated(tmp_path):
    async with driver_and_controllers(tmp_path, deallocate_unused=True) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim("c")
        await test.create_pod("p", "c", selected="n1")
        assert await test.booked() == ["c"]
        await test.client.delete(PODS, "p", "default", grace_seconds=0)
        await test.clock.settle()
        claim = await test.claim("c")
        assert (claim.is_allocated, claim.status.deallocation_requested) == (False, False)
        assert await test.booked() == []

"""``release`` gets what ``allocate`` returned, whatever happens between two writes."""

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass

import pytest
from tests.driverkit.classic_controller import CLAIMS, SCHEDULINGS, DriverTest, a_driver

from holdfast.api.classic_dra.names import IMMEDIATE
from holdfast.api.classic_dra.node_inventory import NODE_INVENTORIES
from holdfast.api.scheme import PODS
from holdfast.driver import Choice, Device, Driver, Retry, Unsuitable
from holdfast.runtime.errors import NotFound
from holdfast.testing.classic_dra.drivers import ClassicDriverNode
from soak_size import TIMES

POINTS = ("finalizer", "booking", "protection", "begun", "called", "result", "status")


class Volumes:
    """What a driver allocates outside of the cluster: one volume a claim, found by its uid."""

    def __init__(self):
        self.made = {}
        self.names = {}
        self.calls = []
        self.released = []
        self.wait = None
        self.entered = asyncio.Event()
        self.outcomes = []

    def driver(self):
        driver = a_driver()

        @driver.allocate
        async def allocate(request, choice, class_params, claim):
            self.calls.append((claim.uid, request, choice.devices))
            if self.outcomes:
                outcome = self.outcomes.pop(0)
                if outcome is not None:
                    raise outcome
            made = self.names.setdefault(claim.uid, f"volume-{len(self.names)}")
            self.made[claim.uid] = made
            self.entered.set()
            if self.wait is not None:
                await self.wait.wait()
            return {"volume": made, "nothing": None}

        @driver.release
        async def release(handle):
            assert handle.data == {"volume": self.names[handle.uid], "nothing": None}
            assert (handle.namespace, handle.name) == ("default", "claim")
            self.released.append(handle.uid)
            self.made.pop(handle.uid, None)

        return driver


async def _ended(test, undo):
    """Undo an allocation in one of several ways and wait until that is done."""
    if undo == "claim deleted":
        await test.client.delete(SCHEDULINGS, "pod", "default")
        await test.client.delete(PODS, "pod", "default", grace_seconds=0)
        claim = await test.claim()
        if claim.status.reserved_for:
            await test.set_status(reservedFor=None)
        await test.delete_claim()
    elif undo == "pod deleted":
        await test.client.delete(SCHEDULINGS, "pod", "default")
        await test.client.delete(PODS, "pod", "default", grace_seconds=0)
    elif undo == "removed by force":
        await test.client.delete(SCHEDULINGS, "pod", "default")
        await test.client.patch(CLAIMS, "claim", {"metadata": {"finalizers": None}}, "default")
        await test.client.delete(CLAIMS, "claim", "default")
    else:
        await test.ask(selected="n2")


@pytest.mark.parametrize("undo", ["claim deleted", "pod deleted", "removed by force", "other node"])
@pytest.mark.parametrize("point", POINTS)
async def test_a_release_gets_what_allocate_returned_wherever_the_controller_was_killed(
    tmp_path, point, undo
):
    volumes = Volumes()
    if point == "called":
        volumes.wait = asyncio.Event()
    async with DriverTest(tmp_path, volumes.driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_node("n2")
        await test.create_claim()
        if point != "called":
            test.kills.kill(after=point)
        await test.create_pod(potential=["n1", "n2"], selected="n1")
        assert test.kills.killed.is_set() != (point == "called")
        await test.kill()
        called = len(volumes.calls)
        assert called == (point in ("called", "result", "status"))
        volumes.wait = None
        await _ended(test, undo)
        await test.restart()
        await test.clock.advance(62)
        await test.clock.advance(31)
        claim = await test.claim()
        if claim is not None and claim.is_allocated:  # for the pod, or on the other node
            assert list(volumes.made) == [claim.uid]
            assert volumes.made[claim.uid] in claim.status.allocation.resource_handle
            await test.set_status(reservedFor=None)
            await test.delete_claim()
        elif claim is not None:
            assert claim.metadata.finalizers == ()
        assert volumes.made == {}
        assert (await test.booked("n1"), await test.booked("n2")) == ([], [])
        # A volume was made only where allocate was called, or its call was about to begin.
        if point in ("finalizer", "booking", "protection") and undo != "other node":
            assert (volumes.calls, volumes.released) == ([], [])
        if point in ("result", "status") and undo != "other node":
            assert len(volumes.calls) == 1, "what is stored is not asked for again"


async def _inventory(test, name="n1"):
    """Return an inventory, None if it is gone."""
    with suppress(NotFound):
        return await test.client.get(NODE_INVENTORIES, name, test.driver.namespace)


@pytest.mark.parametrize("point", POINTS)
async def test_a_deleted_node_takes_nothing_with_it_that_was_allocated(tmp_path, point):
    """Its inventory is deleted with it, in which the outcome of allocate is stored."""
    volumes = Volumes()
    if point == "called":
        volumes.wait = asyncio.Event()
    async with DriverTest(tmp_path, volumes.driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        if point != "called":
            test.kills.kill(after=point)
        await test.create_pod(potential=["n1"], selected="n1")
        await test.kill()
        volumes.wait = None
        await test.client.delete(NODE_INVENTORIES, "n1", test.driver.namespace)
        kept = await _inventory(test)
        assert (kept is not None) == (point not in ("finalizer", "booking"))
        await _ended(test, "pod deleted")
        await test.restart()
        await test.clock.advance(62)
        await test.clock.advance(31)
        claim = await test.claim()
        if claim.status.reserved_for:
            await test.set_status(reservedFor=None)
        await test.delete_claim()
        await test.clock.advance(31)
        assert await test.claim() is None
        assert volumes.made == {}
        assert (point in ("called", "result", "status")) <= bool(volumes.released)
        assert await _inventory(test) is None


async def test_an_inventory_may_be_deleted_as_soon_as_nothing_is_being_allocated(tmp_path):
    volumes = Volumes()
    async with DriverTest(tmp_path, volumes.driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        await test.create_pod(selected="n1")
        assert (await test.claim()).is_allocated
        assert (await _inventory(test)).metadata.finalizers == ("gpu.example.com/allocating",)
        await test.clock.advance(31)
        assert (await _inventory(test)).metadata.finalizers == ()


async def test_a_node_that_is_being_deleted_is_not_given_to_new_claims(tmp_path):
    volumes = Volumes()
    volumes.outcomes = [TimeoutError("no answer")] * 100
    async with DriverTest(tmp_path, volumes.driver()) as test:
        await test.create_class()
        await test.create_node("n1", *(Device(f"gpu-{n}", {}, {"memory": "8Gi"}) for n in "01"))
        await test.create_claim()
        await test.create_pod(selected="n1")
        await test.client.delete(NODE_INVENTORIES, "n1", test.driver.namespace)
        await test.create_claim("late")
        await test.create_pod("late", "late", potential=["n1"], selected="n1")
        assert await test.answers("late") == {"late": ["n1"]}
        assert len({call[0] for call in volumes.calls}) == 1
        volumes.outcomes = []
        await test.clock.advance(31)
        await test.clock.advance(31)
        assert len(volumes.released) == 1  # as soon as it is known what it got
        assert volumes.made == {}
        assert await _inventory(test) is None


@pytest.mark.parametrize("undo", ["claim deleted", "pod deleted", "other node"])
async def test_what_is_undone_while_allocate_runs_is_released_with_its_result(tmp_path, undo):
    volumes = Volumes()
    volumes.wait = asyncio.Event()
    async with DriverTest(tmp_path, volumes.driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_node("n2")
        claim = await test.create_claim()
        await test.create_pod(potential=["n1", "n2"], selected="n1")
        await volumes.entered.wait()
        await _ended(test, undo)
        assert volumes.made
        volumes.wait.set()
        await test.clock.settle()
        await test.clock.advance(95)
        found = await test.claim()
        if undo == "claim deleted":
            assert found is None
            assert volumes.released == [claim.uid]
            assert volumes.made == {}
        else:  # it was allocated before that was seen
            assert found.is_allocated
            assert len(volumes.calls) == 1


async def test_a_refused_allocation_is_not_released_and_leaves_nothing(tmp_path):
    volumes = Volumes()
    volumes.outcomes = [Unsuitable("no path")]
    async with DriverTest(tmp_path, volumes.driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        await test.create_pod(selected="n1")
        assert "claim claim: no path" in await test.events("claim")
        await test.delete_claim()
        await test.clock.settle()
        assert await test.claim() is None
        assert volumes.released == []
        assert await test.booked() == []


@pytest.mark.parametrize("times", [10, 11])
async def test_an_allocation_that_is_tried_again_for_minutes_is_not_undone(tmp_path, times):
    volumes = Volumes()
    volumes.outcomes = [Retry(20, "it is being made") for _ in range(times)]
    async with DriverTest(tmp_path, volumes.driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        await test.create_pod(selected="n1")
        for _ in range(40):
            await test.clock.advance(10)
        assert (await test.claim()).is_allocated
        assert (volumes.released, len(volumes.calls)) == ([], times + 1)
        assert {call[1:] == volumes.calls[0][1:] for call in volumes.calls} == {True}


async def test_a_deleted_claim_whose_allocation_fails_is_released_when_it_has_ended(tmp_path):
    volumes = Volumes()
    volumes.outcomes = [TimeoutError("no answer")] * 100
    async with DriverTest(tmp_path, volumes.driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        claim = await test.create_claim()
        await test.create_pod(selected="n1")
        await test.client.delete(SCHEDULINGS, "pod", "default")
        await test.delete_claim()
        assert "TimeoutError: no answer" in await test.events("claim")
        assert (await test.claim()).is_deleted
        assert volumes.released == []
        volumes.outcomes = []
        await test.clock.advance(31)
        assert await test.claim() is None
        assert volumes.released == [claim.uid]


async def test_a_result_that_cannot_be_stored_is_released_at_once(tmp_path):
    released = []
    driver = a_driver()
    driver.allocate(lambda request: "x" * 20_000)
    driver.release(lambda handle: released.append(handle.data))
    async with DriverTest(tmp_path, driver) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        await test.create_pod(selected="n1")
        await test.until(lambda: released)
        assert released[0] == "x" * 20_000
        assert "its handle has 20" in (await test.events("claim"))[0]
        await test.client.delete(SCHEDULINGS, "pod", "default")
        await test.delete_claim()
        await test.clock.advance(1)
        assert await test.claim() is None


async def test_an_inventory_deleted_while_allocate_runs_leaves_nothing_allocated(tmp_path):
    volumes = Volumes()
    volumes.wait = asyncio.Event()
    async with DriverTest(tmp_path, volumes.driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        claim = await test.create_claim()
        await test.create_pod(potential=["n1"], selected="n1")
        await volumes.entered.wait()
        await test.client.delete(NODE_INVENTORIES, "n1", test.driver.namespace)
        await test.clock.settle()
        volumes.wait.set()
        await test.clock.settle()
        assert (volumes.released, volumes.made) == ([claim.uid], {})
        assert await test.answers() == {"claim": ["n1"]}


async def test_an_optional_claim_that_gets_nothing_is_neither_allocated_nor_released(tmp_path):
    volumes = Volumes()
    async with DriverTest(tmp_path, volumes.driver()) as test:
        await test.create_class()
        await test.create_parameters("wanted", optional=True)
        reference = {"apiGroup": "gpu.example.com", "kind": "Memory", "name": "wanted"}
        await test.create_claim(parametersRef=reference)
        await test.create_pod(potential=["n9"], selected="n9")
        assert '"granted":0' in (await test.claim()).status.allocation.resource_handle
        await test.set_status(reservedFor=None)
        await test.delete_claim()
        assert await test.claim() is None
        assert (volumes.calls, volumes.released) == ([], [])


@pytest.mark.parametrize("seed", range(2 * TIMES))
async def test_no_volume_is_lost_in_a_run_of_random_kills(tmp_path, seed):
    rng = random.Random(seed)
    volumes = Volumes()
    async with DriverTest(tmp_path, volumes.driver(), rng=rng) as test:
        await test.create_class()
        for node in ("n1", "n2"):
            await test.create_node(node)
        for _ in range(15):
            await test.create_claim()
            point = rng.choice([*POINTS, "removal", "answer", ""])
            if point == "called":
                volumes.wait = asyncio.Event()
            elif point:
                test.kills.kill(**{rng.choice(["after", "before"]): point})
            await test.create_pod(potential=["n1", "n2"], selected=rng.choice(["n1", "n2"]))
            if rng.random() < 0.5:
                await test.restart()
            undo = rng.choice(["claim deleted", "other node", "pod deleted"])
            await _ended(test, undo)
            volumes.wait = None
            await test.restart()
            await test.clock.advance(rng.choice([0, 1, 95]))
            if undo == "other node":
                await _ended(test, "claim deleted")
            elif undo == "pod deleted":
                if (await test.claim()).status.reserved_for:
                    await test.set_status(reservedFor=None)
                await test.delete_claim()
            await test.clock.advance(35)
            assert await test.claim() is None
            assert volumes.made == {}
            assert await test.booked("n1") + await test.booked("n2") == []


@dataclass
class Slot:
    number: int
    peer: str | None


async def test_what_a_node_allocated_is_released_although_the_claim_was_deleted(tmp_path):
    gate, entered, released = asyncio.Event(), asyncio.Event(), []
    driver = Driver("gpu.example.com", handle=Slot)
    driver.inventory(lambda: [Device("gpu-0")])
    driver.fits(lambda free: Choice(free[:1]) if free else None)
    driver.prepare(lambda claim: None)

    @driver.release
    async def release(handle):
        released.append(handle)

    @driver.allocate_on_node
    async def allocate_on_node(request, choice, class_params, uid):
        entered.set()
        await gate.wait()
        return Slot(7, None)

    async with asyncio.timeout(30), ClassicDriverNode(driver) as node:
        claim = await node.new_claim()
        await node.select(claim)
        await entered.wait()
        await node.delete_user(claim)
        await node.until_claim(claim, lambda now: now is not None and now.is_deleted)
        await node.restart_controller()
        gate.set()
        await node.until_claim(claim, lambda now: now is None)
        assert released
        for one in released:
            assert (one.uid, one.name, one.data) == (claim.uid, claim.name, Slot(7, None))
        while (await node.inventory()).spec.answers:
            await asyncio.sleep(0.02)


async def test_an_immediate_claim_is_released_with_its_result(tmp_path):
    volumes = Volumes()
    async with DriverTest(tmp_path, volumes.driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        test.kills.kill(after="begun")
        await test.create_claim(allocationMode=IMMEDIATE)
        await test.client.delete(CLAIMS, "claim", "default")
        await test.restart()
        assert await test.claim() is None
        assert volumes.made == {}

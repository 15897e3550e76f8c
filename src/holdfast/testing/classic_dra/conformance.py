"""Check what every driver of classic DRA must do; ``check_driver`` calls it for such drivers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import grpc
import msgspec

from holdfast.api.classic_dra.types import ClassicClaim
from holdfast.driver import Driver
from holdfast.node.cdi.files import file_name
from holdfast.node.driverkit.classic_dra.node_service import CLASSIC_VERSION
from holdfast.state.classic_dra.claim_state import is_protected
from holdfast.testing.classic_dra.drivers import ClassicDriverNode
from holdfast.testing.drivers import Block, FaultyDriver, Kill

ClassicCheck = Callable[[ClassicDriverNode, FaultyDriver], Coroutine[Any, Any, None]]
KILLS = ("finalizer", "booking", "status")


async def check_classic_driver(driver: Driver, parameters: Mapping[str, Any] | None = None) -> None:
    """Run a driver through the lifecycle of claims; an AssertionError says what is wrong."""
    faulty = FaultyDriver(driver)
    async with ClassicDriverNode(faulty, parameters=parameters) as node:
        for check in CHECKS:
            try:
                await _unless_it_fails(check(node, faulty), faulty)
            except AssertionError as error:
                what = check.__name__.removeprefix("_").replace("_", " ")
                raise AssertionError(f"driver {driver.name}: {what}: {error}") from error


async def _unless_it_fails(check: Coroutine[Any, Any, None], faulty: FaultyDriver) -> None:
    """Run a check; raise AssertionError if a function of the driver fails during it.

    The check may be waiting for an effect of that function.
    """
    checking = asyncio.create_task(check)
    failing = asyncio.create_task(faulty.allocations.failure.wait())
    tasks = (checking, failing)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        assert not failing.done(), faulty.allocations.failures[0]
        checking.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _registration(node: ClassicDriverNode, faulty: FaultyDriver) -> None:
    versions = list(node.info.supported_versions)
    assert CLASSIC_VERSION in versions, f"it registers with the versions {versions} only"


async def _an_inventory_is_published(node: ClassicDriverNode, faulty: FaultyDriver) -> None:
    if not faulty.classic.needs_no_inventory:
        inventory = await node.inventory()
        assert inventory.spec.ready, "its NodeInventory is not ready"
        assert inventory.spec.devices, "its inventory has no device, so nothing can be checked"


async def _a_claim_is_allocated_prepared_and_freed(
    node: ClassicDriverNode, faulty: FaultyDriver
) -> None:
    claim = await node.allocate_claim()
    assert is_protected(claim, faulty.name), "an allocated claim has no finalizer of the driver"
    assert claim.status.driver_name == faulty.name, "the status does not name the driver"
    assert len(claim.status.reserved_for) == 1, "the pod may not use the claim yet"
    names = await _prepared(node, claim)
    again = await _prepared(node, claim)
    assert again == names, f"a second prepare answers {again}, not {names}"
    node.edits_of(names)
    for _ in range(2):
        await node.unprepare_classic(claim)
    file = node.cdi_dir / file_name(faulty.name, claim.uid)
    assert not file.exists(), f"unprepare leaves {file.name}"
    await node.release_claim(claim)
    await _nothing_is_booked(node, faulty)


async def _a_killed_controller_leaves_nothing(
    node: ClassicDriverNode, faulty: FaultyDriver
) -> None:
    for point in KILLS:
        if point == "booking" and faulty.classic.factory is not None:
            continue  # the driver has its own records
        node.kills.kill(after=point)
        claim = await node.new_claim()
        await node.select(claim)
        await node.kills.killed.wait()
        await node.restart_controller()
        await node.until_claim(claim, lambda now: now is not None and now.is_allocated)
        await node.release_claim(claim)
        await _nothing_is_booked(node, faulty)


async def _a_claim_deleted_while_it_is_allocated_is_released(
    node: ClassicDriverNode, faulty: FaultyDriver
) -> None:
    for name in _allocating(faulty):
        block = Block()
        faulty.inject(name, block)
        claim = await node.new_claim()
        await node.select(claim)
        await block.entered.wait()
        deleting = asyncio.create_task(node.forget(claim))
        await node.until_claim(claim, lambda now: now is not None and now.is_deleted)
        block.release.set()
        await deleting
        _is_released(faulty, claim)
        await _nothing_is_booked(node, faulty)


async def _a_claim_allocated_by_a_killed_process_is_released(
    node: ClassicDriverNode, faulty: FaultyDriver
) -> None:
    for name in _allocating(faulty):
        for deleted in (True, False):
            kill = Kill()
            faulty.inject(name, kill)
            claim = await node.new_claim()
            await node.select(claim)
            await kill.done.wait()
            await node.stop_controller()
            if deleted:
                await node.delete_user(claim)
            node.start_controller()
            if name == "allocate_on_node":
                await node.restart()
            if not deleted:
                await node.until_claim(claim, lambda now: now is not None and now.is_allocated)
                await node.release_claim(claim)
            await node.until_claim(claim, lambda now: now is None)
            _is_released(faulty, claim)
            await _nothing_is_booked(node, faulty)


async def _a_controller_killed_around_allocate_and_release_leaves_nothing(
    node: ClassicDriverNode, faulty: FaultyDriver
) -> None:
    points = ("booking", "begun", "result", "status") if faulty.classic.has_allocate else ()
    for point in points:
        node.kills.kill(after=point)
        claim = await node.new_claim()
        await node.select(claim)
        await node.kills.killed.wait()
        await node.stop_controller()
        await node.delete_user(claim)
        node.start_controller()
        await node.until_claim(claim, lambda now: now is None)
        _is_released(faulty, claim)
        await _nothing_is_booked(node, faulty)
    if faulty.classic.has_release:
        claim = await node.allocate_claim()
        node.kills.kill(before="removal")
        await node.delete_user(claim)
        await node.kills.killed.wait()
        await node.restart_controller()
        await node.until_claim(claim, lambda now: now is None)
        _is_released(faulty, claim)


def _allocating(faulty: FaultyDriver) -> list[str]:
    """Return the name of the author's function that allocates, in a list; [] if there is none."""
    if faulty.classic.has_allocate or faulty.classic.factory is not None:
        return ["allocate"]
    return ["allocate_on_node"] if faulty.classic.allocate_on_node is not None else []


def _is_released(faulty: FaultyDriver, claim: ClassicClaim) -> None:
    """Compare what the driver allocated for a deleted claim with what ``release`` was given."""
    results = faulty.allocations.results[claim.uid]
    released = faulty.allocations.released[claim.uid]
    for again in results[1:]:
        assert again == results[0], (
            f"allocate returned {results[0]!r} for a claim, and when it was called again "
            f"{again!r}: it must find by the claim's uid what it had allocated, or the first leaks"
        )
    if results and (faulty.classic.has_release or faulty.classic.factory is not None):
        assert released, f"allocate returned {results[0]!r}, which was never released"
    for handle in released:
        if handle is not None:
            assert (handle.uid, handle.name) == (claim.uid, claim.name), "another claim's handle"
            assert results or not _allocating(faulty), "what was not allocated was released"
            given = msgspec.to_builtins(handle.data)
            expected = results and results[0] is not None
            assert not expected or given == results[0], f"release got the data {given!r}"


async def _prepared(node: ClassicDriverNode, claim: ClassicClaim) -> list[str]:
    try:
        return await node.prepare_classic(claim)
    except grpc.RpcError as error:
        raise AssertionError(f"prepare fails: {error}") from error


async def _nothing_is_booked(node: ClassicDriverNode, faulty: FaultyDriver) -> None:
    if faulty.classic.factory is None:
        allocated = (await node.inventory()).status.allocated
        assert not allocated, f"claims are gone but have devices: {allocated}"


CHECKS: tuple[ClassicCheck, ...] = (
    _registration,
    _an_inventory_is_published,
    _a_claim_is_allocated_prepared_and_freed,
    _a_killed_controller_leaves_nothing,
    _a_claim_deleted_while_it_is_allocated_is_released,
    _a_claim_allocated_by_a_killed_process_is_released,
    _a_controller_killed_around_allocate_and_release_leaves_nothing,
)

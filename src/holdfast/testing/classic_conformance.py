"""What every driver of classic DRA must do; ``check_driver`` calls it for such drivers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc

from holdfast.api.classic import ClassicClaim
from holdfast.cdi.files import file_name
from holdfast.classic_dra.claim_state import is_protected
from holdfast.driverkit import Driver
from holdfast.driverkit.classic.node_service import CLASSIC_VERSION
from holdfast.testing.classic_drivers import ClassicDriverNode
from holdfast.testing.drivers import FaultyDriver

Check = Callable[[ClassicDriverNode, FaultyDriver], Awaitable[None]]
KILLS = ("finalizer", "booking", "status")


async def check_classic_driver(driver: Driver, parameters: Mapping[str, Any] | None = None) -> None:
    """Run a driver through the life of claims; AssertionError says what is wrong."""
    faulty = FaultyDriver(driver)
    async with ClassicDriverNode(faulty, parameters=parameters) as node:
        for check in CHECKS:
            try:
                await check(node, faulty)
            except AssertionError as error:
                what = check.__name__.removeprefix("_").replace("_", " ")
                raise AssertionError(f"driver {driver.name}: {what}: {error}") from error


async def _registration(node: ClassicDriverNode, faulty: FaultyDriver) -> None:
    versions = list(node.info.supported_versions)
    assert CLASSIC_VERSION in versions, f"it registers with the versions {versions} only"


async def _an_inventory_is_published(node: ClassicDriverNode, faulty: FaultyDriver) -> None:
    if not faulty.classic.needs_no_inventory:
        found = await node.inventory()
        assert found.spec.ready, "its NodeInventory is not ready"
        assert found.spec.devices, "its inventory has no device, so nothing can be checked"


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


async def _prepared(node: ClassicDriverNode, claim: ClassicClaim) -> list[str]:
    try:
        return await node.prepare_classic(claim)
    except grpc.RpcError as error:
        raise AssertionError(f"prepare fails: {error}") from error


async def _nothing_is_booked(node: ClassicDriverNode, faulty: FaultyDriver) -> None:
    if faulty.classic.factory is None:
        found = (await node.inventory()).status.allocated
        assert not found, f"claims are gone but have devices: {found}"


CHECKS: tuple[Check, ...] = (
    _registration,
    _an_inventory_is_published,
    _a_claim_is_allocated_prepared_and_freed,
    _a_killed_controller_leaves_nothing,
)

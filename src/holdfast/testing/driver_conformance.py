"""Check what every DRA driver must do, through its sockets: ``check_driver(driver)``."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from holdfast.api.devices import ResourceClaim
from holdfast.driver import Driver
from holdfast.node.cdi.files import file_name, read_spec
from holdfast.node.cdi.spec import lowest_version
from holdfast.node.kubelet_api import DRA_PLUGIN, DRA_V1, DRA_V1BETA1
from holdfast.testing.classic_dra.conformance import check_classic_driver
from holdfast.testing.drivers import DriverNode, Fail, FaultyDriver, Kill

MOST_DEVICES = 4
"""The largest number of devices of the inventory that are tried."""
Check = Callable[["DriverNode", "FaultyDriver"], Awaitable[None]]


def check_driver(driver: Driver, parameters: Mapping[str, Any] | None = None) -> None:
    """Run a driver through the lifecycle of claims; an AssertionError says what is wrong.

    Its functions are called with claims for devices of its inventory, and so use these devices. The
    claims of a classic DRA driver have ``parameters``: fields of an object of its CRD.
    """
    asyncio.run(check_driver_async(driver, parameters))


async def check_driver_async(driver: Driver, parameters: Mapping[str, Any] | None = None) -> None:
    """Do the same as ``check_driver``, inside an event loop."""
    if driver.classic:
        await check_classic_driver(driver, parameters)
        return
    faulty = FaultyDriver(driver)
    async with DriverNode(faulty) as node:
        for check in CHECKS:
            try:
                await check(node, faulty)
            except AssertionError as error:
                what = check.__name__.removeprefix("_").replace("_", " ")
                raise AssertionError(f"driver {driver.name}: {what}: {error}") from error
    left = [str(path) for path in (node.settings.registry_dir, node.cdi_dir) if path.exists()]
    assert not left, f"driver {driver.name} left {left}"


async def _registration(node: DriverNode, faulty: FaultyDriver) -> None:
    info = node.info
    assert (info.type, info.name) == (DRA_PLUGIN, faulty.name), f"it registers as {info}"
    known = set(info.supported_versions) & {DRA_V1, DRA_V1BETA1}
    assert known, f"no kubelet knows one of the versions {list(info.supported_versions)}"


async def _slices_are_complete(node: DriverNode, faulty: FaultyDriver) -> None:
    slices = await node.slices()
    assert slices, "it publishes no ResourceSlice"
    for pool in {one.spec.pool.name for one in slices}:
        numbers = {one.spec.pool for one in slices if one.spec.pool.name == pool}
        count = sum(one.spec.pool.name == pool for one in slices)
        assert len(numbers) == 1, f"the slices of pool {pool} differ: {numbers}"
        assert numbers.pop().resource_slice_count == count, f"pool {pool} is incomplete"
    for one in slices:
        owners = [reference.kind for reference in one.metadata.owner_references]
        assert owners == ["Node"], f"slice {one.name} has the owners {owners}"
    assert await node.devices(), "its inventory has no device, so nothing can be checked"


async def _a_claim_is_prepared_once_and_unprepared(node: DriverNode, faulty: FaultyDriver) -> None:
    for name in list(await node.devices())[:MOST_DEVICES]:
        claim = await node.allocate(name)
        answer = await node.prepare(claim)
        assert not answer.error, f"prepare of {name}: {answer.error}"
        given = [(list(d.request_names), d.device_name) for d in answer.devices]
        assert given == [(["r0"], name)], f"prepare of {name} answers {given}"
        _check_cdi(node, claim, answer)
        again = await node.prepare(claim)
        assert again == answer, f"a second prepare of {name} answers {again}, not {answer}"
        older = await node.prepare(claim, DRA_V1BETA1)
        assert not older.error, f"prepare by v1beta1: {older.error}"
        await _unprepared(node, claim)
        await _unprepared(node, claim)
        calls = [function for function, uid in faulty.calls if uid == claim.uid]
        assert calls == ["prepare", "unprepare"], f"the functions were called: {calls}"


async def _claims_of_one_call_have_their_own_errors(node: DriverNode, faulty: FaultyDriver) -> None:
    good = await node.allocate(next(iter(await node.devices())))
    bare = await node.create_claim()
    missing = msgspec.structs.replace(
        bare, metadata=msgspec.structs.replace(bare.metadata, uid="0-0", name="missing")
    )
    answers = await node.prepare_all(missing, bare, good)
    assert set(answers) == {missing.uid, bare.uid, good.uid}, "not every claim is answered"
    assert answers[missing.uid].error, "a claim that does not exist has no error"
    assert answers[bare.uid].error, "a claim that is not allocated has no error"
    assert not answers[good.uid].error, f"the good claim fails: {answers[good.uid].error}"
    for claim in (missing, bare, good):
        await _unprepared(node, claim)


async def _an_error_is_returned_and_the_next_call_succeeds(
    node: DriverNode, faulty: FaultyDriver
) -> None:
    claim = await node.allocate(next(iter(await node.devices())))
    faulty.inject("prepare", Fail("first"))
    assert "first" in (await node.prepare(claim)).error, "the error of prepare is not returned"
    assert not (await node.prepare(claim)).error, "prepare after an error fails"
    faulty.inject("unprepare", Fail("second"))
    assert "second" in (await node.unprepare(claim)).error, "the error of unprepare is missing"
    await _unprepared(node, claim)


async def _a_restart_changes_no_answer(node: DriverNode, faulty: FaultyDriver) -> None:
    claim = await node.allocate(next(iter(await node.devices())))
    answer = await node.prepare(claim)
    slices = await node.slices()
    await node.restart()
    again = await node.prepare(claim)
    assert again == answer, f"after a restart prepare answers {again}, not {answer}"
    assert await node.slices() == slices, "a restart changes the slices"
    calls = [function for function, uid in faulty.calls if uid == claim.uid]
    assert calls == ["prepare"], f"after a restart the functions were called again: {calls}"
    await _unprepared(node, claim)


async def _a_process_killed_in_prepare_leaves_nothing(
    node: DriverNode, faulty: FaultyDriver
) -> None:
    claim = await node.allocate(next(iter(await node.devices())))
    kill = Kill()
    faulty.inject("prepare", kill)
    call = asyncio.create_task(node.prepare(claim))
    await kill.done.wait()
    call.cancel()
    await node.restart()
    await _unprepared(node, claim)
    calls = [function for function, uid in faulty.calls if uid == claim.uid]
    assert calls == ["prepare", "unprepare"], f"after a kill the functions were called: {calls}"


async def _unprepared(node: DriverNode, claim: ResourceClaim) -> None:
    answer = await node.unprepare(claim)
    assert not answer.error, f"unprepare: {answer.error}"
    file = node.cdi_dir / file_name(node.driver.name, claim.uid)
    assert not file.exists(), f"unprepare leaves {file.name}"


def _check_cdi(node: DriverNode, claim: ResourceClaim, answer: object) -> None:
    node.edits(answer)
    file = node.cdi_dir / file_name(node.driver.name, claim.uid)
    if file.exists():
        spec = read_spec(file)
        mode = stat.S_IMODE(file.stat().st_mode)
        assert mode == 0o644, f"{file.name} has mode {mode:o}; the runtime cannot read it"
        lowest = lowest_version(spec)
        assert spec.cdi_version == lowest, f"{file.name}: version {lowest} is sufficient"


CHECKS: tuple[Check, ...] = (
    _registration,
    _slices_are_complete,
    _a_claim_is_prepared_once_and_unprepared,
    _claims_of_one_call_have_their_own_errors,
    _an_error_is_returned_and_the_next_call_succeeds,
    _a_restart_changes_no_answer,
    _a_process_killed_in_prepare_leaves_nothing,
)

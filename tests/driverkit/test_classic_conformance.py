"""The conformance check of drivers that allocate claims themselves."""

import pytest
from tests.driverkit.classic_controller import a_driver

from holdfast.api.classic_dra.types import ClassicAllocation
from holdfast.driver import Device, Driver, Unsuitable
from holdfast.testing.driver_conformance import check_driver_async

DEVICES = [Device("gpu-0", {}, {"memory": "8Gi"})]


def _a_forgetful_driver():
    """Return a driver that makes something new whenever allocate is called."""
    driver, numbers = a_driver(), iter(range(100))
    driver.inventory(lambda: DEVICES)
    driver.allocate(lambda request: next(numbers))
    driver.release(lambda handle: None)
    return driver


def _a_driver_that_releases_once():
    driver, made = a_driver(), {}
    driver.inventory(lambda: DEVICES)
    driver.allocate(lambda request, choice, class_params, claim: made.setdefault(claim.uid, 1))
    driver.release(lambda handle: made.pop(handle.uid))
    return driver


class ForgetfulHandlers:
    """Handlers that make something new whenever they are called."""

    def __init__(self):
        self.number = 0

    async def class_parameters(self, resource_class):
        return None

    async def claim_parameters(self, claim, resource_class, class_parameters):
        return None

    async def allocate(self, items, selected_node):
        self.number += 1
        return [ClassicAllocation(resource_handle=f"{self.number}") for _ in items]

    async def deallocate(self, claim):
        pass

    async def unsuitable_nodes(self, pod, items, nodes, asked):
        return ()


def _a_driver_that_refuses():
    driver = a_driver()
    driver.inventory(lambda: DEVICES)

    @driver.allocate
    def allocate(request):
        raise Unsuitable("not today")

    return driver


def _forgetful_handlers():
    driver, own = Driver("gpu.example.com"), ForgetfulHandlers()
    driver.prepare(lambda claim: None)
    driver.handlers(lambda: own)
    return driver


@pytest.mark.parametrize(
    "make, message",
    [
        (_a_forgetful_driver, "when it was called again"),
        (_a_driver_that_releases_once, "release raises KeyError"),
        (_forgetful_handlers, "when it was called again"),
        (_a_driver_that_refuses, r"allocate refuses a claim \(not today\)"),
    ],
)
async def test_the_conformance_check_fails_a_driver_that_loses_or_refuses_what_it_is_asked_for(
    make, message
):
    with pytest.raises(AssertionError, match=message):
        await check_driver_async(make())


async def test_the_conformance_check_passes_a_driver_that_finds_what_it_allocated():
    driver, made, numbers = a_driver(), {}, iter(range(100))
    driver.inventory(lambda: DEVICES)

    @driver.allocate
    def allocate(request, choice, class_params, claim):
        if claim.uid not in made:
            made[claim.uid] = next(numbers)
        return {"number": made[claim.uid]}

    @driver.release
    def release(handle):
        assert handle.data["number"] is not None
        made.pop(handle.uid, None)

    await check_driver_async(driver)

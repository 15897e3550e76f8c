"""A classic driver publishes some of its devices in slices: a device is in one generation only."""

import asyncio

import pytest

from holdfast.api.classic_dra.types import classic_resources
from holdfast.api.scheme import RESOURCE_SLICES
from holdfast.driver import Cdi, Choice, CounterSet, Device, Driver, InvalidInventory
from holdfast.node.driverkit.classic_dra.inventory_publisher import DividedPublisher
from holdfast.node.driverkit.slice_publisher import SlicePublisher
from holdfast.runtime.errors import BadConfiguration
from holdfast.testing import VirtualClock, a_claim, a_device_class, a_pod
from holdfast.testing.classic_dra.builders import a_classic_claim, a_classic_class
from holdfast.testing.driver_cluster import DriverCluster

DRIVER = "gpu.example.com"


def a_divided_driver(moved):
    driver = Driver(DRIVER, structured=lambda device: device.name in moved, refresh_seconds=0.05)
    driver.inventory(lambda: [Device(f"gpu-{i}") for i in range(3)])
    driver.fits(lambda free, request: Choice([free[0]]) if free else None)
    driver.prepare(lambda claim, devices: [Cdi().env(GPU=device.name) for device in devices])
    return driver


def running(pod):
    return pod.status.phase == "Running"


async def test_a_wrong_structured_device_is_refused_at_once():
    slices = SlicePublisher(None, VirtualClock(), DRIVER, "n")
    publisher = DividedPublisher(Inventory(), slices, "n", lambda device: True)
    with pytest.raises(InvalidInventory, match="Wrong"):
        publisher.publish({"n": [Device("Wrong")]})


async def test_a_device_comes_into_a_slice_when_no_classic_claim_has_it():
    moved = {"gpu-2"}
    async with asyncio.timeout(60), DriverCluster(a_divided_driver(moved)) as cluster:

        async def in_slices(*names):
            while True:
                listing = await cluster.client.list(RESOURCE_SLICES)
                if {d.name for one in listing.items for d in one.spec.devices} == set(names):
                    return
                await asyncio.sleep(0.02)

        await in_slices("gpu-2")
        entry = {"name": "c", "claim": {"resourceClaimName": "c"}}
        selector = f'device.driver == "{DRIVER}"'
        await cluster.create(
            a_classic_class(),
            a_classic_claim("c"),
            a_pod("classic", claims=[entry]),
            a_device_class("gpu", selectors=[selector]),
            a_claim("s"),
            a_pod("structured", claims=[{"name": "s", "resourceClaimName": "s"}]),
        )
        classic = await cluster.until_pod("classic", running)
        structured = await cluster.until_pod("structured", running)
        assert cluster.edits(classic)["main"]["env"] == {"GPU": "gpu-0"}
        assert cluster.edits(structured)["main"]["env"] == {"GPU": "gpu-2"}
        moved.update({"gpu-0", "gpu-1"})
        await in_slices("gpu-1", "gpu-2")
        await cluster.delete_pod("classic")
        await cluster.client.delete(classic_resources().claims, "c", "default")
        await in_slices("gpu-0", "gpu-1", "gpu-2")


class Inventory:
    """Stands for an InventoryPublisher; ``store`` is what the API server does."""

    def __init__(self):
        self.wanted = None

    def publish(self, pools):
        names = [device.name for device in pools["n"]]
        changed, self.wanted = names != self.wanted, names
        return changed

    def resync(self):
        pass

    def store(self, *booked):
        devices = [{"name": name} for name in self.wanted]
        claims = {name: {"name": name, "devices": [name]} for name in booked}
        spec, status = {"devices": devices}, {"allocated": claims}
        self.on_stored({"metadata": {"name": "n"}, "spec": spec, "status": status})


class Slices:
    """Stands for a SlicePublisher."""

    devices = ()

    def check(self, pools):
        pass

    def publish(self, pools):
        self.devices = [item.name for item in pools["n"]]


def test_only_a_stored_inventory_lets_a_device_come_into_a_slice():
    moved, inventory, slices = {"a"}, Inventory(), Slices()
    publisher = DividedPublisher(inventory, slices, "n", lambda device: device.name in moved)
    items = {"n": [CounterSet("set", {"m": "1"}), Device("a"), Device("b")]}

    def look(*names):
        moved.clear()
        moved.update(names)
        publisher.publish(items)
        return list(slices.devices)

    assert look("a") == []
    inventory.store()
    assert slices.devices == ["set", "a"]
    assert look("a", "b") == ["set", "a"]
    inventory.store("b")
    assert slices.devices == ["set", "a"]
    inventory.store()
    assert slices.devices == ["set", "a", "b"]
    assert look("a") == ["set", "a"]  # b goes back; whether that was stored is not known
    assert look("a", "b") == ["set", "a"]
    inventory.store("b")
    assert slices.devices == ["set", "a"]
    assert look() == []


@pytest.mark.parametrize("function", ["network_inventory", None])
def test_only_devices_of_nodes_can_be_divided(function):
    driver = Driver(DRIVER, structured=lambda device: True)
    driver.prepare(lambda claim: None)
    if function:
        driver.fits(lambda free, request: None)
        getattr(driver, function)(list)
    else:
        driver.inventory(list)
    with pytest.raises(BadConfiguration, match="has structured=, which divides"):
        driver.check()

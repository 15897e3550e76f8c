"""The public names for authors of device drivers; docs/writing-a-driver.md shows how to use them.

::

    from holdfast.driver import Cdi, Device, Driver

    driver = Driver("gpu.example.com")

    @driver.inventory
    def inventory():
        return [Device("gpu-0", attributes={"model": "A"}, capacity={"memory": "80Gi"})]

    @driver.prepare
    def prepare(claim, devices):
        return [Cdi().env(GPU=device.name) for device in devices]

    driver.run()
"""

from holdfast.node.driverkit.claims import AllocatedDevice, Cdi, Claim, DriverError
from holdfast.node.driverkit.classic_dra.fitting import (
    Choice,
    Count,
    FreeDevice,
    Retry,
    Share,
    Unsuitable,
)
from holdfast.node.driverkit.driver import Driver, Unhealthy
from holdfast.node.driverkit.inventory import (
    Capacity,
    CounterSet,
    Device,
    InvalidInventory,
    Taint,
    Version,
)

__all__ = [
    "AllocatedDevice",
    "Capacity",
    "Cdi",
    "Choice",
    "Claim",
    "Count",
    "CounterSet",
    "Device",
    "Driver",
    "DriverError",
    "FreeDevice",
    "InvalidInventory",
    "Retry",
    "Share",
    "Taint",
    "Unhealthy",
    "Unsuitable",
    "Version",
]

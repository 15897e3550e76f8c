"""A driver for simulated GPUs: whole ones, one that claims share, one that is divided.

python driver.py --kubelet-dir NODE_DIRECTORY
"""

from holdfast.driver import Capacity, Cdi, CounterSet, Device, Driver, Version

driver = Driver("gpu.example.com")
PARTITIONS = {"1g10gb": (1, "10Gi"), "3g40gb": (3, "40Gi")}
"""Compute slices and memory of the partitions of a GPU with 7 slices and 80 GiB."""


def gpu(index, **attributes):
    """Return the attributes of a GPU."""
    return {
        "model": "Simulated-80G",
        "uuid": f"gpu-{index:04x}",
        "driverVersion": Version("1.0.0"),
        "numaNode": index // 2,
        **attributes,
    }


@driver.inventory
def inventory():
    """Return gpu-0 and gpu-1 whole, gpu-2 to be shared, gpu-3 whole or in partitions."""
    memory = {"memory": "80Gi"}
    yield from (Device(f"gpu-{i}", gpu(i), memory) for i in (0, 1))
    share = Capacity("80Gi", default="10Gi", minimum="1Gi", step="1Gi")
    yield Device("gpu-2", gpu(2), {"memory": share}, shareable=True)
    yield CounterSet("gpu-3", {"slices": 7, "memory": "80Gi"})
    yield Device("gpu-3", gpu(3), memory, consumes={"gpu-3": {"slices": 7, "memory": "80Gi"}})
    for profile, (slices, amount) in PARTITIONS.items():
        for number in range(7 // slices):
            yield Device(
                f"gpu-3-{profile}-{number}",
                gpu(3, profile=profile),
                {"memory": amount},
                consumes={"gpu-3": {"slices": slices, "memory": amount}},
            )


@driver.prepare
def prepare(claim, devices):
    """Tell a container the names of its GPUs, and how much memory of a shared one is its own."""
    edits = []
    for device in devices:
        name = f"GPU_DEVICE_{device.name.replace('-', '_').upper()}"
        cdi = Cdi().env(**{name: device.name})
        if amount := device.consumed_capacity.get("memory"):
            cdi = cdi.env(**{f"{name}_MEMORY": str(amount)})
        edits.append(cdi)
    return edits


if __name__ == "__main__":
    driver.run()

"""A DRA driver for NVIDIA GPUs and their MIG partitions.

pip install nvidia-ml-py
python driver.py --kubelet-dir NODE_DIRECTORY
"""

import sys

from gpus import Gpus, open_nvml

from holdfast.driver import Cdi, Driver, DriverError

NAME = "nvidia.holdfast.dev"


def make_driver(gpus):
    """Return the driver of these GPUs."""
    driver = Driver(NAME)

    @driver.inventory
    def inventory():
        return gpus.inventory()

    @driver.health
    def health():
        return gpus.health()

    @driver.prepare
    def prepare(claim, devices):
        """Give each request its GPUs: one variable names all of them, as programs expect."""
        edits = {}
        for request in dict.fromkeys(device.request for device in devices):
            wanted = [device.name for device in devices if device.request == request]
            found = [gpus.make_ready(name) for name in wanted]
            uuids = ",".join(uuid for uuid, _ in found)
            cdi = Cdi().env(NVIDIA_VISIBLE_DEVICES=uuids, CUDA_VISIBLE_DEVICES=uuids)
            for node in dict.fromkeys(node for _, nodes in found for node in nodes):
                cdi = cdi.device(node)
            edits[request] = cdi
        return edits

    @driver.unprepare
    def unprepare(claim, devices):
        for device in devices:
            if not device.admin_access:
                gpus.remove(device.name)

    return driver


if __name__ == "__main__":
    try:
        made = make_driver(Gpus(open_nvml()))
    except DriverError as error:
        sys.exit(f"{NAME}: {error}")
    made.run()

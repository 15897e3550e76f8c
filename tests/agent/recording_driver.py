"""A driver that records the effect of each prepare and unprepare in an append-only file.

Run as a program: ``python recording_driver.py --kubelet-dir DIR``; with ``plugin`` or
``controller`` before that it is one part of a driver of classic DRA. Each line is written by one
call, so that a kill leaves all or nothing of it: ``+ CLAIM DEVICE`` and ``- CLAIM DEVICE`` are
effects, ``= CLAIM DEVICE`` a repeated prepare, ``! CLAIM DEVICE HOLDER`` a refused one.
"""

import os
import sys
import time
from pathlib import Path

from holdfast.client.leader import LeaseTimes
from holdfast.driver import Cdi, Choice, Device, Driver, DriverError
from holdfast.node.driverkit.classic_dra import controller_process

NAME = "kill.example.com"
DEVICES = ("d-0", "d-1", "d-2")
EFFECTS = "HOLDFAST_EFFECTS"
"""Environment variable with the path of the file."""
PAUSE_SECONDS = 0.03
"""Before and after an effect, so that kills happen in the handlers."""

driver = Driver(NAME)


def holders(text):
    """Return the claim that holds each device; raises AssertionError if one is held twice."""
    held = {}
    for line in text.splitlines():
        sign, claim, device = line.split()[:3]
        if sign == "+":
            assert device not in held, f"{line!r}: held by {held[device]}"
            held[device] = claim
        elif sign == "-":
            assert held.pop(device, None) == claim, f"{line!r}: not held"
        elif sign == "=":
            assert held.get(device) == claim, f"{line!r}: not held"
    return held


@driver.inventory
def inventory():
    return [Device(name) for name in DEVICES]


@driver.prepare
def prepare(claim, devices):
    for device in devices:
        time.sleep(PAUSE_SECONDS)
        holder = holders(_path().read_text()).get(device.name)
        if holder not in (None, claim.uid):
            _append(f"! {claim.uid} {device.name} {holder}\n")
            raise DriverError(f"claim {holder} holds {device.name}")
        _append(f"{'+' if holder is None else '='} {claim.uid} {device.name}\n")
    time.sleep(PAUSE_SECONDS)
    return Cdi().env(CLAIM=claim.uid, DEVICES=" ".join(device.name for device in devices))


@driver.unprepare
def unprepare(claim, devices):
    for device in devices:
        time.sleep(PAUSE_SECONDS)
        if holders(_path().read_text()).get(device.name) == claim.uid:
            _append(f"- {claim.uid} {device.name}\n")
    time.sleep(PAUSE_SECONDS)


def _path():
    return Path(os.environ[EFFECTS])


def _append(line):
    descriptor = os.open(_path(), os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def fits(free, request):
    return Choice(free[:1]) if free else None


if __name__ == "__main__":
    if sys.argv[1] in ("plugin", "controller"):
        driver.fits(fits)
        controller_process.LEASE = LeaseTimes(3.0, 2.0, 0.5)  # else each kill costs 15 s
    driver.run()

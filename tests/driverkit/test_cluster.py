"""A driver in an embedded cluster: scheduler, agent and driver together, with faults."""

import asyncio

import pytest

from holdfast.driver import Cdi, Device, Driver
from holdfast.testing import a_claim_template, a_device_class, a_pod
from holdfast.testing.driver_cluster import DriverCluster
from holdfast.testing.drivers import Fail, FaultyDriver, Kill


def a_driver():
    driver = Driver("gpu.example.com")
    driver.inventory(lambda: [Device("gpu-0"), Device("gpu-1")])
    driver.prepare(lambda claim, devices: [Cdi().env(GPU=one.name) for one in devices])
    return driver


def running(pod):
    return pod.status.phase == "Running"


def a_user(name):
    return a_pod(name, claims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}])


@pytest.mark.long
async def test_D079_errors_and_kills_of_a_driver_delay_pods_and_leave_nothing():
    faulty = FaultyDriver(a_driver())
    async with DriverCluster(faulty) as cluster:
        faulty.inject("prepare", Fail("the card is busy"))
        await cluster.create(a_device_class("gpu"), a_claim_template("gpu"), a_user("one"))
        pod = await cluster.until_pod("one", running)
        assert cluster.edits(pod)["main"]["env"] == {"GPU": "gpu-0"}
        while not (found := dict(await cluster.events("one")).get("FailedPrepareDynamicResources")):
            await asyncio.sleep(0.05)  # events are written later
        assert "the card is busy" in found
        kill = Kill()
        faulty.inject("prepare", kill)
        await cluster.create(a_user("two"))
        await kill.done.wait()
        await cluster.restart_driver()
        pod = await cluster.until_pod("two", running)
        assert cluster.edits(pod)["main"]["env"] == {"GPU": "gpu-1"}
        assert len(list(cluster.settings.cdi_dir.iterdir())) == 2
        for name in ("one", "two"):
            await cluster.delete_pod(name)
        assert not list(cluster.settings.cdi_dir.iterdir())
        assert [name for name, _ in faulty.calls] == [*["prepare"] * 3, *["unprepare"] * 2]

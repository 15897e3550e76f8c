"""kill -9 of a classic driver's controller and node part, of the scheduler and of the agent.

``make soak`` says how many kills, as for test_agent_kill.py. In the end nothing is booked,
allocated, reserved, asked of a driver, prepared or running, and no device was ever held twice.
"""

import asyncio
import subprocess
import sys

import pytest

from agent import recording_driver
from agent.killed_node import KILLS, NODE, SECONDS, KilledNode, kill_and_check
from agent.process_cluster import short_directory
from holdfast.api.classic_dra.node_inventory import NODE_INVENTORIES
from holdfast.api.classic_dra.types import classic_resources
from holdfast.client.client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.informer import Informer
from holdfast.client.kubeconfig import load
from holdfast.controllers.controller_manager import ControllerManager
from holdfast.node.driverkit.classic_dra.handle import decode_handle
from holdfast.processes.cluster import PKI
from holdfast.runtime.clock import SystemClock
from holdfast.server.access.credentials import write_node_kubeconfig
from holdfast.testing.classic_dra.builders import a_classic_claim, a_classic_class

CLASSIC = classic_resources()
PARTS = ("controller", "scheduler", "agent", "plugin")


class ClassicKilledNode(KilledNode):
    """Everything is a process but the controllers; the API server is not killed."""

    claims = CLASSIC.claims
    kinds = ("own", "own", "now", "shared", "shared", "deleted", "stubborn", "forced")
    killed = (*([part] for part in PARTS), ["controller", "scheduler"], ["plugin", "agent"])

    async def start(self):
        clock, data = SystemClock(), self.directory / "data"
        command = [sys.executable, "-m", "holdfast", "apiserver", "--data-dir", str(data)]
        with (self.directory / "apiserver.log").open("a") as log:
            self._server = subprocess.Popen(
                [*command, "--port", "0"], stdout=subprocess.PIPE, stderr=log, text=True
            )
        said = await asyncio.to_thread(self._server.stdout.readline)
        assert said.startswith("serving"), (self.directory / "apiserver.log").read_text()
        self._admin = data / "kubeconfig"
        endpoint = await load(self._admin)
        self.client = Client(HttpTransport(endpoint), "test")
        write_node_kubeconfig(data / PKI, NODE, self.node / "kubeconfig", endpoint.url, clock.now())
        self._controllers = ControllerManager(self.client, clock)
        await self._controllers.start()
        self._watch = Informer(self.client, self.claims, clock=clock, on_event=self._on_claim)
        self._watch.start()
        await self.client.create(CLASSIC.classes, a_classic_class("d", recording_driver.NAME))
        for name in ("agent", "scheduler", "controller"):
            self._start(name)
        async with asyncio.timeout(SECONDS):
            while not all((self.node / name).is_dir() for name in ("plugins_registry", "cdi")):
                await asyncio.sleep(0.05)
        self._start("plugin")

    async def stop(self):
        for name in self.started:
            await self._end(name)
        await self._watch.stop()
        await self._controllers.stop()
        await self.client.close()
        self._server.kill()
        await asyncio.to_thread(self._server.communicate)

    def _commands(self):
        admin, driver = ["--kubeconfig", str(self._admin)], recording_driver.__file__
        alone = ["--no-leader-elect", "--no-controllers", "--health-port", "0"]
        scheduler = ["-m", "holdfast", "scheduler", *admin, *alone, "--check-invariants"]
        return {
            "agent": super()._commands()["agent"],
            "plugin": [driver, "plugin", "--kubelet-dir", str(self.node)],
            "controller": [driver, "controller", *admin],
            "scheduler": scheduler,
        }

    @staticmethod
    def _devices_of(allocation):
        return set(decode_handle(allocation.resource_handle).devices)

    @staticmethod
    def _pod_of(claim):
        return claim if claim.startswith("shared") else claim.removesuffix("-c")

    @staticmethod
    def named(claim):
        return {"claim": {"resourceClaimName": claim}}

    @staticmethod
    def own(kind):
        mode = "Immediate" if kind == "now" else "WaitForFirstConsumer"
        spec = {"resourceClassName": "d", "allocationMode": mode}
        return {"claim": {"template": {"spec": spec}}}

    @staticmethod
    def shared_claim(name):
        return a_classic_claim(name, of_class="d")

    async def leftovers(self):
        found = await super().leftovers()
        asked = (await self.client.list(CLASSIC.pod_scheduling)).items
        inventories = (await self.client.list(NODE_INVENTORIES)).items
        booked = [claim.name for one in inventories for claim in one.status.allocated.values()]
        more = {"PodSchedulings": [one.name for one in asked], "bookings": booked}
        return found | {where: what for where, what in more.items() if what}


@pytest.mark.skipif(not KILLS, reason="part of make soak")
@pytest.mark.timeout(3000)
async def test_nothing_is_left_or_double_however_often_parts_of_classic_dra_are_killed():
    with short_directory() as directory:
        await kill_and_check(ClassicKilledNode(directory))

"""What a process of a driver runs for classic DRA, besides what every driver has.

Every node part has it, as claims that were prepared before may be classic ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from holdfast.client.client import Client
from holdfast.node.driverkit.checkpoint import Checkpoint
from holdfast.node.driverkit.classic_dra.controller_process import ControllerProcess, run_controller
from holdfast.node.driverkit.classic_dra.extender import run_extender
from holdfast.node.driverkit.classic_dra.inventory_publisher import (
    DividedPublisher,
    InventoryPublisher,
    NothingToPublish,
)
from holdfast.node.driverkit.classic_dra.node_allocation import NodeAllocation
from holdfast.node.driverkit.classic_dra.node_service import CLASSIC_VERSION, serve_classic
from holdfast.node.driverkit.classic_dra.preparation import ClassicPreparation
from holdfast.node.driverkit.driver import Driver
from holdfast.node.driverkit.plugin_service import NodeService
from holdfast.node.driverkit.slice_publisher import Publisher, SlicePublisher
from holdfast.runtime.clock import Clock


class ClassicParts:
    """The classic parts of one driver: on a node, and those that work for the cluster."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._functions = driver.classic

    def publisher(self, node: str, client: Client, clock: Clock) -> Publisher | None:
        """Return what publishes the devices of a node; None for a driver with slices only."""
        driver, functions = self._driver, self._functions
        if not functions:
            return None
        if functions.needs_no_inventory:
            return NothingToPublish()
        inventory = InventoryPublisher(client, clock, driver.name, driver.namespace, node)
        if functions.structured is None:
            return inventory
        slices = SlicePublisher(client, clock, driver.name, node)
        return DividedPublisher(inventory, slices, node, functions.structured)

    def preparation(
        self, client: Client, checkpoint: Checkpoint, cdi_dir: Path
    ) -> ClassicPreparation:
        """Return what prepares claims of both generations."""
        return ClassicPreparation(self._driver, client, checkpoint, cdi_dir)

    def services(self, preparation: ClassicPreparation) -> list[NodeService]:
        """Return the services by which a kubelet calls a classic driver."""
        if not self._functions:
            return []
        return [NodeService(CLASSIC_VERSION, lambda server: serve_classic(server, preparation))]

    def tasks(
        self, node: str, client: Client, clock: Clock
    ) -> dict[str, Coroutine[Any, Any, None]]:
        """Return, by name, what runs on a node: answers to bookings, if nodes allocate."""
        driver, functions = self._driver, self._functions
        if functions.allocate_on_node is None:
            return {}
        allocation = NodeAllocation(
            client,
            clock,
            driver.namespace,
            node,
            function=functions.allocate_on_node,
            types=(functions.params, functions.class_params),
        )
        return {"allocation": allocation.run()}

    def controller(self, client: Client, clock: Clock) -> ControllerProcess:
        """Return the controller, without leader election."""
        return ControllerProcess(self._driver, client, clock)

    async def run_controller(self, kubeconfig: Path | None, stop: asyncio.Event) -> None:
        """Run the controller while this process holds the driver's lease, until ``stop`` is set."""
        await run_controller(self._driver, kubeconfig, stop)

    async def run_extender(
        self, kubeconfig: Path | None, address: str, port: int, stop: asyncio.Event
    ) -> None:
        """Answer autoscalers until ``stop`` is set."""
        await run_extender(self._driver, kubeconfig, address, port, stop)

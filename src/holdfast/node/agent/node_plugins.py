"""All devices of one node's pods: claims with their drivers, device plugins, and the registry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast.client.client import Client
from holdfast.node.agent.claim_manager import ActivePods, ClaimManager
from holdfast.node.agent.device_manager import DeviceManager
from holdfast.node.agent.device_plugins import DeviceCount
from holdfast.node.agent.plugin_registry import PluginRegistry
from holdfast.node.kubelet_api import REGISTRY_DIRECTORY
from holdfast.runtime.clock import Clock


class NodePlugins:
    """The parts of an agent that call plugins, in the node's directory.

    ``counts_changed`` gets the devices of device plugins, for the node's capacity and allocatable.
    Raises BadConfiguration if a checkpoint is damaged.
    """

    def __init__(
        self,
        client: Client,
        node: str,
        directory: Path,
        clock: Clock,
        *,
        active_pods: ActivePods,
        counts_changed: Callable[[Mapping[str, DeviceCount]], None],
        reset_checkpoint: bool = False,
        keep_slices: bool = False,
    ) -> None:
        self.device_plugins = DeviceManager(
            directory, clock, active_pods, counts_changed, reset_checkpoint=reset_checkpoint
        )
        self.claims = ClaimManager(
            client, node, directory, clock, active_pods,
            reset_checkpoint=reset_checkpoint, keep_slices=keep_slices,
        )  # fmt: skip
        handlers = {**self.claims.handlers, **self.device_plugins.handlers}
        self._registry = PluginRegistry(directory / REGISTRY_DIRECTORY, handlers, clock)

    @property
    def busy(self) -> bool:
        """Whether a plugin is being called or a checkpoint is being written."""
        return self.device_plugins.busy or self.claims.busy or self._registry.busy

    async def run(self) -> None:
        """Serve plugins until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for part in (self.device_plugins, self.claims, self._registry):
                tasks.create_task(part.run())

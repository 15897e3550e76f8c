"""Claims of pods whose containers are simulated: their devices may have no driver.

ResourceSlices can be written by hand, to try out scheduling. Such a device cannot be prepared, and
a simulated container does not need that: its claim is only checked, as on simulated nodes. A driver
that has files in the node's directory is called as for any other pod, even if it is not registered
yet.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.api.pod import Pod
from holdfast.api.pod_claim_errors import InvalidEntries
from holdfast.client.client import Client
from holdfast.node.agent.claim_manager import ClaimManager
from holdfast.node.agent.claims import needed_claims
from holdfast.node.agent.live_claims import LiveClaims, claim_info_of, not_prepared
from holdfast.node.agent.node_services import Runtimes
from holdfast.node.agent.pod_devices import ContainerDevices, NotPrepared
from holdfast.node.agent.runtime import Runtime
from holdfast.node.kubelet_api import PLUGINS_DIRECTORY, REGISTRY_DIRECTORY
from holdfast.runtime.errors import HoldfastError


class SimulatedClaims:
    """Passes pods that need a driver on to the drivers' ``DeviceProvider``."""

    def __init__(
        self, claims: ClaimManager, client: Client, directory: Path, runtimes: Runtimes
    ) -> None:
        self._claims = claims
        self._live = LiveClaims(client)
        self._directory = directory
        self._runtimes = runtimes

    async def prepare(self, pod: Pod) -> None:
        """Prepare the claims of a pod, or only check them; raise NotPrepared."""
        if self._has_processes(pod) or any(map(self._has_files, await self._drivers(pod))):
            await self._claims.prepare(pod)

    def resume(self, pod: Pod) -> None:
        """Take over a pod that an earlier agent has started."""
        processes = self._has_processes(pod)
        self._claims.resume(pod, lambda driver: processes or self._has_files(driver))

    def container_devices(self, pod: Pod, container: str) -> ContainerDevices:
        """Return the devices of a container of a prepared pod; none if no driver was called."""
        try:
            return self._claims.container_devices(pod, container)
        except NotPrepared:
            if self._has_processes(pod):
                raise
            return ContainerDevices()

    async def before_start(self, pod: Pod, container: str) -> None:
        """Do nothing, as for other claims."""

    async def unprepare(self, pod: Pod) -> None:
        """Release the claims of a pod whose containers have stopped; raise NotPrepared."""
        await self._claims.unprepare(pod)

    def _has_processes(self, pod: Pod) -> bool:
        runtime = self._runtimes.choose(pod)
        return isinstance(runtime, Runtime) and runtime.real

    async def _drivers(self, pod: Pod) -> set[str]:
        """Check the claims of a pod and return their drivers; raise NotPrepared."""
        try:
            live = [await self._live.usable(pod, needed) for needed in needed_claims(pod)]
        except (HoldfastError, InvalidEntries) as error:
            raise not_prepared(error) from error
        return {driver for claim in live for driver in claim_info_of(claim).drivers}

    def _has_files(self, driver: str) -> bool:
        """Return whether a driver has a directory, or a socket for its registration."""
        if not driver or "/" in driver:
            return False
        registry = self._directory / REGISTRY_DIRECTORY
        named = registry.is_dir() and any(p.name.startswith(driver) for p in registry.iterdir())
        return named or (self._directory / PLUGINS_DIRECTORY / driver).exists()

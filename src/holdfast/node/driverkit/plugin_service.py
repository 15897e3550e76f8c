"""Serve a driver to the kubelet: registration and DRAPlugin, on Unix sockets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio

from holdfast.node.driverkit.checkpoint import PreparedClaim
from holdfast.node.driverkit.claims import AllocatedDevice
from holdfast.node.driverkit.preparation import ClaimPreparation
from holdfast.node.kubelet_api import (
    DRA_PLUGIN,
    DRA_V1,
    DRA_V1BETA1,
    LONGEST_SOCKET_PATH,
    dra_v1_pb2,
    dra_v1_pb2_grpc,
    dra_v1beta1_pb2,
    dra_v1beta1_pb2_grpc,
    plugin_registration_pb2,
    plugin_registration_pb2_grpc,
)
from holdfast.runtime.errors import BadConfiguration, HoldfastError

STOP_SECONDS = 5.0
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NodeService:
    """A service of a driver's socket, besides DRAPlugin."""

    version: str
    """The version with which it is registered."""
    add_to: Callable[[grpc.aio.Server], None]


class PluginSockets:
    """The two sockets of a driver: ``dra.sock`` in its own directory and one for registration."""

    def __init__(self, driver: str, registry_dir: Path, plugin_dir: Path) -> None:
        self._driver = driver
        self._dra = (plugin_dir / "dra.sock").absolute()
        self._registration = (registry_dir / f"{driver}-reg.sock").absolute()
        self._servers: list[grpc.aio.Server] = []
        for path in (self._dra, self._registration):
            if len(str(path).encode()) > LONGEST_SOCKET_PATH:
                raise BadConfiguration(
                    f"the path of the socket {path} is longer than {LONGEST_SOCKET_PATH} bytes: "
                    "choose a shorter directory with --kubelet-dir"
                )

    async def start(
        self,
        preparation: ClaimPreparation,
        on_status: Callable[[bool, str], None],
        services: Sequence[NodeService] = (),
    ) -> None:
        """Serve; the registration socket is created last, when calls can be answered."""
        dra = grpc.aio.server()
        dra_v1_pb2_grpc.add_DRAPluginServicer_to_server(_DraPlugin(dra_v1_pb2, preparation), dra)
        dra_v1beta1_pb2_grpc.add_DRAPluginServicer_to_server(
            _DraPlugin(dra_v1beta1_pb2, preparation), dra
        )
        for each in services:
            each.add_to(dra)
        await self._serve(dra, self._dra)
        registration = grpc.aio.server()
        versions = [DRA_V1, DRA_V1BETA1, *(each.version for each in services)]
        service = _Registration(self._driver, str(self._dra), versions, on_status)
        plugin_registration_pb2_grpc.add_RegistrationServicer_to_server(service, registration)
        await self._serve(registration, self._registration)

    async def stop(self, grace: float = STOP_SECONDS) -> None:
        """Stop serving and remove the sockets; the registration first, so that no new call arrives.

        Running calls have ``grace`` seconds to end.
        """
        self._registration.unlink(missing_ok=True)
        for server in reversed(self._servers):
            await server.stop(grace)
        self._dra.unlink(missing_ok=True)

    async def _serve(self, server: grpc.aio.Server, path: Path) -> None:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # of a process that was killed
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        self._servers.append(server)


class _Registration(plugin_registration_pb2_grpc.RegistrationServicer):
    """Tells the kubelet what this plugin is."""

    def __init__(
        self,
        driver: str,
        endpoint: str,
        versions: list[str],
        on_status: Callable[[bool, str], None],
    ) -> None:
        self._info = plugin_registration_pb2.PluginInfo(
            type=DRA_PLUGIN,
            name=driver,
            endpoint=endpoint,
            supported_versions=versions,
        )
        self._on_status = on_status

    async def GetInfo(
        self, request: plugin_registration_pb2.InfoRequest, context: Any
    ) -> plugin_registration_pb2.PluginInfo:
        return self._info

    async def NotifyRegistrationStatus(
        self, request: plugin_registration_pb2.RegistrationStatus, context: Any
    ) -> plugin_registration_pb2.RegistrationStatusResponse:
        self._on_status(request.plugin_registered, request.error)
        return plugin_registration_pb2.RegistrationStatusResponse()


class _DraPlugin(dra_v1_pb2_grpc.DRAPluginServicer, dra_v1beta1_pb2_grpc.DRAPluginServicer):
    """Prepares and unprepares the claims of a request; each has its own error.

    ``messages`` are those of v1 or v1beta1, which have the same fields.
    """

    def __init__(self, messages: Any, preparation: ClaimPreparation) -> None:
        self._messages = messages
        self._preparation = preparation

    async def NodePrepareResources(self, request: Any, context: Any) -> Any:
        answers = {}
        for claim in request.claims:
            try:
                prepared = await self._preparation.prepare(claim.namespace, claim.name, claim.uid)
            except HoldfastError as error:
                log.warning("prepare %s/%s: %s", claim.namespace, claim.name, error)
                answers[claim.uid] = self._messages.NodePrepareResourceResponse(error=str(error))
            else:
                answers[claim.uid] = self._messages.NodePrepareResourceResponse(
                    devices=self._devices(prepared)
                )
        return self._messages.NodePrepareResourcesResponse(claims=answers)

    async def NodeUnprepareResources(self, request: Any, context: Any) -> Any:
        answers = {}
        for claim in request.claims:
            answers[claim.uid] = self._messages.NodeUnprepareResourceResponse()
            try:
                await self._preparation.unprepare(claim.uid)
            except HoldfastError as error:
                log.warning("unprepare %s/%s: %s", claim.namespace, claim.name, error)
                answers[claim.uid].error = str(error)
        return self._messages.NodeUnprepareResourcesResponse(claims=answers)

    def _devices(self, prepared: PreparedClaim) -> list[Any]:
        return [
            self._messages.Device(
                request_names=[device.request],
                pool_name=device.pool,
                device_name=device.name,
                cdi_device_ids=ids,
                **self._share(device),
            )
            for device, ids in zip(prepared.devices, prepared.cdi_ids, strict=True)
        ]

    def _share(self, device: AllocatedDevice) -> dict[str, str]:
        """Return the share of a device; v1beta1 has no field for it."""
        known = "share_id" in self._messages.Device.DESCRIPTOR.fields_by_name
        return {"share_id": device.share_id} if known and device.share_id else {}

"""A device plugin on real sockets, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import grpc
import grpc.aio

from holdfast.node.kubelet_api import (
    DEVICE_PLUGIN,
    DEVICE_PLUGIN_VERSION,
    HEALTHY,
    UNHEALTHY,
    device_plugin_pb2,
    device_plugin_pb2_grpc,
    plugin_registration_pb2,
    plugin_registration_pb2_grpc,
)


class DevicePluginServer(device_plugin_pb2_grpc.DevicePluginServicer):
    """Serves ``devices`` (name: healthy) of one resource from ``directory/device-plugins``.

    With ``cdi`` it answers with CDI names too, for which it writes no files.
    """

    def __init__(
        self,
        directory: Path,
        resource: str = "example.com/gpu",
        devices: int = 2,
        *,
        cdi: bool = True,
    ) -> None:
        self.cdi = cdi
        self.resource = resource
        self.devices = {f"gpu-{number}": True for number in range(devices)}
        self.options = device_plugin_pb2.DevicePluginOptions()
        self.socket = directory / "device-plugins" / f"{resource.rpartition('/')[2]}.sock"
        self.kubelet = directory / "device-plugins" / "kubelet.sock"
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        self.prefer: list[str] = []
        self.before_allocate: Callable[[], asyncio.Future | None] = lambda: None
        self._changed = asyncio.Event()
        self._server: grpc.aio.Server | None = None

    async def __aenter__(self) -> DevicePluginServer:
        await self.serve()
        await self.register()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def serve(self) -> None:
        """Listen on the plugin's socket."""
        self.socket.parent.mkdir(parents=True, exist_ok=True)
        self.socket.unlink(missing_ok=True)
        self._server = grpc.aio.server()
        device_plugin_pb2_grpc.add_DevicePluginServicer_to_server(self, self._server)
        plugin_registration_pb2_grpc.add_RegistrationServicer_to_server(
            _Registration(self), self._server
        )
        self._server.add_insecure_port(f"unix:{self.socket}")
        await self._server.start()

    async def register(self, **changes: str) -> None:
        """Register at the node's ``kubelet.sock``."""
        async with grpc.aio.insecure_channel(f"unix:{self.kubelet}") as channel:
            fields = {
                "version": DEVICE_PLUGIN_VERSION,
                "endpoint": self.socket.name,
                "resource_name": self.resource,
            }
            request = device_plugin_pb2.RegisterRequest(**fields | changes)
            stub = device_plugin_pb2_grpc.RegistrationStub(channel)
            await stub.Register(request, wait_for_ready=True, timeout=30)

    async def stop(self) -> None:
        """End at once."""
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(None)
        self.socket.unlink(missing_ok=True)

    def set_devices(self, **devices: bool) -> None:
        """Tell other devices, or another health."""
        self.devices = {name.replace("_", "-"): healthy for name, healthy in devices.items()}
        self._changed.set()

    async def GetDevicePluginOptions(self, request, context):
        return self.options

    async def ListAndWatch(self, request, context):
        while True:
            self._changed.clear()
            yield device_plugin_pb2.ListAndWatchResponse(
                devices=[
                    device_plugin_pb2.Device(ID=name, health=HEALTHY if healthy else UNHEALTHY)
                    for name, healthy in self.devices.items()
                ]
            )
            await self._changed.wait()

    async def GetPreferredAllocation(self, request, context):
        (wanted,) = request.container_requests
        self.calls.append(("prefer", tuple(wanted.available_deviceIDs)))
        chosen = device_plugin_pb2.ContainerPreferredAllocationResponse(deviceIDs=self.prefer)
        return device_plugin_pb2.PreferredAllocationResponse(container_responses=[chosen])

    async def Allocate(self, request, context):
        (wanted,) = request.container_requests
        self.calls.append(("allocate", tuple(wanted.devices_ids)))
        if (waiting := self.before_allocate()) is not None:
            await waiting
        listed = ",".join(wanted.devices_ids)
        answer = device_plugin_pb2.ContainerAllocateResponse(
            envs={"GPUS": listed},
            annotations={"example.com/gpus": listed},
            mounts=[device_plugin_pb2.Mount(container_path="/usr/lib/gpu", host_path="/gpu")],
            devices=[
                device_plugin_pb2.DeviceSpec(container_path=f"/dev/{each}", host_path="/dev/null")
                for each in wanted.devices_ids
            ],
            cdi_devices=[
                device_plugin_pb2.CDIDevice(name=f"{self.resource}={each}")
                for each in wanted.devices_ids
                if self.cdi
            ],
        )
        return device_plugin_pb2.AllocateResponse(container_responses=[answer])

    async def PreStartContainer(self, request, context):
        self.calls.append(("start", tuple(request.devices_ids)))
        return device_plugin_pb2.PreStartContainerResponse()


class _Registration(plugin_registration_pb2_grpc.RegistrationServicer):
    def __init__(self, plugin: DevicePluginServer) -> None:
        self._plugin = plugin

    async def GetInfo(self, request, context):
        return plugin_registration_pb2.PluginInfo(
            type=DEVICE_PLUGIN,
            name=self._plugin.resource,
            supported_versions=[DEVICE_PLUGIN_VERSION],
        )

    async def NotifyRegistrationStatus(self, request, context):
        return plugin_registration_pb2.RegistrationStatusResponse()

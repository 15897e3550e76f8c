"""The device plugins of a node: their registration, their devices, and the calls to them."""

from __future__ import annotations

import asyncio
import logging
import socket
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import grpc
import grpc.aio

from holdfast.api.resource_names import is_extended
from holdfast.node.agent.plugin_registry import PluginInfo, RegistrationRefused
from holdfast.node.agent.plugin_sockets import (
    CallFailed,
    Request,
    Response,
    call,
    failure_text,
    open_channel,
    shortened,
)
from holdfast.node.kubelet_api import DEVICE_PLUGIN_VERSION, HEALTHY, KUBELET_SOCKET
from holdfast.node.kubelet_api import device_plugin_pb2 as messages
from holdfast.node.kubelet_api.calls import UnaryCall
from holdfast.node.kubelet_api.device_plugin_pb2_grpc import (
    DevicePluginStub,
    RegistrationServicer,
    add_RegistrationServicer_to_server,
)
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import Refused

log = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0
CALL_SECONDS = 45.0
PRE_START_SECONDS = 30.0
GONE_SECONDS = 300.0
"""How long a resource is kept, without usable devices, after its plugin is gone."""


@dataclass(frozen=True, slots=True)
class DeviceCount:
    """Devices of one resource: all, and those that pods can use."""

    capacity: int = 0
    allocatable: int = 0


class DevicePlugin:
    """One device plugin, connected."""

    def __init__(self, resource: str, path: str) -> None:
        self.resource = resource
        self.path = path
        self.options: messages.DevicePluginOptions | None = None
        """None: the plugin was not asked yet."""
        self.calls = 0
        """Calls in progress, without the stream of devices."""
        self._channel = open_channel(path)
        self._stub = DevicePluginStub(self._channel)

    async def connect(self) -> None:
        """Ask for the plugin's options, once; raises CallFailed."""
        if self.options is None:
            options = self._stub.GetDevicePluginOptions
            self.options = await self._call(options, messages.Empty(), CONNECT_SECONDS, wait=True)

    async def follow(self, changed: Callable[[Mapping[str, bool]], None]) -> str:
        """Report devices and their health until the stream ends; return why it ended."""
        try:
            async for response in self._stub.ListAndWatch(messages.Empty()):
                if response is None:  # what grpc returns for bytes that it cannot read
                    return "its list of devices cannot be read"
                changed({device.ID: device.health == HEALTHY for device in response.devices})
        except grpc.aio.AioRpcError as error:
            return failure_text(error)
        except grpc.aio.BaseError as error:  # the channel was closed
            return str(error)
        return "the plugin ended the stream"

    async def preferred(
        self, available: Sequence[str], required: Sequence[str], size: int
    ) -> Sequence[str]:
        """Return which devices the plugin would choose; () if it has no preference."""
        if self.options is None or not self.options.get_preferred_allocation_available:
            return ()
        wanted = messages.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=required, allocation_size=size
        )
        request = messages.PreferredAllocationRequest(container_requests=[wanted])
        response = await self._call(self._stub.GetPreferredAllocation, request)
        responses = response.container_responses
        return list(responses[0].deviceIDs) if responses else ()

    async def allocate(self, devices: Sequence[str]) -> messages.ContainerAllocateResponse:
        """Return what a container needs to use its devices; raises CallFailed."""
        wanted = messages.ContainerAllocateRequest(devices_ids=devices)
        request = messages.AllocateRequest(container_requests=[wanted])
        response = await self._call(self._stub.Allocate, request)
        if not response.container_responses:
            raise CallFailed(f"the device plugin of {self.resource} answered for no container")
        answer: messages.ContainerAllocateResponse = response.container_responses[0]
        return answer

    async def before_start(self, devices: Sequence[str]) -> None:
        """Notify a plugin that requires it that a container with devices starts."""
        if self.options is not None and self.options.pre_start_required:
            request = messages.PreStartContainerRequest(devices_ids=devices)
            await self._call(self._stub.PreStartContainer, request, PRE_START_SECONDS)

    async def close(self, grace: float | None = None) -> None:
        """Close the channel; running calls have ``grace`` seconds to end."""
        await self._channel.close(grace)

    async def _call(
        self,
        method: UnaryCall[Request, Response],
        request: Request,
        seconds: float = CALL_SECONDS,
        *,
        wait: bool = False,
    ) -> Response:
        self.calls += 1
        try:
            return await call(method, request, seconds, wait=wait)
        except CallFailed as error:
            raise CallFailed(f"the device plugin of {self.resource}: {error}") from error
        finally:
            self.calls -= 1


@dataclass(slots=True)
class PluginResource:
    """A resource of a device plugin that is registered, or was until recently."""

    devices: dict[str, bool] = field(default_factory=dict)
    """Whether each device is healthy."""
    plugin: DevicePlugin | None = None

    @property
    def healthy(self) -> set[str]:
        """The devices that pods can use."""
        return {device for device, healthy in self.devices.items() if healthy}


class DevicePlugins(RegistrationServicer):
    """Serves Registration on ``kubelet.sock`` and follows the plugins that register.

    Raises Refused if a kubelet or another agent serves there: its plugins would lose it.
    ``changed`` gets the devices of all resources whenever one changes; a resource whose plugin is
    gone for good has none. ``known`` are the resources from before a restart.
    """

    def __init__(
        self,
        directory: Path,
        clock: Clock,
        changed: Callable[[Mapping[str, DeviceCount]], None],
        known: Sequence[str] = (),
    ) -> None:
        if _is_served(directory / KUBELET_SOCKET):
            raise Refused(
                f"a kubelet or another agent serves {directory / KUBELET_SOCKET}: stop it, or "
                "choose another directory with --kubelet-dir NODE=DIR"
            )
        self.resources: dict[str, PluginResource] = {name: PluginResource() for name in known}
        self._directory = directory
        self._clock = clock
        self._changed = changed
        self._server: grpc.aio.Server | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """By resource: the task that follows its plugin, or that waits to forget the resource."""
        self._closing: set[asyncio.Task[None]] = set()
        self._forgotten: set[str] = set()

    @property
    def busy(self) -> bool:
        """Whether a plugin is being called."""
        return any(each.plugin and each.plugin.calls for each in self.resources.values())

    async def start(self) -> None:
        """Serve Registration; old sockets are removed, so that plugins register again."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for path in self._directory.iterdir():
            with suppress(FileNotFoundError):
                if stat.S_ISSOCK(path.lstat().st_mode):
                    path.unlink()
        server = grpc.aio.server()
        add_RegistrationServicer_to_server(self, server)
        path = self._directory / KUBELET_SOCKET
        try:
            server.add_insecure_port(f"unix:{path}")
        except RuntimeError as error:
            raise Refused(f"cannot listen on {path}: {error}") from None
        await server.start()
        self._server = server
        for name in self.resources:
            self._set_task(name, self._forget(name))
        if self.resources:
            self._tell()

    async def close(self) -> None:
        """Stop serving and following."""
        tasks = [*self._tasks.values(), *self._closing]
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        plugins = [each.plugin for each in self.resources.values() if each.plugin]
        await asyncio.gather(*(plugin.close() for plugin in plugins))
        if self._server is not None:
            await self._server.stop(None)

    async def Register(self, request: messages.RegisterRequest, context: Any) -> messages.Empty:
        """Register a plugin that calls ``kubelet.sock``; it is called before the response."""
        name, endpoint = request.resource_name, PurePosixPath(request.endpoint)
        if not request.endpoint or endpoint.is_absolute() or ".." in endpoint.parts:
            why = f"the endpoint {request.endpoint!r} is not the name of a socket next to this one"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, shortened(why))
        try:
            _check(name, (request.version,))
            plugin = DevicePlugin(name, str(self._directory / endpoint))
            try:
                await plugin.connect()
            except BaseException:
                await plugin.close()
                raise
        except RegistrationRefused as refused:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(refused))
        except CallFailed as failed:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(failed))
        self._add(plugin)
        return messages.Empty()

    def register(self, plugin: PluginInfo) -> None:
        """Register a plugin of ``plugins_registry/``; raise RegistrationRefused."""
        _check(plugin.name, plugin.versions)
        self._add(DevicePlugin(plugin.name, plugin.endpoint))

    def deregister(self, plugin: PluginInfo) -> None:
        """Forget a plugin whose socket in ``plugins_registry/`` is gone."""
        resource = self.resources.get(plugin.name)
        if resource is not None and resource.plugin and resource.plugin.path == plugin.endpoint:
            self._disconnect(plugin.name, resource.plugin)

    def _add(self, plugin: DevicePlugin) -> None:
        """Follow a plugin from now on; stop following an earlier plugin of its resource."""
        resource = self.resources.setdefault(plugin.resource, PluginResource())
        if resource.plugin is not None:
            self._close(resource.plugin)
        resource.plugin = plugin
        self._forgotten.discard(plugin.resource)
        self._set_task(plugin.resource, self._follow(plugin))
        log.info("device plugin of %s registered at %s", plugin.resource, plugin.path)

    async def _follow(self, plugin: DevicePlugin) -> None:
        def changed(devices: Mapping[str, bool]) -> None:
            self.resources[plugin.resource].devices = dict(devices)
            self._tell()

        try:
            await plugin.connect()
            why = await plugin.follow(changed)
        except CallFailed as failed:
            why = str(failed)
        log.warning("device plugin of %s is gone: %s", plugin.resource, why)
        self._disconnect(plugin.resource, plugin)

    def _disconnect(self, name: str, plugin: DevicePlugin) -> None:
        resource = self.resources[name]
        if resource.plugin is plugin:
            resource.plugin = None
            resource.devices = dict.fromkeys(resource.devices, False)
            self._close(plugin)
            self._set_task(name, self._forget(name))
            self._tell()

    async def _forget(self, name: str) -> None:
        await self._clock.sleep(GONE_SECONDS)
        del self.resources[name], self._tasks[name]
        self._forgotten.add(name)
        self._tell()

    def _set_task(self, name: str, work: Any) -> None:
        if (old := self._tasks.get(name)) is not None and old is not asyncio.current_task():
            old.cancel()
        self._tasks[name] = asyncio.create_task(work, name=f"device plugin of {name}")

    def _close(self, plugin: DevicePlugin) -> None:
        closing = asyncio.create_task(plugin.close(CALL_SECONDS))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _tell(self) -> None:
        gone = dict.fromkeys(self._forgotten, DeviceCount())
        self._changed(
            gone
            | {
                name: DeviceCount(len(each.devices), len(each.healthy))
                for name, each in self.resources.items()
            }
        )


def _is_served(path: Path) -> bool:
    """Return whether a process listens on a socket; a killed process leaves only the file."""
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)
        try:
            client.connect(str(path))
        except BlockingIOError:  # its queue is full: it listens
            return True
        except OSError:
            return False
    return True


def _check(resource: str, versions: Sequence[str]) -> None:
    if DEVICE_PLUGIN_VERSION not in versions:
        listed = shortened(", ".join(versions))
        raise RegistrationRefused(
            f"the device plugin API {listed!r} is not supported, only {DEVICE_PLUGIN_VERSION}"
        )
    if not is_extended(resource):
        raise RegistrationRefused(
            f"{shortened(resource)!r} is not the name of an extended resource, such as "
            "example.com/gpu"
        )

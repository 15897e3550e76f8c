"""Plugins that put a socket into ``plugins_registry/``: found, asked, registered, deregistered.

The directory is polled rather than watched by inotify: this takes a few microseconds twice a
second, works the same on every file system, and no event can be lost.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from holdfast.client.backoff import Backoff
from holdfast.node.agent.plugin_sockets import CallFailed, call, open_channel
from holdfast.node.kubelet_api import plugin_registration_pb2 as messages
from holdfast.node.kubelet_api.plugin_registration_pb2_grpc import RegistrationStub
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import HoldfastError
from holdfast.runtime.repeated_log import Repeats

log = logging.getLogger(__name__)

SCAN_SECONDS = 0.5
CALL_SECONDS = 5.0
"""Deadline of GetInfo and of NotifyRegistrationStatus."""
_RETRY = Backoff(0.5, 120.0)
_AT_ONCE = 64
"""Sockets that are called at the same time; one that does not answer delays only itself."""

_Identity = tuple[int, int, int]


class RegistrationRefused(HoldfastError):
    """A plugin cannot be registered; the message is sent to it."""


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """A plugin's description of itself."""

    type: str
    name: str
    endpoint: str
    """Path of the socket that serves it."""
    versions: tuple[str, ...] = ()
    """In the order that the plugin prefers."""


class PluginHandler(Protocol):
    """Registers the plugins of one type."""

    def register(self, plugin: PluginInfo) -> None:
        """Use a plugin from now on; raise RegistrationRefused."""

    def deregister(self, plugin: PluginInfo) -> None:
        """Stop using a registered plugin."""


@dataclass(slots=True)
class _Socket:
    identity: _Identity
    registering: asyncio.Task[None]
    registered: tuple[PluginHandler, PluginInfo] | None = None


class PluginRegistry:
    """Registers the plugins of a directory with the handlers of their types."""

    def __init__(
        self,
        directory: Path,
        handlers: Mapping[str, PluginHandler],
        clock: Clock,
        *,
        call_seconds: float = CALL_SECONDS,
    ) -> None:
        self._directory = directory
        self._handlers = handlers
        self._clock = clock
        self._call_seconds = call_seconds
        self._sockets: dict[str, _Socket] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._repeats = Repeats(now=clock.monotonic)
        self._calls = 0

    async def run(self) -> None:
        """Follow the directory until cancelled; then forget all plugins without notifying them."""
        self._directory.mkdir(parents=True, exist_ok=True)
        try:
            while True:
                self.scan()
                await self._clock.sleep(SCAN_SECONDS)
        finally:
            await self._stop()

    @property
    def busy(self) -> bool:
        """Whether a plugin is being called."""
        return self._calls > 0

    def scan(self) -> None:
        """Compare the directory with the known sockets; start and end registrations."""
        identities = dict(_sockets(self._directory))
        for path, known in list(self._sockets.items()):
            if identities.get(path) != known.identity:
                del self._sockets[path]
                known.registering.cancel()
                if known.registered is not None:
                    handler, plugin = known.registered
                    handler.deregister(plugin)
                    log.info("deregistered %s %s at %s", plugin.type, plugin.name, path)
        for path, identity in identities.items():
            if path not in self._sockets:
                task = asyncio.create_task(self._keep_trying(path), name=f"register {path}")
                self._sockets[path] = _Socket(identity, task)

    async def _keep_trying(self, path: str) -> None:
        failures = 0
        while True:
            try:
                async with self._slots:
                    self._calls += 1
                    try:
                        await self._register(path)
                    finally:
                        self._calls -= 1
                return
            except (RegistrationRefused, CallFailed) as error:
                self._repeats.log(log, logging.WARNING, f"cannot register {path}: {error}")
            failures += 1
            await self._clock.sleep(_RETRY.delay(failures))

    async def _register(self, path: str) -> None:
        async with open_channel(path) as channel:
            registration = RegistrationStub(channel)
            notify = registration.NotifyRegistrationStatus
            info = await call(registration.GetInfo, messages.InfoRequest(), self._call_seconds)
            versions = tuple(info.supported_versions)
            plugin = PluginInfo(info.type, info.name, info.endpoint or path, versions)
            status = messages.RegistrationStatus(plugin_registered=True)
            try:
                handler = self._handler(plugin)
                handler.register(plugin)
            except RegistrationRefused as refused:
                status = messages.RegistrationStatus(error=str(refused))
                await call(notify, status, self._call_seconds)
                raise
            # From here on the socket's removal deregisters, even while the plugin is being
            # notified.
            self._sockets[path].registered = handler, plugin
            log.info("registered %s %s at %s", plugin.type, plugin.name, path)
            try:
                await call(notify, status, self._call_seconds)
            except CallFailed:
                self._sockets[path].registered = None
                handler.deregister(plugin)
                raise

    def _handler(self, plugin: PluginInfo) -> PluginHandler:
        handler = self._handlers.get(plugin.type)
        if handler is None:
            known = ", ".join(sorted(self._handlers))
            raise RegistrationRefused(
                f"plugins of type {plugin.type!r} are not supported; supported are {known}"
            )
        if not plugin.name:
            raise RegistrationRefused("the plugin has no name")
        if not os.path.isabs(plugin.endpoint):
            raise RegistrationRefused(f"the endpoint {plugin.endpoint!r} is not an absolute path")
        return handler

    async def _stop(self) -> None:
        tasks = [known.registering for known in self._sockets.values()]
        self._sockets.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _sockets(directory: Path) -> Iterator[tuple[str, _Identity]]:
    """Find the sockets below a directory; hidden names and linked directories are left out.

    A new socket under the same path has another identity: its plugin was restarted.
    """
    waiting = [str(directory)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                listed = [entry for entry in entries if not entry.name.startswith(".")]
        except OSError as error:  # removed since, or not readable: no plugin is reachable there
            log.debug("cannot read a directory of plugins: %s", error)
            continue
        for entry in listed:
            try:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                    continue
                status = entry.stat()
            except OSError:  # removed since, or a link to nothing
                continue
            if stat.S_ISSOCK(status.st_mode):
                yield entry.path, (status.st_dev, status.st_ino, status.st_mtime_ns)

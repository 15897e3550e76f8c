"""Allocate devices of device plugins to the containers of pods, and free them; checkpointed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from holdfast.api.pod import Container, Pod
from holdfast.api.quantity import units
from holdfast.node.agent.checkpoint_file import CheckpointFile, read_checkpoint
from holdfast.node.agent.device_plugins import DeviceCount, DevicePlugin, DevicePlugins
from holdfast.node.agent.plugin_registry import PluginHandler
from holdfast.node.agent.pod_devices import ContainerDevices, NotPrepared
from holdfast.node.kubelet_api import DEVICE_PLUGIN, DEVICE_PLUGINS_DIRECTORY
from holdfast.node.kubelet_api import device_plugin_pb2 as messages
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import HoldfastError

log = logging.getLogger(__name__)

DEVICE_CHECKPOINT = "kubelet_internal_checkpoint"


class _Unavailable(HoldfastError):
    """A container cannot get its devices; the message says why."""


@dataclass(slots=True)
class _Allocation:
    """Devices of one resource for one container."""

    pod: str
    container: str
    resource: str
    devices: tuple[str, ...]
    response: messages.ContainerAllocateResponse | None = None
    """None while the plugin is being called."""


class _Entry(msgspec.Struct):
    PodUID: str
    ContainerName: str
    ResourceName: str
    DeviceIDs: dict[str, list[str]]
    """By NUMA node; all are under -1, because topology is not used."""
    AllocResp: bytes


class _Checkpoint(msgspec.Struct):
    PodDeviceEntries: list[_Entry] | None = None
    RegisteredDevices: dict[str, list[str]] | None = None


class DeviceManager:
    """Implements ``DeviceProvider`` with the device plugins of one node.

    ``counts_changed`` gets the devices of all resources, for the node's capacity and allocatable.
    ``active_pods`` returns the uids of the pods that are not terminated; None while they are not
    known yet. Raises BadConfiguration if the checkpoint is damaged.
    """

    def __init__(
        self,
        directory: Path,
        clock: Clock,
        active_pods: Callable[[], Collection[str] | None],
        counts_changed: Callable[[Mapping[str, DeviceCount]], None],
        *,
        reset_checkpoint: bool = False,
    ) -> None:
        path = directory / DEVICE_CHECKPOINT
        stored = (None if reset_checkpoint else read_checkpoint(path, _Checkpoint)) or _Checkpoint()
        self._allocations = [_restored(entry) for entry in stored.PodDeviceEntries or ()]
        self._active_pods = active_pods
        self._counts_changed = counts_changed
        self._file = CheckpointFile(path, self._snapshot)
        self._resources_changed = asyncio.Event()
        self._plugins = DevicePlugins(
            directory / DEVICE_PLUGINS_DIRECTORY, clock, self._changed,
            tuple(stored.RegisteredDevices or ()),
        )  # fmt: skip
        self._stored_resources = set(self._plugins.resources)

    @property
    def handlers(self) -> Mapping[str, PluginHandler]:
        """The handlers with which the plugin registry registers device plugins here."""
        return {DEVICE_PLUGIN: self._plugins}

    @property
    def busy(self) -> bool:
        """Whether a plugin is being called or the checkpoint is being written."""
        return self._plugins.busy or self._file.busy

    async def run(self) -> None:
        """Serve the registration of plugins until cancelled."""
        try:
            await self._plugins.start()
            while True:
                await self._resources_changed.wait()
                self._resources_changed.clear()
                await self._save_quietly()
        finally:
            await self._plugins.close()

    async def prepare(self, pod: Pod) -> None:
        """Choose and allocate the devices of a pod's containers; raise NotPrepared.

        A pod without enough devices has failed for good: no scheduler would place it here.
        """
        before = len(self._allocations)
        try:
            reusable: dict[str, set[str]] = {}
            for container, ends in _containers(pod):
                for resource, amount in self._wanted(pod, container):
                    free = reusable.setdefault(resource, set())
                    used = await self._allocate(pod.uid, container.name, resource, amount, free)
                    # The devices of an init container are free again for later containers.
                    reusable[resource] = free.union(used) if ends else free.difference(used)
            if len(self._allocations) != before:
                await self._file.save()
        except (HoldfastError, OSError) as error:
            raise NotPrepared(
                f"Allocate failed due to {error}, which is unexpected",
                "UnexpectedAdmissionError",
                permanent=True,
            ) from error

    def container_devices(self, pod: Pod, container: str) -> ContainerDevices:
        """Return the plugins' answers for a container; of two equal keys the first counts."""
        env: dict[str, str] = {}
        annotations: dict[str, str] = {}
        cdi: list[str] = []
        mounts: list[str] = []
        nodes: list[str] = []
        for each in sorted(self._allocations, key=lambda each: each.resource):
            if (each.pod, each.container) == (pod.uid, container) and each.response is not None:
                response = each.response
                env = {**response.envs, **env}
                annotations = {**response.annotations, **annotations}
                cdi += [device.name for device in response.cdi_devices]
                mounts += [mount.container_path for mount in response.mounts]
                nodes += [device.container_path for device in response.devices]
        return ContainerDevices(
            tuple(dict.fromkeys(cdi)), env, annotations,
            tuple(dict.fromkeys(mounts)), tuple(dict.fromkeys(nodes)),
        )  # fmt: skip

    def resume(self, pod: Pod) -> None:
        """Do nothing: only the checkpoint records which devices a container has."""

    async def before_start(self, pod: Pod, container: str) -> None:
        """Tell plugins that ask for it that a container starts; raise NotPrepared."""
        for each in self._allocations:
            if (each.pod, each.container) != (pod.uid, container):
                continue
            try:
                await self._plugin(each.resource).before_start(each.devices)
            except HoldfastError as error:
                raise NotPrepared(str(error), "FailedPreStartContainer") from error

    async def unprepare(self, pod: Pod) -> None:
        """Free the devices of a pod whose containers have stopped."""
        if self._drop(lambda each: each.pod == pod.uid) or self._file.stale:
            await self._save_quietly()

    def _wanted(self, pod: Pod, container: Container) -> Iterator[tuple[str, int]]:
        """List the resources of device plugins that a container requests and does not have yet.

        Resources that a claim serves (KEP-5004) are left to its driver.
        """
        special = pod.status.extended_resource_claim_status
        served = {
            mapping.resource_name
            for mapping in (special.request_mappings if special else ())
            if mapping.container_name == container.name
        }
        used = {each.resource for each in self._allocations}
        for resource, text in sorted(container.resources.limits.items()):
            known = resource in self._plugins.resources or resource in used
            if known and resource not in served and (amount := units(text)) > 0:
                yield resource, amount

    async def _allocate(
        self, pod: str, container: str, resource: str, amount: int, reusable: Collection[str]
    ) -> tuple[str, ...]:
        for each in self._allocations:
            if (each.pod, each.container, each.resource) == (pod, container, resource):
                return each.devices
        self._drop_inactive(pod)
        plugin = self._plugin(resource)
        reused = sorted(reusable)[:amount]
        preferred = await plugin.preferred(
            sorted({*self._available(resource), *reused}), reused, amount
        )
        # Devices may have been allocated to other pods during this call.
        free = self._available(resource)
        if len(free) < amount - len(reused):
            raise _Unavailable(
                f"requested number of devices unavailable for {resource}. "
                f"Requested: {amount - len(reused)}, Available: {len(free)}"
            )
        order = [*reused, *(each for each in preferred if each in free), *sorted(free)]
        allocation = _Allocation(
            pod, container, resource, tuple(list(dict.fromkeys(order))[:amount])
        )
        self._allocations.append(allocation)
        try:
            allocation.response = await plugin.allocate(allocation.devices)
        finally:
            if allocation.response is None:
                self._allocations.remove(allocation)
        return allocation.devices

    def _plugin(self, resource: str) -> DevicePlugin:
        known = self._plugins.resources.get(resource)
        if known is None or known.plugin is None:
            raise _Unavailable(f"no device plugin is registered for {resource}")
        if not known.healthy:
            raise _Unavailable(f"no healthy devices of {resource} are present")
        return known.plugin

    def _available(self, resource: str) -> set[str]:
        known = self._plugins.resources.get(resource)
        used = {
            device
            for each in self._allocations
            if each.resource == resource
            for device in each.devices
        }
        return known.healthy - used if known is not None else set()

    def _drop_inactive(self, pod: str) -> None:
        """Free devices of pods that were deleted by force; checkpointed with the next pod."""
        active = self._active_pods()
        if active is not None:
            kept = {*active, pod}
            self._drop(lambda each: each.pod not in kept)

    def _drop(self, unwanted: Callable[[_Allocation], bool]) -> bool:
        before = len(self._allocations)
        self._allocations = [each for each in self._allocations if not unwanted(each)]
        return len(self._allocations) != before

    def _changed(self, counts: Mapping[str, DeviceCount]) -> None:
        if self._plugins.resources.keys() != self._stored_resources:
            self._stored_resources = set(self._plugins.resources)
            self._resources_changed.set()
        self._counts_changed(counts)

    async def _save_quietly(self) -> None:
        try:
            await self._file.save()
        except OSError as error:
            log.warning("the checkpoint of device plugins is not written: %s", error)

    def _snapshot(self) -> bytes:
        entries = [
            _Entry(
                each.pod, each.container, each.resource, {"-1": list(each.devices)},
                each.response.SerializeToString(),
            )
            for each in self._allocations
            if each.response is not None
        ]  # fmt: skip
        registered = {
            name: sorted(each.devices) for name, each in sorted(self._plugins.resources.items())
        }
        return msgspec.json.encode(_Checkpoint(entries, registered))


def _restored(entry: _Entry) -> _Allocation:
    devices = tuple(device for listed in entry.DeviceIDs.values() for device in listed)
    response = messages.ContainerAllocateResponse.FromString(entry.AllocResp)
    return _Allocation(entry.PodUID, entry.ContainerName, entry.ResourceName, devices, response)


def _containers(pod: Pod) -> Iterator[tuple[Container, bool]]:
    """List containers in order of their start, and whether each ends before the next starts."""
    for container in pod.spec.init_containers:
        yield container, container.restart_policy != "Always"
    for container in pod.spec.containers:
        yield container, False

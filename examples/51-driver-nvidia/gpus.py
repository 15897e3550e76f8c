"""The NVIDIA GPUs of a machine, through NVML (``pip install nvidia-ml-py``)."""

import ctypes
import re
from dataclasses import dataclass
from pathlib import Path

from holdfast.driver import CounterSet, Device, DriverError, Unhealthy, Version

ARCHITECTURES = {7: "Ampere", 8: "Ada", 9: "Hopper", 10: "Blackwell", 13: "Rubin"}
ERRORS_OF_PROGRAMS = {13, 31, 43, 45, 68, 109}
"""XIDs that a faulty program causes, not a faulty GPU."""
ENGINES = ("copyEngine", "decoder", "encoder", "jpeg", "ofa")
SHARED_NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")


def open_nvml():
    """Return the NVML module, ready for calls; DriverError says why there is none."""
    try:
        import pynvml  # noqa: PLC0415 - an optional dependency
    except ImportError:
        raise DriverError(
            "no NVML for Python: install it with `pip install nvidia-ml-py`"
        ) from None
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        raise DriverError(f"no NVIDIA GPU can be used on this machine: {error}") from None
    if not count:
        raise DriverError("no NVIDIA GPU on this machine")
    return pynvml


@dataclass(frozen=True)
class Partition:
    """A MIG profile at one of its places on a GPU."""

    name: str
    gpu: int
    profile: str
    info: object
    start: int
    size: int


class Gpus:
    """Reads GPUs, makes and removes MIG instances; ``root`` is / except in tests."""

    def __init__(self, nvml, root=Path("/")):
        self._nvml = nvml
        self._root = root
        self._failures = {}
        self._handles = [
            nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())
        ]
        self._events = self._optional(self._watch_events)

    def inventory(self):
        """Yield whole GPUs, or the partitions of a GPU in MIG mode with what they share."""
        for index, handle in enumerate(self._handles):
            attributes = self._attributes(index, handle)
            if not self._in_mig_mode(handle):
                memory = self._nvml.nvmlDeviceGetMemoryInfo(handle).total
                amount = {"memory": f"{memory // 2**20}Mi"}
                yield Device(f"gpu-{index}", {"type": "gpu", **attributes}, amount)
                continue
            partitions = list(self._partitions(index, handle))
            yield _counters(index, partitions)
            for part in partitions:
                yield Device(
                    part.name,
                    {**attributes, "type": "mig", "profile": part.profile},
                    {
                        "memory": f"{part.info.memorySizeMB}Mi",
                        "multiprocessors": part.info.multiprocessorCount,
                    },
                    consumes={f"gpu-{index}": _consumption(part)},
                )

    def health(self):
        """Return what is wrong with devices, by name: XIDs since the start, ECC, row remapping."""
        self._read_events()
        reasons = {}
        for index, handle in enumerate(self._handles):
            failure = self._failures.get(self._nvml.nvmlDeviceGetUUID(handle))
            if reason := failure or self._memory_error(handle):
                names = [part.name for part in self._partitions_of(index)] or [f"gpu-{index}"]
                reasons |= dict.fromkeys(names, reason)
        return reasons

    def make_ready(self, name):
        """Return (uuid, device nodes) of a device; a partition is made if it does not exist."""
        index = int(re.match(r"gpu-(\d+)", name)[1])
        if index >= len(self._handles):
            raise DriverError(f"{name} is not there any more")
        handle = self._handles[index]
        minor = self._nvml.nvmlDeviceGetMinorNumber(handle)
        nodes = [f"/dev/nvidia{minor}", *self._existing_nodes()]
        if name == f"gpu-{index}":
            return _text(self._nvml.nvmlDeviceGetUUID(handle)), nodes
        part = self._partition(index, name)
        instance = self._gpu_instance(handle, part) or self._new_gpu_instance(handle, part)
        compute = self._compute_instance(instance) or self._new_compute_instance(instance, part)
        instance_id = self._nvml.nvmlGpuInstanceGetInfo(instance).id
        compute_id = self._nvml.nvmlComputeInstanceGetInfo(compute).id
        uuid = self._mig_uuid(handle, instance_id, compute_id)
        return uuid, nodes + self._mig_nodes(minor, instance_id, compute_id)

    def remove(self, name):
        """Remove the MIG instances of a partition; nothing for a whole GPU."""
        index = int(re.match(r"gpu-(\d+)", name)[1])
        if name == f"gpu-{index}" or index >= len(self._handles):
            return
        instance = self._gpu_instance(self._handles[index], self._partition(index, name))
        if instance is not None:
            compute = self._compute_instance(instance)
            if compute is not None:
                self._nvml.nvmlComputeInstanceDestroy(compute)
            self._nvml.nvmlGpuInstanceDestroy(instance)

    def _attributes(self, index, handle):
        nvml = self._nvml
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
        cuda = nvml.nvmlSystemGetCudaDriverVersion()
        bus = _text(nvml.nvmlDeviceGetPciInfo(handle).busId).lower()[-12:]
        found = {
            "uuid": _text(nvml.nvmlDeviceGetUUID(handle)),
            "productName": _text(nvml.nvmlDeviceGetName(handle))[:64],
            "architecture": ARCHITECTURES.get(
                self._optional(nvml.nvmlDeviceGetArchitecture, handle)
            ),
            "index": index,
            "minor": nvml.nvmlDeviceGetMinorNumber(handle),
            "cudaComputeCapability": _version(f"{major}.{minor}"),
            "driverVersion": _version(_text(nvml.nvmlSystemGetDriverVersion())),
            "cudaDriverVersion": _version(f"{cuda // 1000}.{cuda % 1000 // 10}"),
            "resource.kubernetes.io/pciBusID": bus,
            "resource.kubernetes.io/pcieRoot": self._pcie_root(bus),
            "numaNode": self._numa_node(bus),
        }
        return {key: value for key, value in found.items() if value is not None}

    def _pcie_root(self, bus):
        path = self._root / "sys/bus/pci/devices" / bus
        roots = [part for part in path.resolve().parts if re.fullmatch(r"pci\w{4}:\w{2}", part)]
        return roots[0] if roots else None

    def _numa_node(self, bus):
        try:
            node = int((self._root / "sys/bus/pci/devices" / bus / "numa_node").read_text())
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None

    def _existing_nodes(self):
        return [f"/dev/{name}" for name in SHARED_NODES if (self._root / "dev" / name).exists()]

    def _in_mig_mode(self, handle):
        return bool((self._optional(self._nvml.nvmlDeviceGetMigMode, handle) or [0])[0])

    def _partitions_of(self, index):
        handle = self._handles[index]
        return list(self._partitions(index, handle)) if self._in_mig_mode(handle) else []

    def _partition(self, index, name):
        for part in self._partitions_of(index):
            if part.name == name:
                return part
        raise DriverError(f"GPU {index} has no partition {name}: is it still in MIG mode?")

    def _partitions(self, index, handle):
        nvml = self._nvml
        for number in range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
            info = self._optional(nvml.nvmlDeviceGetGpuInstanceProfileInfo, handle, number)
            if info is None:
                continue  # another model has this profile
            profile = _text(info.name).removeprefix("MIG ")
            places = self._listed(
                nvml.nvmlDeviceGetGpuInstancePossiblePlacements,
                nvml.c_nvmlGpuInstancePlacement_t,
                handle,
                info.id,
            )
            label = re.sub(r"[^a-z0-9]", "", profile.lower())
            for place in places:
                name = f"gpu-{index}-mig-{label}-{place.start}"
                yield Partition(name, index, profile, info, place.start, place.size)

    def _listed(self, function, kind, *arguments):
        """Call a function of NVML that fills an array: first for the number of its items."""
        count = ctypes.c_uint(0)
        function(*arguments, None, ctypes.byref(count))
        items = (kind * count.value)()
        if count.value:
            function(*arguments, items, ctypes.byref(count))
        return list(items[: count.value])

    def _gpu_instance(self, handle, part):
        instances = self._listed_instances(handle, part.info.instanceCount, part.info.id)
        for instance in instances:
            place = self._nvml.nvmlGpuInstanceGetInfo(instance).placement
            if place.start == part.start:
                return instance
        return None

    def _listed_instances(self, handle, most, profile):
        items = (self._nvml.c_nvmlGpuInstance_t * most)()
        count = ctypes.c_uint(most)
        self._nvml.nvmlDeviceGetGpuInstances(handle, profile, items, ctypes.byref(count))
        return list(items[: count.value])

    def _new_gpu_instance(self, handle, part):
        place = self._nvml.c_nvmlGpuInstancePlacement_t(part.start, part.size)
        create = self._nvml.nvmlDeviceCreateGpuInstanceWithPlacement
        try:
            return create(handle, part.info.id, ctypes.byref(place))
        except self._nvml.NVMLError as error:
            raise DriverError(f"the MIG instance {part.name} cannot be made: {error}") from error

    def _compute_profiles(self, instance):
        nvml = self._nvml
        for number in range(nvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
            info = self._optional(
                nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo,
                instance,
                number,
                nvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED,
            )
            if info is not None:
                yield info

    def _compute_instance(self, instance):
        for info in self._compute_profiles(instance):
            items = (self._nvml.c_nvmlComputeInstance_t * info.instanceCount)()
            count = ctypes.c_uint(info.instanceCount)
            self._nvml.nvmlGpuInstanceGetComputeInstances(
                instance, info.id, items, ctypes.byref(count)
            )
            if count.value:
                return items[0]
        return None

    def _new_compute_instance(self, instance, part):
        """Make one compute instance with all slices of its GPU instance."""
        profiles = list(self._compute_profiles(instance))
        whole = max(profiles, key=lambda info: info.sliceCount)
        try:
            return self._nvml.nvmlGpuInstanceCreateComputeInstance(instance, whole.id)
        except self._nvml.NVMLError as error:
            raise DriverError(f"no compute instance in {part.name}: {error}") from error

    def _mig_uuid(self, handle, instance_id, compute_id):
        nvml = self._nvml
        for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            device = self._optional(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
            if device is not None and (
                nvml.nvmlDeviceGetGpuInstanceId(device),
                nvml.nvmlDeviceGetComputeInstanceId(device),
            ) == (instance_id, compute_id):
                return _text(nvml.nvmlDeviceGetUUID(device))
        raise DriverError(f"no MIG device for GPU instance {instance_id}")

    def _mig_nodes(self, minor, instance_id, compute_id):
        """Return the nodes of the capabilities, whose numbers are in /proc."""
        gi = self._root / f"proc/driver/nvidia/capabilities/gpu{minor}/mig/gi{instance_id}"
        files = [path for path in (gi / "access", gi / f"ci{compute_id}/access") if path.exists()]
        minors = re.findall(r"DeviceFileMinor: (\d+)", "".join(path.read_text() for path in files))
        return [f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in minors]

    def _watch_events(self):
        events = self._nvml.nvmlEventSetCreate()
        for handle in self._handles:
            xid = self._nvml.nvmlEventTypeXidCriticalError
            self._optional(self._nvml.nvmlDeviceRegisterEvents, handle, xid, events)
        return events

    def _read_events(self):
        """Remember the critical XIDs that came since the last call."""
        while self._events is not None:
            data = self._optional(self._nvml.nvmlEventSetWait_v2, self._events, 0)
            if data is None:
                return
            if data.eventData not in ERRORS_OF_PROGRAMS:
                uuid = self._nvml.nvmlDeviceGetUUID(data.device)
                self._failures[uuid] = Unhealthy(f"XID {data.eventData}", "NoExecute")

    def _memory_error(self, handle):
        nvml = self._nvml
        uncorrected = self._optional(
            nvml.nvmlDeviceGetTotalEccErrors,
            handle,
            nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            nvml.NVML_VOLATILE_ECC,
        )
        if uncorrected:
            return Unhealthy(f"{uncorrected} uncorrected ECC errors")
        rows = self._optional(nvml.nvmlDeviceGetRemappedRows, handle)
        return Unhealthy("row remapping failed") if rows and rows[3] else None

    def _optional(self, function, *arguments):
        """Call a function that not every GPU supports; None instead of an error."""
        try:
            return function(*arguments)
        except self._nvml.NVMLError:
            return None


def _counters(index, partitions):
    """Return what the partitions of a GPU share: the most that one of them consumes."""
    totals = {}
    for part in partitions:
        for key, amount in _consumption(part).items():
            totals[key] = max(totals.get(key, 0), amount)
    return CounterSet(f"gpu-{index}", totals)


def _consumption(part):
    """Return what a partition takes: each memory slice alone, since its place counts."""
    slices = {f"memory-slice-{n}": 1 for n in range(part.start, part.start + part.size)}
    engines = {engine.lower(): getattr(part.info, f"{engine}Count") for engine in ENGINES}
    amounts = {"multiprocessors": part.info.multiprocessorCount, **engines}
    return slices | {key: amount for key, amount in amounts.items() if amount}


def _version(text):
    """Return a semantic version: three numbers without leading zeros."""
    numbers = [str(int(part)) for part in re.findall(r"\d+", text)][:3]
    return Version(".".join([*numbers, "0", "0"][:3]))


def _text(value):
    return value.decode() if isinstance(value, bytes) else str(value)

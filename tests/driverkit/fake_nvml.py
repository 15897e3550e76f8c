"""A module with the functions of NVML that the driver for NVIDIA GPUs calls, for any machine."""

import ctypes
from types import SimpleNamespace as Values


class NVMLError(Exception):
    """What NVML raises."""


class Placement(ctypes.Structure):
    """The place of a GPU instance among the memory slices."""

    _fields_ = (("start", ctypes.c_uint), ("size", ctypes.c_uint))


def profile(id, name, slices, count, processors, memory, starts, size, **engines):
    none = dict.fromkeys(("decoderCount", "encoderCount", "jpegCount", "ofaCount"), 0)
    info = Values(
        id=id,
        name=name.encode(),
        sliceCount=slices,
        instanceCount=count,
        multiprocessorCount=processors,
        memorySizeMB=memory,
        copyEngineCount=slices,
        **none | engines,
    )
    return info, [Placement(start, size) for start in starts]


PROFILES = {
    0: profile(19, "MIG 1g.10gb", 1, 7, 14, 9856, range(7), 1),
    2: profile(9, "MIG 3g.40gb", 3, 2, 42, 40192, (0, 4), 4, decoderCount=2),
    4: profile(0, "MIG 7g.80gb", 7, 1, 98, 81152, (0,), 8, decoderCount=5, jpegCount=1, ofaCount=1),
}


class FakeNvml:
    """One object is the module; ``mig`` are the indexes of GPUs in MIG mode."""

    NVMLError = NVMLError
    NVML_GPU_INSTANCE_PROFILE_COUNT = 6
    NVML_COMPUTE_INSTANCE_PROFILE_COUNT = 2
    NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED = 0
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0
    nvmlEventTypeXidCriticalError = 8
    c_nvmlGpuInstancePlacement_t = Placement
    c_nvmlGpuInstance_t = c_nvmlComputeInstance_t = ctypes.c_uint

    def __init__(self, count=2, mig=()):
        self.count, self.mig = count, set(mig)
        self.instances = {}  # id of a GPU instance: (gpu, profile id, start)
        self.computes = {}  # id of a GPU instance: id of its compute instance
        self.events, self.ecc, self.remapping = [], {}, {}
        self._next = 1

    def nvmlInit(self):
        pass

    def nvmlDeviceGetCount(self):
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetUUID(self, device):
        if isinstance(device, tuple):
            return f"MIG-{device[0]}-{device[1]}-{device[2]}"
        return f"GPU-{device}"

    def nvmlDeviceGetName(self, device):
        return "NVIDIA A100-SXM4-80GB"

    def nvmlDeviceGetMemoryInfo(self, device):
        return Values(total=80 * 2**30)

    def nvmlDeviceGetMinorNumber(self, device):
        return device

    def nvmlDeviceGetPciInfo(self, device):
        return Values(busId=f"00000000:3{device}:00.0")

    def nvmlDeviceGetCudaComputeCapability(self, device):
        return 8, 0

    def nvmlDeviceGetArchitecture(self, device):
        return 7

    def nvmlSystemGetDriverVersion(self):
        return "470.57.02"

    def nvmlSystemGetCudaDriverVersion(self):
        return 12040

    def nvmlDeviceGetMigMode(self, device):
        if device not in self.mig:
            raise NVMLError("Not Supported")
        return [1, 1]

    def nvmlDeviceGetGpuInstanceProfileInfo(self, device, number):
        if number not in PROFILES:
            raise NVMLError("Not Supported")
        return PROFILES[number][0]

    def nvmlDeviceGetGpuInstancePossiblePlacements(self, device, id, items, count):
        self._fill(next(p for info, p in PROFILES.values() if info.id == id), items, count)

    def nvmlDeviceGetGpuInstances(self, device, id, items, count):
        found = [
            key
            for key, (gpu, profile, _) in self.instances.items()
            if (gpu, profile) == (device, id)
        ]
        self._fill(found, items, count)

    def nvmlDeviceCreateGpuInstanceWithPlacement(self, device, id, place):
        sizes = {info.id: places[0].size for info, places in PROFILES.values()}
        wanted = range(place._obj.start, place._obj.start + place._obj.size)
        for gpu, profile, start in self.instances.values():
            if gpu == device and set(wanted) & set(range(start, start + sizes[profile])):
                raise NVMLError("Insufficient Resources")
        key, self._next = self._next, self._next + 1
        self.instances[key] = (device, id, place._obj.start)
        return ctypes.c_uint(key)

    def nvmlGpuInstanceGetInfo(self, instance):
        key = _number(instance)
        return Values(id=key, placement=Values(start=self.instances[key][2]))

    def nvmlGpuInstanceDestroy(self, instance):
        assert _number(instance) not in self.computes, "In use by another client"
        del self.instances[_number(instance)]

    def nvmlGpuInstanceGetComputeInstanceProfileInfo(self, instance, number, engine):
        return Values(id=number, sliceCount=number + 1, instanceCount=7)

    def nvmlGpuInstanceGetComputeInstances(self, instance, id, items, count):
        found = [_number(instance)] if id == 1 and _number(instance) in self.computes else []
        self._fill(found, items, count)

    def nvmlGpuInstanceCreateComputeInstance(self, instance, id):
        assert id == 1, "all slices"
        self.computes[_number(instance)] = 0
        return instance

    def nvmlComputeInstanceGetInfo(self, compute):
        return Values(id=self.computes[_number(compute)])

    def nvmlComputeInstanceDestroy(self, compute):
        del self.computes[_number(compute)]

    def nvmlDeviceGetMaxMigDeviceCount(self, device):
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device, number):
        found = [
            (device, key, compute)
            for key, compute in self.computes.items()
            if self.instances[key][0] == device
        ]
        if number >= len(found):
            raise NVMLError("Not Found")
        return found[number]

    def nvmlDeviceGetGpuInstanceId(self, device):
        return device[1]

    def nvmlDeviceGetComputeInstanceId(self, device):
        return device[2]

    def nvmlEventSetCreate(self):
        return "events"

    def nvmlDeviceRegisterEvents(self, device, types, events):
        pass

    def nvmlEventSetWait_v2(self, events, timeout):
        if not self.events:
            raise NVMLError("Timeout")
        device, xid = self.events.pop(0)
        return Values(device=device, eventData=xid)

    def nvmlDeviceGetTotalEccErrors(self, device, kind, counter):
        return self.ecc.get(device, 0)

    def nvmlDeviceGetRemappedRows(self, device):
        return 0, 0, 0, self.remapping.get(device, 0)

    def _fill(self, found, items, count):
        count._obj.value = len(found)
        if items is not None:
            for i, one in enumerate(found):
                items[i] = one


def _number(instance):
    return getattr(instance, "value", instance)

"""Requests for shared devices and their normal form.

``koordinator.sh/gpu: 50`` and ``gpu-core: 50`` with ``gpu-memory-ratio: 50`` are one request. The
normal form is a number of devices and an amount of each, always in the order of ``RESOURCES``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from holdfast.api.koordinator_names import (
    FPGA,
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    GPU_SHARED,
    RDMA,
)
from holdfast.runtime.errors import BadRequest

DeviceAmounts = tuple[int, ...]
"""Amounts of one device in whole units (percent, bytes), in the order of ``RESOURCES``."""

RESOURCES: Mapping[str, tuple[str, ...]] = {
    "gpu": (GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO),
    "rdma": (RDMA,),
    "fpga": (FPGA,),
}
"""The resources of a device by its type: what is counted for each minor."""
CORE, MEMORY, RATIO = range(3)
"""The places of gpu-core, gpu-memory and gpu-memory-ratio in the amounts of a GPU."""

WHOLE_GPUS = frozenset(("nvidia.com/gpu", "amd.com/gpu", "dcu.com/gpu"))
_ASCEND = frozenset(("huawei.com/npu-core", "huawei.com/npu-cpu", "huawei.com/npu-dvpp"))
_GPU_NAMES = WHOLE_GPUS | {GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, GPU_SHARED}
_TYPES = dict.fromkeys(_GPU_NAMES | _ASCEND, "gpu") | {RDMA: "rdma", FPGA: "fpga"}
_COMBINATIONS = frozenset(
    (
        *(frozenset((name,)) for name in (*WHOLE_GPUS, GPU)),
        *(
            frozenset((memory, *more))
            for memory in (GPU_MEMORY, GPU_MEMORY_RATIO)
            for more in ((), (GPU_CORE,), (GPU_SHARED,), (GPU_CORE, GPU_SHARED))
        ),
    )
)
"""Names of GPU resources that may be requested together."""


@dataclass(frozen=True, slots=True)
class SharedDeviceRequest:
    """A request for devices of one type: ``count`` devices, and ``amounts`` of each of them."""

    type: str
    count: int
    amounts: DeviceAmounts

    @property
    def shared(self) -> bool:
        """Return whether the pod shares its GPUs: less than a whole one, or an amount of bytes."""
        if self.type != "gpu":
            return False
        return self.amounts[RATIO] < 100 if self.amounts[RATIO] else self.amounts[MEMORY] > 0


def device_requests(request: Mapping[str, int]) -> tuple[SharedDeviceRequest, ...]:
    """Return the requests for devices, in the order of ``RESOURCES``; raise BadRequest if invalid.

    >>> device_requests({"cpu": 1000, "koordinator.sh/gpu": 200})
    (SharedDeviceRequest(type='gpu', count=2, amounts=(100, 0, 100)),)
    """
    if _TYPES.keys().isdisjoint(request):
        return ()
    by_type: dict[str, dict[str, int]] = {}
    for name, amount in request.items():
        if amount > 0 and name in _TYPES:
            by_type.setdefault(_TYPES[name], {})[name] = amount
    return tuple(
        _gpu_request(by_type[kind])
        if kind == "gpu"
        else _whole_or_part(kind, *by_type[kind].values())
        for kind in RESOURCES
        if kind in by_type
    )


def device_resources(request: Collection[str]) -> frozenset[str]:
    """Return the names of a request that are of shared devices, so that they have an identity."""
    return frozenset(_TYPES.keys() & request)


def is_of_devices(resource: str) -> bool:
    """Return whether a resource is one of shared devices."""
    return resource in _TYPES


def device_types(resources: Iterable[str]) -> set[str]:
    """Return the types of devices that some of these resources belong to.

    >>> device_types(["cpu", "koordinator.sh/gpu"])
    {'gpu'}
    """
    return {_TYPES[name] for name in resources if name in _TYPES}


def in_names_of(request: Mapping[str, int], names: Collection[str]) -> dict[str, int]:
    """Express a request for GPUs in the names of the other side, as far as it is possible.

    Bytes of GPU memory and percent are not converted into each other: that needs a device. Part of
    a GPU counts as a whole one in a vendor's name. ``gpu.shared`` is a number of devices and no
    amount: it disappears when the rest is converted.

    >>> in_names_of({"cpu": 1000, "koordinator.sh/gpu-core": 50,
    ...              "koordinator.sh/gpu-memory-ratio": 50}, ["cpu", "koordinator.sh/gpu"])
    {'cpu': 1000, 'koordinator.sh/gpu': 50}
    """
    if _GPU_NAMES.isdisjoint(request):
        return dict(request)
    wanted = _GPU_NAMES.intersection(names)
    if not wanted or all(name in wanted or name not in _GPU_NAMES for name in request):
        return dict(request)
    core, memory, ratio = gpu_amounts(request)
    percent = max(core, ratio)
    known = {GPU_CORE: core, GPU_MEMORY: memory, GPU_MEMORY_RATIO: ratio, GPU: percent}
    known |= dict.fromkeys(WHOLE_GPUS, -(-percent // 100))
    converted = {name: known[name] for name in wanted if known.get(name)}
    left = {GPU_CORE: core, GPU_MEMORY: memory, GPU_MEMORY_RATIO: ratio}
    if not converted.keys().isdisjoint({GPU, *WHOLE_GPUS}):
        left[GPU_CORE] = left[GPU_MEMORY_RATIO] = 0
    others = {name: amount for name, amount in request.items() if name not in _GPU_NAMES}
    return others | {name: amount for name, amount in left.items() if amount} | converted


def amount_as(name: str, request: Mapping[str, int]) -> int:
    """Return what a request amounts to in one resource, where every name of GPUs counts.

    For whole GPUs it is the number of GPUs that the request needs at least a part of; GPUs of other
    vendors are not among them.

    >>> amount_as("nvidia.com/gpu", {"koordinator.sh/gpu": 150, "amd.com/gpu": 1})
    2
    """
    if name not in _GPU_NAMES or _GPU_NAMES.isdisjoint(request):
        return request.get(name, 0)
    if name not in WHOLE_GPUS:
        return in_names_of(request, (name,)).get(name, 0)
    own = {key: a for key, a in request.items() if key == name or key not in WHOLE_GPUS}
    core, memory, ratio = gpu_amounts(own)
    return max(-(-max(core, ratio) // 100), own.get(GPU_SHARED, 0), int(memory > 0))


def percent_of_gpus(request: Mapping[str, int]) -> dict[str, int]:
    """Return gpu-core and gpu-memory-ratio of a request, however it names them; {} for no GPU.

    >>> percent_of_gpus({"nvidia.com/gpu": 2})
    {'koordinator.sh/gpu-core': 200, 'koordinator.sh/gpu-memory-ratio': 200}
    """
    if _GPU_NAMES.isdisjoint(request):
        return {}
    core, _, ratio = gpu_amounts(request)
    return {
        name: amount for name, amount in ((GPU_CORE, core), (GPU_MEMORY_RATIO, ratio)) if amount
    }


def gpu_amounts(request: Mapping[str, int]) -> DeviceAmounts:
    """Return gpu-core, gpu-memory and gpu-memory-ratio of a whole request."""
    percent = 100 * sum(request.get(name, 0) for name in WHOLE_GPUS) + request.get(GPU, 0)
    return (
        percent + request.get(GPU_CORE, 0),
        request.get(GPU_MEMORY, 0),
        percent + request.get(GPU_MEMORY_RATIO, 0),
    )


def _gpu_request(request: Mapping[str, int]) -> SharedDeviceRequest:
    if GPU in request:
        _check_unit(GPU, request[GPU])
    core, memory, ratio = gpu_amounts(request)
    count = request.get(GPU_SHARED, 0)
    divisor = count or 100  # without gpu.shared, percent above 100 are whole GPUs
    for percent in (core, ratio):
        if (count or percent > 100) and (percent % divisor or percent > 100 * count > 0):
            raise _invalid(request)
    if frozenset(request) not in _COMBINATIONS:
        raise _invalid(request)
    count = count or max(1, ratio // 100)
    return SharedDeviceRequest("gpu", count, (core // count, memory // count, ratio // count))


def _whole_or_part(kind: str, percent: int) -> SharedDeviceRequest:
    """Return a request for some percent of one device, or for as many whole ones."""
    _check_unit(RESOURCES[kind][0], percent)
    count = max(1, percent // 100)
    return SharedDeviceRequest(kind, count, (percent // count,))


def _check_unit(name: str, percent: int) -> None:
    if percent > 100 and percent % 100:
        raise BadRequest(f"invalid resource unit {name}: {percent}")


def _invalid(request: Collection[str]) -> BadRequest:
    ascend = not _ASCEND.isdisjoint(request) and not _ASCEND.issuperset(request)
    more = ": Ascend devices are not supported" if ascend else ""
    return BadRequest(f"invalid resource device requests: [{' '.join(sorted(request))}]{more}")

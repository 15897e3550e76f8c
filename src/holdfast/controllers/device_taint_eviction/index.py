"""The NoExecute taints that drivers publish, and the claims to which devices are allocated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from holdfast.api.devices import ResourceClaim, ResourceSlice
from holdfast.api.node import Taint
from holdfast.api.tolerations import NO_EXECUTE
from holdfast.state.devices.allocated_devices import device_id
from holdfast.state.devices.slices import DeviceId, PoolId

_NONE: Mapping[str, tuple[Taint, ...]] = MappingProxyType({})


class PublishedTaints:
    """NoExecute taints by device; only the newest generation of a pool counts."""

    def __init__(self) -> None:
        self._pools: dict[PoolId, dict[str, ResourceSlice]] = defaultdict(dict)
        self._taints: dict[PoolId, Mapping[str, tuple[Taint, ...]]] = {}

    def of(self, device: DeviceId) -> tuple[Taint, ...]:
        """Return the NoExecute taints of a device."""
        driver, pool, name = device
        return self._taints.get((driver, pool), _NONE).get(name, ())

    def devices(self) -> Iterator[DeviceId]:
        """Return all published devices."""
        for (driver, pool), slices in self._pools.items():
            for slice_ in _newest(slices.values()):
                yield from ((driver, pool, device.name) for device in slice_.spec.devices)

    def update(self, old: ResourceSlice | None, new: ResourceSlice | None) -> set[DeviceId]:
        """Replace a slice, and return the devices whose NoExecute taints have changed."""
        pools = {_pool(slice_) for slice_ in (old, new) if slice_ is not None}
        if old is not None:
            self._pools[_pool(old)].pop(old.name, None)
        if new is not None:
            self._pools[_pool(new)][new.name] = new
        return {device for pool in pools for device in self._collect(pool)}

    def _collect(self, pool: PoolId) -> Iterator[DeviceId]:
        """Collect the taints of a pool again, and return the devices that differ."""
        before, now = self._taints.pop(pool, _NONE), dict[str, tuple[Taint, ...]]()
        if not self._pools[pool]:
            del self._pools[pool]
        else:
            for slice_ in _newest(self._pools[pool].values()):
                now |= _tainted_devices(slice_)
        if now:
            self._taints[pool] = now
        for name in before.keys() | now.keys():
            if before.get(name) != now.get(name):
                yield (*pool, name)


class AllocatedClaims:
    """Keys of allocated claims by their devices."""

    def __init__(self) -> None:
        self._by_device: dict[DeviceId, set[str]] = defaultdict(set)

    def update(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Replace a claim."""
        for device, key in _allocations(old):
            self._by_device[device].discard(key)
            if not self._by_device[device]:
                del self._by_device[device]
        for device, key in _allocations(new):
            self._by_device[device].add(key)

    def of(self, devices: Iterable[DeviceId]) -> set[str]:
        """Return the keys of the claims that have one of the devices."""
        return {key for device in devices for key in self._by_device.get(device, ())}

    def devices(self) -> list[DeviceId]:
        """Return all allocated devices."""
        return list(self._by_device)


def _allocations(claim: ResourceClaim | None) -> Iterator[tuple[DeviceId, str]]:
    if claim is not None:
        yield from ((device_id(result), claim.key) for result in claim.results)


def _pool(slice_: ResourceSlice) -> PoolId:
    return (slice_.spec.driver, slice_.spec.pool.name)


def _newest(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    known = list(slices)
    newest = max((slice_.spec.pool.generation for slice_ in known), default=0)
    return [slice_ for slice_ in known if slice_.spec.pool.generation == newest]


def _tainted_devices(slice_: ResourceSlice) -> dict[str, tuple[Taint, ...]]:
    taints_by_device = {
        device.name: tuple(taint for taint in device.taints if taint.effect == NO_EXECUTE)
        for device in slice_.spec.devices
        if device.taints
    }
    return {name: taints for name, taints in taints_by_device.items() if taints}

"""Read and write the annotation ``device-allocated``: the devices of a pod or a reservation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from holdfast.api.koordinator_names import DEVICE_ALLOCATED, GPU_MEMORY
from holdfast.api.meta import Struct
from holdfast.api.quantity import BINARY_SI, DECIMAL_SI, AmountText, Quantity, units
from holdfast.api.shared_device import VirtualFunction
from holdfast.runtime.errors import BadRequest
from holdfast.state.device_share.allocations import AllocationsByType, SharedDeviceAllocation
from holdfast.state.device_share.requests import RESOURCES, DeviceAmounts


class _Extension(Struct, frozen=True):
    vfs: tuple[VirtualFunction, ...] | None = None


class _Written(Struct, frozen=True):
    minor: int = 0
    id: str = ""
    resources: dict[str, AmountText] | None = None
    extension: _Extension | None = None


_SHORT = 8192
"""Longer texts, which a user may write in any number, are not remembered."""
_DECODER = msgspec.json.Decoder(dict[str, tuple[_Written, ...] | None] | None)


def read_allocations(annotations: Mapping[str, str]) -> AllocationsByType:
    """Return the devices that the annotation names; raise BadRequest if it is malformed.

    Unknown types, resources and fields are left out. Entries of one minor are added up by
    ``use_of``.
    """
    text = annotations.get(DEVICE_ALLOCATED)
    if not text:
        return {}
    return _decode_short(text) if len(text) <= _SHORT else _decode(text)


def read_device_ids(annotations: Mapping[str, str]) -> dict[tuple[str, int], str]:
    """Return the ids of the devices that the annotation names, by type and minor; "" if absent.

    Raises BadRequest if it is malformed.
    """
    return {
        (kind, one.minor): one.id
        for kind, listed in _written(annotations.get(DEVICE_ALLOCATED) or "null").items()
        for one in listed or ()
        if kind in RESOURCES
    }


def allocations_text(allocations: AllocationsByType, ids: Mapping[tuple[str, int], str]) -> str:
    """Return the text of the annotation; ``ids`` are those of the Device, by type and minor."""
    written: dict[str, list[dict[str, Any]]] = {}
    for kind, listed in allocations.items():
        for one in listed:
            entry: dict[str, Any] = {
                "minor": one.minor,
                "resources": amount_texts(kind, one.amounts),
            }
            if device_id := ids.get((kind, one.minor)):
                entry["id"] = device_id
            if one.vfs:
                entry["extension"] = {"vfs": one.vfs}
            written.setdefault(kind, []).append(entry)
    return msgspec.json.encode(written).decode()


def amount_texts(kind: str, amounts: DeviceAmounts) -> dict[str, str]:
    """Return the amounts of a device that are not zero, as quantities by resource name."""
    return {
        name: _quantity(name, amount)
        for name, amount in zip(RESOURCES[kind], amounts, strict=True)
        if amount
    }


def _decode(text: str) -> AllocationsByType:
    written = _written(text)
    try:
        return {
            kind: tuple(sorted((_allocation(kind, one) for one in listed), key=_minor))
            for kind, listed in written.items()
            if kind in RESOURCES and listed
        }
    except BadRequest as error:
        raise _malformed(error) from None


def _written(text: str) -> Mapping[str, tuple[_Written, ...] | None]:
    try:
        return _DECODER.decode(text) or {}
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _malformed(error) from None


def _malformed(error: Exception) -> BadRequest:
    return BadRequest(f"metadata.annotations[{DEVICE_ALLOCATED}]: {error}")


_decode_short = lru_cache(maxsize=4096)(_decode)


def _allocation(kind: str, written: _Written) -> SharedDeviceAllocation:
    resources = written.resources or {}
    amounts = tuple([max(0, units(resources.get(name, 0))) for name in RESOURCES[kind]])
    vfs = written.extension.vfs if written.extension else None
    return SharedDeviceAllocation(written.minor, amounts, vfs or ())


def _minor(allocation: SharedDeviceAllocation) -> int:
    return allocation.minor


def _quantity(name: str, amount: int) -> str:
    return str(Quantity(amount, 0, BINARY_SI if name == GPU_MEMORY else DECIMAL_SI))

"""Count requests for GPUs in the names that a reservation reserves.

``koordinator.sh/gpu: 50`` and ``gpu-core: 50`` with ``gpu-memory-ratio: 50`` are one request, so an
owner may write it in another way than its reservation. Inside the reservation it counts in the
reserved names too; on the node, pods and reservations count as they are written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from holdfast.state.columns.interner import ResourceNames
from holdfast.state.device_share.requests import device_resources, in_names_of

NO_NAMES: frozenset[str] = frozenset()
_ONE = 10**9
"""One device, in nanos."""


def reserved_device_names(reserved: Collection[int], ids: ResourceNames) -> frozenset[str]:
    """Return the names of shared devices among reserved resources."""
    return device_resources([ids[resource] for resource in reserved])


def nanos_in_names_of(amounts: Mapping[str, int], names: Collection[str]) -> dict[str, int]:
    """Return amounts, in nanos, with GPUs in other names for the same; they are whole numbers."""
    devices = device_resources(amounts)
    if not devices:
        return dict(amounts)
    whole = in_names_of({n: amounts[n] // _ONE for n in devices}, names)
    return {n: a for n, a in amounts.items() if n not in devices} | {
        n: a * _ONE for n, a in whole.items()
    }


def converted_amounts(
    amounts: Mapping[int, int], names: frozenset[str], ids: ResourceNames
) -> dict[int, int]:
    """Return what a request amounts to in reserved names that it does not use itself."""
    if not names:
        return {}
    written = {ids[resource]: amount for resource, amount in amounts.items()}
    by_name = in_names_of(written, names)
    return {ids.id(n): a for n, a in by_name.items() if n in names and n not in written}

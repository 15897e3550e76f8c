"""The annotations of pods that record what the scheduler gave them.

The ledgers read them back after a restart, and for pods that another scheduler bound. Only the
scheduler and admins may write them. The rule of the embedded API server, the
ValidatingAdmissionPolicy in deploy/admission and the table in docs/security.md are made from this
table. All are annotations: no label records an allocation. An empty value counts as absent, for the
ledgers too: a Binding can overwrite an annotation but not remove it.

``resource-spec`` is not one of them, although the scheduler completes it: it says what a pod
requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.api.koordinator_names import (
    DEVICE_ALLOCATED,
    RESERVATION_CURRENT_OWNER,
    RESOURCE_STATUS,
)
from holdfast.api.reservation_names import ALLOCATED, DRAWS

FOREIGN_ALLOCATIONS = "scheduling.holdfast.dev/foreign-allocation-keys"
"""The annotation with which the embedded API server marks a pod that was created with such keys.

A comma-separated list of the keys that no holder of the right has written since.
"""


@dataclass(frozen=True, slots=True)
class AllocationKey:
    """An annotation, and what it records."""

    key: str
    records: str


ALLOCATION_KEYS = (
    AllocationKey(ALLOCATED, "the reservation that the pod was allocated from"),
    AllocationKey(DRAWS, "how much the pod takes of each of several reservations"),
    AllocationKey(RESOURCE_STATUS, "the CPUs and the amounts of NUMA nodes that the pod has"),
    AllocationKey(DEVICE_ALLOCATED, "the GPUs and other shared devices that the pod has"),
    AllocationKey(
        RESERVATION_CURRENT_OWNER,
        "the pod that uses the resources of a pod in operating mode Reservation",
    ),
)
ALLOCATION_ANNOTATIONS = tuple([entry.key for entry in ALLOCATION_KEYS])


def recorded_allocations(annotations: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the annotations that record an allocation; empty ones are left out.

    >>> recorded_allocations({ALLOCATED: "{}", DRAWS: "", "other": "x"})
    {'scheduling.koordinator.sh/reservation-allocated': '{}'}
    """
    if not annotations:
        return {}
    return {key: text for key in ALLOCATION_ANNOTATIONS if (text := annotations.get(key))}

"""Rights about scheduling that exist in RBAC only: no object of these resources is served.

A role grants them as it grants any verb. The embedded API server and the policies in
deploy/admission ask the authorizer for them, in the namespace of the pod.
"""

from __future__ import annotations

from dataclasses import dataclass

GROUP = "scheduling.holdfast.dev"


@dataclass(frozen=True, slots=True)
class SchedulingRight:
    """A verb on a resource of the group."""

    verb: str
    resource: str

    def __str__(self) -> str:
        return f'verb "{self.verb}" on {self.resource}.{GROUP}'


WRITE_ALLOCATIONS = SchedulingRight("write", "podallocations")
"""Write the annotations of pods that record allocations (``api.allocation_keys``)."""
USE_RESERVED_ROOM = SchedulingRight("use", "reservedroom")
"""Create pods that ignore reservations, and so may use resources reserved for others."""

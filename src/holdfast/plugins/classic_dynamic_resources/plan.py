"""What Reserve decides: ask drivers to allocate, or reserve the allocated claims."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.api.classic import ClassicClaim, PodSchedulingSpec
from holdfast.api.classic_names import MAX_NODES

_STEP = 2_147_483_647
"""A prime: as many steps as there are nodes visit each node once."""
WAITING_FOR_ALLOCATION = "waiting for resource driver to allocate resource"
WAITING_FOR_INFORMATION = "waiting for resource driver to provide information"


@dataclass(frozen=True, slots=True)
class Negotiation:
    """The PodScheduling that drivers are to read; the pod waits for their answer."""

    spec: PodSchedulingSpec

    @property
    def message(self) -> str:
        """What the pod waits for."""
        return WAITING_FOR_ALLOCATION if self.spec.selected_node else WAITING_FOR_INFORMATION


@dataclass(frozen=True, slots=True)
class ClaimReservation:
    """Claims to reserve, by uid: pods that need the same claims reserve them in the same order."""

    claims: tuple[ClassicClaim, ...]


Plan = Negotiation | ClaimReservation


def reservation(claims: Sequence[ClassicClaim], uid: str) -> ClaimReservation:
    """Return the reservation of those claims that are not reserved for the pod yet."""
    missing = {claim.uid: claim for claim in claims if not claim.is_reserved_for(uid)}
    return ClaimReservation(tuple(missing[key] for key in sorted(missing)))


def potential_nodes(fitting: Sequence[str], before: Sequence[str], uid: str) -> tuple[str, ...]:
    """Return nodes to ask drivers about, sorted: all that fit, or 256 that the pod's uid selects.

    The list of before is kept if it has all of them, or was such a choice: drivers then need not
    answer again.
    """
    wanted, listed = set(fitting), set(before)
    chosen_before = len(wanted) > MAX_NODES == len(listed) and listed <= wanted
    if wanted <= listed or chosen_before:
        return tuple(before)
    if len(wanted) <= MAX_NODES:
        return tuple(sorted(wanted))
    first = zlib.crc32(uid.encode())
    return tuple(sorted(fitting[(first + i * _STEP) % len(fitting)] for i in range(MAX_NODES)))

"""What Reserve decides: ask drivers to allocate, or reserve the allocated claims."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.api.classic import ClassicClaim, PodSchedulingSpec
from holdfast.api.classic_names import MAX_NODES
from holdfast.classic_dra.selector_masks import rows_named
from holdfast.columns.node_rows import Rows
from holdfast.columns.node_table import NodeTable

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


def potential_nodes(
    nodes: NodeTable, fitting: Rows, before: Sequence[str], uid: str
) -> tuple[str, ...]:
    """Return nodes to ask drivers about, sorted: all that fit, or 256 that the pod's uid selects.

    ``fitting`` are the rows that fit. The list of before is kept if it has all of them, or was such
    a choice: drivers then need not answer again.
    """
    kept = np.count_nonzero(rows_named(nodes, before)[fitting])
    chosen_before = len(fitting) > MAX_NODES == len(set(before)) == kept
    if kept == len(fitting) or chosen_before:
        return tuple(before)
    if len(fitting) > MAX_NODES:
        # The product stays far below 2**63.
        steps = zlib.crc32(uid.encode()) + np.arange(MAX_NODES, dtype=np.int64) * _STEP
        fitting = fitting[steps % len(fitting)]
    return tuple(sorted(nodes.names[row] for row in fitting.tolist()))

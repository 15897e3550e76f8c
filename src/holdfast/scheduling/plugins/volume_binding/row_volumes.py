"""The volumes that a pod's claims would get, on every row at once.

The loop is over claims and volumes, never over nodes: each volume is assigned to all rows that can
use it and have no smaller one yet. As in kube-scheduler, a claim that the pod mounts twice must
find capacity twice, but gets one volume.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.api.storage import NO_PROVISIONER, PersistentVolume, PersistentVolumeClaim
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.volumes import Volumes
from holdfast.state.volumes.matching import Mask, candidates, rows_allowed_by, rows_with_capacity

CONFLICT, BIND, SPACE, MISSING = 1, 2, 4, 8
"""The faults of a row, in the order they are reported."""
Faults = NDArray[np.uint8]
VolumeClaims = Sequence[PersistentVolumeClaim]
_NONE = -1
_NOT_A_CANDIDATE = -2


@dataclass(frozen=True, slots=True)
class ClaimMatch:
    """The volume that one claim would get on each row: an index into ``volumes``, or -1."""

    claim: PersistentVolumeClaim
    volumes: Sequence[PersistentVolume]
    index: NDArray[np.int32]
    position: Mapping[str, int]
    """The index of each volume, by name."""

    def uses(self, volume: PersistentVolume, rows: NDArray[np.intp]) -> Mask:
        """Return on which of the rows the claim gets this volume."""
        mask: Mask = self.index[rows] == self.position.get(volume.name, _NOT_A_CANDIDATE)
        return mask


class RowVolumes:
    """The faults of each row, and the volumes that claims would get on the others."""

    def __init__(
        self, nodes: NodeTable, volumes: Volumes, bound: VolumeClaims, waiting: VolumeClaims
    ) -> None:
        self._nodes = nodes
        self._volumes = volumes
        self.faults: Faults = np.zeros(nodes.capacity, np.uint8)
        self.matches: list[ClaimMatch] = []
        self._needs: list[tuple[PersistentVolumeClaim, Mask]] = []
        self._check_bound(bound)
        if waiting:
            self._choose(waiting)

    def static_bindings(self, row: int) -> list[tuple[PersistentVolume, PersistentVolumeClaim]]:
        """Return the volumes that would be bound if the pod ran on the row, one for each claim."""
        by_claim: dict[str, tuple[PersistentVolume, PersistentVolumeClaim]] = {}
        for match in self.matches:
            if match.index[row] != _NONE:
                by_claim.setdefault(match.claim.key, (match.volumes[match.index[row]], match.claim))
        return list(by_claim.values())

    def dynamic_provisions(self, row: int) -> list[PersistentVolumeClaim]:
        """Return the claims for which a volume would be provisioned."""
        bound = {claim.key for _, claim in self.static_bindings(row)}
        needed = {claim.key: claim for claim, rows in self._needs if rows[row]}
        return [claim for key, claim in needed.items() if key not in bound]

    def _check_bound(self, bound: VolumeClaims) -> None:
        """Check that rows can use the bound volumes; the first that fails decides."""
        undecided = np.ones(self._nodes.capacity, np.bool_)
        for claim in bound:
            volume = self._volumes.volume(claim.spec.volume_name)
            if volume is None:
                self.faults[undecided] |= MISSING
                return
            reached = self._volumes.rows_reaching(volume)
            self.faults[undecided & ~reached] |= CONFLICT
            undecided &= reached

    def _choose(self, waiting: VolumeClaims) -> None:
        here = self._selected(waiting)
        self.faults[~here] |= BIND
        for claim in waiting:
            if claim.selected_node is not None:
                self._needs.append((claim, here))
        free = [claim for claim in waiting if claim.selected_node is None]
        for claim in sorted(free, key=lambda claim: claim.size):
            match = self._match(claim, here)
            self.matches.append(match)
            self._needs.append((claim, here & (match.index == _NONE)))
        self._provision(here)

    def _selected(self, waiting: VolumeClaims) -> Mask:
        """Return the rows left by the claims' selected nodes."""
        here = np.ones(self._nodes.capacity, np.bool_)
        for claim in waiting:
            if claim.selected_node is not None:
                row = self._nodes.row_of.get(claim.selected_node)
                chosen = np.zeros(self._nodes.capacity, np.bool_)
                if row is not None:
                    chosen[row] = True
                here &= chosen
        return here

    def _match(self, claim: PersistentVolumeClaim, here: Mask) -> ClaimMatch:
        bound, free = candidates(self._volumes.volumes_of(claim.storage_class), claim)
        volumes = free if bound is None else [bound]
        index = np.full(self._nodes.capacity, _NONE, np.int32)
        lacking = here.copy()
        for i, volume in enumerate(volumes):
            rows = self._volumes.topology.rows(volume.reachable_from)
            rows = rows[lacking[rows]]
            for earlier in self.matches:
                rows = rows[~earlier.uses(volume, rows)]
            index[rows] = i
            lacking[rows] = False
            if len(rows) and not lacking.any():
                break
        return ClaimMatch(claim, volumes, index, {v.name: i for i, v in enumerate(volumes)})

    def _provision(self, here: Mask) -> None:
        """Check that missing volumes can be provisioned; the first that fails decides."""
        possible = here.copy()
        for claim, needed in self._needs:
            asked = needed & possible
            if not asked.any():
                continue
            reached = self._can_provision(claim)
            self.faults[asked & ~reached] |= BIND
            asked &= reached
            short = asked & ~self._has_capacity(claim)
            self.faults[short] |= SPACE
            possible &= ~needed | (asked & ~short)

    def _can_provision(self, claim: PersistentVolumeClaim) -> Mask:
        storage_class = self._volumes.classes[claim.storage_class]
        if storage_class.provisioner in ("", NO_PROVISIONER):
            return np.zeros(self._nodes.capacity, np.bool_)
        return rows_allowed_by(self._nodes, storage_class)

    def _has_capacity(self, claim: PersistentVolumeClaim) -> Mask:
        storage_class = self._volumes.classes[claim.storage_class]
        driver = self._volumes.drivers.get(storage_class.provisioner)
        reports = driver is not None and driver.publishes_capacity
        if not reports or "storage" not in claim.spec.resources.requests:
            return np.ones(self._nodes.capacity, np.bool_)
        capacities = self._volumes.capacities_of(storage_class.name)
        return rows_with_capacity(self._nodes, capacities, claim.size.value())

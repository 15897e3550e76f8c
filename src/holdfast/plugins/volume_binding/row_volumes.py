"""Which volumes a pod's claims would get, on every row at once.

The loop is over claims and volumes, never over nodes: each volume is offered to all rows that
reach it and have nothing smaller yet. A claim that the pod mounts twice must find room twice, as
upstream has it, but is given one volume.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.api.storage import NO_PROVISIONER, PersistentVolume, PersistentVolumeClaim
from holdfast.columns.node_table import NodeTable
from holdfast.columns.volumes import Volumes
from holdfast.columns.volumes.matching import Mask, candidates, rows_allowed_by, rows_with_capacity

CONFLICT, BIND, SPACE, MISSING = 1, 2, 4, 8
"""What may be wrong with a row, in the order it is told."""
Faults = NDArray[np.uint8]
VolumeClaims = Sequence[PersistentVolumeClaim]
_NONE = -1
_NOT_OFFERED = -2


@dataclass(frozen=True, slots=True)
class ClaimMatch:
    """The volume each row would give to one claim: an index into ``volumes``, -1 for none."""

    claim: PersistentVolumeClaim
    volumes: Sequence[PersistentVolume]
    index: NDArray[np.int32]
    position: Mapping[str, int]
    """Where each volume stands among them, by name."""

    def took(self, volume: PersistentVolume, rows: NDArray[np.intp]) -> Mask:
        """Tell on which of the rows this volume is given away."""
        given: Mask = self.index[rows] == self.position.get(volume.name, _NOT_OFFERED)
        return given


class RowVolumes:
    """What is wrong with each row, and which volumes the others would give."""

    def __init__(
        self, nodes: NodeTable, volumes: Volumes, bound: VolumeClaims, waiting: VolumeClaims
    ) -> None:
        self._nodes = nodes
        self._volumes = volumes
        self.faults: Faults = np.zeros(nodes.capacity, np.uint8)
        self.matches: list[ClaimMatch] = []
        self._needs: list[tuple[PersistentVolumeClaim, Mask]] = []
        self._follow(bound)
        if waiting:
            self._choose(waiting)

    def static_bindings(self, row: int) -> list[tuple[PersistentVolume, PersistentVolumeClaim]]:
        """The volumes that would be bound if the pod went to the row, one a claim."""
        found: dict[str, tuple[PersistentVolume, PersistentVolumeClaim]] = {}
        for match in self.matches:
            if match.index[row] != _NONE:
                found.setdefault(match.claim.key, (match.volumes[match.index[row]], match.claim))
        return list(found.values())

    def dynamic_provisions(self, row: int) -> list[PersistentVolumeClaim]:
        """The claims for which a volume would be made, those with a volume left out."""
        kept = {claim.key for _, claim in self.static_bindings(row)}
        needed = {claim.key: claim for claim, rows in self._needs if rows[row]}
        return [claim for key, claim in needed.items() if key not in kept]

    def _follow(self, bound: VolumeClaims) -> None:
        """A bound volume must be reached; the first one that is not settles a row's fault."""
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
        """Rows not ruled out because a claim's volume is being made for another node."""
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
        kept, free = candidates(self._volumes.volumes_of(claim.storage_class), claim)
        volumes = free if kept is None else [kept]
        index = np.full(self._nodes.capacity, _NONE, np.int32)
        lacking = here.copy()
        for i, volume in enumerate(volumes):
            rows = self._volumes.topology.rows(volume.reachable_from)
            rows = rows[lacking[rows]]
            for earlier in self.matches:
                rows = rows[~earlier.took(volume, rows)]
            index[rows] = i
            lacking[rows] = False
            if len(rows) and not lacking.any():
                break
        return ClaimMatch(claim, volumes, index, {v.name: i for i, v in enumerate(volumes)})

    def _provision(self, here: Mask) -> None:
        """Claims without a volume must get one made; the first that cannot settles the fault."""
        fine = here.copy()
        for claim, needed in self._needs:
            asked = needed & fine
            if not asked.any():
                continue
            reached = self._can_be_made(claim)
            self.faults[asked & ~reached] |= BIND
            asked &= reached
            short = asked & ~self._has_room(claim)
            self.faults[short] |= SPACE
            fine &= ~needed | (asked & ~short)

    def _can_be_made(self, claim: PersistentVolumeClaim) -> Mask:
        storage_class = self._volumes.classes[claim.storage_class]
        if storage_class.provisioner in ("", NO_PROVISIONER):
            return np.zeros(self._nodes.capacity, np.bool_)
        return rows_allowed_by(self._nodes, storage_class)

    def _has_room(self, claim: PersistentVolumeClaim) -> Mask:
        storage_class = self._volumes.classes[claim.storage_class]
        driver = self._volumes.drivers.get(storage_class.provisioner)
        tells = driver is not None and driver.publishes_capacity
        if not tells or "storage" not in claim.spec.resources.requests:
            return np.ones(self._nodes.capacity, np.bool_)
        capacities = self._volumes.capacities_of(storage_class.name)
        return rows_with_capacity(self._nodes, capacities, claim.size.value())

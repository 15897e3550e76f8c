"""The number of attached volumes per CSI driver and node, and the nodes' limits.

A row counts the distinct volumes of its pods and of its VolumeAttachments. Columns are refreshed on
demand, and only for rows where something changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from holdfast.api.storage import CSINode, VolumeAttachment
from holdfast.api.volume_sources import CSIVolumeHandle
from holdfast.state.columns.mounts import MountingPod
from holdfast.state.columns.node_table import NodeTable

UNLIMITED = -1
Column = NDArray[np.int32]
Resolve = Callable[[MountingPod], frozenset[CSIVolumeHandle]]
Locate = Callable[[str, str], CSIVolumeHandle | None]
CountingError = Callable[[MountingPod], str]
_NO_HANDLES: frozenset[CSIVolumeHandle] = frozenset()
_NO_ROWS: frozenset[int] = frozenset()


class Attachments:
    """Volumes per driver and row.

    ``resolve`` returns a pod's volumes; ``locate`` returns the volume of an attachment by its
    attacher and persistent volume; ``counting_error_of`` returns why a pod's volumes cannot be
    counted, or "".
    """

    def __init__(
        self, nodes: NodeTable, resolve: Resolve, locate: Locate, counting_error_of: CountingError
    ) -> None:
        self._nodes = nodes
        self._resolve = resolve
        self._locate = locate
        self._counting_error_of = counting_error_of
        self._drivers: dict[str, CSINode] = {}
        self._of_node: dict[str, dict[str, VolumeAttachment]] = {}
        self._by_name: dict[str, VolumeAttachment] = {}
        self._of_volume: dict[str | None, set[str]] = {}
        self._forget()

    def _forget(self) -> None:
        """Drop all columns; they are computed again on demand."""
        self._cursors: tuple[int, int] | None = None
        self._stale: set[int] = set()
        self._capacity = self._nodes.capacity
        self._limits: dict[str, Column] = {}
        self._counts: dict[str, Column] = {}
        self._mounted: dict[int, frozenset[CSIVolumeHandle]] = {}
        self._rows_of: dict[CSIVolumeHandle, set[int]] = {}
        self._known: dict[int, tuple[Mapping[str, int], Mapping[str, int]]] = {}
        self._counting_errors: dict[int, str] = {}

    # --- reading ----------------------------------------------------------------------------

    def limit(self, driver: str) -> Column | None:
        """Return how many volumes of the driver each row can attach, UNLIMITED without a limit.

        None if no row has a limit.
        """
        self.refresh()
        return self._limits.get(driver)

    def count(self, driver: str) -> Column:
        """Return how many volumes of the driver each row has attached."""
        self.refresh()
        return self._column(self._counts, driver, 0)

    def counting_errors(self) -> Mapping[int, str]:
        """Return, by row, why the volumes of its pods cannot be counted; rows with limits only."""
        self.refresh()
        return self._counting_errors

    def counting_error(self, row: int, pods: Iterable[MountingPod]) -> str:
        """Return why these pods' volumes cannot be counted, or ""; "" too without a limit."""
        limits, _ = self._known.get(row, ({}, {}))
        return next(filter(None, map(self._counting_error_of, pods)), "") if limits else ""

    def rows_with(self, handle: CSIVolumeHandle) -> Iterable[int]:
        """Return the rows with a pod that mounts the volume."""
        self.refresh()
        return self._rows_of.get(handle, _NO_ROWS)

    def mounted(
        self, row: int, pods: Iterable[MountingPod]
    ) -> tuple[frozenset[CSIVolumeHandle], Counter[str]]:
        """Return what these pods would mount, and the row's attached volumes by driver then."""
        handles = _NO_HANDLES.union(*(self._resolve(pod) for pod in pods))
        attached = handles | self._attached(self._nodes.names[row])
        return handles, Counter(handle.driver for handle in attached)

    def refresh(self) -> None:
        """Recompute the rows that changed."""
        nodes = self._nodes
        now = (nodes.mount_journal.seq, nodes.node_journal.seq)
        if self._capacity != nodes.capacity:
            self._forget()
        if self._cursors is None:
            rows: Iterable[int] = range(nodes.size)
        elif self._cursors == now and not self._stale:
            return
        else:
            rows = self._stale
            rows = rows.union(nodes.mount_journal.since(self._cursors[0]).tolist())
            rows = rows.union(nodes.node_journal.since(self._cursors[1]).tolist())
        self._cursors, self._stale = now, set()
        for row in rows:
            self._recompute(row)

    # --- events -----------------------------------------------------------------------------

    def upsert_csi_node(self, csi_node: CSINode) -> None:
        """Store which drivers and limits a node has."""
        self._drivers[csi_node.name] = csi_node
        self.mark_node_stale(csi_node.name)

    def delete_csi_node(self, name: str) -> None:
        """Delete the drivers and limits of a node."""
        self._drivers.pop(name, None)
        self.mark_node_stale(name)

    def upsert(self, attachment: VolumeAttachment) -> None:
        """Store an attachment of a volume to a node."""
        name, spec = attachment.name, attachment.spec
        self.delete(name)
        self._by_name[name] = attachment
        self._of_node.setdefault(spec.node_name, {})[name] = attachment
        self._of_volume.setdefault(spec.source.persistent_volume_name, set()).add(name)
        self.mark_node_stale(spec.node_name)

    def delete(self, name: str) -> None:
        """Delete an attachment; an unknown one is ignored."""
        removed = self._by_name.pop(name, None)
        if removed is None:
            return
        node, volume = removed.spec.node_name, removed.spec.source.persistent_volume_name
        del self._of_node[node][name]
        if not self._of_node[node]:
            del self._of_node[node]
        self._of_volume[volume].discard(name)
        if not self._of_volume[volume]:
            del self._of_volume[volume]
        self.mark_node_stale(node)

    def mark_node_stale(self, name: str) -> None:
        """Recompute a node's row at the next refresh."""
        row = self._nodes.row_of.get(name)
        if row is not None:
            self._stale.add(row)

    def mark_stale(self, rows: Iterable[int]) -> None:
        """Recompute rows at the next refresh: their pods' claims have other volumes."""
        self._stale.update(rows)

    def mark_volume_stale(self, name: str) -> None:
        """Recompute the nodes a persistent volume is attached to."""
        for attachment in self._of_volume.get(name, ()):
            self.mark_node_stale(self._by_name[attachment].spec.node_name)

    def fork(
        self, nodes: NodeTable, resolve: Resolve, locate: Locate, counting_error_of: CountingError
    ) -> Attachments:
        """Return an independent copy over a forked node table, without computed columns."""
        copy = Attachments(nodes, resolve, locate, counting_error_of)
        copy._drivers = dict(self._drivers)
        copy._of_node = {node: dict(attached) for node, attached in self._of_node.items()}
        copy._by_name = dict(self._by_name)
        copy._of_volume = {volume: set(names) for volume, names in self._of_volume.items()}
        return copy

    # --- computing rows ---------------------------------------------------------------------

    def _recompute(self, row: int) -> None:
        nodes = self._nodes
        mine = self._drivers.get(nodes.names[row]) if nodes.alive[row] else None
        limits = mine.limits if mine is not None else {}
        pods = nodes.mounts.on(row).values()
        handles, counts = self.mounted(row, pods)
        old_limits, old_counts = self._known.pop(row, ({}, {}))
        for driver in old_limits:
            self._limits[driver][row] = UNLIMITED
        for driver in old_counts:
            self._counts[driver][row] = 0
        for driver, limit in limits.items():
            self._column(self._limits, driver, UNLIMITED)[row] = limit
        for driver, count in counts.items():
            self._column(self._counts, driver, 0)[row] = count
        if limits or counts:
            self._known[row] = (limits, counts)
        self._counting_errors.pop(row, None)
        if error := self.counting_error(row, pods):
            self._counting_errors[row] = error
        self._mount(row, handles)

    def _mount(self, row: int, handles: frozenset[CSIVolumeHandle]) -> None:
        for handle in self._mounted.pop(row, _NO_HANDLES) - handles:
            self._rows_of[handle].discard(row)
            if not self._rows_of[handle]:
                del self._rows_of[handle]
        for handle in handles:
            self._rows_of.setdefault(handle, set()).add(row)
        if handles:
            self._mounted[row] = handles

    def _attached(self, node: str) -> frozenset[CSIVolumeHandle]:
        handles = set()
        for attachment in self._of_node.get(node, {}).values():
            spec = attachment.spec
            if spec.attacher and spec.source.persistent_volume_name is not None:
                handles.add(self._locate(spec.attacher, spec.source.persistent_volume_name))
        return frozenset(handle for handle in handles if handle is not None)

    def _column(self, table: dict[str, Column], driver: str, empty: int) -> Column:
        column = table.get(driver)
        if column is None:
            column = table[driver] = np.full(self._capacity, empty, np.int32)
        return column

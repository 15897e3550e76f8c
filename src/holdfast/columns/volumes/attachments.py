"""How many volumes of each CSI driver a node has attached, against how many it can.

A row counts the distinct volumes of its pods, and those of VolumeAttachments besides. Columns are
brought up to date only when somebody asks, and only for the rows where something moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from holdfast.api.storage import CSINode, VolumeAttachment
from holdfast.api.volume_sources import CSIVolumeHandle
from holdfast.columns.mounts import Mounter
from holdfast.columns.node_table import NodeTable

UNLIMITED = -1
Column = NDArray[np.int32]
Resolve = Callable[[Mounter], frozenset[CSIVolumeHandle]]
Locate = Callable[[str, str], CSIVolumeHandle | None]
Doubt = Callable[[Mounter], str]
_NOTHING: frozenset[CSIVolumeHandle] = frozenset()
_NOWHERE: frozenset[int] = frozenset()


class Attachments:
    """Volumes per driver and row.

    ``resolve`` names a pod's volumes, ``locate`` the volume of an attachment by its attacher and
    persistent volume, ``doubt`` says why a pod's volumes cannot be counted, if so.
    """

    def __init__(self, nodes: NodeTable, resolve: Resolve, locate: Locate, doubt: Doubt) -> None:
        self._nodes = nodes
        self._resolve = resolve
        self._locate = locate
        self._doubt = doubt
        self._drivers: dict[str, CSINode] = {}
        self._of_node: dict[str, dict[str, VolumeAttachment]] = {}
        self._by_name: dict[str, VolumeAttachment] = {}
        self._of_volume: dict[str | None, set[str]] = {}
        self._forget()

    def _forget(self) -> None:
        """Work everything out anew when next asked."""
        self._cursors: tuple[int, int] | None = None
        self._stale: set[int] = set()
        self._capacity = self._nodes.capacity
        self._limits: dict[str, Column] = {}
        self._counts: dict[str, Column] = {}
        self._mounted: dict[int, frozenset[CSIVolumeHandle]] = {}
        self._rows_of: dict[CSIVolumeHandle, set[int]] = {}
        self._known: dict[int, tuple[Mapping[str, int], Mapping[str, int]]] = {}
        self._doubts: dict[int, str] = {}

    # --- what others read -------------------------------------------------------------------

    def limit(self, driver: str) -> Column | None:
        """How many volumes of the driver each row can attach, UNLIMITED without a limit.

        None if no row has one.
        """
        self.refresh()
        return self._limits.get(driver)

    def count(self, driver: str) -> Column:
        """How many it has attached."""
        self.refresh()
        return self._column(self._counts, driver, 0)

    def doubts(self) -> Mapping[int, str]:
        """Rows with limits whose pods' volumes cannot be counted, and why."""
        self.refresh()
        return self._doubts

    def doubt_about(self, row: int, pods: Iterable[Mounter]) -> str:
        """Why these pods' volumes cannot be counted on the row, or ""; no limit, no matter."""
        limits, _ = self._known.get(row, ({}, {}))
        return next(filter(None, map(self._doubt, pods)), "") if limits else ""

    def rows_with(self, handle: CSIVolumeHandle) -> Iterable[int]:
        """Rows with a pod that mounts the volume."""
        self.refresh()
        return self._rows_of.get(handle, _NOWHERE)

    def mounted(
        self, row: int, pods: Iterable[Mounter]
    ) -> tuple[frozenset[CSIVolumeHandle], Counter[str]]:
        """What these pods would mount on the row, and how many volumes it would have attached."""
        handles = _NOTHING.union(*(self._resolve(pod) for pod in pods))
        attached = handles | self._attached(self._nodes.names[row])
        return handles, Counter(handle.driver for handle in attached)

    def refresh(self) -> None:
        """Bring the columns up to date."""
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
            self._work_out(row)

    # --- what happens -----------------------------------------------------------------------

    def upsert_drivers(self, csi_node: CSINode) -> None:
        """A node says which drivers it has."""
        self._drivers[csi_node.name] = csi_node
        self.touch_node(csi_node.name)

    def delete_drivers(self, name: str) -> None:
        """It does not say so any more."""
        self._drivers.pop(name, None)
        self.touch_node(name)

    def upsert(self, attachment: VolumeAttachment) -> None:
        """A volume is attached to a node."""
        name, spec = attachment.name, attachment.spec
        self.delete(name)
        self._by_name[name] = attachment
        self._of_node.setdefault(spec.node_name, {})[name] = attachment
        self._of_volume.setdefault(spec.source.persistent_volume_name, set()).add(name)
        self.touch_node(spec.node_name)

    def delete(self, name: str) -> None:
        """It is attached no more."""
        gone = self._by_name.pop(name, None)
        if gone is None:
            return
        node, volume = gone.spec.node_name, gone.spec.source.persistent_volume_name
        del self._of_node[node][name]
        if not self._of_node[node]:
            del self._of_node[node]
        self._of_volume[volume].discard(name)
        if not self._of_volume[volume]:
            del self._of_volume[volume]
        self.touch_node(node)

    def touch_node(self, name: str) -> None:
        """Look at a node again."""
        row = self._nodes.row_of.get(name)
        if row is not None:
            self._stale.add(row)

    def touch(self, rows: Iterable[int]) -> None:
        """Look at rows again, because what their pods mount is another volume now."""
        self._stale.update(rows)

    def touch_volume(self, name: str) -> None:
        """Look again at the nodes a persistent volume is attached to."""
        for attachment in self._of_volume.get(name, ()):
            self.touch_node(self._by_name[attachment].spec.node_name)

    def fork(self, nodes: NodeTable, resolve: Resolve, locate: Locate, doubt: Doubt) -> Attachments:
        """An independent copy over a forked picture; columns are worked out when asked for."""
        copy = Attachments(nodes, resolve, locate, doubt)
        copy._drivers = dict(self._drivers)
        copy._of_node = {node: dict(attached) for node, attached in self._of_node.items()}
        copy._by_name = dict(self._by_name)
        copy._of_volume = {volume: set(names) for volume, names in self._of_volume.items()}
        return copy

    # --- working it out ---------------------------------------------------------------------

    def _work_out(self, row: int) -> None:
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
        self._doubts.pop(row, None)
        if words := self.doubt_about(row, pods):
            self._doubts[row] = words
        self._mount(row, handles)

    def _mount(self, row: int, handles: frozenset[CSIVolumeHandle]) -> None:
        for handle in self._mounted.pop(row, _NOTHING) - handles:
            self._rows_of[handle].discard(row)
            if not self._rows_of[handle]:
                del self._rows_of[handle]
        for handle in handles:
            self._rows_of.setdefault(handle, set()).add(row)
        if handles:
            self._mounted[row] = handles

    def _attached(self, node: str) -> frozenset[CSIVolumeHandle]:
        found = set()
        for attachment in self._of_node.get(node, {}).values():
            spec = attachment.spec
            if spec.attacher and spec.source.persistent_volume_name is not None:
                found.add(self._locate(spec.attacher, spec.source.persistent_volume_name))
        return frozenset(handle for handle in found if handle is not None)

    def _column(self, table: dict[str, Column], driver: str, empty: int) -> Column:
        column = table.get(driver)
        if column is None:
            column = table[driver] = np.full(self._capacity, empty, np.int32)
        return column

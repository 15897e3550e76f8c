"""What a pod mounts, and who mounts what where.

Only volumes that decide where a pod may run are looked at: claims, and the inline disks that two
pods of a node must not share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from holdfast.api.pod import Pod, Volume
from holdfast.api.volume_sources import CSIVolumeHandle, as_csi

_NOBODY: Mapping[str, Any] = {}
_NOWHERE: Mapping[str, int] = {}


class ClaimUse(NamedTuple):
    """A claim by its name; an ephemeral one was made for this very pod."""

    name: str
    ephemeral: bool


class Disk(NamedTuple):
    """An inline disk. Those with equal ``kind`` and ``name`` are one if a monitor is shared."""

    kind: str
    name: tuple[str, ...]
    read_only: bool
    monitors: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Mounts:
    """Claims in the order of the pod's volumes, its disks, and its disks as CSI volumes."""

    claims: tuple[ClaimUse, ...] = ()
    disks: frozenset[Disk] = frozenset()
    handles: frozenset[CSIVolumeHandle] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.claims or self.disks or self.handles)

    @property
    def ephemeral(self) -> bool:
        """Whether some claim belongs to this very pod."""
        return any(claim.ephemeral for claim in self.claims)

    @property
    def persistent(self) -> tuple[str, ...]:
        """Names of claims that any pod may use."""
        return tuple(claim.name for claim in self.claims if not claim.ephemeral)


NO_MOUNTS = Mounts()


class Mounter(Protocol):
    """A pod that mounts something."""

    @property
    def uid(self) -> str:
        """Its identity."""
        ...

    @property
    def namespace(self) -> str:
        """Where its claims are."""
        ...

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def pod(self) -> Pod:
        """The pod itself."""
        ...

    @property
    def mounts(self) -> Mounts:
        """What it mounts."""
        ...


def mounts_of(pod: Pod) -> Mounts:
    """Digest a pod's volumes."""
    if not pod.spec.volumes:
        return NO_MOUNTS
    claims: list[ClaimUse] = []
    disks: list[Disk] = []
    handles: list[CSIVolumeHandle] = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            claims.append(ClaimUse(volume.persistent_volume_claim.claim_name, False))
        elif volume.ephemeral is not None:
            claims.append(ClaimUse(f"{pod.name}-{volume.name}", True))
        disks += _disks(volume)
        if (handle := as_csi(volume)) is not None:
            handles.append(handle)
    return Mounts(tuple(claims), frozenset(disks), frozenset(handles))


def _disks(volume: Volume) -> Iterable[Disk]:
    if (gce := volume.gce_persistent_disk) is not None:
        yield Disk("gce", (gce.pd_name,), gce.read_only)
    if (ebs := volume.aws_elastic_block_store) is not None:
        # Not even two readers may share one.
        yield Disk("ebs", (ebs.volume_id,), False)
    if (iscsi := volume.iscsi) is not None:
        yield Disk("iscsi", (iscsi.iqn,), iscsi.read_only)
    if (rbd := volume.rbd) is not None:
        yield Disk("rbd", (rbd.pool, rbd.image), rbd.read_only, frozenset(rbd.monitors))


def disks_clash(wanted: Iterable[Disk], used: Iterable[Disk]) -> bool:
    """Tell whether two pods' disks cannot be on one node.

    >>> disks_clash([Disk("gce", ("a",), True)], [Disk("gce", ("a",), False)])
    True
    """
    taken = list(used)
    return any(_clash(mine, theirs) for mine in wanted for theirs in taken)


def _clash(mine: Disk, theirs: Disk) -> bool:
    return (
        mine[:2] == theirs[:2]
        and not (mine.read_only and theirs.read_only)
        and (mine.kind != "rbd" or bool(mine.monitors & theirs.monitors))
    )


class MountIndex:
    """Pods that mount something: by row, by claim, by disk."""

    __slots__ = ("_of_claim", "_of_disk", "_of_row")

    def __init__(self) -> None:
        self._of_row: dict[int, dict[str, Mounter]] = {}
        self._of_claim: dict[str, dict[str, int]] = {}
        self._of_disk: dict[tuple[str, tuple[str, ...]], dict[str, int]] = {}

    def add(self, row: int, pod: Mounter) -> None:
        """Note that a pod stands on the row."""
        uid = pod.uid
        self._of_row.setdefault(row, {})[uid] = pod
        for claim in pod.mounts.claims:
            self._of_claim.setdefault(f"{pod.namespace}/{claim.name}", {})[uid] = row
        for disk in pod.mounts.disks:
            self._of_disk.setdefault(disk[:2], {})[uid] = row

    def remove(self, row: int, pod: Mounter) -> None:
        """Note that it left."""
        uid = pod.uid
        _drop(self._of_row, row, uid)
        for claim in pod.mounts.claims:
            _drop(self._of_claim, f"{pod.namespace}/{claim.name}", uid)
        for disk in pod.mounts.disks:
            _drop(self._of_disk, disk[:2], uid)

    def on(self, row: int) -> Mapping[str, Mounter]:
        """Pods on the row that mount something, by uid."""
        return self._of_row.get(row, _NOBODY)

    @property
    def rows(self) -> Iterable[int]:
        """Rows with such pods."""
        return self._of_row.keys()

    def users(self, claim: str) -> Mapping[str, int]:
        """Who uses a claim (``namespace/name``) on which row, by uid."""
        return self._of_claim.get(claim, _NOWHERE)

    def rows_taken(self, wanted: Iterable[Disk]) -> set[int]:
        """Rows with a pod whose disks clash with these."""
        return {
            row
            for disk in wanted
            for uid, row in self._of_disk.get(disk[:2], _NOWHERE).items()
            if disks_clash((disk,), self._of_row[row][uid].mounts.disks)
        }

    def fork(self) -> MountIndex:
        """An independent copy."""
        copy = MountIndex()
        copy._of_row = {row: dict(pods) for row, pods in self._of_row.items()}
        copy._of_claim = {key: dict(rows) for key, rows in self._of_claim.items()}
        copy._of_disk = {key: dict(rows) for key, rows in self._of_disk.items()}
        return copy


def _drop(table: dict[Any, dict[str, Any]], key: Any, uid: str) -> None:
    users = table.get(key)
    if users is not None:
        # A pod may name one claim twice.
        users.pop(uid, None)
        if not users:
            del table[key]

"""The volumes a pod mounts, and which pods on which rows mount them.

Only volumes that restrict where a pod may run are read: claims, and inline disks that two pods on
one node must not share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from holdfast.api.pod import Pod, Volume
from holdfast.api.volume_sources import CSIVolumeHandle, as_csi

_NO_PODS: Mapping[str, Any] = {}
_NO_ROWS: Mapping[str, int] = {}


class ClaimUse(NamedTuple):
    """A claim by name; an ephemeral one was created for this pod."""

    name: str
    ephemeral: bool


class Disk(NamedTuple):
    """An inline disk. Disks of equal ``kind`` and ``name`` are the same if they share a monitor."""

    kind: str
    name: tuple[str, ...]
    read_only: bool
    monitors: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Mounts:
    """A pod's claims in the order of its volumes, and its inline disks, also as CSI volumes."""

    claims: tuple[ClaimUse, ...] = ()
    disks: frozenset[Disk] = frozenset()
    handles: frozenset[CSIVolumeHandle] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.claims or self.disks or self.handles)

    @property
    def ephemeral(self) -> bool:
        """Whether some claim was created for this pod."""
        return any(claim.ephemeral for claim in self.claims)

    @property
    def persistent(self) -> tuple[str, ...]:
        """Names of the claims that any pod may use."""
        return tuple(claim.name for claim in self.claims if not claim.ephemeral)


NO_MOUNTS = Mounts()


class MountingPod(Protocol):
    """A pod that mounts something."""

    @property
    def uid(self) -> str:
        """The pod's uid."""
        ...

    @property
    def namespace(self) -> str:
        """The namespace of the pod and its claims."""
        ...

    @property
    def name(self) -> str:
        """The pod's name."""
        ...

    @property
    def pod(self) -> Pod:
        """The pod object."""
        ...

    @property
    def mounts(self) -> Mounts:
        """What the pod mounts."""
        ...


def mounts_of(pod: Pod) -> Mounts:
    """Read a pod's volumes."""
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
        # Two pods must not share one even if both only read.
        yield Disk("ebs", (ebs.volume_id,), False)
    if (iscsi := volume.iscsi) is not None:
        yield Disk("iscsi", (iscsi.iqn,), iscsi.read_only)
    if (rbd := volume.rbd) is not None:
        yield Disk("rbd", (rbd.pool, rbd.image), rbd.read_only, frozenset(rbd.monitors))


def disks_conflict(wanted: Iterable[Disk], used: Iterable[Disk]) -> bool:
    """Return whether two pods with these disks cannot run on one node.

    >>> disks_conflict([Disk("gce", ("a",), True)], [Disk("gce", ("a",), False)])
    True
    """
    taken = list(used)
    return any(_conflict(mine, theirs) for mine in wanted for theirs in taken)


def _conflict(mine: Disk, theirs: Disk) -> bool:
    return (
        mine[:2] == theirs[:2]
        and not (mine.read_only and theirs.read_only)
        and (mine.kind != "rbd" or bool(mine.monitors & theirs.monitors))
    )


class MountIndex:
    """Pods that mount something: by row, by claim and by disk."""

    __slots__ = ("_of_claim", "_of_disk", "_of_row")

    def __init__(self) -> None:
        self._of_row: dict[int, dict[str, MountingPod]] = {}
        self._of_claim: dict[str, dict[str, int]] = {}
        self._of_disk: dict[tuple[str, tuple[str, ...]], dict[str, int]] = {}

    def add(self, row: int, pod: MountingPod) -> None:
        """Add a pod to the row."""
        uid = pod.uid
        self._of_row.setdefault(row, {})[uid] = pod
        for claim in pod.mounts.claims:
            self._of_claim.setdefault(f"{pod.namespace}/{claim.name}", {})[uid] = row
        for disk in pod.mounts.disks:
            self._of_disk.setdefault(disk[:2], {})[uid] = row

    def remove(self, row: int, pod: MountingPod) -> None:
        """Remove a pod from the row."""
        uid = pod.uid
        _drop(self._of_row, row, uid)
        for claim in pod.mounts.claims:
            _drop(self._of_claim, f"{pod.namespace}/{claim.name}", uid)
        for disk in pod.mounts.disks:
            _drop(self._of_disk, disk[:2], uid)

    def on(self, row: int) -> Mapping[str, MountingPod]:
        """Return the pods on the row that mount something, by uid."""
        return self._of_row.get(row, _NO_PODS)

    @property
    def rows(self) -> Iterable[int]:
        """Rows with such pods."""
        return self._of_row.keys()

    def users(self, claim: str) -> Mapping[str, int]:
        """Return the row of each pod that uses a claim (``namespace/name``), by uid."""
        return self._of_claim.get(claim, _NO_ROWS)

    def rows_taken(self, wanted: Iterable[Disk]) -> set[int]:
        """Return the rows with a pod whose disks conflict with these."""
        return {
            row
            for disk in wanted
            for uid, row in self._of_disk.get(disk[:2], _NO_ROWS).items()
            if disks_conflict((disk,), self._of_row[row][uid].mounts.disks)
        }

    def fork(self) -> MountIndex:
        """Return an independent copy."""
        copy = MountIndex()
        copy._of_row = {row: dict(pods) for row, pods in self._of_row.items()}
        copy._of_claim = {key: dict(rows) for key, rows in self._of_claim.items()}
        copy._of_disk = {key: dict(rows) for key, rows in self._of_disk.items()}
        return copy


def _drop(table: dict[Any, dict[str, Any]], key: Any, uid: str) -> None:
    users = table.get(key)
    if users is not None:
        # A pod may mount one claim twice.
        users.pop(uid, None)
        if not users:
            del table[key]

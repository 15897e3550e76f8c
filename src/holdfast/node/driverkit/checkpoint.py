"""A file of the claims that a driver has prepared, for the same answers after a restart.

A kubelet calls prepare again after every restart and expects the same devices. An entry is written
before the handler is called, marked as done after it, and marked as not done before unprepare. So
after a driver was killed in a handler, the entry shows that the effect is unknown. In the past, a
driver that was killed in unprepare kept the claim as prepared, and the next prepare did not call
the handler.

A damaged file is an error and does not count as empty: devices in use would be forgotten.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import msgspec

from holdfast.node.driverkit.claims import AllocatedDevice, Claim
from holdfast.runtime.errors import BadConfiguration
from holdfast.runtime.private_files import sync_directory, write_private


class PreparedClaim(msgspec.Struct, frozen=True):
    """A claim whose preparation has begun; ``done`` when it has ended."""

    namespace: str
    name: str
    uid: str
    devices: tuple[AllocatedDevice, ...]
    cdi_ids: tuple[tuple[str, ...], ...] = ()
    """The qualified CDI names for each device."""
    done: bool = False
    handle: str | None = None
    """The handle of a claim of classic DRA, as its controller wrote it."""
    stands_for: str = ""
    """Uid of the classic claim that is prepared for this one; the kubelet only sees this one."""
    called: bool = False
    """Whether the node prepares this classic claim itself, not only its shadows."""

    @property
    def claim(self) -> Claim:
        """The claim as handlers get it, without the handle."""
        return Claim(self.namespace, self.name, self.uid, self.devices)


class _File(msgspec.Struct):
    checksum: int
    claims: msgspec.Raw


class Checkpoint:
    """Prepared claims by uid; every change is on disk before it returns."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._claims = {claim.uid: claim for claim in _read(path)}

    def get(self, uid: str) -> PreparedClaim | None:
        """Return the entry of a claim, or None."""
        return self._claims.get(uid)

    def users_of(self, uid: str) -> list[str]:
        """Return the uids of the shadows of a classic claim."""
        return [claim.uid for claim in self._claims.values() if claim.stands_for == uid]

    def uids(self) -> list[str]:
        """Return the uids of all entries."""
        return list(self._claims)

    def put(self, claim: PreparedClaim) -> None:
        """Add or replace the entry of a claim."""
        self._write({**self._claims, claim.uid: claim})

    def remove(self, uid: str) -> None:
        """Remove the entry of a claim."""
        self._write({key: claim for key, claim in self._claims.items() if key != uid})

    def _write(self, claims: dict[str, PreparedClaim]) -> None:
        data = msgspec.json.encode(list(claims.values()))
        file = _File(zlib.crc32(data), msgspec.Raw(data))
        write_private(self._path, msgspec.json.encode(file))
        sync_directory(self._path.parent)
        self._claims = claims


def _read(path: Path) -> list[PreparedClaim]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    try:
        file = msgspec.json.decode(data, type=_File)
        if zlib.crc32(bytes(file.claims)) != file.checksum:
            raise ValueError("the checksum is wrong")
        return msgspec.json.decode(file.claims, type=list[PreparedClaim])
    except (ValueError, RecursionError) as error:
        raise BadConfiguration(
            f"{path} is damaged ({error}): the claims that this driver has prepared are not known; "
            "unprepare them by hand, then remove the file"
        ) from error

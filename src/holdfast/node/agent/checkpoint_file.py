"""Files that record what the pods of an agent use, for the next start of the agent.

The format is a kubelet's: ``{"Data": "...", "Checksum": N}``, where the checksum is the CRC-32 of
the string ``Data``, which is JSON itself.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from holdfast.runtime.errors import BadConfiguration
from holdfast.runtime.private_files import PRIVATE_FILE, replace_file, sync_directory

T = TypeVar("T")


RESET_HINT = (
    "To start without it, use --reset-checkpoint: claims of running pods are prepared again, those "
    "of pods that are gone stay prepared; devices that running pods have of device plugins count "
    "as free"
)


class _Envelope(msgspec.Struct):
    Data: str
    Checksum: int


class CheckpointFile:
    """A file with a checksum; ``snapshot`` returns the content to write now."""

    def __init__(self, path: Path, snapshot: Callable[[], bytes]) -> None:
        self._path = path
        self._snapshot = snapshot
        self._wanted = self._written = 0
        self.stale = False
        """Whether the last write failed: the file holds an older state."""
        self._writing: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether the file is being written."""
        return self._written < self._wanted

    async def save(self) -> None:
        """Write the current state; returns when it is on disk. Concurrent saves share a write."""
        self._wanted += 1
        wanted = self._wanted
        while self._written < wanted:
            if self._writing is None or self._writing.done():
                self._writing = asyncio.create_task(self._write())
            # A cancelled caller must not leave two writers behind: the older one could end last.
            await asyncio.shield(self._writing)

    async def _write(self) -> None:
        version, data = self._wanted, self._snapshot()
        try:
            await asyncio.to_thread(write_checkpoint, self._path, data)
        except OSError:
            self._wanted = self._written
            self.stale = True
            raise
        self._written, self.stale = version, False


def write_checkpoint(path: Path, data: bytes) -> None:
    """Replace a file atomically; it is on disk when this returns."""
    envelope = _Envelope(data.decode(), zlib.crc32(data))
    replace_file(path, msgspec.json.encode(envelope), PRIVATE_FILE)
    sync_directory(path.parent)


def read_checkpoint(path: Path, kind: type[T]) -> T | None:
    """Return the content of a file, None if there is none; raises BadConfiguration if damaged."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadConfiguration(f"cannot read {path}: {error.strerror}") from None
    try:
        envelope = msgspec.json.decode(raw, type=_Envelope)
        data = envelope.Data.encode()
        if (checksum := zlib.crc32(data)) != envelope.Checksum:
            raise ValueError(f"its checksum is {envelope.Checksum}, that of its data {checksum}")
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadConfiguration(f"{path} is damaged: {error}. {RESET_HINT}") from None

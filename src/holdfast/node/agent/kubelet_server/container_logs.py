"""Read container logs: lines of time, stream, ``P`` or ``F`` (partial or full) and text."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from holdfast.api.timestamps import parse_rfc3339
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import BadRequest

FOLLOW_SECONDS = 0.1
"""How often a followed log is read."""
_BLOCK = 64 * 1024
_STREAMS = {"": b"", "All": b"", "Stdout": b"stdout", "Stderr": b"stderr"}


@dataclass(frozen=True, slots=True)
class LogFile:
    """The log file of one attempt of a container, and whether it may still grow."""

    path: Path
    growing: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The part of a log to read, and how; the fields are those of PodLogOptions."""

    follow: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since: float | None = None
    stream: bytes = b""

    @classmethod
    def parse(cls, query: Mapping[str, str], now: float) -> LogOptions:
        """Read the options that the API server has checked."""
        try:
            seconds = query.get("sinceSeconds")
            since = parse_rfc3339(query["sinceTime"]) if query.get("sinceTime") else None
            return cls(
                follow=query.get("follow") == "true",
                timestamps=query.get("timestamps") == "true",
                tail_lines=_number(query, "tailLines"),
                limit_bytes=_number(query, "limitBytes"),
                since=now - int(seconds) if seconds else since,
                stream=_STREAMS[query.get("stream", "")],
            )
        except (ValueError, KeyError) as wrong:
            raise BadRequest(f"the log options cannot be read: {wrong}") from wrong


async def read_log(log: LogFile, options: LogOptions, clock: Clock) -> AsyncIterator[bytes]:
    """Yield pieces of a log; a followed one ends when the container has ended.

    If a log was split because of its size, only the newest file is read, as by a kubelet.
    """
    selection, rest = _Selection(options), b""
    with _NewestFile(log.path) as file:
        if options.tail_lines is not None:
            file.seek_tail(options.tail_lines, options.stream)
        while not selection.full:
            growing = options.follow and log.growing()  # before reading: the last lines are read
            block = file.read()
            *lines, rest = (rest + block).split(b"\n")
            if piece := selection.text(lines):
                yield piece
            if block:
                await asyncio.sleep(0)
            elif growing:
                await clock.sleep(FOLLOW_SECONDS)
            else:
                return


class _NewestFile:
    """A log file, and the file that replaces it when it is too large."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None

    def __enter__(self) -> _NewestFile:
        self._open()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._file is not None:
            self._file.close()

    def _open(self) -> None:
        with suppress(FileNotFoundError):  # not written yet, or removed
            new = self._path.open("rb")
            if self._file is not None:
                self._file.close()
            self._file = new

    def seek_tail(self, lines: int, stream: bytes) -> None:
        if self._file is not None:
            self._file.seek(_tail_offset(self._file, lines, stream))

    def read(self) -> bytes:
        """Return the next bytes; b"" if there are none yet."""
        if self._file is not None and (block := self._file.read(_BLOCK)):
            return block
        if self._file is not None and not self._was_replaced(self._file):
            return b""
        self._open()
        return self._file.read(_BLOCK) if self._file is not None else b""

    def _was_replaced(self, file: BinaryIO) -> bool:
        try:
            return self._path.stat().st_ino != os.fstat(file.fileno()).st_ino
        except FileNotFoundError:
            return False


class _Selection:
    """Selects the lines of a log to show, and the text of each."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._left = options.limit_bytes
        self._inside: dict[bytes, bool] = {}
        """Streams in the middle of a line whose start has been shown."""

    @property
    def full(self) -> bool:
        """Whether the limit of bytes is reached."""
        return self._left is not None and self._left <= 0

    def text(self, lines: list[bytes]) -> bytes:
        shown = b"".join(map(self._line, lines))
        if self._left is not None:
            shown = shown[: self._left]
            self._left -= len(shown)
        return shown

    def _line(self, line: bytes) -> bytes:
        when, _, rest = line.partition(b" ")
        stream, _, rest = rest.partition(b" ")
        tag, _, text = rest.partition(b" ")
        options = self._options
        if options.stream and stream != options.stream:
            return b""
        if options.since is not None and _time(when) < options.since:
            return b""
        starts = not self._inside.get(stream)
        self._inside[stream] = tag == b"P"
        if options.timestamps and starts:
            text = when + b" " + text
        return text if tag == b"P" else text + b"\n"


def _tail_offset(file: BinaryIO, lines: int, stream: bytes) -> int:
    """Return the offset of the last full lines of a log, reading it from its end."""
    end = file.seek(0, os.SEEK_END)
    if lines == 0:
        return end
    start, kept = end, b""
    seen = 0
    while start > 0:
        size = min(_BLOCK, start)
        start -= size
        file.seek(start)
        block = file.read(size) + kept
        block_lines = block.split(b"\n")
        position = start + len(block)
        if start > 0:
            kept = block_lines.pop(0)  # may be the end of a line that begins in the block before
        for line in reversed(block_lines):
            position -= len(line)
            if line and _ends_line(line, stream):
                seen += 1
                if seen > lines:
                    return position + len(line) + 1
            position -= 1
    return 0


def _time(when: bytes) -> float:
    """Return the time of a line; a line that a full disk cut off counts as new."""
    try:
        return parse_rfc3339(when.decode())
    except (UnicodeDecodeError, BadRequest):
        return math.inf


def _ends_line(line: bytes, stream: bytes) -> bool:
    parts = line.split(b" ", 3)
    return len(parts) > 2 and parts[2] == b"F" and (not stream or parts[1] == stream)


def _number(query: Mapping[str, str], name: str) -> int | None:
    return int(query[name]) if query.get(name) else None

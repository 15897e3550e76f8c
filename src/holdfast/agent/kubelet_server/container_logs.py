"""Read container logs: lines of time, stream, ``P`` or ``F`` (partial or full) and text."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from holdfast.agent.kubelet_server.container_access import LogFile
from holdfast.api.timestamps import parse_rfc3339
from holdfast.clock import Clock
from holdfast.errors import BadRequest

FOLLOW_SECONDS = 0.1
"""How often a followed log is looked at."""
_BLOCK = 64 * 1024
_STREAMS = {"": b"", "All": b"", "Stdout": b"stdout", "Stderr": b"stderr"}


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Which part of a log is read, and how; the fields are those of PodLogOptions."""

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
    """Yield pieces of a log; a followed one ends when the container has ended."""
    selection = _Selection(options)
    try:
        file = open(log.path, "rb")  # noqa: SIM115 - closed below, after the last piece
    except FileNotFoundError:
        return  # nothing was written yet, or the log was removed
    with file:
        if options.tail_lines is not None:
            file.seek(_tail_offset(file, options.tail_lines, options.stream))
        rest = b""
        while not selection.full:
            growing = options.follow and log.growing()  # before reading: the last lines are read
            block = file.read(_BLOCK)
            *lines, rest = (rest + block).split(b"\n")
            if piece := selection.text(lines):
                yield piece
            if block:
                await asyncio.sleep(0)
            elif growing:
                await clock.sleep(FOLLOW_SECONDS)
            else:
                return


class _Selection:
    """Which text of the lines of a log is shown."""

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
        if options.since is not None and parse_rfc3339(when.decode()) < options.since:
            return b""
        starts = not self._inside.get(stream)
        self._inside[stream] = tag == b"P"
        if options.timestamps and starts:
            text = when + b" " + text
        return text if tag == b"P" else text + b"\n"


def _tail_offset(file: BinaryIO, lines: int, stream: bytes) -> int:
    """Return where the last full lines of a log begin, reading it from its end."""
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
        found = block.split(b"\n")
        kept = found[0]  # may be the end of a line that begins in the block before
        position = start + len(block)
        for line in reversed(found[1:]):
            position -= len(line)
            if line and _ends_line(line, stream):
                seen += 1
                if seen > lines:
                    return position + len(line) + 1
            position -= 1
    return 0


def _ends_line(line: bytes, stream: bytes) -> bool:
    parts = line.split(b" ", 3)
    return len(parts) > 2 and parts[2] == b"F" and (not stream or parts[1] == stream)


def _number(query: Mapping[str, str], name: str) -> int | None:
    return int(query[name]) if query.get(name) else None

"""Parse one HTTP/1.1 response incrementally, without I/O: from bytes to parts of the body.

The parser supports what API servers and their proxies send: a status line, headers, and a body
that has a content length, is chunked, or lasts until the connection ends. Anything else raises
``MalformedResponse``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

MAX_HEADER_BYTES = 1 << 16
"""A response with more bytes of headers is malformed."""
_NO_BODY_STATUSES = frozenset({204, 304})


class MalformedResponse(Exception):
    """The bytes are not a valid HTTP response."""


class Headers(Mapping[str, str]):
    """The headers of a response, with lower-case names; parsed at the first access."""

    __slots__ = ("_head", "_read")

    def __init__(self, head: bytes) -> None:
        self._head = head
        self._read: dict[str, str] | None = None

    def _all(self) -> dict[str, str]:
        if self._read is None:
            lines = self._head.decode("latin-1").split("\r\n")[1:]
            pairs = (line.partition(":") for line in lines)
            self._read = {name.strip().lower(): value.strip() for name, _, value in pairs}
        return self._read

    def __getitem__(self, name: str) -> str:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


class ResponseParser:
    """Consume bytes until one response is complete.

    ``status`` is 0 until the headers are complete. ``parts`` are the parts of the body that were
    not yet consumed. Bytes after the response set ``should_close``.
    """

    __slots__ = ("_buffer", "_chunked", "_no_body", "_remaining", "done", "headers", "parts",
                 "should_close", "status")  # fmt: skip

    def __init__(self, method: str) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.parts: list[bytes] = []
        self.done = False
        self.should_close = False
        """Whether the connection must be closed after this response."""
        self._no_body = method == "HEAD"
        self._buffer = b""
        self._remaining = -1
        """Bytes missing from the body or the chunk; -1 if the body ends with the connection."""
        self._chunked = False

    def feed(self, data: bytes) -> None:
        """Parse the next bytes."""
        if self._buffer:
            data, self._buffer = self._buffer + data, b""
        while not self.status:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                if len(data) > MAX_HEADER_BYTES:
                    raise MalformedResponse("the headers are too long")
                self._buffer = data
                return
            self._read_head(data[:end])
            data = data[end + 4 :]
        if self.done:
            self._reject_surplus(data)
        elif self._chunked:
            self._feed_chunks(data)
        elif data:
            self._feed_plain(data)

    def feed_eof(self) -> bool:
        """Handle the end of the connection; return whether the response is complete."""
        if self.status and self._remaining < 0 and not self._chunked:
            self.done = True
        return self.done

    def _read_head(self, head: bytes) -> None:
        if not head.startswith(b"HTTP/1.") or not head[9:12].isdigit():
            raise MalformedResponse(f"{head[:40]!r} is not an HTTP status line")
        status = int(head[9:12])
        if 100 <= status < 200:
            return  # informational; the final response follows
        lower = head.lower()
        self.status, self.headers = status, Headers(head)
        self.should_close = b"\r\nconnection: close" in lower or head.startswith(b"HTTP/1.0")
        if self._no_body or status in _NO_BODY_STATUSES:
            self.done = True
        elif (at := lower.find(b"\r\ntransfer-encoding:")) >= 0:
            if lower[at + 20 :].split(b"\r\n", 1)[0].strip() != b"chunked":
                raise MalformedResponse("unsupported transfer-encoding")
            self._chunked, self._remaining = True, 0
        elif (at := lower.find(b"\r\ncontent-length:")) >= 0:
            length = lower[at + 17 :].split(b"\r\n", 1)[0].strip()
            if not length.isdigit():
                raise MalformedResponse(f"invalid content-length {length!r}")
            self._remaining = int(length)
            self.done = not self._remaining
        else:
            self.should_close = True

    def _feed_plain(self, data: bytes) -> None:
        if self._remaining < 0:
            self.parts.append(data)
            return
        surplus = len(data) - self._remaining
        if surplus > 0:
            self._reject_surplus(data[self._remaining :])
            data = data[: self._remaining]
        self.parts.append(data)
        self._remaining -= len(data)
        self.done = not self._remaining

    def _feed_chunks(self, data: bytes) -> None:
        """Parse chunks: a size in hexadecimal, a line end, that many bytes, a line end."""
        at, size = 0, len(data)
        while at < size:
            if self._remaining > 2:  # includes the line end after the bytes
                stop = min(size, at + self._remaining - 2)
                self.parts.append(data[at:stop])
                self._remaining -= stop - at
                at = stop
            elif self._remaining:
                step = min(size - at, self._remaining)
                self._remaining -= step
                at += step
            else:
                line = data.find(b"\r\n", at)
                if line < 0:
                    if size - at > MAX_HEADER_BYTES:
                        raise MalformedResponse("the size of a chunk is too long")
                    self._buffer = data[at:]
                    return
                at = self._begin_chunk(data, at, line)
                if self.done:
                    self._reject_surplus(data[at:])
                    return

    def _begin_chunk(self, data: bytes, at: int, line: int) -> int:
        try:
            length = int(data[at:line].partition(b";")[0], 16)
        except ValueError:
            length = -1
        if length < 0:
            raise MalformedResponse(f"{data[at:line][:40]!r} is not the size of a chunk")
        if length:
            self._remaining = length + 2
            return line + 2
        end = data.find(b"\r\n", line + 2) if data[line + 2 : line + 4] != b"\r\n" else line + 2
        if end < 0 or len(data) < line + 4:
            self._buffer = data[at:]
            return len(data)
        # Trailers are not parsed; the connection is closed instead.
        self.should_close = self.should_close or end != line + 2
        self.done = True
        return end + 2

    def _reject_surplus(self, data: bytes) -> None:
        if data:
            self.should_close = True

"""Read and write the SPDY/3.1 frames that port-forward needs, and no others.

kubectl sends them inside a WebSocket (subprotocol ``SPDY/3.1+portforward.k8s.io``). Exec and attach
need none of this: their subprotocol is ``v5.channel.k8s.io``. Neither side uses flow control;
settings and window updates are ignored.

Header blocks must be read in their order, because all of them share one compression context. Their
decompressed size is limited while they are decompressed, not afterwards.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from holdfast.runtime.errors import BadRequest

_VERSION = 3
_HEADER_BYTES = 8
_FIN = 0x01
MAX_FRAME_BYTES = 1024 * 1024
_MAX_HEADER_BYTES = 64 * 1024
"""The limit of one decompressed header block: a small frame can expand to a very large one."""
_INTEGER = struct.Struct(">I")


class FrameType(IntEnum):
    """Types of control frames; data frames have none on the wire."""

    DATA = 0
    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    PING = 6
    GOAWAY = 7


_READ_TYPES = {
    int(t) for t in (FrameType.SYN_STREAM, FrameType.RST_STREAM, FrameType.PING, FrameType.GOAWAY)
}


@dataclass(frozen=True, slots=True)
class Frame:
    """One received frame."""

    type: FrameType
    stream: int = 0
    """The stream, or the number of a ping."""
    data: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    last: bool = False
    """Whether the sender closes its side of the stream."""


class FrameReader:
    """Splits received bytes into frames; header blocks share one compression context."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflate = zlib.decompressobj(zdict=_DICTIONARY)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are complete; raise BadRequest for bytes that are not SPDY."""
        self._buffer += data
        while len(self._buffer) >= _HEADER_BYTES:
            first, second = struct.unpack_from(">II", self._buffer)
            flags, size = second >> 24, second & 0xFFFFFF
            if size > MAX_FRAME_BYTES:
                raise BadRequest(f"a SPDY frame of {size} bytes is too large")
            end = _HEADER_BYTES + size
            if len(self._buffer) < end:
                return
            payload = bytes(self._buffer[_HEADER_BYTES:end])
            del self._buffer[:end]
            if frame := self._frame(first, flags, payload):
                yield frame

    def _frame(self, first: int, flags: int, payload: bytes) -> Frame | None:
        if not first >> 31:
            return Frame(FrameType.DATA, first, payload, last=bool(flags & _FIN))
        version, kind = first >> 16 & 0x7FFF, first & 0xFFFF
        if version != _VERSION:
            raise BadRequest(f"SPDY version {version} is not supported")
        if kind not in _READ_TYPES:
            return None
        try:
            number = _INTEGER.unpack_from(payload)[0] & 0x7FFFFFFF
        except struct.error as short:
            raise BadRequest("a SPDY control frame is too short") from short
        if kind == FrameType.PING:
            return Frame(FrameType.PING, _INTEGER.unpack_from(payload)[0])
        headers = self._headers(payload[10:]) if kind == FrameType.SYN_STREAM else {}
        return Frame(FrameType(kind), number, headers=headers, last=bool(flags & _FIN))

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            raw = self._inflate.decompress(block, _MAX_HEADER_BYTES)
            if self._inflate.unconsumed_tail:
                raise BadRequest("the headers of a SPDY stream are too large")
            count, at = _INTEGER.unpack_from(raw)[0], 4
            headers = {}
            for _ in range(count):
                name, at = _text(raw, at)
                headers[name.lower()], at = _text(raw, at)
        except (zlib.error, struct.error, UnicodeDecodeError) as wrong:
            raise BadRequest(f"the headers of a SPDY stream cannot be read: {wrong}") from wrong
        return headers


class FrameWriter:
    """Encodes frames; header blocks share one compression context."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=_DICTIONARY)

    def reply(self, stream: int) -> bytes:
        """Accept a stream."""
        empty = self._deflate.compress(bytes(4)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return _control(FrameType.SYN_REPLY, _INTEGER.pack(stream) + empty)

    def data(self, stream: int, data: bytes, *, last: bool = False) -> bytes:
        """Send data on a stream."""
        return struct.pack(">II", stream, (_FIN if last else 0) << 24 | len(data)) + data

    def reset(self, stream: int) -> bytes:
        """Refuse or abandon a stream."""
        cancel = 5
        return _control(FrameType.RST_STREAM, struct.pack(">II", stream, cancel))

    def pong(self, number: int) -> bytes:
        """Answer a ping."""
        return _control(FrameType.PING, _INTEGER.pack(number))


def _control(kind: FrameType, payload: bytes) -> bytes:
    return struct.pack(">HHI", 1 << 15 | _VERSION, kind, len(payload)) + payload


def _text(raw: bytes, at: int) -> tuple[str, int]:
    end = at + 4 + _INTEGER.unpack_from(raw, at)[0]
    if end > len(raw):
        raise struct.error("a header is cut off")
    return raw[at + 4 : end].decode(), end


def _dictionary() -> bytes:
    """Return the compression dictionary that SPDY/3 defines: length-prefixed words, then text."""
    words = """
        options head post put delete trace accept accept-charset accept-encoding
        accept-language accept-ranges age allow authorization cache-control connection
        content-base content-encoding content-language content-length content-location
        content-md5 content-range content-type date etag expect expires from host if-match
        if-modified-since if-none-match if-range if-unmodified-since last-modified location
        max-forwards pragma proxy-authenticate proxy-authorization range referer retry-after
        server te trailer transfer-encoding upgrade user-agent vary via warning
        www-authenticate method get status
    """
    more = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin")
    text = (
        "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
        "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
        "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
        "503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue,"
        " Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,"
        "application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,"
        "deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
    )
    listed = b"".join(_INTEGER.pack(len(word)) + word.encode() for word in (*words.split(), *more))
    return listed + text.encode()


_DICTIONARY = _dictionary()

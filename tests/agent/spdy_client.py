"""SPDY frames as a client of port-forward sends them."""

from __future__ import annotations

import struct
import zlib

from holdfast.node.agent.kubelet_server import spdy_frames


def opening(deflate: zlib._Compress, stream: int, **headers: str) -> bytes:
    """Return the frame with which a client opens a stream."""
    raw = struct.pack(">I", len(headers))
    for name, value in headers.items():
        for text in (name, value):
            raw += struct.pack(">I", len(text)) + text.encode()
    block = deflate.compress(raw) + deflate.flush(zlib.Z_SYNC_FLUSH)
    payload = struct.pack(">IIH", stream, 0, 0) + block
    return struct.pack(">HHI", 0x8003, 1, len(payload)) + payload


def compressor() -> zlib._Compress:
    return zlib.compressobj(zdict=spdy_frames._DICTIONARY)

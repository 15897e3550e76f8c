"""SPDY frames as port-forward uses them."""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.spdy_client import compressor, opening
from holdfast.node.agent.kubelet_server import spdy_frames
from holdfast.node.agent.kubelet_server.spdy_frames import (
    Frame,
    FrameReader,
    FrameType,
    FrameWriter,
)
from holdfast.runtime.errors import BadRequest


def test_the_dictionary_is_that_of_the_protocol() -> None:
    # A zlib stream names its dictionary by this checksum; another peer would refuse any other.
    assert zlib.adler32(spdy_frames._DICTIONARY) == 0xE3C6A7C2


def test_streams_share_one_compression_context() -> None:
    deflate, reader = compressor(), FrameReader()
    first = opening(deflate, 1, streamType="error", port="80", requestID="0")
    second = opening(deflate, 3, streamType="data", port="80", requestID="0")
    frames = list(reader.feed(first + second))
    assert [f.stream for f in frames] == [1, 3]
    assert frames[1].headers == {"streamtype": "data", "port": "80", "requestid": "0"}


def test_frames_arrive_in_any_pieces() -> None:
    writer, reader = FrameWriter(), FrameReader()
    sent = writer.data(3, b"hello") + writer.pong(9) + writer.data(3, b"", last=True)
    frames = [frame for byte in sent for frame in reader.feed(bytes([byte]))]
    assert frames == [
        Frame(FrameType.DATA, 3, b"hello"),
        Frame(FrameType.PING, 9),
        Frame(FrameType.DATA, 3, b"", last=True),
    ]


def test_what_is_not_needed_is_ignored() -> None:
    reader = FrameReader()
    settings = struct.pack(">HHII", 0x8003, 4, 4, 0)
    assert list(reader.feed(settings + FrameWriter().reply(1) + FrameWriter().reset(1))) == [
        Frame(FrameType.RST_STREAM, 1)
    ]


def test_a_small_frame_may_not_expand_without_limit() -> None:
    with pytest.raises(BadRequest, match="too large"):
        list(FrameReader().feed(opening(compressor(), 1, a="x" * (1 << 20))))


def test_a_frame_larger_than_the_limit_is_refused_by_its_header() -> None:
    with pytest.raises(BadRequest, match="too large"):
        list(FrameReader().feed(struct.pack(">II", 1, 0xFFFFFF)))


@given(st.binary(max_size=200), st.sampled_from([0x80030001, 0x80030003, 0x80030006, 0x80020001]))
def test_garbage_is_refused_and_nothing_else_happens(payload: bytes, first: int) -> None:
    reader = FrameReader()
    with suppress(BadRequest):
        list(reader.feed(struct.pack(">II", first, len(payload)) + payload))

"""Requests over TLS: large bodies, slow readers, servers that end in every phase."""

import asyncio
import os
import ssl

import pytest

from client.scripted_server import (
    CHUNKED,
    OK,
    authority,
    chunk,
    lines_of,
    server,
    transport_to,
    whole,
)
from holdfast.client.endpoint import Endpoint, Timeouts
from holdfast.client.transport import Request
from holdfast.runtime.errors import Unavailable


@pytest.fixture
def tls(tmp_path):
    """Return the context of a server, and a function that returns the endpoint of a url."""
    ours = authority(tmp_path, "ours")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ours.with_suffix(".crt"), ours.with_suffix(".key"))
    return context, lambda url: Endpoint(url, ca=ours.with_suffix(".crt"))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_large_bodies_arrive_in_both_directions(tls, version):
    context, endpoint = tls
    context.minimum_version = context.maximum_version = version
    sent, returned, seen = os.urandom(5_000_000), os.urandom(7_000_000), []

    async def answer(_head, body, writer):
        seen.append(body)
        writer.write(whole(returned))

    async with server(answer, context) as (url, _), transport_to(endpoint(url)) as transport:
        for _ in range(2):  # the second request uses the same connection
            response = await transport.send(Request("POST", "/x", body=sent))
            assert response.body == returned
    assert seen == [sent, sent]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_later_connections_resume_the_session(tls, version):
    context, endpoint = tls
    context.minimum_version = context.maximum_version = version
    resumed = []

    async def answer(_head, _body, writer):
        resumed.append(writer.get_extra_info("ssl_object").session_reused)
        writer.write(OK + b"connection: close\r\ncontent-length: 2\r\n\r\n{}")
        return False

    async with server(answer, context) as (url, _), transport_to(endpoint(url)) as transport:
        for _ in range(3):
            assert (await transport.send(Request("GET", "/x"))).body == b"{}"
    assert resumed == [False, True, True]


async def test_a_slow_reader_makes_a_tls_server_wait_and_loses_no_data(tls):
    context, endpoint = tls
    line, written = b"x" * 99_999 + b"\n", 0

    async def answer(_head, _body, writer):
        nonlocal written
        writer.write(CHUNKED)
        for _ in range(300):
            writer.write(chunk(line))
            await writer.drain()
            written += 1
        writer.write(b"0\r\n\r\n")

    async with (
        server(answer, context) as (url, _),
        transport_to(endpoint(url)) as transport,
        transport.stream(Request("GET", "/x")) as stream,
    ):
        lines = aiter(stream)
        got = [await anext(lines)]
        for _ in range(300):
            await asyncio.sleep(0.001)
        assert written < 300, "thirty megabytes were buffered"
        got += [each async for each in lines]
    assert got == [line[:-1]] * 300


async def test_a_tls_server_that_closes_inside_a_response_is_unavailable(tls):
    context, endpoint = tls

    async def answer(_head, _body, writer):
        writer.write(OK + b"content-length: 10\r\n\r\nhalf")
        return False

    async with server(answer, context) as (url, _), transport_to(endpoint(url)) as transport:
        with pytest.raises(Unavailable):
            await transport.send(Request("GET", "/x"))


async def test_a_body_without_a_length_ends_with_the_tls_connection(tls):
    context, endpoint = tls

    async def answer(_head, _body, writer):
        writer.write(OK + b"\r\none\ntwo\n")
        return False

    async with server(answer, context) as (url, _), transport_to(endpoint(url)) as transport:
        assert await lines_of(transport, Request("GET", "/x")) == [b"one", b"two"]


@pytest.mark.parametrize("first_bytes", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
async def test_a_server_that_does_not_speak_tls_is_unavailable(first_bytes):
    async def serve(reader, writer):
        await reader.read(1)
        writer.write(first_bytes)
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    async with listening, transport_to(Endpoint(url, insecure=True)) as transport:
        with pytest.raises(Unavailable):
            await transport.send(Request("GET", "/x"))


async def test_a_handshake_that_takes_too_long_is_unavailable():
    closed = asyncio.Event()

    async def serve(reader, writer):
        while await reader.read(1000):
            pass
        writer.close()
        closed.set()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    endpoint, timeouts = Endpoint(url, insecure=True), Timeouts(connect=0.05)
    async with listening, transport_to(endpoint, timeouts=timeouts) as transport:
        with pytest.raises(Unavailable):
            await transport.send(Request("GET", "/x"))
        await asyncio.wait_for(closed.wait(), 5)


async def test_damaged_bytes_on_a_tls_connection_are_unavailable(tls):
    context, endpoint = tls

    async def answer(_head, _body, writer):
        # Past the encryption, straight into the socket.
        raw = writer.transport._ssl_protocol._transport
        raw.write(b"\x17\x03\x03\x00\x20" + os.urandom(32))
        return False

    async with server(answer, context) as (url, _), transport_to(endpoint(url)) as transport:
        with pytest.raises(Unavailable):
            await transport.send(Request("GET", "/x"))

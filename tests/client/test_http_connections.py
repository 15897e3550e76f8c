"""The HTTP transport against scripted servers: broken, slow, redirecting, unauthorized."""

import asyncio
import dataclasses
import ssl
from contextlib import asynccontextmanager

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
from holdfast.client.client import Client
from holdfast.client.endpoint import Endpoint, Timeouts
from holdfast.client.http import HttpTransport
from holdfast.client.transport import Request
from holdfast.runtime.errors import BadConfiguration, TooManyRequests, Unavailable


async def test_a_refused_connection_is_unavailable_and_names_the_url():
    async with transport_to(Endpoint("http://127.0.0.1:1")) as transport:
        with pytest.raises(Unavailable, match=r"GET http://127\.0\.0\.1:1/version: "):
            await transport.send(Request("GET", "/version"))
        with pytest.raises(Unavailable):
            await lines_of(transport, Request("GET", "/api/v1/pods"))


async def test_connections_are_reused_and_paths_and_queries_escaped():
    seen = []

    async def answer(head, body, writer):
        seen.append((head.split(b"\r\n")[0], body, writer.get_extra_info("peername")))
        writer.write(whole(b"{}"))

    async with server(answer) as (url, _), transport_to(Endpoint(url + "/")) as transport:
        query = {"labelSelector": "a in (b,c),d=é&x"}
        await transport.send(Request("GET", "/api/v1/namespaces/a b/x:y", query))
        await transport.send(Request("POST", "/apis/x", {}, {"content-type": "a/b"}, b"body"))
    assert seen[0][0] == (
        b"GET /api/v1/namespaces/a%20b/x:y?labelSelector=a+in+%28b%2Cc%29%2Cd%3D%C3%A9%26x HTTP/1.1"
    )
    assert seen[1][:2] == (b"POST /apis/x HTTP/1.1", b"body")
    assert seen[0][2] == seen[1][2]


async def test_a_connection_lost_inside_a_response_is_unavailable():
    async def answer(_head, _body, writer):
        writer.write(OK + b"content-length: 100\r\n\r\nhalf")
        return False

    async with server(answer) as (url, _), transport_to(Endpoint(url)) as transport:
        with pytest.raises(Unavailable):
            await transport.send(Request("POST", "/x", body=b"{}"))


async def test_a_read_on_a_closed_connection_is_retried_and_a_write_is_not():
    seen = []

    async def answer(head, _body, writer):
        seen.append((head.split(b" ")[0], writer.get_extra_info("peername")))
        if len(seen) in (2, 5):
            return False
        writer.write(whole(b"{}"))

    async with server(answer) as (url, _), transport_to(Endpoint(url)) as transport:
        for _ in range(2):
            assert (await transport.send(Request("GET", "/x"))).status == 200
        assert (await transport.send(Request("GET", "/x"))).status == 200
        with pytest.raises(Unavailable, match="closed the connection"):
            await transport.send(Request("POST", "/x", body=b"{}"))
    assert [method for method, _ in seen] == [b"GET"] * 4 + [b"POST"]
    assert len({peer for _, peer in seen}) == 2


async def test_requests_above_the_limit_wait_even_if_some_are_cancelled():
    busy, most = 0, 0
    go_on = asyncio.Event()

    async def answer(_head, _body, writer):
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await go_on.wait()
        busy -= 1
        writer.write(whole(b"{}"))

    async with (
        server(answer) as (url, _),
        transport_to(Endpoint(url), max_connections=2) as transport,
    ):
        asked = [asyncio.create_task(transport.send(Request("GET", f"/{n}"))) for n in range(8)]
        while busy < 2:
            await asyncio.sleep(0)
        for late in (asked[0], asked[3]):
            late.cancel()
        go_on.set()
        found = await asyncio.gather(*asked, return_exceptions=True)
    assert most == 2
    ends = [getattr(each, "status", type(each)) for each in found]
    assert ends == [asyncio.CancelledError, 200, 200, asyncio.CancelledError, 200, 200, 200, 200]


async def test_an_unexpected_response_closes_the_connection():
    async def answer(_head, _body, writer):
        writer.write(whole(b"{}") + whole(b'{"a": "lie"}'))

    async with server(answer) as (url, _), transport_to(Endpoint(url)) as transport:
        for _ in range(3):
            assert (await transport.send(Request("GET", "/x"))).body == b"{}"


async def test_a_server_without_http_is_unavailable():
    async def answer(_head, _body, writer):
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")

    async with server(answer) as (url, _), transport_to(Endpoint(url)) as transport:
        with pytest.raises(Unavailable, match="not an HTTP status line"):
            await transport.send(Request("GET", "/x"))


async def test_a_slow_reader_makes_the_server_wait_and_loses_no_data():
    line = b"x" * 99_999 + b"\n"
    written = 0

    async def answer(_head, _body, writer):
        nonlocal written
        writer.write(CHUNKED)
        for _ in range(300):
            writer.write(chunk(line))
            await writer.drain()
            written += 1
        writer.write(b"0\r\n\r\n")

    async with (
        server(answer) as (url, _),
        transport_to(Endpoint(url)) as transport,
        transport.stream(Request("GET", "/x")) as stream,
    ):
        lines = aiter(stream)
        got = [await anext(lines)]
        for _ in range(300):
            await asyncio.sleep(0.001)
        assert written < 300, "thirty megabytes were buffered"
        got += [each async for each in lines]
    assert got == [line[:-1]] * 300


async def test_closing_fails_requests_in_flight():
    asked = asyncio.Event()

    async def answer(_head, _body, writer):
        writer.write(CHUNKED + chunk(b"one\n"))
        asked.set()
        await asyncio.sleep(3600)

    async with server(answer) as (url, _), transport_to(Endpoint(url)) as transport:
        whole_answer = asyncio.create_task(transport.send(Request("GET", "/x")))
        lines = asyncio.create_task(lines_of(transport, Request("GET", "/y")))
        await asked.wait()
        await transport.close()
        for task in (whole_answer, lines):
            with pytest.raises(Unavailable):
                await task


async def test_a_request_through_a_proxy(tmp_path):
    ours = authority(tmp_path, "ours")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ours.with_suffix(".crt"), ours.with_suffix(".key"))

    async def answer(_head, _body, writer):
        writer.write(whole(b"{}"))

    async with server(answer, context) as (url, _), proxy(refuse=b"") as (address, requests):
        endpoint = Endpoint(url, ca=ours.with_suffix(".crt"), proxy=f"http://me:a%20b@{address}")
        async with transport_to(endpoint) as transport:
            assert (await transport.send(Request("GET", "/x"))).status == 200
    target = url.removeprefix("https://")
    assert requests[0].startswith(f"CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n".encode())
    assert b"proxy-authorization: Basic bWU6YSBi\r\n" in requests[0]


async def test_a_proxy_that_refuses_is_named():
    refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"
    async with proxy(refuse=refusal) as (address, _):
        endpoint = Endpoint("https://127.0.0.1:1", insecure=True, proxy=f"http://{address}")
        async with transport_to(endpoint) as transport:
            said = f"proxy http://{address} responded HTTP/1.1 407 Proxy"
            with pytest.raises(Unavailable, match=said):
                await transport.send(Request("GET", "/x"))
    endpoint = Endpoint("https://127.0.0.1:1", insecure=True, proxy="socks5://127.0.0.1:1")
    async with transport_to(endpoint) as transport:
        with pytest.raises(BadConfiguration, match="only http:// proxies"):
            await transport.send(Request("GET", "/x"))


@asynccontextmanager
async def proxy(refuse):
    """Serve a proxy that supports only CONNECT; yield its address and the requests."""
    requests = []

    async def serve(reader, writer):
        tasks.append(asyncio.current_task())
        head = await reader.readuntil(b"\r\n\r\n")
        requests.append(head)
        if refuse:
            writer.write(refuse)
            writer.close()
            return
        host, _, port = head.split(b" ")[1].decode().rpartition(":")
        there = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        await asyncio.gather(pass_on(reader, there[1]), pass_on(there[0], writer))

    async def pass_on(reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
        except ConnectionError:
            pass
        finally:
            writer.close()

    tasks = []
    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}", requests
    finally:
        listening.close()
        await asyncio.gather(*tasks)
        await listening.wait_closed()


async def test_a_request_that_takes_too_long_is_unavailable():
    async def answer(_head, _body, _writer):
        await asyncio.sleep(3600)

    async with server(answer) as (url, _):
        limit = Timeouts(request=0.05)
        async with transport_to(Endpoint(url), timeouts=limit) as transport:
            with pytest.raises(Unavailable, match="/slow: "):
                await transport.send(Request("GET", "/slow"))


async def test_retry_after_is_read():
    async def answer(_head, _body, writer):
        writer.write(
            b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\ncontent-length: 5\r\n\r\nslow!"
        )

    async with server(answer) as (url, _), transport_to(Endpoint(url)) as transport:
        with pytest.raises(TooManyRequests, match="slow!") as caught:
            await Client(transport).raw("/x")
    assert caught.value.after == 7


async def test_a_redirect_is_not_followed():
    async def answer(_head, _body, writer):
        writer.write(b"HTTP/1.1 302 Found\r\nlocation: /else\r\ncontent-length: 0\r\n\r\n")

    async with server(answer) as (url, _), transport_to(Endpoint(url)) as transport:
        assert (await transport.send(Request("GET", "/x"))).status == 302


async def test_lines_are_found_however_the_chunks_are_split():
    long = b"y" * 300_000

    async def answer(_head, _body, writer):
        writer.write(CHUNKED)
        for part in (b"one\ntw", b"o", b"\n\nthr", b"ee\n", long[:1000], long[1000:], b"\nlast"):
            writer.write(chunk(part))
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    async with server(answer) as (url, _), transport_to(Endpoint(url)) as transport:
        lines = await lines_of(transport, Request("GET", "/x"))
    assert lines == [b"one", b"two", b"", b"three", long, b"last"]


async def test_an_interrupted_stream_yields_its_lines_and_then_raises():
    async def answer(_head, _body, writer):
        writer.write(CHUNKED + chunk(b"one\ntwo\n"))
        return False

    async with server(answer) as (url, _), transport_to(Endpoint(url)) as transport:
        got = []
        with pytest.raises(Unavailable, match="was interrupted"):
            async with transport.stream(Request("GET", "/x")) as stream:
                async for line in stream:
                    got.append(line)
        assert got == [b"one", b"two"]


async def test_leaving_the_block_closes_the_connection():
    async def answer(_head, _body, writer):
        writer.write(CHUNKED + chunk(b"one\n"))

    async with server(answer) as (url, gone), transport_to(Endpoint(url)) as transport:
        async with transport.stream(Request("GET", "/x")) as stream:
            async for line in stream:
                assert line == b"one"
                break
        await asyncio.wait_for(gone.wait(), 10)


async def test_an_idle_stream_outlives_the_request_timeout():
    go_on = asyncio.Event()

    async def answer(_head, _body, writer):
        writer.write(CHUNKED)
        await writer.drain()
        await go_on.wait()
        writer.write(chunk(b"at last\n") + b"0\r\n\r\n")

    limit = Timeouts(request=0.3)
    async with (
        server(answer) as (url, _),
        transport_to(Endpoint(url), timeouts=limit) as transport,
    ):
        asyncio.get_running_loop().call_later(0.6, go_on.set)
        assert await lines_of(transport, Request("GET", "/x")) == [b"at last"]


def by_token(good):
    """Respond 200 to requests with one of the good tokens and 401 to others."""
    seen = []

    async def answer(head, _body, writer):
        token = next(
            (x[15:] for x in head.split(b"\r\n") if x.lower().startswith(b"authorization: ")), b""
        )
        seen.append(token)
        if token in good:
            writer.write(whole(b"{}"))
        else:
            writer.write(whole(b"{}", b"401 Unauthorized"))

    return answer, seen


async def test_expired_credentials_are_renewed_once():
    answer, seen = by_token({b"Bearer new"})
    renewals = []
    async with server(answer) as (url, _):

        async def renew():
            renewals.append(1)
            await asyncio.sleep(0)
            return dataclasses.replace(endpoint, token="new", renew=None)

        endpoint = Endpoint(url, token="old", renew=renew)
        async with transport_to(endpoint) as transport:
            answers = await asyncio.gather(
                *(transport.send(Request("GET", f"/{n}")) for n in range(5))
            )
            async with transport.stream(Request("GET", "/x")) as stream:
                assert stream.status == 200
    assert [a.status for a in answers] == [200] * 5
    assert len(renewals) == 1 and seen[-1] == b"Bearer new"


async def test_401_is_returned_if_credentials_cannot_be_renewed():
    answer, seen = by_token(set())
    async with server(answer) as (url, _):
        endpoint = Endpoint(url, authorization="Basic xyz")
        async with transport_to(endpoint) as transport:
            assert (await transport.send(Request("GET", "/x"))).status == 401
    assert seen == [b"Basic xyz"]


def test_certificates_that_cannot_be_read_are_named(tmp_path):
    endpoint = Endpoint("https://127.0.0.1:1", ca=tmp_path / "none.crt")
    with pytest.raises(BadConfiguration, match=r"none\.crt"):
        HttpTransport(endpoint)


async def test_a_server_certificate_of_another_authority_is_rejected(tmp_path):
    ours, theirs = authority(tmp_path, "ours"), authority(tmp_path, "theirs")

    async def answer(_head, _body, writer):
        writer.write(whole(b"{}"))

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ours.with_suffix(".crt"), ours.with_suffix(".key"))
    context.load_verify_locations(ours.with_suffix(".crt"))
    context.verify_mode = ssl.CERT_REQUIRED
    identity = {"cert": ours.with_suffix(".crt"), "key": ours.with_suffix(".key")}
    async with server(answer, context) as (url, _):
        good = Endpoint(url, ca=ours.with_suffix(".crt"), **identity)
        async with transport_to(good) as transport:
            assert (await transport.send(Request("GET", "/x"))).status == 200
        for bad in (
            Endpoint(url, ca=theirs.with_suffix(".crt"), **identity),
            Endpoint(url, ca=ours.with_suffix(".crt")),
        ):
            async with transport_to(bad) as transport:
                with pytest.raises(Unavailable):
                    await transport.send(Request("GET", "/x"))
        async with transport_to(Endpoint(url, insecure=True, **identity)) as transport:
            assert (await transport.send(Request("GET", "/x"))).status == 200

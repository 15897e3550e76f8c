"""Odd and invalid requests get a response and leave no log."""

import logging

import pytest

from apiserver.raw_http import ask, connect
from apiserver.sample_objects import CONFIGMAPS, PODS


async def test_expect_continue_is_answered_once_authorized(api):
    body = b'{"metadata": {"name": "c"}}'
    head = f"POST {CONFIGMAPS} HTTP/1.1\nhost: HOST\nexpect: 100-continue\n"
    head += f"content-type: application/json\ncontent-length: {len(body)}\n\n"
    async with connect(api, admin=True) as client:
        await client.send(head)
        assert await client.head() == "HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(body)
        assert await client.status() == 201
    assert await ask(api, head) == 401
    for odd in ("magic", "\udcff"):
        assert await ask(api, head.replace("100-continue", odd), admin=True) == 400


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ("GET /version HTTP/1.1\nhost: HOST\nx: " + "a" * 70_000 + "\n\n", 400),
        ("GET /version HTTP/1.1\nhost: HOST\n" + "x: a\n" * 600 + "\n", 400),
        ("GET /version HTTP/1.1\nhost: HOST\n" + "x: a\n" * 500 + "\n", 200),
        ("GET /version HTTP/1.1\nhost: HOST\n" + f"x: {'a' * 8000}\n" * 20 + "\n", 431),
        (f"GET /version?{'a' * 70_000} HTTP/1.1\nhost: HOST\n\n", 400),
        ("GET / HTTP/1.1\nhost: HOST\ncontent-length: 1\ntransfer-encoding: chunked\n\n0\n\n", 400),
        ("GET /version HTTP/1.1\nhost: HOST\ncontent-length: 1\ncontent-length: 2\n\nab", 400),
        ("GET /version HTTP/1.1\nhost: HOST\ncontent-length: -1\n\n", 400),
        ("GET /version HTTP/1.1\nhost: HOST\nx y: a\n\n", 400),
        ("\x16\x03\x01\x02", 400),
        ("GET /version HTTP/1.0\nhost: HOST\n\n", 200),
        ("GET https://HOST/version HTTP/1.1\nhost: HOST\n\n", 200),
        ("GET https://[HOST/version HTTP/1.1\nhost: HOST\n\n", 400),
        ("GET /version HTTP/1.1\nhost: other\n\n", 403),
        ("GET /version HTTP/1.1\n\n", 400),
        ("GET /version HTTP/1.1\nhost: \udcff\n\n", 400),
        ("GET /version HTTP/1.1\nhost: HOST\norigin: \udcff\n\n", 400),
        ("GET /version HTTP/1.1\nhost: HOST\norigin: http://[\n\n", 403),
        ("GET /version HTTP/1.1\nhost: HOST\nauthorization: Bearer \udcff\n\n", 400),
        ("GET /version HTTP/1.1\nhost: HOST\nimpersonate-user: \udcff\n\n", 400),
        ("HEAD /version HTTP/1.1\nhost: HOST\n\n", 200),
        ("OPTIONS /api HTTP/1.1\nhost: HOST\n\n", 401),
        ("TRACE /api HTTP/1.1\nhost: HOST\n\n", 401),
        ("CONNECT HOST HTTP/1.1\nhost: HOST\n\n", 401),
        ("OPTIONS * HTTP/1.1\nhost: HOST\n\n", 401),
        ("PRI * HTTP/2.0\n\nSM\n\n", 400),
        ("GET /version HTTP/1.1\nhost: HOST\nconnection: upgrade\nupgrade: websocket\n\n", 200),
    ],
)  # fmt: skip
async def test_odd_requests_get_an_answer_and_leave_no_log(api, caplog, sent, status):
    with caplog.at_level(logging.INFO):
        assert await ask(api, sent) == status
    assert caplog.records == []
    assert (await api.call("GET", PODS)).status == 200


@pytest.mark.parametrize("chunk", ["zz\n", "ffffffffffffffffff\nab\n", "5\nhello0\n", "-1\n\n"])
async def test_broken_chunks_are_the_clients_mistake(api, caplog, chunk):
    head = f"POST {PODS} HTTP/1.1\nhost: HOST\ntransfer-encoding: chunked\n\n"
    with caplog.at_level(logging.INFO):
        assert await ask(api, head + chunk, admin=True) == 400
    assert caplog.records == []


async def test_pipelined_requests_are_answered_in_order(api):
    async with connect(api) as client:
        await client.send("GET /version HTTP/1.1\nhost: HOST\n\nGET /api HTTP/1.1\nhost: HOST\n\n")
        answer = await client.head()
        length = int(answer.lower().split("content-length: ")[1].split()[0])
        await client.reader.readexactly(length)
        assert (answer.split()[1], await client.status()) == ("200", 401)


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"a" * 9000])
async def test_what_is_not_tls_leaves_no_log(api, caplog, sent):
    with caplog.at_level(logging.INFO):
        async with connect(api, tls=False) as client:
            await client.send(sent)
            await client.rest()
    assert caplog.records == []

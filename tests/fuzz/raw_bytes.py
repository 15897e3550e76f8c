"""Invalid or unusual HTTP on a connection; the server must go on."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import zlib
from contextlib import suppress
from urllib.parse import urlsplit

from fuzz.values import Values

ANSWER_SECONDS = 30.0
_FAILURES = (b"500", b"502", b"503", b"504")
_PATH = "/api/v1/namespaces/default/configmaps"
_BODY = b'{"metadata":{"generateName":"wire-"}}'
_ENCODED = {
    "gzip": gzip.compress(_BODY), "deflate": zlib.compress(_BODY), "br": b"\x0b\x02\x80",
    "x": _BODY, "identity": _BODY, "gzip, gzip": gzip.compress(gzip.compress(_BODY)),
}  # fmt: skip
_REQUEST_LINES = (
    "GET / HTTP/1.1", "GET  / HTTP/1.1", "GET /", "GET / HTTP/9.9", "get / HTTP/1.1", "\x00\x01",
    "GET http://a/ HTTP/1.1", "GET * HTTP/1.1", "OPTIONS * HTTP/1.1", "CONNECT a:1 HTTP/1.1",
    "GET /%zz HTTP/1.1", "GET /%00 HTTP/1.1", "GET /\xff HTTP/1.1", "GET /?a=%ff&a HTTP/1.1",
    "GET /api/v1/pods?limit=1;limit=2 HTTP/1.1", "PRI * HTTP/2.0", "GET /../../etc HTTP/1.1",
    "GET " + "/a" * 40_000 + " HTTP/1.1", "POST / HTTP/1.0", "TRACE / HTTP/1.1",
)  # fmt: skip
_HEADERS = (
    "Host:", "Host: a\r\nHost: b", "Content-Length: -1", "Content-Length: abc", "A: \x00", "A:B:C",
    "Content-Length: 99999999999999999999", "Transfer-Encoding: chunked, chunked", ": a", "A b: c",
    "Content-Length: 5\r\nTransfer-Encoding: chunked", "Transfer-Encoding: gzip", "Cookie: a=b; c",
    "Connection: Upgrade\r\nUpgrade: websocket", "Connection: close, keep-alive", "Range: bytes=0-",
    "Expect: 100-continue", "Expect: nonsense", "Authorization: Bearer \xff", "Authorization: x",
    "Authorization: Basic !!", "Impersonate-User:", "Impersonate-User: a\r\nImpersonate-Uid: b",
    "Impersonate-Extra-%zz: a", "Accept-Encoding: gzip;q=abc", "If-None-Match: *", "Origin: null",
    "A: " + "b" * 70_000, "\r\n".join(f"A{i}: b" for i in range(300)), " folded: a", "A: b\r\n c",
    "Content-Type: application/json; charset=\xff", "X-HTTP-Method-Override: DELETE",
)  # fmt: skip
_CHUNKS = (
    b"5\r\nhello\r\n0\r\n\r\n", b"zz\r\nhello\r\n", b"-1\r\n\r\n", b"5\r\nhel", b"5\r\nhelloX0\r\n",
    b"ffffffffffffffff\r\na\r\n", b"5;ext=1\r\nhello\r\n0\r\nTrailer: a\r\n\r\n", b"\r\n\r\n",
    b"0\r\n",
    b"1\r\na\r\n" * 500 + b"0\r\n\r\n", b"5\nhello\n0\n\n", b"0" * 400 + b"\r\n\r\n",
)  # fmt: skip


def write_bytes(values: Values) -> bytes:
    """Return the bytes to send on one connection."""
    sort = values.rng.randrange(6)
    if sort == 0:
        head = f"{values.pick(_REQUEST_LINES)}\r\nHost: 127.0.0.1\r\n\r\n".encode("latin-1")
    elif sort == 1:
        head = _request("GET", values.pick(_HEADERS)).encode("latin-1")
    elif sort == 2:
        head = _request("POST", "Transfer-Encoding: chunked").encode() + values.pick(_CHUNKS)
    elif sort == 3:
        name = values.pick(list(_ENCODED))
        body = _ENCODED[name][: values.pick((5, 10_000))]
        head = _request("POST", f"Content-Encoding: {name}\r\nContent-Length: {len(body)}").encode()
        head += body
    elif sort == 4:
        length = values.pick((0, 1, len(_BODY) - 1, len(_BODY) + 9, 10**9))
        head = _request("POST", f"Content-Length: {length}").encode() + _BODY
    else:
        head = bytes(values.rng.randrange(256) for _ in range(values.pick((1, 40, 400))))
    return head * values.pick((1, 1, 1, 2, 5))


def _request(method: str, header: str) -> str:
    return f"{method} {_PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\n{header}\r\n\r\n"


def check_bytes_response(raw: bytes, answer: bytes) -> str:
    """Return what is wrong with a response to bytes, "" if nothing is or there is none."""
    if answer and not answer.startswith(b"HTTP/"):
        return f"{raw[:300]!r} is answered with {answer[:100]!r}"
    status = answer[9:12]
    return f"{raw[:300]!r} is answered with {answer[:500]!r}" if status in _FAILURES else ""


async def send_bytes(url: str, context: ssl.SSLContext, raw: bytes) -> bytes:
    """Send bytes, close our side, and read until the server closes or sends nothing more."""
    where = urlsplit(url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port, ssl=context)
    answer = b""
    with suppress(ConnectionError, ssl.SSLError, TimeoutError):
        writer.write(raw)
        await writer.drain()
        answer = await asyncio.wait_for(reader.read(65_536), 0.1)
    writer.close()
    with suppress(ConnectionError, ssl.SSLError, TimeoutError):
        await asyncio.wait_for(writer.wait_closed(), ANSWER_SECONDS)
    return answer

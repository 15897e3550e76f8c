"""HTTP responses, split into any number of pieces."""

import random

import pytest

from holdfast.client.response_parser import MAX_HEADER_BYTES, MalformedResponse, ResponseParser

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Odd:  a: b \r\n"
LENGTH = HEAD + b"Content-Length: 11\r\n\r\nhello world"
CHUNKS = (
    HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;ext=1\r\n \r\n5\r\nworld\r\n0\r\n\r\n"
)


def read(data, cuts=(), method="GET"):
    response = ResponseParser(method)
    at = 0
    for cut in (*sorted(cuts), len(data)):
        response.feed(data[at:cut])
        at = cut
    return response


@pytest.mark.parametrize("data", [LENGTH, CHUNKS])
def test_a_response_is_parsed_the_same_however_it_is_split(data):
    rng = random.Random(7)
    for _ in range(300):
        cuts = rng.sample(range(1, len(data)), rng.randint(0, 12))
        response = read(data, cuts)
        assert (response.status, b"".join(response.parts)) == (200, b"hello world")
        assert (response.done, response.should_close) == (True, False)
        assert dict(response.headers)["content-type"] == "application/json"
        assert response.headers["x-odd"] == "a: b"


@pytest.mark.parametrize("data", [LENGTH, CHUNKS])
def test_a_part_of_a_response_is_not_complete(data):
    for end in range(len(data)):
        response = ResponseParser("GET")
        if end:
            response.feed(data[:end])
        assert not response.done
        assert not response.feed_eof()


def test_a_body_without_a_length_ends_with_the_connection():
    response = read(HEAD + b"\r\nall of ", cuts=[10])
    response.feed(b"it")
    assert (response.done, response.should_close) == (False, True)
    assert response.feed_eof()
    assert b"".join(response.parts) == b"all of it"


@pytest.mark.parametrize(
    ("data", "method"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", "GET"),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "GET"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "GET"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", "HEAD"),
    ],
)
def test_some_responses_have_no_body(data, method):
    response = read(data, method=method)
    assert (response.done, response.parts) == (True, [])


def test_an_informational_response_is_skipped():
    response = read(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + LENGTH, cuts=[50])
    assert (response.status, b"".join(response.parts)) == (200, b"hello world")


@pytest.mark.parametrize(
    "data",
    [
        LENGTH + b"and more",
        CHUNKS + b"and more",
        CHUNKS[:-2] + b"Trailer: x\r\n\r\n",
        LENGTH.replace(b"X-Odd:  a: b ", b"Connection: close"),
        LENGTH.replace(b"HTTP/1.1", b"HTTP/1.0"),
    ],
)
def test_some_responses_close_the_connection(data):
    response = read(data)
    assert (response.done, response.should_close) == (True, True)
    assert b"".join(response.parts) == b"hello world"


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"x" * (MAX_HEADER_BYTES + 1),
        HEAD + b"Content-Length: -5\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nmany\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n-5\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"5" * (MAX_HEADER_BYTES + 1),
    ],
)
def test_an_invalid_response_is_malformed(data):
    with pytest.raises(MalformedResponse):
        read(data)

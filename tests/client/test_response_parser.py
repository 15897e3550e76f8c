"""HTTP answers, however the network cuts them into pieces."""

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
    answer = ResponseParser(method)
    at = 0
    for cut in (*sorted(cuts), len(data)):
        answer.feed(data[at:cut])
        at = cut
    return answer


@pytest.mark.parametrize("data", [LENGTH, CHUNKS])
def test_an_answer_is_the_same_wherever_it_is_cut(data):
    rng = random.Random(7)
    for _ in range(300):
        cuts = rng.sample(range(1, len(data)), rng.randint(0, 12))
        answer = read(data, cuts)
        assert (answer.status, b"".join(answer.parts)) == (200, b"hello world")
        assert (answer.done, answer.should_close) == (True, False)
        assert dict(answer.headers)["content-type"] == "application/json"
        assert answer.headers["x-odd"] == "a: b"


@pytest.mark.parametrize("data", [LENGTH, CHUNKS])
def test_no_part_of_an_answer_is_an_answer(data):
    for end in range(len(data)):
        answer = ResponseParser("GET")
        if end:
            answer.feed(data[:end])
        assert not answer.done
        assert not answer.feed_eof()


def test_a_body_without_a_length_ends_with_the_connection():
    answer = read(HEAD + b"\r\nall of ", cuts=[10])
    answer.feed(b"it")
    assert (answer.done, answer.should_close) == (False, True)
    assert answer.feed_eof()
    assert b"".join(answer.parts) == b"all of it"


@pytest.mark.parametrize(
    ("data", "method"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", "GET"),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "GET"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "GET"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", "HEAD"),
    ],
)
def test_some_answers_have_no_body(data, method):
    answer = read(data, method=method)
    assert (answer.done, answer.parts) == (True, [])


def test_an_interim_answer_is_read_over():
    answer = read(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + LENGTH, cuts=[50])
    assert (answer.status, b"".join(answer.parts)) == (200, b"hello world")


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
def test_some_connections_are_not_used_again(data):
    answer = read(data)
    assert (answer.done, answer.should_close) == (True, True)
    assert b"".join(answer.parts) == b"hello world"


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
def test_what_is_no_answer_is_named_so(data):
    with pytest.raises(MalformedResponse):
        read(data)

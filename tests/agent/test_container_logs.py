"""Reading container logs: the part that the options select."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.node.agent.kubelet_server.container_logs import LogFile, LogOptions, read_log
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import BadRequest

LINES = (
    "2026-01-01T00:00:01.000000000Z stdout F one",
    "2026-01-01T00:00:02.000000000Z stderr F two",
    "2026-01-01T00:00:03.000000000Z stdout P thr",
    "2026-01-01T00:00:03.500000000Z stdout F ee",
    "2026-01-01T00:00:04.000000000Z stdout F ",
    "2026-01-01T00:00:05.000000000Z stdout F five with spaces",
)
NOW = 1767225605.0  # the time of the last line


async def _read(path: Path, **query: str) -> str:
    options = LogOptions.parse(query, NOW)
    log = LogFile(path, growing=lambda: False)
    return b"".join([piece async for piece in read_log(log, options, SystemClock())]).decode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "0.log"
    file.write_text("\n".join(LINES) + "\n")
    return file


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, "one\ntwo\nthree\n\nfive with spaces\n"),
        ({"tailLines": "2"}, "\nfive with spaces\n"),
        ({"tailLines": "3"}, "three\n\nfive with spaces\n"),
        ({"tailLines": "4"}, "two\nthree\n\nfive with spaces\n"),
        ({"tailLines": "0"}, ""),
        ({"tailLines": "99"}, "one\ntwo\nthree\n\nfive with spaces\n"),
        ({"sinceSeconds": "1"}, "\nfive with spaces\n"),
        ({"sinceTime": "2026-01-01T00:00:04Z"}, "\nfive with spaces\n"),
        ({"limitBytes": "5"}, "one\nt"),
        ({"stream": "Stderr"}, "two\n"),
        (
            {"timestamps": "true", "tailLines": "3"},
            "2026-01-01T00:00:03.000000000Z three\n2026-01-01T00:00:04.000000000Z \n"
            "2026-01-01T00:00:05.000000000Z five with spaces\n",
        ),
    ],
    ids=str,
)
async def test_options(path: Path, query: dict[str, str], expected: str) -> None:
    assert await _read(path, **query) == expected


async def test_the_tail_of_a_log_larger_than_one_block(tmp_path: Path) -> None:
    file = tmp_path / "0.log"
    file.write_text("".join(f"2026-01-01T00:00:00Z stdout F {n:099}\n" for n in range(5000)))
    assert (await _read(file, tailLines="3000")).split() == [f"{n:099}" for n in range(2000, 5000)]


async def test_a_log_that_was_not_written_is_empty(tmp_path: Path) -> None:
    assert await _read(tmp_path / "0.log") == ""


async def test_a_followed_log_has_what_was_written_last(path: Path) -> None:
    left = [1, 2, 3]

    def growing() -> bool:
        if not left:
            return False
        with path.open("a") as file:
            file.write(f"2026-01-01T00:00:06Z stdout F more {left.pop(0)}\n")
        return bool(left)

    options = LogOptions.parse({"follow": "true", "tailLines": "0"}, NOW)
    found = [p async for p in read_log(LogFile(path, growing), options, SystemClock())]
    assert b"".join(found) == b"more 1\nmore 2\nmore 3\n"


@pytest.mark.parametrize("query", [{"tailLines": "x"}, {"stream": "Other"}], ids=str)
def test_wrong_options(query: dict[str, str]) -> None:
    with pytest.raises(BadRequest, match="log options"):
        LogOptions.parse(query, NOW)

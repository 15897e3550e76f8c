"""Requests as a file that can be read, sent again and made shorter."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fuzz.fuzzer import Shot

Fails = Callable[[list[Shot]], bool]


def write_trail(path: Path, shots: Iterable[Shot]) -> None:
    """One request a line; bodies are text where they are text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(_as_json(shot)) + "\n" for shot in shots))


class Journal:
    """Write requests down before they are sent: a crash leaves no other word."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")

    def add(self, shots: Iterable[Shot]) -> None:
        self._file.writelines(json.dumps(_as_json(shot)) + "\n" for shot in shots)
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read_trail(path: Path) -> list[Shot]:
    return [_as_shot(json.loads(line)) for line in path.read_text().splitlines() if line]


def _as_json(shot: Shot) -> dict[str, Any]:
    made: dict[str, Any] = {"method": shot.method, "path": shot.path}
    made |= {"query": shot.query} if shot.query else {}
    made |= {"headers": shot.headers} if shot.headers else {}
    try:
        return made | ({"body": shot.body.decode()} if shot.body else {})
    except UnicodeDecodeError:
        return made | {"base64": base64.b64encode(shot.body).decode()}


def _as_shot(made: dict[str, Any]) -> Shot:
    body = base64.b64decode(made["base64"]) if "base64" in made else made.get("body", "").encode()
    return Shot(made["method"], made["path"], made.get("query", {}), made.get("headers", {}), body)


def shorten(shots: list[Shot], fails: Fails, tries: int = 40) -> list[Shot]:
    """Drop requests as long as the rest still fails; large pieces first."""
    for alone in (shots[-1:], shots[-2:]):
        tries -= 1
        if fails(alone):
            return alone
    size = len(shots) // 2
    while size and tries > 0:
        start = 0
        while start < len(shots) - 1 and tries > 0:
            shorter = shots[:start] + shots[start + size :]
            tries -= 1
            if shorter and fails(shorter):
                shots = shorter
            else:
                start += size
        size //= 2
    return shots

"""Files of requests, which can be replayed and shortened."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fuzz.fuzzer import Probe

Fails = Callable[[list[Probe]], bool]


def write_requests(path: Path, probes: Iterable[Probe]) -> None:
    """Write one request per line; bodies that are UTF-8 are written as text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(_as_json(probe)) + "\n" for probe in probes))


class RequestLog:
    """Writes requests before they are sent, for the case of a crash."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")

    def add(self, probes: Iterable[Probe]) -> None:
        self._file.writelines(json.dumps(_as_json(probe)) + "\n" for probe in probes)
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read_requests(path: Path) -> list[Probe]:
    return [_as_probe(json.loads(line)) for line in path.read_text().splitlines() if line]


def _as_json(probe: Probe) -> dict[str, Any]:
    made: dict[str, Any] = {"method": probe.method, "path": probe.path}
    made |= {"query": probe.query} if probe.query else {}
    made |= {"headers": probe.headers} if probe.headers else {}
    try:
        return made | ({"body": probe.body.decode()} if probe.body else {})
    except UnicodeDecodeError:
        return made | {"base64": base64.b64encode(probe.body).decode()}


def _as_probe(made: dict[str, Any]) -> Probe:
    body = base64.b64decode(made["base64"]) if "base64" in made else made.get("body", "").encode()
    return Probe(made["method"], made["path"], made.get("query", {}), made.get("headers", {}), body)


def shorten(probes: list[Probe], fails: Fails, tries: int = 40) -> list[Probe]:
    """Return fewer requests that still fail, dropping large parts first."""
    for alone in (probes[-1:], probes[-2:]):
        tries -= 1
        if fails(alone):
            return alone
    size = len(probes) // 2
    while size and tries > 0:
        start = 0
        while start < len(probes) - 1 and tries > 0:
            shorter = probes[:start] + probes[start + size :]
            tries -= 1
            if shorter and fails(shorter):
                probes = shorter
            else:
                start += size
        size //= 2
    return probes

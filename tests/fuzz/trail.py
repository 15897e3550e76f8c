"""Requests as a file that can be read, sent again and made shorter."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fuzz.fuzzer import Probe

Fails = Callable[[list[Probe]], bool]


def write_trail(path: Path, probes: Iterable[Probe]) -> None:
    """One request a line; bodies are text where they are text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(_as_json(probe)) + "\n" for probe in probes))


class Journal:
    """Write requests down before they are sent: a crash leaves no other word."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")

    def add(self, probes: Iterable[Probe]) -> None:
        self._file.writelines(json.dumps(_as_json(probe)) + "\n" for probe in probes)
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read_trail(path: Path) -> list[Probe]:
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
    """Drop requests as long as the rest still fails; large pieces first."""
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

"""Read the vectors: the records, those in scope and the exceptions.

This module does not use pytest, so that ``tools/parity.py`` can count with the same code.
"""

import json
import os
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
EXCEPTIONS = Path(__file__).with_name("exceptions.tsv")
ABSENT = (
    "the upstream test vectors were not found in {}: set HOLDFAST_VECTORS to the directory of "
    "SCOPE.tsv and the .jsonl files"
)


@dataclass(frozen=True)
class Record:
    """One case of one upstream test."""

    file: str
    line: int
    id: str
    source: str
    name: str
    compare: str = field(repr=False)
    raw: dict[str, Any] = field(repr=False, hash=False, compare=False)

    @property
    def input(self) -> dict[str, Any]:
        return self.raw["input"]

    @property
    def expected(self) -> dict[str, Any]:
        return self.raw["expected"]

    @property
    def observed(self) -> dict[str, Any]:
        return self.raw.get("observed") or {}

    @property
    def test(self) -> str:
        return self.source.rpartition(":")[2]

    @property
    def key(self) -> str:
        """The name of the record in reports: its file and line, as ids may have any character."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Row:
    """One line of SCOPE.tsv."""

    file: str
    source: str
    records: int
    area: str
    counts: bool
    compare: str
    reason: str
    ids: frozenset[str] | None

    def covers(self, raw: dict[str, Any]) -> bool:
        return raw["source"] == self.source and (self.ids is None or raw["id"] in self.ids)


def directory() -> Path:
    """Return the directory of the vectors."""
    return Path(os.environ.get("HOLDFAST_VECTORS") or ROOT.parent / "shared" / "vectors")


def present() -> bool:
    return (directory() / "SCOPE.tsv").is_file()


def must_be_present() -> bool:
    """Return whether missing vectors are an error, as under CI."""
    return bool(os.environ.get("CI"))


@cache
def scope() -> tuple[Row, ...]:
    lines = (directory() / "SCOPE.tsv").read_bytes().decode().rstrip("\n").split("\n")
    return tuple(_row(line) for line in lines[1:])


def _row(line: str) -> Row:
    file, source, records, area, verdict, compare, reason, where = line.split("\t")
    ids = None if where == "*" else frozenset(where.removeprefix("ids:").split("|"))
    return Row(file, source, int(records), area, verdict == "in", compare, reason, ids)


@cache
def raw_records(file: str) -> tuple[tuple[int, dict[str, Any]], ...]:
    lines = (directory() / file).read_bytes().split(b"\n")
    return tuple((i, json.loads(line)) for i, line in enumerate(lines, 1) if line)


@cache
def in_scope(file: str) -> tuple[Record, ...]:
    """Return the records of a file that are in scope, in file order."""
    rows = [row for row in scope() if row.file == file and row.counts]
    found = []
    for line, raw in raw_records(file):
        row = next((row for row in rows if row.covers(raw)), None)
        if row is not None:
            name = raw.get("name", "")
            found.append(Record(file, line, raw["id"], raw["source"], name, row.compare, raw))
    return tuple(found)


def select(file: str, test: str) -> list[Record]:
    """Return the records of one upstream test that are in scope.

    ``test`` is the name of the Go function; if two packages have it, prefix it with enough of the
    path: ``nodeports/node_ports_test.go:Test_isSchedulableAfterPodDeleted``.
    """
    ends = (f":{test}", f"/{test}")
    sources = {row.source for row in scope() if row.file == file}
    named = {source for source in sources if source == test or source.endswith(ends)}
    if len(named) != 1:
        found = ", ".join(sorted(named)) or "none"
        raise LookupError(f"{file}: {test} must name one upstream test, names {found}")
    return [record for record in in_scope(file) if record.source in named]


@cache
def exceptions() -> dict[tuple[str, str], str]:
    """Return the reasons of intended differences by file and id."""
    found = {}
    for line in EXCEPTIONS.read_text().splitlines():
        if line and not line.startswith("#"):
            file, escaped, reason = line.split("\t")
            found[file, escaped.encode().decode("unicode_escape")] = reason
    return found

"""``holdfast explain``: the deciding code run on a file of API objects, no cluster needed."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from holdfast.api.timestamps import parse_rfc3339
from holdfast.cli.configured import configured
from holdfast.cli.objects import Manifest, parse_documents, unpack
from holdfast.cli.snapshot import built_in_profiles, read_snapshot
from holdfast.cli.verdict import as_text
from holdfast.clock import SystemClock
from holdfast.configuration.catalog import Catalog
from holdfast.configuration.reading import Configuration, read
from holdfast.errors import BadRequest, HoldfastError

log = logging.getLogger(__name__)
Explanation = dict[str, Any]
WRONG_INPUT = 2
"""The exit code when an object, or the question itself, is wrong."""


class ExplainRequest(msgspec.Struct, frozen=True):
    """One line of a batch."""

    objects: list[msgspec.Raw] | None = None
    pod: str = ""
    config: msgspec.Raw = msgspec.Raw(b"null")
    preempt: bool | None = None
    now: str | None = None


_question = msgspec.json.Decoder(ExplainRequest)
_encode = msgspec.json.Encoder().encode


def explain_file(
    snapshot: str, pod: str, config: Path | None, *, preempt: bool, now: str | None, output: str
) -> int:
    """Explain one decision over a snapshot (``-``: standard input) and print it; the exit code."""
    try:
        documents = parse_documents(_text_of(snapshot))
        chosen = configured(config)
        answer = read_snapshot(documents, pod).explain(
            chosen.profiles, _time(now), preempt=preempt, extenders=chosen.extenders
        )
    except HoldfastError as wrong:
        print(f"holdfast: {wrong}", file=sys.stderr)
        return WRONG_INPUT
    print_answer(answer, output)
    return 0


def print_answer(answer: Explanation, output: str) -> None:
    """Write an answer for machines or for people."""
    if output == "json":
        sys.stdout.write(msgspec.json.format(_encode(answer)).decode() + "\n")
    else:
        sys.stdout.write(as_text(answer))


def explain_lines(lines: Iterable[bytes], out: BinaryIO) -> None:
    """Answer each line with a line, in order; what is wrong with one is its own answer."""
    gc.freeze()  # modules and plugins stay; the collector need not look at them for every line
    for line in lines:
        if line.strip():
            out.write(_encode(_answer(line)) + b"\n")
            out.flush()


def _answer(line: bytes) -> Explanation:
    pod = ""
    try:
        question = _question.decode(line)
        pod = question.pod
        if not pod:
            raise BadRequest("pod: Required value")
        snapshot = read_snapshot(_objects(question), pod)
        chosen = _configuration(bytes(question.config))
        return snapshot.explain(
            chosen.profiles, _time(question.now), preempt=bool(question.preempt),
            extenders=chosen.extenders,
        )  # fmt: skip
    except (HoldfastError, msgspec.MsgspecError) as wrong:
        return {"pod": pod or _pod_of(line), "error": str(wrong)}
    except Exception as bug:  # the lines after this one still want their answers
        log.exception("deciding for %s failed", pod)
        return {"pod": pod, "error": f"deciding failed: {type(bug).__name__}: {bug}"}


def _objects(question: ExplainRequest) -> Iterator[Manifest]:
    for number, text in enumerate(question.objects or ()):
        yield from unpack(Manifest(f"objects[{number}]", text))


def _pod_of(line: bytes) -> str:
    """Find out whom a line that cannot be read is about, if that much can be read."""
    try:
        return str(msgspec.json.decode(line)["pod"])
    except (msgspec.MsgspecError, LookupError, TypeError):
        return ""


@lru_cache(maxsize=256)
def _configuration(config: bytes) -> Configuration:
    found = msgspec.json.decode(config)
    if found is None:
        return Configuration(built_in_profiles())
    # A line may come from anywhere: it names plugins, it brings no code.
    return read(found, Catalog(foreign=False))


def _text_of(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text()
    except (OSError, UnicodeDecodeError) as wrong:
        why = getattr(wrong, "strerror", None) or wrong
        raise BadRequest(f"{path} cannot be read: {why}") from wrong


def _time(now: str | None) -> float:
    """The time to decide at; without one, the present."""
    if not now:
        return SystemClock().now()
    try:
        return parse_rfc3339(now)
    except BadRequest as wrong:
        raise BadRequest(f"now: {wrong}") from wrong

"""``holdfast explain``: explain a scheduling decision from a file, without a cluster."""

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
from holdfast.cli.explanation_text import format_explanation
from holdfast.cli.objects import Manifest, parse_documents, unpack_list
from holdfast.cli.scheduler_configuration import load_configuration
from holdfast.cli.snapshot import built_in_profiles, read_snapshot
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import BadRequest, HoldfastError
from holdfast.runtime.feature_gates import FeatureGates, parse_release
from holdfast.scheduling.configuration.catalog import Catalog
from holdfast.scheduling.configuration.reading import Configuration, read

log = logging.getLogger(__name__)
Explanation = dict[str, Any]
WRONG_INPUT = 2
"""The exit code when an object or the request is invalid."""


class ExplainRequest(msgspec.Struct, frozen=True, rename="camel"):
    """One line of ``--batch``."""

    objects: list[msgspec.Raw] | None = None
    pod: str = ""
    config: msgspec.Raw = msgspec.Raw(b"null")
    preempt: bool | None = None
    now: str | None = None
    feature_gates: str = ""
    kubernetes_version: str = ""


_question = msgspec.json.Decoder(ExplainRequest)
_encode = msgspec.json.Encoder().encode


def explain_file(
    snapshot: str,
    pod: str,
    config: Path | None,
    gates: str,
    release: str,
    *,
    preempt: bool,
    now: str | None,
    output: str,
) -> int:
    """Print the explanation of one decision; return the exit code; ``-`` is standard input."""
    try:
        documents = parse_documents(_text_of(snapshot))
        chosen = load_configuration(config)
        answer = read_snapshot(documents, pod, _gates(gates, release)).explain(
            chosen.profiles, _time(now), preempt=preempt, extenders=chosen.extenders
        )
    except HoldfastError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return WRONG_INPUT
    print_answer(answer, output)
    return 0


def print_answer(answer: Explanation, output: str) -> None:
    """Print an explanation as JSON or as text."""
    if output == "json":
        sys.stdout.write(msgspec.json.format(_encode(answer)).decode() + "\n")
    else:
        sys.stdout.write(format_explanation(answer))


def explain_lines(lines: Iterable[bytes], out: BinaryIO) -> None:
    """Write one line of JSON for each input line, in order; an invalid line gets an ``error``."""
    gc.freeze()  # modules and plugins are permanent: exclude them from garbage collection
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
        gates = _gates(question.feature_gates, question.kubernetes_version)
        snapshot = read_snapshot(_objects(question), pod, gates)
        chosen = _configuration(bytes(question.config))
        return snapshot.explain(
            chosen.profiles, _time(question.now), preempt=bool(question.preempt),
            extenders=chosen.extenders,
        )  # fmt: skip
    except (HoldfastError, msgspec.MsgspecError) as error:
        return {"pod": pod or _pod_of(line), "error": str(error)}
    except Exception as bug:  # the following lines must still be processed
        log.exception("scheduling %s failed", pod)
        return {"pod": pod, "error": f"scheduling failed: {type(bug).__name__}: {bug}"}


def _objects(question: ExplainRequest) -> Iterator[Manifest]:
    for number, text in enumerate(question.objects or ()):
        yield from unpack_list(Manifest(f"objects[{number}]", text))


def _pod_of(line: bytes) -> str:
    """Return the pod named in a line that is otherwise invalid, "" if it cannot be read."""
    try:
        return str(msgspec.json.decode(line)["pod"])
    except (msgspec.MsgspecError, LookupError, TypeError):
        return ""


@lru_cache(maxsize=256)
def _configuration(config: bytes) -> Configuration:
    raw = msgspec.json.decode(config)
    if raw is None:
        return Configuration(built_in_profiles())
    # Lines may come from an untrusted source: they must not load code.
    return read(raw, Catalog(load_user_code=False))


def _text_of(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadRequest(f"cannot read {path}: {why}") from error


def _gates(text: str, release: str) -> FeatureGates:
    """Return feature gates, with the defaults of a release if one is given."""
    gates = FeatureGates.parse(text)
    if not release:
        return gates
    try:
        return gates.of_release(parse_release(release))
    except BadRequest as error:
        raise BadRequest(f"Kubernetes version: {error}") from error


def _time(now: str | None) -> float:
    """Return the time of the decision in seconds; the current time if none is given."""
    if not now:
        return SystemClock().now()
    try:
        return parse_rfc3339(now)
    except BadRequest as error:
        raise BadRequest(f"now: {error}") from error

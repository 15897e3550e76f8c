"""Run kube-scheduler (in the program ``go/referee``) and Holdfast on the same cases."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from holdfast.cli.explain import explain_lines
from real.control_plane import program
from real.differential.allocations import add_allocations
from real.differential.families import Case

Answer = dict[str, Any]
GO = Path(__file__).parents[1] / "go"


def ask_both(cases: Iterable[Case]) -> tuple[list[Answer], list[Answer]]:
    """Return the answers of kube-scheduler and of Holdfast, case by case."""
    cases = list(cases)
    lines = b"".join(case.line + b"\n" for case in cases)
    our_lines = b"".join(case.our_line + b"\n" for case in cases)
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as told:
        asked.write(lines)
        asked.seek(0)
        process = subprocess.Popen([_program()], stdin=asked, stdout=told)
        try:
            ours = io.BytesIO()
            explain_lines(io.BytesIO(our_lines), ours)
            process.wait()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        told.seek(0)
        theirs = [json.loads(line) for line in told]
    if process.returncode:
        raise RuntimeError(f"the referee ended with {process.returncode}")
    answers = [json.loads(line) for line in ours.getvalue().splitlines()]
    for case, answer in zip(cases, answers, strict=True):
        add_allocations(case, answer)
    return theirs, answers


def referee() -> str | None:
    """Return the path of the referee built from the current sources, or None."""
    sources = [GO / "go.mod", *sorted((GO / "referee").glob("*.go"))]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    return program(f"referee-{digest[:12]}")


def _program() -> str:
    found = referee()
    if found is None:
        raise RuntimeError("the referee is not built: run `make binaries` (needs Go) first")
    return found

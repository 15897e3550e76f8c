"""Make small changes of the code and check that a test fails: ``make mutants ARGS="--count 20"``.

The program draws a seeded sample of small wrong changes of four packages (PACKAGES) and runs the
tests of the package for each. A change that no test detects is printed: either a test is missing,
or the change makes no difference, and then tests/mutants_explained.toml says why. Everything runs
in scratch copies.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import multiprocessing.pool
import os
import signal
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path

from mutant_changes import Mutant, changes_of, is_change
from mutant_tests import Coverage, Follower, Run, copy_tree, digest_of, preload, run_tests

ROOT = Path(__file__).resolve().parents[1]
EXPLAINED = ROOT / "tests" / "mutants_explained.toml"
_FOLLOW_SECONDS = 900.0
_LEAST_SECONDS = 20.0
_EVERY = 25
"""How often progress is printed without a terminal."""


@dataclass(frozen=True)
class Package:
    """Files to change, and the tests that should fail."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    of_tables: tuple[str, ...] = ()
    """Tests that read whole tables; they run first for a change at module level, otherwise last."""


PACKAGES = {
    "queue": Package(
        tuple(
            f"src/holdfast/scheduling/scheduler/{name}.py"
            for name in ("scheduling_queue", "queued_pods")
        ),
        ("tests/scheduler/test_queue*.py",),
    ),
    "engine": Package(
        ("src/holdfast/scheduling/engine/*.py",),
        ("tests/engine/*.py", "tests/framework/*.py", "tests/conformance/*.py"),
    ),
    "kinds": Package(
        ("src/holdfast/server/kinds/**/*.py",),
        tuple(f"tests/apiserver/test_{name}.py" for name in (
            "recorded_answers", "*validation", "custom_resources", "definition_faults", "deletion",
            "list_limits", "pod_binding", "printers", "priority_classes", "reservation_warnings",
            "role_bindings", "secrets", "security", "unimplemented_features", "warning_headers",
            "writing",
        )),
        ("tests/apiserver/test_kinds.py", "tests/apiserver/test_recorded_answers.py"),
    ),
    "reservations": Package(
        ("src/holdfast/state/reservations/*.py", "src/holdfast/state/resource_policies/*.py"),
        ("tests/state/*/*.py", "tests/reservations/*.py", "tests/policies/*.py"),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Task:
    """A change and the tests to run against it."""

    package: str
    mutant: Mutant
    tests: tuple[str, ...]
    seconds: float
    end: float
    """The latest start."""


def main() -> int:
    """Draw changes, run tests, report; return 1 if an unexplained change was not detected."""
    wanted = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # so that scratch copies are removed
    began = time.monotonic()
    end = began + wanted.minutes * 60 if wanted.minutes else float("inf")
    names = wanted.package or list(PACKAGES)
    sample = _sample(names, wanted)
    preload()
    context = multiprocessing.get_context("fork")
    with (
        tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as where,
        context.Pool(wanted.workers, _start, (Path(where),)) as pool,
    ):
        coverage = {name: _coverage(pool, name) for name in names}
        tasks = [_task(package, mutant, coverage[package], end) for package, mutant in sample]
        survivors = _run_all(pool, tasks)
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if survivors else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--slice", default="1/1", help="of the sample only 3/10, say")
    parser.add_argument("--minutes", type=float, default=0, help="stop after about this long")
    parser.add_argument("--package", action="append", choices=list(PACKAGES))
    parser.add_argument("--only", help="FILE:LINE, every change of one line; or FILE")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    return parser.parse_args()


def files_of(globs: tuple[str, ...]) -> list[str]:
    """Return the paths, from the root, of the files that match."""
    found = {str(p.relative_to(ROOT)) for glob in globs for p in ROOT.glob(glob)}
    if not found:
        sys.exit(f"no file matches {', '.join(globs)}: correct PACKAGES in tools/mutants.py")
    return sorted(found)


def _sample(names: list[str], wanted: argparse.Namespace) -> list[tuple[str, Mutant]]:
    """Draw random changes from each package in turn.

    A change is drawn by its own text, so that the sample of a seed hardly changes with the code.
    """
    drawn = []
    for name in names:
        found = [m for file in files_of(PACKAGES[name].sources) for m in changes_of(ROOT, file)]
        if wanted.only:
            file, _, line = wanted.only.partition(":")
            found = [m for m in found if m.file == file and line in ("", str(m.line))]
        found.sort(key=lambda m: hashlib.sha256(f"{wanted.seed} {m.key}".encode()).digest())
        drawn.append([(name, mutant) for mutant in found])
    turns = (one for turn in zip_longest(*drawn) for one in turn if one is not None)
    runnable = (one for one in turns if is_change(one[1], (ROOT / one[1].file).read_bytes()))
    first, of = (int(part) for part in wanted.slice.split("/"))
    sample = list(islice(runnable, wanted.count))[first - 1 :: of]
    explained = read_explained()
    return [one for one in sample if one[1].key not in explained]


def read_explained() -> set[tuple[str, str, str, str]]:
    """Return the changes that make no difference; the file gives the reason of each."""
    if not EXPLAINED.exists():
        return set()
    listed = tomllib.loads(EXPLAINED.read_text()).get("equivalent", ())
    return {(e["file"], e["function"], e["before"], e["after"]) for e in listed}


def _coverage(pool: multiprocessing.pool.Pool, name: str) -> Coverage:
    """Read, or determine by tracing, which tests execute which lines of a package."""
    package = PACKAGES[name]
    sources = files_of(package.sources)
    files = files_of(package.tests)
    kept = ROOT / "build" / f"mutants-{name}.json"
    digest = digest_of(ROOT, [*sources, *files])
    if kept.exists():
        known = json.loads(kept.read_text())
        if known["digest"] == digest:
            return Coverage(known["tests"])
    asked = [(file, sources) for file in [*files, *sources] if _has_tests(file)]
    tests: dict[str, dict[str, object]] = {}
    for number, (run, one) in enumerate(pool.imap_unordered(_follow, asked), 1):
        if run.outcome in ("failed", "timeout") and not one:
            sys.exit(f"{run.outcome} without any change: {run.first_failure}")
        tests |= one
        _progress(f"{name}: followed {number} of {len(asked)} files of tests")
    _progress("")
    if not tests:
        sys.exit(f"no test of {name} passes: see tests {', '.join(package.tests)}")
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(json.dumps({"digest": digest, "tests": tests}))
    return Coverage(tests)


def _has_tests(file: str) -> bool:
    return Path(file).name.startswith("test_") or b">>> " in (ROOT / file).read_bytes()


def _task(name: str, mutant: Mutant, coverage: Coverage, end: float) -> Task:
    package = PACKAGES[name]
    is_table = all(part[:1].isupper() for part in mutant.function.split(".") if part)
    tests = coverage.tests_of(mutant.file, mutant.line, whole_file=is_table)
    known = coverage.seconds(tests)
    if is_table:
        tests = [*package.of_tables, *tests] or files_of(package.tests)
    else:
        tests = [*tests, *package.of_tables]
    whole_files = any("::" not in test for test in tests)
    return Task(name, mutant, tuple(tests), 5 * known + _LEAST_SECONDS + 60 * whole_files, end)


def _run_all(pool: multiprocessing.pool.Pool, tasks: list[Task]) -> list[Task]:
    """Run the sample until its end or the timeout; return the undetected changes."""
    outcomes: dict[str, list[Run]] = {name: [] for name in PACKAGES}
    survivors = []
    began = time.monotonic()
    for number, (task, run) in enumerate(pool.imap_unordered(_judge, tasks), 1):
        if run.outcome == "out of time":
            continue
        outcomes[task.package].append(run)
        if run.outcome in ("passed", "nothing run"):
            survivors.append(task)
            _progress("")
            print(_shown(task, run), flush=True)
        spent = time.monotonic() - began
        progress = f"{number} of {len(tasks)}, {len(survivors)} unnoticed, {spent:.0f} s"
        _progress(progress)
        if number % _EVERY == 0 and not sys.stderr.isatty():
            print(progress, flush=True)
    _progress("")
    for name, runs in outcomes.items():
        if runs:
            ended = sum(run.outcome == "timeout" for run in runs)
            missed = sum(run.outcome in ("passed", "nothing run") for run in runs)
            print(f"{name}: {len(runs)} changes, {len(runs) - missed} noticed ({ended} by running "
                  f"on and on), {missed} unnoticed")  # fmt: skip
    return survivors


def _shown(task: Task, run: Run) -> str:
    m = task.mutant
    why = "no test executes it" if not task.tests else f"{len(task.tests)} tests pass"
    return (f"UNNOTICED ({task.package}, {why}) {m.file}:{m.line} {m.function}\n"
            f"  - {m.before}\n  + {m.after}")  # fmt: skip


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


_scratch: Path


def _start(where: Path) -> None:
    """Give a worker its own copy of the tree."""
    global _scratch  # noqa: PLW0603
    _scratch = copy_tree(ROOT, where / str(os.getpid()))


def _follow(what: tuple[str, list[str]]) -> tuple[Run, dict[str, dict[str, object]]]:
    file, sources = what
    result = _scratch / "followed.json"
    result.unlink(missing_ok=True)
    run = run_tests(_scratch, [file], _FOLLOW_SECONDS, Follower(_scratch, sources, result))
    return run, json.loads(result.read_text()) if result.exists() else {}


def _judge(task: Task) -> tuple[Task, Run]:
    if time.monotonic() > task.end:
        return task, Run("out of time")
    if not task.tests:
        return task, Run("nothing run")
    path = _scratch / task.mutant.file
    source = path.read_bytes()
    path.write_bytes(task.mutant.apply(source))
    try:
        return task, run_tests(_scratch, list(task.tests), task.seconds)
    finally:
        path.write_bytes(source)


if __name__ == "__main__":
    sys.exit(main())

"""Run the tests that execute a changed line, in a forked process on a scratch copy of the tree.

Modules of other packages are imported once, before the fork. Tracing determines once which test
executes which line; the result is kept in build/ until a file changes.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

MOST_SECONDS = 20.0
"""How long the tests of one change may take together with tracing; without it, a third."""
_PRELOADED = ("numpy", "msgspec", "aiohttp", "aiohttp.web", "pytest",
              "prometheus_client", "cryptography.x509", "yaml", "asyncio", "sqlite3",
              "unittest.mock", "typer", "rich")  # fmt: skip
_OPTIONS = ("-q", "--no-header", "--tb=line", "-p", "no:cacheprovider",
            "-m", "not real and not parity and not kubectl", "-o", "addopts=--doctest-modules",
            "-o", "timeout=0", "-W", "ignore::pytest.PytestAssertRewriteWarning")  # fmt: skip
_PASSED, _FAILED, _NOTHING_RUN = 0, 1, 5


def copy_tree(root: Path, target: Path) -> Path:
    """Copy the files that git tracks or does not ignore."""
    for name in tree_files(root):
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, copy)
    return target


def tree_files(root: Path) -> list[str]:
    """Return the files that git tracks or does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=root, check=True, text=True,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    return [name for name in listed.stdout.splitlines() if (root / name).is_file()]


def digest_of(root: Path, files: list[str]) -> str:
    """Return a hash of the content of files."""
    total = hashlib.sha256()
    for name in files:
        total.update(name.encode() + (root / name).read_bytes())
    return total.hexdigest()


def preload() -> None:
    """Import libraries once, so that forked processes need not."""
    for name in _PRELOADED:
        with suppress(ImportError):
            importlib.import_module(name)


@dataclass(frozen=True)
class Run:
    """How a run of tests ended."""

    outcome: str
    """"passed", "failed", "timeout" or "nothing run"."""
    first_failure: str = ""


def run_tests(scratch: Path, tests: list[str], cpu_seconds: float, plugin: Any = None) -> Run:
    """Run tests in a forked process until the first failure or the timeout."""
    log = scratch / "mutants.log"
    child = os.fork()
    if not child:
        _test_and_exit(scratch, tests, cpu_seconds, log, plugin)
    code = _wait(child, 60 + 20 * cpu_seconds)
    if code == _PASSED:
        return Run("passed")
    if code == _NOTHING_RUN:
        return Run("nothing run")
    if code < 0:
        return Run("timeout")
    output = log.read_text(errors="replace")
    failures = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return Run("failed", failures[0].split(" - ")[0] if failures else f"exit code {code}")


def _test_and_exit(
    scratch: Path, tests: list[str], cpu_seconds: float, log: Path, plugin: Any
) -> None:
    code = _FAILED
    try:
        os.setpgid(0, 0)
        limit = int(cpu_seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(scratch)
        os.environ["PYTHONPATH"] = str(scratch / "src")
        sys.path[:0] = [str(scratch / "src")]
        import pytest  # noqa: PLC0415

        options = [*_OPTIONS, *(() if plugin else ("-x",))]
        plugins = [Untimed(), plugin] if plugin else [Untimed()]
        code = int(pytest.main([*options, *tests], plugins=plugins))
        sys.stdout.flush()
    except BaseException as broken:
        print("ERROR", repr(broken), flush=True)
    finally:
        os._exit(code)


def _wait(child: int, seconds: float) -> int:
    """Wait for a process; return its exit code, or a negative number if it was killed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child, signal.SIGKILL)  # processes that a test left running
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -signal.SIGKILL


class Untimed:
    """A pytest plugin that removes the timeouts of tests: a whole run has one."""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Remove the timeout marks."""
        for item in items:
            item.own_markers = [mark for mark in item.own_markers if mark.name != "timeout"]


class Follower:
    """A pytest plugin that records which lines of some files each test executes."""

    def __init__(self, scratch: Path, files: list[str], result: Path) -> None:
        self._result = result
        self._lines: dict[str, set[int]] = {}
        self._names = {str(scratch / name): name for name in files}
        self._tests: dict[str, dict[str, Any]] = {}
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Leave out a test that fails without a change."""
        if report.failed:
            self._failed.add(report.nodeid.partition("[")[0])

    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> None:
        """Start tracing for a test and its fixtures."""
        test = item.nodeid.partition("[")[0]
        known = self._tests.setdefault(test, {"seconds": 0.0, "lines": defaultdict(set)})
        self._lines = {path: known["lines"][name] for path, name in self._names.items()}
        self._began = time.process_time()
        self._test = test
        sys.settrace(self._enter)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Stop tracing for a test."""
        sys.settrace(None)
        self._tests[self._test]["seconds"] += time.process_time() - self._began

    def pytest_sessionfinish(self) -> None:
        """Write the recorded lines."""
        recorded = {
            test: {"seconds": round(seen["seconds"], 3),
                   "lines": {name: sorted(lines) for name, lines in seen["lines"].items() if lines}}
            for test, seen in self._tests.items() if test not in self._failed
        }  # fmt: skip
        self._result.write_text(json.dumps(recorded))

    def _enter(self, frame: FrameType, event: str, arg: object) -> Any:
        lines = self._lines.get(frame.f_code.co_filename)
        if lines is None:
            return None
        add = lines.add
        add(frame.f_lineno)

        def step(frame: FrameType, event: str, arg: object) -> Any:
            add(frame.f_lineno)
            return step

        return step


class Coverage:
    """The tests that execute a line, and their durations."""

    def __init__(self, tests: dict[str, dict[str, Any]]) -> None:
        self._tests = tests

    def tests_of(self, file: str, line: int, *, whole_file: bool) -> list[str]:
        """The tests that execute a line, or any line of its file: the quickest, for some seconds.

        Hundreds of tests execute some line of a file; the largest of them are left out.
        """
        found = [
            test for test, seen in self._tests.items()
            if (lines := seen["lines"].get(file)) and (whole_file or line in lines)
        ]  # fmt: skip
        found.sort(key=lambda test: self._tests[test]["seconds"])
        while len(found) > 1 and self.seconds(found) > MOST_SECONDS:
            found.pop()
        return found

    def seconds(self, tests: list[str]) -> float:
        """Return the total duration of tests in seconds."""
        return float(sum(self._tests[test]["seconds"] for test in tests))

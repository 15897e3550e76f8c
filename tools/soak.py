"""Run the long checks for a while: ``make soak SEED=7 MINUTES=60``.

Fuzzers, kill rounds, laws, changed code (tools/mutants.py) and decisions against kube-scheduler's
own share the time. Each part runs again and again, with a new seed each time, until its share is
used up. The exit code is 1 if any of them found a fault.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "build" / "soak"
KILLED = ("tests/stories/test_crash_story.py", "tests/stories/test_scheduler_crash.py",
          "tests/apiserver/test_crash.py", "tests/store/test_store_restart.py")  # fmt: skip
MARK = "UNNOTICED"
_BINARIES = ROOT / "tests" / "real" / "build"
_GRACE = 0.15
"""By what part of its time a check may run on, before it is ended."""
_SHORT = 1200.0
"""Seconds under which a part takes little of what it could do."""
_TOLD = 40
"""Lines of the output of a part that found a fault."""


@dataclass
class Part:
    """One kind of check; ``command`` is given a seed and the seconds that are left."""

    name: str
    share: float
    command: Callable[[int, float], list[str]]
    ready: Callable[[], str] = lambda: ""
    """Says why the part cannot run here, or nothing."""
    only_tells: int = 0
    """The exit code that tells of something to look at, but of no fault."""
    rounds: int = 0
    told: int = 0
    ended_early: bool = False
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)
    skipped: str = ""

    @property
    def result(self) -> str:
        """What came of it, in a few words."""
        if self.skipped:
            return f"skipped: {self.skipped}"
        said = f"{len(self.faults)} faults" if self.faults else "no fault"
        said += f", {self.told} changes unnoticed (build/soak)" if self.told else ""
        return said + (", the last round ended early" if self.ended_early else "")


def fuzz(seed: int, seconds: float) -> list[str]:
    """Random requests: some hundred a second on a quiet machine, far fewer on a busy one."""
    requests = max(500, int(seconds * 30))
    return [sys.executable, "tests/fuzz/run.py", "--seed", str(seed), "--requests", str(requests)]


def kill(seed: int, seconds: float) -> list[str]:
    """Kill processes while they write; the seed goes to the tests in the environment."""
    which = KILLED[seed % len(KILLED)]
    return [sys.executable, "-m", "pytest", "-q", "-k", "kill or killed or crash", which]


def try_laws(seed: int, seconds: float) -> list[str]:
    """Random cases of one file: ten times as many as ``make test`` tries, or all there are."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    sized = [path for path in files if "from soak_size import" in path.read_text()]
    options = ["-q", "-x", "--timeout", "1800", "--hypothesis-seed", str(seed)]
    return [sys.executable, "-m", "pytest", *options, str(sized[seed % len(sized)])]


def mutate(seed: int, seconds: float) -> list[str]:
    """Changed code: a short run takes a tenth of one package's sample, a long one a new sample."""
    packages = ("capacity", "queue", "kinds", "engine")
    chosen = ["--seed", str(seed)]
    if seconds < _SHORT:
        chosen = ["--seed", "1", "--package", packages[seed % 4], "--count", "75",
                  "--slice", f"{seed // 4 % 10 + 1}/10"]  # fmt: skip
    return [sys.executable, "tools/mutants.py", "--minutes", f"{seconds / 60:.2f}", *chosen]


def differ(seed: int, seconds: float) -> list[str]:
    """Decisions against kube-scheduler's, as many cases of every family."""
    cases = max(10, int(seconds / 4))
    return [sys.executable, "tools/differential.py", "--seed", str(seed * 100_000), "--cases",
            str(cases)]  # fmt: skip


def lacks_binaries() -> str:
    """Tell whether kube-scheduler can be built and asked here."""
    built = subprocess.run([str(_BINARIES)], capture_output=True, check=False)
    return "" if built.returncode == 0 else "kube-scheduler cannot be built here (needs Go)"


def parts() -> list[Part]:
    """Everything there is, with its share of the time."""
    return [
        Part("fuzz", 0.2, fuzz),
        Part("kill", 0.2, kill),
        Part("laws", 0.2, try_laws),
        # A sample that changes with the seed would fail changes that have nothing to do with it.
        Part("mutants", 0.25, mutate, only_tells=1),
        Part("differential", 0.15, differ, lacks_binaries),
    ]


def main() -> int:
    """Run every part for its share, then show what came of it."""
    wanted = _arguments()
    seed = wanted.seed if wanted.seed is not None else seed_of_commit()
    chosen = [part for part in parts() if not wanted.part or part.name in wanted.part]
    print(f"soak: seed {seed}, {wanted.minutes:g} minutes; again with SEED={seed}", flush=True)
    LOGS.mkdir(parents=True, exist_ok=True)
    for part in chosen:
        part.skipped = part.ready()
    together = sum(part.share for part in chosen if not part.skipped)
    for part in chosen:
        if not part.skipped:
            run(part, seed, wanted.minutes * 60 * part.share / together)
        print(f"soak: {part.name}: {part.result}, {part.rounds} rounds, {part.seconds:.0f} s",
              flush=True)  # fmt: skip
    return show(chosen)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="default: made from the commit")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--part", action="append", choices=[part.name for part in parts()])
    return parser.parse_args()


def seed_of_commit() -> int:
    """A number that changes with every commit and can be had again from it."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True,
                          check=False)  # fmt: skip
    return int(head.stdout[:7] or "1", 16) % 1_000_000


def run(part: Part, seed: int, seconds: float) -> None:
    """Repeat a part until its time is up, or until it finds a fault."""
    began = time.monotonic()
    while (left := seconds - (time.monotonic() - began)) > seconds / 4 and not part.faults:
        one = seed + part.rounds
        code, log = _round(part, one, left, left + seconds * _GRACE)
        part.rounds += 1
        if code == part.only_tells != 0:
            part.told += sum(line.startswith(MARK) for line in log.read_text().splitlines())
        elif code:
            part.faults.append(f"seed {one}: exit code {code}, see {log.relative_to(ROOT)}")
            print("\n".join(log.read_text(errors="replace").splitlines()[-_TOLD:]), flush=True)
    part.seconds = time.monotonic() - began


def _round(part: Part, seed: int, left: float, most: float) -> tuple[int, Path]:
    """Run a part once; with nothing found in ``most`` seconds it is ended, which is no fault."""
    log = LOGS / f"{part.name}-{seed}.log"
    environment = {**os.environ, "HOLDFAST_SEED": str(seed), "HOLDFAST_ROUNDS": "10"}
    with log.open("w") as output:
        process = subprocess.Popen(
            part.command(seed, left), cwd=ROOT, env=environment, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            return process.wait(most), log
        except subprocess.TimeoutExpired:
            part.ended_early = True
            _end(process)
            return 0, log


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and what it started, first with a chance to clean up."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(5)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def show(chosen: list[Part]) -> int:
    """Print a table; 1 if there was a fault."""
    print(f"\n{'part':14}{'rounds':>8}{'seconds':>9}  result")
    for part in chosen:
        print(f"{part.name:14}{part.rounds:>8}{part.seconds:>9.0f}  {part.result}")
        for fault in part.faults:
            print(f"{'':14}{fault}")
    return 1 if any(part.faults for part in chosen) else 0


if __name__ == "__main__":
    sys.exit(main())

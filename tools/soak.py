"""Run the long checks for a while: ``make soak SEED=7 MINUTES=60``.

Fuzzers, kill rounds, laws, attacks of tenants, mutants (tools/mutants.py) and the comparison with
kube-scheduler's decisions share the time. Each part is repeated with a new seed until its share is
used up. The exit code is 1 if any part found a fault.
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
ATTACKS = ("tests/laws/test_tenant_laws.py", "tests/laws/test_tenant_room_laws.py",
           "tests/laws/test_turn_laws.py")  # fmt: skip
MARK = "UNNOTICED"
_BINARIES = ROOT / "tests" / "real" / "build"
_GRACE = 0.15
"""The fraction by which a check may exceed its time before it is killed."""
_SHORT = 1200.0
"""A part with less time than this, in seconds, runs a smaller sample."""
_SHOWN_LINES = 40
"""Lines of output to print for a part that found a fault."""


@dataclass
class Part:
    """One kind of check; ``command`` takes a seed and the remaining seconds."""

    name: str
    share: float
    command: Callable[[int, float], list[str]]
    ready: Callable[[], str] = lambda: ""
    """Returns why the part cannot run here, or ""."""
    only_tells: int = 0
    """Exit code for a finding that is not a fault."""
    rounds: int = 0
    unnoticed: int = 0
    ended_early: bool = False
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)
    skipped: str = ""

    @property
    def result(self) -> str:
        """A short text on the result."""
        if self.skipped:
            return f"skipped: {self.skipped}"
        said = f"{len(self.faults)} faults" if self.faults else "no fault"
        said += f", {self.unnoticed} changes unnoticed (build/soak)" if self.unnoticed else ""
        return said + (", the last round ended early" if self.ended_early else "")


def fuzz(seed: int, seconds: float) -> list[str]:
    """Return the command for random requests: some hundred a second on an idle machine."""
    requests = max(500, int(seconds * 30))
    return [sys.executable, "tests/fuzz/run.py", "--seed", str(seed), "--requests", str(requests)]


def kill(seed: int, seconds: float) -> list[str]:
    """Return the command for kill rounds; the tests read the seed from the environment."""
    which = KILLED[seed % len(KILLED)]
    return [sys.executable, "-m", "pytest", "-q", "-k", "kill or killed or crash", which]


def kill_nodes(seed: int, seconds: float) -> list[str]:
    """Return the command that kills agent and driver of a node: 100 times among 200 pods.

    With a short time, a tenth of that.
    """
    return _kill_with("tests/agent/test_agent_kill.py", seconds)


def kill_classic(seed: int, seconds: float) -> list[str]:
    """Return the command that kills scheduler, agent and both parts of a classic driver."""
    return _kill_with("tests/agent/test_classic_kill.py", seconds)


def _kill_with(test: str, seconds: float) -> list[str]:
    kills = 10 if seconds < _SHORT / 4 else 100
    return ["env", f"HOLDFAST_KILLS={kills}", sys.executable, "-m", "pytest", "-q", test]


def laws(seed: int, seconds: float) -> list[str]:
    """Return the command for random cases of one file: ten times as many as in ``make test``."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    sized = [path for path in files if "from soak_size import" in path.read_text()]
    options = ["-q", "-x", "--timeout", "1800", "--hypothesis-seed", str(seed)]
    return [sys.executable, "-m", "pytest", *options, str(sized[seed % len(sized)])]


def attack(seed: int, seconds: float) -> list[str]:
    """Return the command for random attacks of tenants: 80 times some dozens of one kind."""
    return [sys.executable, "-m", "pytest", "-q", "-x", ATTACKS[seed % len(ATTACKS)]]


def mutate(seed: int, seconds: float) -> list[str]:
    """Return the command for mutants: a tenth of a sample if short, else a new sample."""
    packages = ("reservations", "queue", "kinds", "engine")
    chosen = ["--seed", str(seed)]
    if seconds < _SHORT:
        chosen = ["--seed", "1", "--package", packages[seed % 4], "--count", "75",
                  "--slice", f"{seed // 4 % 10 + 1}/10"]  # fmt: skip
    return [sys.executable, "tools/mutants.py", "--minutes", f"{seconds / 60:.2f}", *chosen]


def differ(seed: int, seconds: float) -> list[str]:
    """Return the command that compares decisions with kube-scheduler's."""
    cases = max(10, int(seconds / 4))
    return [sys.executable, "tools/differential.py", "--seed", str(seed * 100_000), "--cases",
            str(cases)]  # fmt: skip


def lacks_binaries() -> str:
    """Return why kube-scheduler cannot be built here, or ""."""
    built = subprocess.run([str(_BINARIES)], capture_output=True, check=False)
    return "" if built.returncode == 0 else "kube-scheduler cannot be built here (needs Go)"


def parts() -> list[Part]:
    """Return all parts, with their shares of the time."""
    return [
        Part("fuzz", 0.2, fuzz),
        Part("kill", 0.2, kill),
        Part("kill-nodes", 0.2, kill_nodes),
        Part("kill-classic", 0.2, kill_classic),
        Part("laws", 0.2, laws),
        Part("tenants", 0.15, attack),
        # A sample that changes with the seed would fail unrelated changes.
        Part("mutants", 0.25, mutate, only_tells=1),
        Part("differential", 0.15, differ, lacks_binaries),
    ]


def main() -> int:
    """Run every part for its share, then print the results."""
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
    parser.add_argument("--seed", type=int, help="default: derived from the commit")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--part", action="append", choices=[part.name for part in parts()])
    return parser.parse_args()


def seed_of_commit() -> int:
    """Return a seed derived from the commit."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True,
                          check=False)  # fmt: skip
    return int(head.stdout[:7] or "1", 16) % 1_000_000


def run(part: Part, seed: int, seconds: float) -> None:
    """Repeat a part until its time is used up or it finds a fault."""
    began = time.monotonic()
    while (left := seconds - (time.monotonic() - began)) > seconds / 4 and not part.faults:
        one = seed + part.rounds
        code, log = _round(part, one, left, left + seconds * _GRACE)
        part.rounds += 1
        if code == part.only_tells != 0:
            part.unnoticed += sum(line.startswith(MARK) for line in log.read_text().splitlines())
        elif code:
            part.faults.append(f"seed {one}: exit code {code}, see {log.relative_to(ROOT)}")
            print(
                "\n".join(log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:]), flush=True
            )
    part.seconds = time.monotonic() - began


def _round(part: Part, seed: int, left: float, most: float) -> tuple[int, Path]:
    """Run a part once; kill it after ``most`` seconds, which is not a fault."""
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
    """Terminate a process group, then kill it."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(5)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def show(chosen: list[Part]) -> int:
    """Print a table; return 1 if there was a fault."""
    print(f"\n{'part':14}{'rounds':>8}{'seconds':>9}  result")
    for part in chosen:
        print(f"{part.name:14}{part.rounds:>8}{part.seconds:>9.0f}  {part.result}")
        for fault in part.faults:
            print(f"{'':14}{fault}")
    return 1 if any(part.faults for part in chosen) else 0


if __name__ == "__main__":
    sys.exit(main())

"""Compare the speed of the working tree with that of another revision.

    python benchmarks/compare.py REV               every case, 7 rounds, about ten minutes
    python benchmarks/compare.py REV --only decisions reservations --rounds 11
    python benchmarks/compare.py REV --quick       small clusters: shows only that it runs
    python benchmarks/compare.py .                 the working tree with itself: the noise

A round starts one process for each revision and measures each case in both processes, one after
the other; the order changes from round to round. The processes run the benchmarks of their own
revision with the same interpreter and packages. A ratio is the rate of the working tree divided by
the rate of REV measured next to it; the table shows the median, the lowest and the highest of the
rounds. Rates are per second of CPU time, those of the API server per second of elapsed time: the
machine must be idle otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import IO, Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tools"))

from revisions import checkout  # noqa: E402

PARTS = ("decisions", "reservations", "policies", "preemption", "server")
FLOOR = 0.95
Measures = dict[str, Callable[[], float]]


def measures(parts: list[str], *, quick: bool) -> Measures:
    """Return every case by name, from the benchmarks in the import path.

    Cases that only one of the revisions has are not compared.
    """
    import decisions  # noqa: PLC0415
    import preemption  # noqa: PLC0415
    import reservations  # noqa: PLC0415
    import server  # noqa: PLC0415

    nodes, pods = (200, 300) if quick else (5000, 3000)
    # Building a full cluster takes longer than preempting on it: both cases fork one cluster.
    full = cache(preemption.a_full_cluster)
    preemption.a_full_cluster = lambda *size: full(*size).fork()

    def decide(kind: str) -> float:
        return decisions.measure(kind, nodes, 0, pods).per_second

    def preempt(case: str, count: int) -> float:
        return preemption.measure(case, nodes, 30, count, 1).best_per_second

    def create(flag: str) -> float:
        found = asyncio.run(server.measure(flag, pods // 2, 100, 32))
        return found["created/s"]

    found: dict[str, Measures] = {
        "policies": {},
        "decisions": {k: partial(decide, k) for k in decisions.KINDS},
        "reservations": {
            "owners of reservations": lambda: reservations.of_owners(nodes, nodes, pods),
            "beside reservations": lambda: reservations.of_others(nodes, nodes, pods),
            "reservations scheduled": lambda: reservations.scheduled(nodes, nodes, pods // 3),
        },
        "preemption": {
            "preemption, warm": partial(preempt, "warm", pods // 10),
            "preemption, first of a class": partial(preempt, "first", pods // 30),
        },
        "server": {
            "pods created, server apart": partial(create, "--two-processes"),
            "pods created, one process": partial(create, "--single-process"),
        },
    }
    if find_spec("policies"):  # added in November 2026
        import policies  # noqa: PLC0415

        found["policies"] = {
            case.words: partial(policies.measure, name, nodes, pods=pods)
            for name, case in policies.CASES.items()
        }
    return {name: measure for part in parts for name, measure in found[part].items()}


def serve(parts: list[str], *, quick: bool) -> None:
    """Run as the process of one revision: read names of cases, print their rates."""
    rates_out, sys.stdout = sys.stdout, sys.stderr
    cases = measures(parts, quick=quick)
    print(json.dumps(list(cases)), file=rates_out, flush=True)
    for line in sys.stdin:
        print(cases[line.strip()](), file=rates_out, flush=True)


class RevisionProcess:
    """The process of one revision, seen from the comparing process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._cases_in: IO[str] = process.stdin
        self._rates_out: IO[str] = process.stdout
        self.cases: list[str] = self._read()

    def rate(self, case: str) -> float:
        """Measure one case."""
        print(case, file=self._cases_in, flush=True)
        return self._read()

    def _read(self) -> Any:
        if not (line := self._rates_out.readline()):
            raise SystemExit("the measuring process ended: see its error above")
        return json.loads(line)


@contextmanager
def measuring(root: Path, arguments: list[str], seed: int) -> Iterator[RevisionProcess]:
    """Run the process of the revision in the folder ``root``."""
    path = os.pathsep.join([str(root / "src"), str(root / "benchmarks")])
    command = [sys.executable, "-P", str(HERE / "compare.py"), "--serve", *arguments]
    process = subprocess.Popen(
        command,
        env=os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": str(seed)},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        yield RevisionProcess(process)


def compare(args: argparse.Namespace, roots: dict[str, Path]) -> dict[str, list[dict[str, float]]]:
    """Return the rates of every case, ``before`` and ``after``, of every round."""
    arguments = ["--only", *args.only, *(["--quick"] if args.quick else [])]
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    began = time.monotonic()
    for number in range(args.rounds):
        with (
            measuring(roots["before"], arguments, number) as before,
            measuring(roots["after"], arguments, number) as after,
        ):
            pair = [("before", before), ("after", after)]
            for case in (c for c in after.cases if c in before.cases):
                spent = time.monotonic() - began
                line = f"[round {number + 1} of {args.rounds}] {spent:4.0f} s  {case}"
                print(f"\r{line[:78]:78}\r", end="", file=sys.stderr, flush=True)
                order = pair if number % 2 == 0 else pair[::-1]
                found[case].append({name: process.rate(case) for name, process in order})
    print(f"{'':78}", end="\r", file=sys.stderr, flush=True)
    return found


def show(found: dict[str, list[dict[str, float]]]) -> None:
    """Print the table."""
    print(f"{'case':32}{'before/s':>11}{'after/s':>11}{'ratio':>8}{'lowest':>8}{'highest':>9}")
    for case, rounds in found.items():
        ratios = [rates["after"] / rates["before"] for rates in rounds]
        before, after = (median(rates[name] for rates in rounds) for name in ("before", "after"))
        mark = " !" if median(ratios) < FLOOR else ""
        print(
            f"{case:32}{before:>11,.0f}{after:>11,.0f}{median(ratios):>8.2f}{min(ratios):>8.2f}"
            f"{max(ratios):>9.2f}{mark}"
        )
    print(f"\n! is below {FLOOR}: measure again on an idle machine")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("revision", nargs="?", default=".", help="a commit; . is the working tree")
    parser.add_argument("--rounds", type=int, help="7, with --quick 2")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--quick", action="store_true", help="small clusters and few pods")
    parser.add_argument(
        "--json", metavar="FILE", help="also write the rates of every round to FILE"
    )
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.only, quick=args.quick)
        return
    args.rounds = args.rounds or (2 if args.quick else 7)
    with checkout(args.revision, "src", "benchmarks") as before:
        found = compare(args, {"before": before, "after": HERE.parent})
    show(found)
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()

"""Compare our decisions with kube-scheduler's over random snapshots (see tests/real/README.md)."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from real.differential.families import FAMILIES, make_case  # noqa: E402
from real.differential.report import compare  # noqa: E402

AT_A_TIME = 500


def main() -> int:
    """Run the cases, print the differences, return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", nargs="*", choices=[*FAMILIES, []], help="default: all of them")
    parser.add_argument("--seed", type=int, default=0, help="the first case's number")
    parser.add_argument("--cases", type=int, default=1, help="how many, from that number on")
    given = parser.parse_args()
    wrong = 0
    for family in given.family or FAMILIES:
        wrong += run_cases(family, given.seed, given.cases)
    return 1 if wrong else 0


def run_cases(family: str, first: int, count: int) -> int:
    """Run the cases of a family; return how many differ."""
    started, wrong = time.monotonic(), 0
    for start in range(first, first + count, AT_A_TIME):
        seeds = range(start, min(start + AT_A_TIME, first + count))
        report = compare([make_case(family, seed) for seed in seeds])
        wrong += len(report.differing)
        if report:
            print(report.text(seconds=120))
    took = time.monotonic() - started
    print(f"{family}: {count} cases, {wrong} differ, {took:.0f} s", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())

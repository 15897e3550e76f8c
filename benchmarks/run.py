"""Measure everything there is, in one run, so that figures can stand side by side.

    make bench                    the common cases, about five minutes
    make bench ARGS="--full"      every kind on every size, ten minutes or more
    make bench ARGS="--only decisions reservations"

Rates are a second of CPU time of one core. They mean something beside the others of the same run:
``of basic`` is the share of what basic pods reach on as many nodes, and the growth table divides
one case by the same case on a smaller cluster. Progress goes to stderr, the tables to stdout.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import backlog
import decisions
import memory
import preemption
import reservations
from kinds import KINDS

HERE = Path(__file__).parent
PARTS = ("decisions", "reservations", "preemption", "backlog", "memory", "server")
NODES, MORE_NODES = (100, 1000, 5000), (100, 1000, 5000, 20_000)
TARGET_NODES = 5000
PLACED, MORE_PLACED = (0, 50_000), (0, 50_000, 200_000)
MOST_A_NODE = 60
STEADY = ("basic", "near", "deployment", "classes")
"""Kinds that also decide in clusters full of pods, without ``--full``."""
PREEMPTIONS = {"warm": 3000, "first": 300, "budgets": 300}
BACKLOGS, WAITING = ("equal", "labels"), 10_000
"""Pods that wait for room, and how many."""
OWNERS, SCHEDULED, SHARE_OF_OTHERS = 5000, 2000, 0.8
GIBI = 1024.0


@dataclass(frozen=True)
class Figure:
    """One measured figure; ``target`` is what it has to reach, as far as anybody said."""

    part: str
    case: str
    nodes: int
    placed: int
    held: int
    """Reservations that hold room."""
    rate: float
    of_basic: float | None = None
    target: float | None = None
    unit: str = "/s"


class Table:
    """Prints figures as they come and keeps them."""

    def __init__(self, plan: int) -> None:
        self.figures: list[Figure] = []
        self._plan = plan
        self._began = time.monotonic()
        print(
            f"{'case':34}{'nodes':>8}{'placed':>9}{'held':>7}{'rate':>13}{'of basic':>10}"
            f"{'target':>9}",
            flush=True,
        )

    def now(self, words: str) -> None:
        """Say what is being measured, for somebody who waits."""
        done, spent = len(self.figures), time.monotonic() - self._began
        line = f"[{done}/{self._plan}] {spent:4.0f} s  {words}"
        print(f"\r{line[:78]:78}\r", end="", file=sys.stderr, flush=True)

    def add(self, figure: Figure) -> None:
        """Print a figure."""
        self.figures.append(figure)
        share = "" if figure.of_basic is None else f"{figure.of_basic:.2f}"
        target = "" if not figure.target else f"{figure.target:,.0f}"
        short = figure.target and (figure.rate < figure.target) != (figure.unit == "MiB")
        print(
            f"{figure.case:34}{figure.nodes:>8,}{figure.placed or '':>9}{figure.held or '':>7}"
            f"{figure.rate:>10,.0f}{figure.unit:3}{share:>10}{target:>9}{' !' if short else ''}",
            flush=True,
        )

    def find(self, case: str, nodes: int, placed: int = 0) -> float | None:
        """The rate of a case, if it was measured."""
        for figure in self.figures:
            if (figure.case, figure.nodes, figure.placed, figure.held) == (case, nodes, placed, 0):
                return figure.rate
        return None


def sizes(full: bool) -> Iterator[tuple[int, int, str]]:
    """Clusters and kinds: the same cluster for all its kinds, because building takes longer."""
    for nodes in MORE_NODES if full else NODES:
        for placed in MORE_PLACED if full else PLACED:
            if placed > nodes * MOST_A_NODE or (placed and not full and nodes != TARGET_NODES):
                continue
            for kind in KINDS if full or not placed else STEADY:
                yield nodes, placed, kind


def measure_decisions(table: Table, *, full: bool, repeat: int) -> None:
    """Every kind on every size."""
    for nodes, placed, kind in sizes(full):
        words = KINDS[kind].words
        table.now(f"{words}, {nodes:,} nodes, {placed:,} pods placed")
        found = decisions.best(repeat, kind, nodes, placed)
        basic = found.per_second if kind == "basic" else table.find(KINDS["basic"].words, nodes)
        target = KINDS[kind].target if nodes == TARGET_NODES and not placed else None
        share = found.per_second / basic if basic else None
        table.add(Figure("decisions", words, nodes, placed, 0, found.per_second, share, target))


def measure_reservations(table: Table, *, full: bool, repeat: int) -> None:
    """Pods that own none, owners and reservations themselves, with ever more of them held."""
    nodes = TARGET_NODES

    def best(what: str, held: int) -> float:
        measure = {
            "others": reservations.of_others, "owners": reservations.of_owners,
            "reservations scheduled": reservations.scheduled,
        }[what]  # fmt: skip
        table.now(f"{what}, {held:,} reservations hold room")
        return max(measure(nodes, held) for _ in range(repeat))

    without = best("others", 0)
    table.add(Figure("reservations", "pods that own none", nodes, 0, 0, without, 1.0))
    for held in reservations.COUNTS[1:]:
        rate = best("others", held)
        target = SHARE_OF_OTHERS * without
        share = rate / without
        table.add(Figure("reservations", "pods that own none", nodes, 0, held, rate, share, target))
    for held in reservations.COUNTS[1:]:
        rate = best("owners", held)
        table.add(Figure("reservations", "owners", nodes, 0, held, rate, rate / without, OWNERS))
    for held in reservations.COUNTS if full else (0, reservations.COUNTS[-1]):
        rate = best("reservations scheduled", held)
        table.add(
            Figure("reservations", "reservations scheduled", nodes, 0, held, rate, None, SCHEDULED)
        )
    placed = reservations.PLACED
    table.now(f"reservations that inherit, {placed:,} pods stand")
    rate = max(reservations.of_heirs(nodes) for _ in range(repeat))
    table.add(Figure("reservations", "reservations that inherit", nodes, placed, 0, rate))


def measure_preemption(table: Table, *, full: bool, repeat: int) -> None:
    """Preemptions planned, on a cluster full of less important pods."""
    del repeat
    for case in preemption.CASES if full else PREEMPTIONS:
        words = f"preemption, {preemption.CASES[case][0]}"
        table.now(words)
        count = 300 if case != "first" else 100
        found = preemption.measure(case, TARGET_NODES, 30, count, seed=1)
        target, rate = PREEMPTIONS.get(case), found.best_per_second
        table.add(Figure("preemption", words, TARGET_NODES, found.pods, 0, rate, None, target))


def measure_backlog(table: Table, *, full: bool, repeat: int) -> None:
    """Events while many pods wait, and trying those again."""
    del repeat
    for kind in backlog.KINDS if full else BACKLOGS:
        words = backlog.KINDS[kind][0]
        table.now(f"a backlog, {words}")
        found = backlog.measure(kind, TARGET_NODES, WAITING)
        for what, cost in (
            ("event for nobody", found.idle_event_microseconds),
            ("event for everybody", found.helpful_event_microseconds),
            ("tried again", found.try_microseconds),
        ):
            table.add(
                Figure("backlog", f"{words}: {what}", TARGET_NODES, 0, 0, cost, unit=" µs")
            )  # fmt: skip


def measure_memory(table: Table, *, full: bool, repeat: int) -> None:
    """Resident memory of a scheduler, in a process of its own."""
    del full, repeat
    nodes, pods = TARGET_NODES, PLACED[-1]
    table.now(f"memory, {nodes:,} nodes, {pods:,} pods")
    command = [sys.executable, str(HERE / "memory.py"), "--nodes", str(nodes), "--pods", str(pods),
               "--json"]  # fmt: skip
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    resident = found[memory.FULL]
    table.add(Figure("memory", "scheduler's memory", nodes, pods, 0, resident, None, GIBI, "MiB"))


def measure_server(table: Table, *, full: bool, repeat: int) -> None:
    """Pods created and bound through the whole embedded cluster, by the clock on the wall."""
    del repeat
    pods, nodes = (3000 if full else 1000), 100
    table.now("the embedded cluster, both ways of running it")
    command = [sys.executable, str(HERE / "server.py"), "--pods", str(pods), "--nodes", str(nodes),
               "--json"]  # fmt: skip
    done = subprocess.run(command, check=True, capture_output=True)
    for way, figures in json.loads(done.stdout).items():
        words = f"embedded cluster, {way}: bound"
        table.add(Figure("server", words, nodes, 0, 0, figures["bound/s"]))


MEASURES = {
    "decisions": measure_decisions, "reservations": measure_reservations,
    "preemption": measure_preemption, "backlog": measure_backlog, "memory": measure_memory,
    "server": measure_server,
}  # fmt: skip


def show_growth(table: Table) -> None:
    """Print what a decision costs in a larger cluster, as a multiple of the smaller one's."""
    rows = []
    for kind in KINDS.values():
        for small, large in pairwise(MORE_NODES[1:]):
            before, after = table.find(kind.words, small), table.find(kind.words, large)
            if before and after:
                rows.append((f"{kind.words}: {small:,} -> {large:,} nodes", before / after,
                             large / small))  # fmt: skip
        for placed in MORE_PLACED[1:]:
            before = table.find(kind.words, TARGET_NODES)
            after = table.find(kind.words, TARGET_NODES, placed)
            if before and after:
                words = f"{kind.words}: 0 -> {placed:,} placed pods"
                rows.append((words, before / after, 1.0))
    if rows:
        print("\nwhat a decision costs, times as much; growth in nodes is linear, in pods flat, if")
        print(f"{'it stays below':>62}{'it is':>9}")
        for words, cost, bound in rows:
            print(f"{words:54}{bound:8.1f}{cost:9.2f}{' !' if cost > 1.25 * bound else ''}")


def planned(parts: list[str], *, full: bool) -> int:
    """How many figures there will be."""
    counts = {
        "decisions": len(list(sizes(full))), "memory": 1, "server": 2,
        "reservations": 8 + (len(reservations.COUNTS) if full else 2),
        "preemption": len(preemption.CASES if full else PREEMPTIONS),
        "backlog": 3 * len(backlog.KINDS if full else BACKLOGS),
    }  # fmt: skip
    return sum(counts[part] for part in parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="every kind on every size")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--repeat", type=int, default=2, help="keep the best of so many runs")
    parser.add_argument("--json", metavar="FILE", help="also write the figures there")
    args = parser.parse_args()
    table = Table(planned(args.only, full=args.full))
    for part in args.only:
        MEASURES[part](table, full=args.full, repeat=args.repeat)
    print(f"{'':78}", end="\r", file=sys.stderr, flush=True)
    show_growth(table)
    print("\n! is short of its target, or grows too fast: measure again on a quiet machine")
    if args.json:
        Path(args.json).write_text(json.dumps([asdict(f) for f in table.figures], indent=2))


if __name__ == "__main__":
    main()

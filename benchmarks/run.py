"""Run all benchmarks in one run, so that their figures can be compared.

    make bench                    the common cases, five to ten minutes
    make bench ARGS="--full"      every kind on every size, fifteen minutes or more
    make bench ARGS="--only decisions reservations"

Rates are per second of CPU time of one core. Compare them only within one run: ``of basic`` is the
ratio to basic pods on as many nodes, and the growth table divides a case by the same case on a
smaller cluster. Progress is printed to stderr, the tables to stdout.
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
import cores_and_gpus
import decisions
import device_preemption
import devices
import memory
import policies
import preemption
import reservations
import shared_claims
import tenants
from kinds import KINDS

HERE = Path(__file__).parent
PARTS = (
    *("decisions", "reservations", "policies", "devices", "cores_and_gpus"),
    *("preemption", "backlog", "memory", "server", "classic", "shared_claims", "tenants"),
)
NODES, MORE_NODES = (100, 1000, 5000), (100, 1000, 5000, 20_000)
TARGET_NODES = 5000
PLACED, MORE_PLACED = (0, 50_000), (0, 50_000, 200_000)
MAX_PODS_PER_NODE = 60
STEADY = ("basic", "near", "deployment", "classes")
"""Kinds that are also measured on clusters full of pods without ``--full``."""
PREEMPTIONS = {"warm": 3000, "first": 300, "budgets": 300}
BACKLOGS, WAITING = ("equal", "labels"), 10_000
"""Kinds and number of unschedulable pods."""
OWNERS, SCHEDULED, SHARE_OF_OTHERS = 5000, 2000, 0.8
SHARE_BESIDE_POLICIES = 0.95
DEVICE_NODES = (500, TARGET_NODES)
PREEMPTION_NODES, DEVICE_PREEMPTIONS = 1000, 100
GIBI = 1024.0
CLASSIC_PODS, CLASSIC_WRITES = 150, 8
SHOWN_IN_FULL = 100.0
"""Lower figures are shown with two decimals."""
AT_MOST = ("MiB", "a pod", "ms")
"""Units of figures that should be low."""


@dataclass(frozen=True)
class Figure:
    """One measured figure; ``target`` is its target, if there is one."""

    part: str
    case: str
    nodes: int
    placed: int
    held: int
    """Number of reservations on the nodes."""
    rate: float
    of_basic: float | None = None
    target: float | None = None
    unit: str = "/s"


class Table:
    """Prints and stores figures as they are measured."""

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
        """Print the name of the current measurement."""
        done, spent = len(self.figures), time.monotonic() - self._began
        line = f"[{done}/{self._plan}] {spent:4.0f} s  {words}"
        print(f"\r{line[:78]:78}\r", end="", file=sys.stderr, flush=True)

    def add(self, figure: Figure) -> None:
        """Print a figure."""
        self.figures.append(figure)
        share = "" if figure.of_basic is None else f"{figure.of_basic:.2f}"
        target = "" if not figure.target else f"{figure.target:,.0f}"
        digits = 0 if figure.rate >= SHOWN_IN_FULL else 2
        short = figure.target and (figure.rate < figure.target) != (figure.unit in AT_MOST)
        print(
            f"{figure.case:34}{figure.nodes:>8,}{figure.placed or '':>9}{figure.held or '':>7}"
            f"{figure.rate:>10,.{digits}f}{figure.unit:3}{share:>10}{target:>9}"
            f"{' !' if short else ''}",
            flush=True,
        )

    def find(self, case: str, nodes: int, placed: int = 0) -> float | None:
        """Return the rate of a case, or None if it was not measured."""
        for figure in self.figures:
            if (figure.case, figure.nodes, figure.placed, figure.held) == (case, nodes, placed, 0):
                return figure.rate
        return None


def sizes(full: bool) -> Iterator[tuple[int, int, str]]:
    """Return sizes of clusters with their kinds; building a cluster takes longest."""
    for nodes in MORE_NODES if full else NODES:
        for placed in MORE_PLACED if full else PLACED:
            if placed > nodes * MAX_PODS_PER_NODE or (
                placed and not full and nodes != TARGET_NODES
            ):
                continue
            for kind in KINDS if full or not placed else STEADY:
                yield nodes, placed, kind


def measure_decisions(table: Table, *, full: bool, repeat: int) -> None:
    """Measure every kind on every size."""
    for nodes, placed, kind in sizes(full):
        words = KINDS[kind].words
        table.now(f"{words}, {nodes:,} nodes, {placed:,} pods placed")
        found = decisions.best(repeat, kind, nodes, placed)
        basic = found.per_second if kind == "basic" else table.find(KINDS["basic"].words, nodes)
        target = KINDS[kind].target if nodes == TARGET_NODES and not placed else None
        share = found.per_second / basic if basic else None
        table.add(Figure("decisions", words, nodes, placed, 0, found.per_second, share, target))


def measure_reservations(table: Table, *, full: bool, repeat: int) -> None:
    """Measure other pods, owners and reservations, with more and more reservations."""
    nodes = TARGET_NODES

    def best(what: str, held: int) -> float:
        measure = {
            "others": reservations.of_others, "owners": reservations.of_owners,
            "reservations scheduled": reservations.scheduled,
        }[what]  # fmt: skip
        table.now(f"{what}, {held:,} reservations on the nodes")
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
    table.now(f"pre-allocation, {placed:,} pods running")
    rate = max(reservations.of_pre_allocations(nodes) for _ in range(repeat))
    table.add(Figure("reservations", "reservations that pre-allocate", nodes, placed, 0, rate))


def measure_policies(table: Table, *, full: bool, repeat: int) -> None:
    """Measure governed and ungoverned pods in a cluster with 10,000 governed pods."""
    del full, repeat
    nodes, placed = TARGET_NODES, policies.PLACED
    table.now(f"resource policies, {placed:,} governed pods placed")
    found = policies.measure_in_turn(list(policies.CASES), nodes)
    without = found["none"].per_second
    for name, case in policies.CASES.items():
        rate, share = found[name].per_second, found[name].of_first
        target = case.target if case.apps else SHARE_BESIDE_POLICIES * without
        table.add(Figure("policies", case.words, nodes, placed, 0, rate, share, target))


def measure_devices(table: Table, *, full: bool, repeat: int) -> None:
    """Measure pods that use devices, each with its own claim or an extended resource."""
    del full, repeat
    for nodes in DEVICE_NODES:
        for name, case in devices.CASES.items():
            table.now(f"devices, {case.words}, {nodes:,} nodes")
            found = devices.measure(name, nodes)
            target = case.target if nodes == TARGET_NODES else None
            words = f"devices: {case.words}"
            table.add(Figure("devices", words, nodes, 0, 0, found.per_second, None, target))
    table.now("devices, preemption")
    nodes, placed = PREEMPTION_NODES, PREEMPTION_NODES * devices.CARDS
    rate, _ = device_preemption.measure(nodes)
    words = "devices: preemption"
    table.add(Figure("devices", words, nodes, placed, 0, rate, None, DEVICE_PREEMPTIONS))


def measure_cores_and_gpus(table: Table, *, full: bool, repeat: int) -> None:
    """Measure pods with exclusive CPUs or GPUs, and ordinary pods on the same nodes."""
    del full, repeat
    nodes = cores_and_gpus.NODES
    table.now(f"CPUs and GPUs, {nodes:,} nodes")
    found = cores_and_gpus.measure_in_turn(list(cores_and_gpus.CASES))
    for name, case in cores_and_gpus.CASES.items():
        held = cores_and_gpus.RESERVATIONS if case.owners else 0
        rate, share, words = found[name].per_second, found[name].of_first, f"CPUs: {case.words}"
        table.add(Figure("cores_and_gpus", words, nodes, 0, held, rate, share, case.target))


def measure_preemption(table: Table, *, full: bool, repeat: int) -> None:
    """Measure preemptions on a cluster full of pods of lower priority."""
    del repeat
    for case in preemption.CASES if full else PREEMPTIONS:
        words = f"preemption, {preemption.CASES[case][0]}"
        table.now(words)
        count = 300 if case != "first" else 100
        found = preemption.measure(case, TARGET_NODES, 30, count, seed=1)
        target, rate = PREEMPTIONS.get(case), found.best_per_second
        table.add(Figure("preemption", words, TARGET_NODES, found.pods, 0, rate, None, target))


def measure_backlog(table: Table, *, full: bool, repeat: int) -> None:
    """Measure events while many pods are unschedulable, and their next attempts."""
    del repeat
    for kind in backlog.KINDS if full else BACKLOGS:
        words = backlog.KINDS[kind][0]
        table.now(f"a backlog, {words}")
        found = backlog.measure(kind, TARGET_NODES, WAITING)
        for what, cost in (
            ("event that helps no pod", found.idle_event_microseconds),
            ("event that helps all pods", found.helpful_event_microseconds),
            ("tried again", found.try_microseconds),
        ):
            table.add(
                Figure("backlog", f"{words}: {what}", TARGET_NODES, 0, 0, cost, unit=" µs")
            )  # fmt: skip


def measure_memory(table: Table, *, full: bool, repeat: int) -> None:
    """Measure the resident memory of a scheduler, in a separate process."""
    del full, repeat
    nodes, pods = TARGET_NODES, PLACED[-1]
    table.now(f"memory, {nodes:,} nodes, {pods:,} pods")
    command = [sys.executable, str(HERE / "memory.py"), "--nodes", str(nodes), "--pods", str(pods),
               "--json"]  # fmt: skip
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    resident = found[memory.FULL]
    table.add(Figure("memory", "scheduler's memory", nodes, pods, 0, resident, None, GIBI, "MiB"))


def measure_server(table: Table, *, full: bool, repeat: int) -> None:
    """Measure pods created and bound in the embedded cluster, per second of elapsed time."""
    del repeat
    pods, nodes = (3000 if full else 1000), 100
    table.now("the embedded cluster, both ways of running it")
    command = [sys.executable, str(HERE / "server.py"), "--pods", str(pods), "--nodes", str(nodes),
               "--json"]  # fmt: skip
    done = subprocess.run(command, check=True, capture_output=True)
    for way, figures in json.loads(done.stdout).items():
        words = f"embedded cluster, {way}: bound"
        table.add(Figure("server", words, nodes, 0, 0, figures["bound/s"]))


def measure_shared_claims(table: Table, *, full: bool, repeat: int) -> None:
    """Measure pods that share claims, and as many pods that have a claim each."""
    del full, repeat
    table.now("pods that share claims")
    command = [sys.executable, str(HERE / "shared_claims.py"), "--json"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    for way, by_count in found.items():
        for pods, figures in by_count.items():
            words = f"{pods} pods, {way}"
            table.add(Figure("shared_claims", f"{words}: bound", 1, 0, 0, figures["seconds"],
                             unit=" s"))  # fmt: skip
            table.add(Figure("shared_claims", f"{words}: writes", 1, 0, 0, figures["writes"],
                             unit="a pod"))  # fmt: skip


def measure_tenants(table: Table, *, full: bool, repeat: int) -> None:
    """Measure how long pods wait, alone and with the hostile selectors of another tenant."""
    del full, repeat
    table.now("hostile selectors of another tenant")
    command = [sys.executable, str(HERE / "tenants.py"), "--seconds", "5", "--json"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    p99 = {when: tenants.percentile(waits["ordinary"], 99) for when, waits in found.items()}
    ratio = p99["attacked"] / p99["alone"]
    for when, words in {"alone": "alone", "attacked": "beside hostile selectors"}.items():
        of_alone, target = (
            (ratio, tenants.RATIO * p99["alone"]) if when == "attacked" else (1, None)
        )
        table.add(Figure("tenants", f"p99 of a pod, {words}", tenants.NODES, 0, 0, p99[when],
                         of_alone, target, "ms"))  # fmt: skip


def measure_classic(table: Table, *, full: bool, repeat: int) -> None:
    """Measure pods with classic claims end to end, and the writes per pod."""
    del full, repeat
    table.now("classic claims, one driver")
    command = [sys.executable, str(HERE / "classic.py"), "--json"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    words, nodes = "classic claims, embedded", found["nodes"]
    rate = found["per_second"]
    table.add(Figure("classic", f"{words}: bound", nodes, 0, 0, rate, None, CLASSIC_PODS))
    writes = found["writes"]
    table.add(
        Figure("classic", f"{words}: writes", nodes, 0, 0, writes, None, CLASSIC_WRITES, "a pod")
    )


MEASURES = {
    "decisions": measure_decisions, "reservations": measure_reservations,
    "policies": measure_policies, "devices": measure_devices,
    "cores_and_gpus": measure_cores_and_gpus, "preemption": measure_preemption,
    "backlog": measure_backlog, "memory": measure_memory, "server": measure_server,
    "classic": measure_classic,
    "shared_claims": measure_shared_claims, "tenants": measure_tenants,
}  # fmt: skip


def show_growth(table: Table) -> None:
    """Print the cost of a decision as a multiple of its cost on a smaller cluster."""
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
        print("\ncost of a decision as a multiple; at most linear in nodes and constant in pods if")
        print(f"{'below':>62}{'is':>9}")
        for words, cost, bound in rows:
            print(f"{words:54}{bound:8.1f}{cost:9.2f}{' !' if cost > 1.25 * bound else ''}")


def planned(parts: list[str], *, full: bool) -> int:
    """Return how many figures will be measured."""
    counts = {
        "decisions": len(list(sizes(full))), "memory": 1, "server": 2,
        "reservations": 8 + (len(reservations.COUNTS) if full else 2),
        "policies": len(policies.CASES), "devices": len(DEVICE_NODES) * len(devices.CASES) + 1,
        "cores_and_gpus": len(cores_and_gpus.CASES), "classic": 2, "tenants": 2,
        "shared_claims": 2 * len(shared_claims.WAYS) * len(shared_claims.COUNTS),
        "preemption": len(preemption.CASES if full else PREEMPTIONS),
        "backlog": 3 * len(backlog.KINDS if full else BACKLOGS),
    }  # fmt: skip
    return sum(counts[part] for part in parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="every kind on every size")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--repeat", type=int, default=2, help="keep the best of N runs")
    parser.add_argument("--json", metavar="FILE", help="also write the figures to FILE")
    args = parser.parse_args()
    table = Table(planned(args.only, full=args.full))
    for part in args.only:
        MEASURES[part](table, full=args.full, repeat=args.repeat)
    print(f"{'':78}", end="\r", file=sys.stderr, flush=True)
    show_growth(table)
    print("\n! is below its target, or grows too fast: measure again on an idle machine")
    if args.json:
        Path(args.json).write_text(json.dumps([asdict(f) for f in table.figures], indent=2))


if __name__ == "__main__":
    main()

"""Fuzz the API server: ``python tests/fuzz/run.py --requests 100000 --seed 1``.

Each cluster gets a few thousand requests, every third cluster over HTTPS, and runs in its own
process, so that a crash is found too. A fault is printed with its seed; a short list of requests
that cause it is written to a file for ``--replay FILE``.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.campaign import REQUEST_LOG, Fault, Report, campaign, replay
from fuzz.fuzzer import Probe
from fuzz.request_file import read_requests, shorten, write_requests

PER_CLUSTER = 2_500
HTTPS_EVERY = 3
CRASHED = "the process crashed"


def main() -> int:
    sys.stdout.reconfigure(errors="backslashreplace")
    wanted = _arguments()
    if wanted.replay:
        return _show(_replay(read_requests(wanted.replay)), wanted)
    total = Report()
    began = time.monotonic()
    for seed, size, https in _parts(wanted):
        report = _in_process(lambda where, n=seed, s=size, h=https: (_campaign, where, n, s, h))
        for signature, fault in report.faults.items():
            if signature not in total.faults:
                _print_fault(fault, seed, wanted)
        total.merge(report)
        rate = total.requests / (time.monotonic() - began)
        print(f"{total.requests} requests, {rate:.0f}/s, {len(total.faults)} faults", flush=True)
    return _show(total, wanted)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fuzz the API server.")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--exactly", type=int, help="send all to one cluster, with this seed")
    parser.add_argument("--per-cluster", type=int, default=PER_CLUSTER)
    parser.add_argument("--https", action="store_true", help="send everything over HTTPS")
    parser.add_argument("--replay", type=Path, help="send the requests of a file")
    parser.add_argument("--no-shrink", action="store_true", help="write whole sequences")
    parser.add_argument("--faults", type=Path, default=Path("build/fuzz"), help="where to write")
    return parser.parse_args()


def _parts(wanted: argparse.Namespace) -> Iterator[tuple[int, int, bool]]:
    """Yield (seed, requests, over HTTPS) of each cluster."""
    if wanted.exactly is not None:
        yield wanted.exactly, wanted.requests, wanted.https
        return
    for number, sent in enumerate(range(0, wanted.requests, wanted.per_cluster)):
        https = wanted.https or number % HTTPS_EVERY == HTTPS_EVERY - 1
        yield wanted.seed * 10_000 + number, min(wanted.per_cluster, wanted.requests - sent), https


def _in_process(task: Callable[[Path], tuple]) -> Report:
    """Run a task in its own process; a crash is a fault."""
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="fuzz-") as where:
        directory = Path(where)
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            try:
                return pool.submit(*task(directory)).result()
            except BrokenProcessPool:
                requests = read_requests(directory / REQUEST_LOG)
                return Report(len(requests), faults={CRASHED: Fault(CRASHED, requests)})


def _campaign(directory: Path, seed: int, size: int, https: bool) -> Report:
    _disable_logging()
    return asyncio.run(campaign(directory, seed, size, https=https))


def _replayed(directory: Path, probes: list[Probe]) -> Report:
    _disable_logging()
    write_requests(directory / REQUEST_LOG, probes)
    return asyncio.run(replay(directory, probes))


def _disable_logging() -> None:
    logging.getLogger("holdfast").propagate = False
    logging.getLogger("holdfast").addHandler(logging.NullHandler())


def _replay(probes: list[Probe]) -> Report:
    return _in_process(lambda where: (_replayed, where, probes))


def _print_fault(fault: Fault, seed: int, wanted: argparse.Namespace) -> None:
    requests = fault.requests
    if not wanted.no_shrink:
        requests = shorten(requests, lambda probes: fault.signature in _replay(probes).faults)
    name = "".join(c if c.isalnum() else "-" for c in fault.signature)[-80:]
    where = wanted.faults / f"{seed}-{name}.jsonl"
    write_requests(where, requests)
    print(f"\nFAULT (seed {seed}): {fault.signature}\n{fault.what[:1500]}\n{fault.trace[-2500:]}")
    print(f"{len(requests)} requests: --replay {where}\n", flush=True)


def _show(total: Report, wanted: argparse.Namespace) -> int:
    statuses = ", ".join(f"{status}: {count}" for status, count in sorted(total.statuses.items()))
    print(f"{total.requests} requests in {total.seconds:.0f} s; {statuses}")
    print(f"connections with bytes that are no request: {total.connections}")
    print(f"objects that a controller refused: {total.refused} times")
    for seconds, what in total.slowest:
        print(f"  {seconds:6.3f} s  {what}")
    for fault in total.faults.values():
        print(f"  FAULT {fault.signature}: {fault.what[:300]}")
        if wanted.replay:
            print(fault.trace or fault.what)
    return 1 if total.faults else 0


if __name__ == "__main__":
    sys.exit(main())

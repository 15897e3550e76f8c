"""Compare kube-scheduler, koord-scheduler, Holdfast and a binder on a real kube-apiserver and etcd.

    python benchmarks/real_control_plane.py [--quick] [--case basic ...] [--rounds 1] [--json FILE]

Every run has a fresh control plane. Nodes and pods are created first, then the scheduler is
started; an observer watches binds and events, and the time is measured from the first bind to the
last bind or event. Runs alternate between the schedulers, so that other load affects all of them;
figures are comparable only as ratios within one table. CPU time is counted over the same span,
without the start. *Owners* are pods with 1,000 reservations; *cores* are LSR pods that share GPUs,
*core-owners* such pods with 1,000 reservations of CPUs and GPUs. kube-scheduler cannot run these
cases: there ``x peer`` is the ratio to koord-scheduler, if tests/real/build-koord-scheduler has
built it. Pods of the cases of ``devices.py`` use devices; their limit is the rate of a program that
sends the same requests, with and without the watches of pods and claims. *Writes* are counted by
the server. A decision is the mean of ``scheduler_scheduling_algorithm_duration_seconds``, in
elapsed time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import yaml

HERE = Path(__file__).parent
CRDS = str(HERE.parent / "deploy" / "crds")
sys.path.append(str(HERE.parent / "tests"))

from holdfast.api.reservation_names import ALLOCATED  # noqa: E402
from holdfast.api.scheme import PODS  # noqa: E402
from holdfast.client.client import Client  # noqa: E402
from holdfast.client.http import HttpTransport  # noqa: E402
from holdfast.client.kubeconfig import load  # noqa: E402
from real.control_plane import ControlPlane, free_port, program  # noqa: E402
from real_cores import CORE_CASES, NODE_COUNT  # noqa: E402
from real_devices import DEVICE_CASES, most_pods  # noqa: E402
from real_load import (  # noqa: E402
    WORKLOADS,
    Observer,
    cpu_seconds,
    fill,
    peak_mebibytes,
)

Command = list[str]
KOORD = "koord-scheduler-v1.8.0"
TIMEOUT_SECONDS = 900.0
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_WRITING = ("POST", "PUT", "PATCH", "DELETE")
FEW_PODS, KOORD_PODS = 20, 300
"""Numbers of pods for slow cases: kube-scheduler needs seconds per pod for devices that share
counters; koord-scheduler needs half a second for owners."""


def kube_scheduler(plane: ControlPlane, _case: str, port: int) -> Command:
    """kube-scheduler without client-side limits on its requests."""
    config = plane.directory / "kube-scheduler.yaml"
    connection = {"kubeconfig": str(plane.kubeconfig), "qps": 10_000, "burst": 10_000}
    config.write_text(
        yaml.safe_dump({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "clientConnection": connection, "leaderElection": {"leaderElect": False},
        })
    )  # fmt: skip
    flags = ["--secure-port", str(port), "--cert-dir", str(plane.directory / "scheduler-certs")]
    allowed = "--authorization-always-allow-paths=/metrics"
    return [str(program("kube-scheduler")), "--config", str(config), *flags, allowed]


def koord_scheduler(plane: ControlPlane, _case: str, port: int) -> Command:
    """koord-scheduler with the profile that Koordinator installs, without limits on requests."""
    koord = str(program(KOORD))
    installed = yaml.safe_load(Path(f"{koord}.config.yaml").read_text())["data"]
    [profile] = yaml.safe_load(installed["koord-scheduler-config"])["profiles"]
    # The file lacks it here; without it no pod is allocated from a reservation.
    profile["plugins"]["reserve"]["enabled"].insert(0, {"name": "Reservation"})
    config = plane.directory / "koord-scheduler.yaml"
    connection = {"kubeconfig": str(plane.kubeconfig), "qps": 10_000, "burst": 10_000}
    config.write_text(
        yaml.safe_dump({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "clientConnection": connection, "leaderElection": {"leaderElect": False},
            "profiles": [{**profile, "schedulerName": "default-scheduler"}],
        })
    )  # fmt: skip
    flags = ["--secure-port", str(port), "--cert-dir", str(plane.directory / "scheduler-certs")]
    flags += ["--authentication-skip-lookup=true", "--port=0"]
    allowed = "--authorization-always-allow-paths=/metrics"
    return [koord, "--config", str(config), *flags, allowed]


def holdfast(plane: ControlPlane, _case: str, port: int) -> Command:
    """Holdfast, with the command of its users."""
    flags = ["--kubeconfig", str(plane.kubeconfig), "--no-leader-elect"]
    flags += ["--health-port", str(port)]
    return [sys.executable, "-m", "holdfast", "scheduler", *flags]


def binder(plane: ControlPlane, *_: object) -> Command:
    """The plain binder: binds only."""
    return [sys.executable, str(HERE / "binder.py"), "--kubeconfig", str(plane.kubeconfig)]


def binder_with_events(plane: ControlPlane, case: str, *_: object) -> Command:
    """The plain binder with one event per bind: the least that a scheduler writes."""
    return [*binder(plane), "--events", *(["--devices", case] if case in DEVICE_CASES else [])]


def binder_with_watch(plane: ControlPlane, case: str, *_: object) -> Command:
    """The plain binder with events and watches: the least that a scheduler does."""
    return [*binder_with_events(plane, case), "--watch"]


COMPETITORS: dict[str, Callable[[ControlPlane, str, int], Command]] = {
    "kube-scheduler": kube_scheduler,
    "koord-scheduler": koord_scheduler,
    "binds alone": binder,
    "binds + events": binder_with_events,
    "and a watch": binder_with_watch,
    "holdfast": holdfast,
}
PEERS = ("kube-scheduler", "koord-scheduler")
KOORD_CASES = ("owners", *CORE_CASES)
"""Cases that koord-scheduler can run and kube-scheduler cannot."""
LIMITS = ("binds alone", "binds + events", "and a watch")


@dataclass(frozen=True)
class Figures:
    """The figures of one run."""

    case: str
    who: str
    seconds: float
    pods: int
    events: int
    cpu_ms: float
    server_cpu_ms: float
    peak_mib: float
    writes: dict[str, float]
    """Writes per pod that the server has stored, by verb and resource."""
    decision_ms: float | None = None
    owners: int = 0
    """Pods that were allocated from a reservation."""

    @property
    def rate(self) -> float:
        return self.pods / self.seconds

    @property
    def all_cpu_ms(self) -> float:
        """CPU time per pod, of the program and of the servers."""
        return self.cpu_ms + self.server_cpu_ms


async def run(case: str, who: str, nodes: int, pods: int) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(
            Path(folder), disabled=("ServiceAccount", "TaintNodesByCondition")
        ).start()
        clients = [Client(HttpTransport(await load(plane.kubeconfig))) for _ in range(2)]
        try:
            if case in KOORD_CASES and (koord := program(KOORD)):
                # Its own definitions first; those of the same kinds are not created again.
                plane.kubectl("create", "-f", f"{koord}.crds")
                plane.kubectl("create", "namespace", "koordinator-system")
            plane.kubectl("create", "-f", CRDS, check=False)
            plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
            await fill(clients[0], case, nodes, pods)
            found = await timed(case, who, plane, clients[1], pods)
            bound = (await clients[0].list(PODS, "default")).items if case in KOORD_CASES else ()
            return replace(found, owners=sum(ALLOCATED in p.metadata.annotations for p in bound))
        finally:
            for client in clients:
                await client.close()
            plane.stop()


async def timed(case: str, who: str, plane: ControlPlane, client: Client, pods: int) -> Figures:
    observer = Observer(client, pods, 0 if who == "binds alone" else pods)
    await observer.start()
    written = await stored_writes(client)
    log, port = plane.directory / "scheduler.log", free_port()
    with log.open("wb") as out:
        process = subprocess.Popen(COMPETITORS[who](plane, case, port), stdout=out, stderr=out)
    servers = [server.pid for server in plane.processes]
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await observer.began.wait()
            before, servers_before = cpu_seconds(process.pid), sum(map(cpu_seconds, servers))
            cpu, peak = before, 0.0
            watch = asyncio.create_task(observer.finished())
            while not watch.done():
                await asyncio.wait({watch}, timeout=0.2)
                if process.poll() is None:
                    cpu, peak = cpu_seconds(process.pid), peak_mebibytes(process.pid)
            await watch
        spent = sum(map(cpu_seconds, servers)) - servers_before
        written = await stored_writes(client) - written
        decision = None if who in LIMITS else mean_decision_ms(port, https=who != "holdfast")
    except TimeoutError:
        raise SystemExit(
            f"{who}, {case}: {len(observer.binds.names)} of {pods} bound\n{log.read_text()[-3000:]}"
        ) from None
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(60)
    return Figures(
        case, who, observer.seconds, pods, len(observer.events.names),
        1000 * (cpu - before) / pods, 1000 * spent / pods, peak,
        {what: count / pods for what, count in written.items()}, decision,
    )  # fmt: skip


async def stored_writes(client: Client) -> Counter[str]:
    """Return how many writes kube-apiserver has stored, by verb and resource."""
    found: Counter[str] = Counter()
    for line in (await client.raw("/metrics")).decode().splitlines():
        if line.startswith("apiserver_request_total{"):
            labels = dict(_LABEL.findall(line))
            verb, part = labels["verb"], labels["subresource"]
            if verb in _WRITING and labels["code"].startswith("2"):
                what = f"{verb} {labels['resource']}{f'/{part}' if part else ''}"
                found[what] += int(float(line.rpartition(" ")[2]))
    return found


def mean_decision_ms(port: int, *, https: bool) -> float:
    """Read the mean duration of the scheduling algorithm from a scheduler's metrics."""
    without_checks = ssl._create_unverified_context() if https else None
    address = f"http{'s' if https else ''}://127.0.0.1:{port}/metrics"
    with urllib.request.urlopen(address, context=without_checks, timeout=30) as page:
        text = page.read().decode()
    name = "scheduler_scheduling_algorithm_duration_seconds"
    total, count = (
        float(
            next(line for line in text.splitlines() if line.startswith(f"{name}_{part}")).split()[
                -1
            ]
        )
        for part in ("sum", "count")
    )
    return 1000 * total / count


def show(results: list[Figures]) -> None:
    """Print medians, and the ratios of each rate to the others."""
    cases = list(dict.fromkeys(r.case for r in results))
    print(
        f"\n{'case':14} {'name':15} {'pods/s':>8} {'x peer':>7} {'of limit':>9} {'of watch':>9}"
        f" {'of basic':>9}"
        f" {'CPU ms/pod':>11} {'x peer':>7} {'server ms':>10} {'peak MiB':>9} {'events':>7}"
        f" {'decision ms':>12} {'x peer':>7} {'owners':>7}"
    )
    rates = {
        (case, who): statistics.median(r.rate for r in results if (r.case, r.who) == (case, who))
        for case in cases
        for who in COMPETITORS
        if any((r.case, r.who) == (case, who) for r in results)
    }
    for (case, who), rate in rates.items():
        mine = [r for r in results if (r.case, r.who) == (case, who)]
        peer = peer_of(case)
        peers = [r for r in results if (r.case, r.who) == (case, peer)]
        cpu = statistics.median(r.cpu_ms for r in mine)
        limit = rates.get((case, LIMITS[1])) or rates.get(("basic", LIMITS[1]))
        decision, of_peer = _median_decision(mine), _median_decision(peers)
        print(
            f"{case:14} {who:15} {rate:8.0f} {_part(rate, rates.get((case, peer)))}"
            f"{_part(rate, limit, '%', 10)}{_part(rate, rates.get((case, LIMITS[2])), '%', 10)}"
            f"{_part(rate, rates.get(('basic', who)), '%', 10)} {cpu:11.2f} "
            f"{_part(cpu, statistics.median(r.cpu_ms for r in peers) if peers else None)}"
            f" {statistics.median(r.server_cpu_ms for r in mine):10.2f}"
            f" {max(r.peak_mib for r in mine):9.0f} {min(r.events for r in mine):7}"
            f" {decision or 0:12.3f} {_part(of_peer or 0, decision)} {mine[-1].owners or '':>7}"
        )
        print(" " * 30, ", ".join(f"{n:.2f} {what}" for what, n in sorted(mine[0].writes.items())))
        if who not in LIMITS and (limits := _limits_of(results, case)):
            print(" " * 30, _shares_by_round(mine, limits))


def _limits_of(results: list[Figures], case: str) -> list[Figures]:
    """Return the runs of the limit program for a case, by round."""
    return [r for r in results if (r.case, r.who) == (case, LIMITS[1])]


def _shares_by_round(mine: list[Figures], limits: list[Figures]) -> str:
    """Return the share of the limit in each round, by the mean rates, and by CPU time.

    Other load on the machine changes rates more than CPU times: both cores are always busy.
    """
    pairs = list(zip(mine, limits, strict=False))
    rounds = ", ".join(f"{own.rate / limit.rate:.0%}" for own, limit in pairs)
    rate = sum(own.rate for own, _ in pairs) / sum(limit.rate for _, limit in pairs)
    cpu = sum(limit.all_cpu_ms for _, limit in pairs) / sum(own.all_cpu_ms for own, _ in pairs)
    return f"of limit by round {rounds}; of their means {rate:.0%}, by CPU time {cpu:.0%}"


def peer_of(case: str) -> str:
    """Return the scheduler that Holdfast is compared with."""
    return PEERS[case in KOORD_CASES]


def takes_part(case: str, who: str, first_case: str) -> bool:
    """Tell whether a competitor runs a case.

    The limit depends on the case only if pods use devices of DRA; otherwise it is measured once.
    """
    if who in PEERS:
        return who == peer_of(case) and program(KOORD if who == PEERS[1] else who) is not None
    if who not in LIMITS:
        return True
    if case in DEVICE_CASES:
        return who != LIMITS[0]
    return case == first_case


def _median_decision(found: list[Figures]) -> float | None:
    times = [r.decision_ms for r in found if r.decision_ms is not None]
    return statistics.median(times) if times else None


def _part(value: float, whole: float | None, unit: str = "", width: int = 7) -> str:
    if not whole:
        return " " * width
    return f"{value / whole:{width}.2f}" if not unit else f"{value / whole:{width}.0%}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="500 nodes, 1,000 pods, one round")
    parser.add_argument("--case", nargs="*", default=list(WORKLOADS), choices=list(WORKLOADS))
    parser.add_argument("--who", nargs="*", default=list(COMPETITORS), choices=list(COMPETITORS))
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=10_000, help="of the basic case")
    parser.add_argument("--other-pods", type=int, default=4000, help="of the other cases")
    parser.add_argument("--rounds", type=int, default=1, help="of alternating runs")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if args.quick:
        args.nodes, args.pods, args.other_pods = 500, 1000, 500
    for case in set(args.case) & set(DEVICE_CASES):
        if args.other_pods > (most := most_pods(case, args.nodes)):
            parser.error(f"--other-pods: {args.nodes} nodes have devices for {most} pods of {case}")
    return args


async def main() -> None:
    args = arguments()
    missing = [p for p in ("etcd", "kube-apiserver", "kube-scheduler") if program(p) is None]
    if missing:
        raise SystemExit(f"{', '.join(missing)} not found: run `make binaries` (needs Go) first")
    print(f"{args.nodes} nodes; load average at the start {os.getloadavg()[0]:.1f}", flush=True)
    results: list[Figures] = []
    for number in range(args.rounds):
        for case in args.case:
            for who in args.who:
                if not takes_part(case, who, args.case[0]):
                    continue
                nodes = min(args.nodes, NODE_COUNT) if case in CORE_CASES else args.nodes
                pods = args.pods if case == "basic" else args.other_pods
                if (case, who) == ("counters", "kube-scheduler"):
                    pods = min(pods, FEW_PODS)
                if who == "koord-scheduler":
                    pods = min(pods, KOORD_PODS)
                began = time.perf_counter()
                found = await run(case, who, nodes, pods)
                results.append(found)
                took = time.perf_counter() - began
                print(
                    f"round {number + 1} {case:14} {who:15} {found.rate:7.0f} pods/s "
                    f"(load {os.getloadavg()[0]:.1f}, whole run {took:.0f} s)",
                    flush=True,
                )
                if args.json:
                    args.json.write_text(json.dumps([asdict(r) for r in results], indent=1))
    show(results)


if __name__ == "__main__":
    asyncio.run(main())

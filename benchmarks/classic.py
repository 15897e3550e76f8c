"""Measure pods with classic claims: scheduler, driver and API server in a process each.

    python benchmarks/classic.py [--nodes 500] [--pods 2000]

Nodes with eight devices each, claims and pods are created first; then the scheduler and the
controller of one driver start. The time is measured from the first bind to the last. ``writes`` are
all requests that change something in that time, events included. CPU is in milliseconds a pod.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from holdfast.api.classic import classic_resources
from holdfast.api.node_inventory import NODE_INVENTORIES
from holdfast.api.scheme import NAMESPACES, NODES, PODS
from holdfast.client.client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import load
from holdfast.driverkit import Choice, Device, Driver
from holdfast.driverkit.classic.inventory_objects import raw_spec
from holdfast.testing import a_node, a_pod
from holdfast.testing.classic_builders import a_classic_claim, a_classic_class, named
from real_load import Observer, cpu_seconds

DEVICES = 8
AT_ONCE = 32
Created = tuple[Any, dict[str, Any], str]
"""A resource, an object and its namespace."""
SECONDS = 600.0
_RESOURCES = classic_resources()
_COUNTED = re.compile(
    r'^apiserver_request_total\{code="2\d\d",group="([^"]*)",resource="([^"]*)",'
    r'subresource="([^"]*)",verb="(CREATE|UPDATE|PATCH|DELETE)",version="[^"]*"\} (\S+)$',
    re.MULTILINE,
)

driver = Driver("gpu.example.com")


@driver.fits
def fits(free: Any) -> Choice | None:
    """Take any device; several pods may use the claim."""
    return Choice([free[0]], shared=True) if free else None


@driver.inventory
def inventory() -> list[Device]:
    """Return the devices of a node."""
    return [Device(f"gpu-{i}", {"model": "acme"}) for i in range(DEVICES)]


@driver.prepare
def prepare(claim: Any) -> None:
    """Do nothing: there are no nodes."""


@dataclass(frozen=True)
class Result:
    """What one run measured."""

    nodes: int
    pods: int
    per_second: float
    writes: float
    writes_by_kind: dict[str, float]
    cpu: dict[str, float]


async def measure(nodes: int, pods: int) -> Result:
    """Start everything and wait until all pods are bound."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        processes = {"API server": start(data, "apiserver", "--data-dir", folder, "--port", "0")}
        try:
            return await _measure(data, processes, nodes, pods)
        finally:
            for process in reversed(processes.values()):
                process.terminate()
            for process in processes.values():
                process.wait(30)


async def _measure(
    data: Path, processes: dict[str, subprocess.Popen[bytes]], nodes: int, pods: int
) -> Result:
    kubeconfig = data / "kubeconfig"
    await until(data, processes["API server"], b"serving")
    client = Client(HttpTransport(await load(kubeconfig)))
    claims = [f"pod-{i:05}" for i in range(pods)]
    await fill(client, nodes, claims)
    pods_with = [a_pod(name, cpu="100m", claims=[named("gpu", name)]) for name in claims]
    await create_all(client, ((PODS, raw, "default") for raw in pods_with))
    observer = Observer(client, pods, pods)
    await observer.start()
    before = await writes_so_far(client)
    processes["driver"] = await start_driver(data)
    processes["scheduler"] = start(data, "scheduler", "--kubeconfig", str(kubeconfig))
    await asyncio.wait_for(observer.began.wait(), SECONDS)
    used = {name: cpu_seconds(process.pid) for name, process in processes.items()}
    await asyncio.wait_for(observer.finished(), SECONDS)
    cpu = {
        name: 1000 * (cpu_seconds(process.pid) - used[name]) / pods
        for name, process in processes.items()
    }
    writes = {key: count / pods for key, count in (await writes_so_far(client) - before).items()}
    await client.close()
    rate = pods / (observer.binds.last - observer.binds.first)
    return Result(nodes, pods, rate, sum(writes.values()), writes, cpu)


async def start_driver(data: Path) -> subprocess.Popen[bytes]:
    """Start the controller of the driver; it has the API server's folder."""
    own = [sys.executable, __file__, "--driver", str(data / "kubeconfig")]
    process = _spawn(data, "driver", own)
    await until(data, process, b"allocates", "driver")
    return process


async def fill(client: Client, nodes: int, claims: Iterable[str]) -> None:
    """Create nodes, their inventories, a class and claims."""
    await client.create(NAMESPACES, {"metadata": {"name": driver.namespace}})
    await client.create(_RESOURCES.classes, a_classic_class(driver=driver.name))
    devices = inventory()

    def objects() -> Iterator[Created]:
        for i in range(nodes):
            name = f"node-{i:05}"
            yield NODES, a_node(name, cpu="64", memory="256Gi"), ""
            spec = raw_spec(driver.name, name, devices, ready=True)
            yield NODE_INVENTORIES, {"metadata": {"name": name}, "spec": spec}, driver.namespace
        for name in claims:
            yield _RESOURCES.claims, a_classic_claim(name), "default"

    await create_all(client, objects())


async def create_all(client: Client, objects: Iterator[Created]) -> None:
    """Create objects, many at once."""

    async def create() -> None:
        for resource, raw, namespace in objects:
            await client.create(resource, raw, namespace)

    await asyncio.gather(*(create() for _ in range(AT_ONCE)))


async def writes_so_far(client: Client) -> Counter[str]:
    """Return the requests so far that changed something, by kind."""
    found: Counter[str] = Counter()
    for group, resource, part, verb, count in _COUNTED.findall(
        (await client.raw("/metrics")).decode()
    ):
        if resource != "leases" and (verb, resource, part) != ("CREATE", "pods", ""):
            name = f"{resource}.{group}" if group else resource
            found[f"{verb.lower()} {name}{f'/{part}' if part else ''}"] += int(float(count))
    return found


def start(data: Path, command: str, *words: str) -> subprocess.Popen[bytes]:
    return _spawn(data, command, [sys.executable, "-m", "holdfast", command, *words])


def _spawn(data: Path, name: str, command: list[str]) -> subprocess.Popen[bytes]:
    with (data / f"{name}.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


async def until(
    data: Path, process: subprocess.Popen[bytes], words: bytes, name: str = "apiserver"
) -> None:
    log, deadline = data / f"{name}.log", time.monotonic() + 120
    while words not in log.read_bytes():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(log.read_text())
        await asyncio.sleep(0.05)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--driver", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.driver:
        driver.run(["controller", "--kubeconfig", args.driver])
        return
    found = asyncio.run(measure(args.nodes, args.pods))
    if args.json:
        print(json.dumps(asdict(found)))
        return
    print(f"{found.nodes} nodes, {found.pods} pods with a classic claim each")
    print(f"{found.per_second:8.0f} pods/s\n{found.writes:8.2f} writes a pod, of these:")
    for name, count in sorted(found.writes_by_kind.items(), key=lambda each: -each[1]):
        print(f"{count:8.2f} {name}")
    for name, milliseconds in found.cpu.items():
        print(f"{milliseconds:8.2f} ms CPU a pod: {name}")


if __name__ == "__main__":
    main()

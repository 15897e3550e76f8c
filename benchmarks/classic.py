"""Measure pods with classic claims; scheduler, driver and API server are separate processes.

    python benchmarks/classic.py [--nodes 500] [--pods 2000]

Nodes with eight devices each, claims and pods are created first; then the scheduler and the
controller of one driver start. The time is measured from the first bind to the last. ``writes`` are
all requests that change something in that time, events included. CPU is in milliseconds per pod.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.api.classic_dra.node_inventory import NODE_INVENTORIES
from holdfast.api.classic_dra.types import classic_resources
from holdfast.api.scheme import NAMESPACES, NODES, PODS
from holdfast.client.client import Client
from holdfast.driver import Choice, Device, Driver
from holdfast.node.driverkit.classic_dra.inventory_conversion import raw_spec
from holdfast.testing import a_node, a_pod
from holdfast.testing.classic_dra.builders import a_classic_claim, a_classic_class, named
from processes import Processes, api_server
from real_load import Observer, at_once, cpu_seconds

DEVICES = 8
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
    """The figures of one run."""

    nodes: int
    pods: int
    per_second: float
    writes: float
    writes_by_kind: dict[str, float]
    cpu: dict[str, float]


async def measure(nodes: int, pods: int) -> Result:
    """Start everything and wait until all pods are bound."""
    async with api_server() as (processes, client):
        return await _measure(processes, client, nodes, pods)


async def _measure(processes: Processes, client: Client, nodes: int, pods: int) -> Result:
    claims = [f"pod-{i:05}" for i in range(pods)]
    await fill(client, nodes, claims)
    pods_with = [a_pod(name, cpu="100m", claims=[named("gpu", name)]) for name in claims]
    await create_all(client, ((PODS, raw, "default") for raw in pods_with))
    observer = Observer(client, pods, pods)
    await observer.start()
    before = await writes_so_far(client)
    await start_driver(processes)
    processes.start("scheduler", "--kubeconfig", str(processes.kubeconfig))
    await asyncio.wait_for(observer.began.wait(), SECONDS)
    used = {name: cpu_seconds(process.pid) for name, process in processes.running.items()}
    await asyncio.wait_for(observer.finished(), SECONDS)
    cpu = {
        name: 1000 * (cpu_seconds(process.pid) - used[name]) / pods
        for name, process in processes.running.items()
    }
    writes = {key: count / pods for key, count in (await writes_so_far(client) - before).items()}
    rate = pods / (observer.binds.last - observer.binds.first)
    return Result(nodes, pods, rate, sum(writes.values()), writes, cpu)


async def start_driver(processes: Processes) -> None:
    """Start the controller of the driver, and wait until it works."""
    processes.spawn("driver", sys.executable, __file__, "--driver", str(processes.kubeconfig))
    await processes.printed("driver", "allocates")


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
    """Create objects, many at a time."""
    await at_once(objects, lambda each: client.create(*each))


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
    print(f"{found.per_second:8.0f} pods/s\n{found.writes:8.2f} writes per pod, of these:")
    for name, count in sorted(found.writes_by_kind.items(), key=lambda each: -each[1]):
        print(f"{count:8.2f} {name}")
    for name, milliseconds in found.cpu.items():
        print(f"{milliseconds:8.2f} ms CPU a pod: {name}")


if __name__ == "__main__":
    main()

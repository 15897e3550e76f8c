"""Measure how long pods wait while another tenant creates selectors that are costly to evaluate.

    python benchmarks/tenants.py [--seconds 10] [--rounds 3] [--batch 120]

API server and scheduler are processes. Ten nodes have 5,120 devices. In each round the pods of one
namespace are first created alone, then while a tenant of another namespace creates four claims and
pods per second (at first ``--batch`` more). Each of these claims has a different selector that uses
its whole budget on every device and matches none. A pod waits from its creation to the watch event
of its bind. ``ordinary`` pods need no preparation, ``claim`` pods have a claim with a cheap
selector.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any

import numpy as np

from holdfast.api.scheme import PODS, RESOURCE_CLAIMS
from holdfast.client.client import Client
from holdfast.testing import a_claim, a_device, a_device_class, a_namespace, a_node, a_pod, a_slice
from holdfast.testing.builders import resource_of
from processes import api_server
from real_load import at_once

Raw = dict[str, Any]
Waits = dict[str, list[float]]
NODES, SLICES, DEVICES = 10, 4, 128
VICTIM, HOSTILE = "victim", "hostile"
HOSTILE_A_SECOND, VICTIMS_A_SECOND = 4, 20
RATIO = 2.0
"""How many times longer ordinary pods may wait at the 99th percentile."""
SECONDS_AT_MOST = 120.0
_NUMBER = 'device.attributes["gpu.example.com"].i'
_LIST = str(list(range(13)))


def hostile_selector(number: int) -> str:
    """Return a selector that costs its full budget on every device, and matches none."""
    inner = f"{_LIST}.all(z, {_NUMBER} + x + y + z >= 0)"
    return f"{_LIST}.all(x, {_LIST}.all(y, {inner})) && {_NUMBER} < -{number + 1}"


def node_objects(node: str) -> Iterator[Raw]:
    """A node with four slices of 128 devices."""
    yield a_node(node, cpu="1000", memory="4Ti", pods=10_000)
    for part in range(SLICES):
        devices = [
            a_device(f"gpu-{i}", attributes={"i": i})
            for i in range(part * DEVICES, (part + 1) * DEVICES)
        ]
        yield a_slice(f"{node}-{part}", node=node, slices=SLICES, devices=devices)


def a_claiming_pod(name: str, namespace: str, selector: str) -> tuple[Raw, Raw]:
    """A claim with a selector, and a pod that uses it."""
    claim = a_claim(name, namespace=namespace, selectors=[selector])
    entry = {"name": "dev", "resourceClaimName": name}
    return claim, a_pod(name, namespace=namespace, cpu="1m", claims=[entry])


class Tenants:
    """Two tenants of one cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._numbers = count()
        self._created: dict[str, float] = {}
        self._bound: dict[str, float] = {}

    async def create(self, objects: Iterable[Raw]) -> None:
        for raw in objects:
            namespace = raw["metadata"].get("namespace", "")
            await self._client.create(resource_of(raw), raw, namespace)

    async def fill(self) -> None:
        await self.create([*map(a_namespace, (VICTIM, HOSTILE)), a_device_class("gpu")])
        for i in range(NODES):
            await self.create(node_objects(f"n{i}"))

    async def measure(self, seconds: float) -> Waits:
        """Create pods of the victim for some seconds; return how long each kind waited."""
        names: dict[str, list[str]] = defaultdict(list)
        began = time.monotonic()
        for i in range(int(seconds * VICTIMS_A_SECOND)):
            await asyncio.sleep(began + i / VICTIMS_A_SECOND - time.monotonic())
            name = f"v{next(self._numbers)}"
            claim, pod = a_claiming_pod(name, VICTIM, f"{_NUMBER} >= 0")
            if i % 2:
                await self.create([claim])
            else:
                pod = a_pod(name, namespace=VICTIM, cpu="1m")
            self._created[name] = time.monotonic()
            await self.create([pod])
            names["claim" if i % 2 else "ordinary"].append(name)
        last = time.monotonic() + SECONDS_AT_MOST
        while not self._bound.keys() >= self._created.keys() and time.monotonic() < last:
            await asyncio.sleep(0.05)
        now = time.monotonic()
        return {
            kind: [self._bound.get(name, now) - self._created[name] for name in listed]
            for kind, listed in names.items()
        }

    async def watch(self) -> None:
        """Record when the pods of the victim are bound."""
        version = (await self._client.list(PODS, VICTIM)).resource_version
        async for event in self._client.watch(PODS, VICTIM, resource_version=version):
            if event.type == "MODIFIED" and event.object.spec.node_name:
                self._bound.setdefault(event.object.name, time.monotonic())

    @asynccontextmanager
    async def attack(self, batch: int) -> AsyncIterator[None]:
        """Attack inside the block; then delete everything that the attack has created."""
        await self._attack_with(batch)
        attack = asyncio.create_task(self._go_on())
        await asyncio.sleep(1)
        try:
            yield
        finally:
            attack.cancel()
            with suppress(asyncio.CancelledError):
                await attack
            for resource in (PODS, RESOURCE_CLAIMS):
                for each in (await self._client.list(resource, HOSTILE)).items:
                    await self._client.delete(resource, each.name, HOSTILE)

    async def _go_on(self) -> None:
        began = time.monotonic()
        for i in count():
            await asyncio.sleep(began + i / HOSTILE_A_SECOND - time.monotonic())
            await self._attack_with(1)

    async def _attack_with(self, pods: int) -> None:
        numbers = [next(self._numbers) for _ in range(pods)]
        made = (a_claiming_pod(f"h{n}", HOSTILE, hostile_selector(n)) for n in numbers)
        await at_once(made, self.create)


async def measure(seconds: float, rounds: int, batch: int) -> dict[str, dict[str, list[float]]]:
    """Return the seconds that the pods waited, ``alone`` and ``attacked``, by kind of pod."""
    async with api_server() as (processes, client):
        tenants = Tenants(client)
        await tenants.fill()
        flags = ("--kubeconfig", str(processes.kubeconfig), "--health-port", "0")
        processes.start("scheduler", *flags)
        await processes.printed("scheduler", "scheduling for")
        return await _rounds(tenants, seconds, rounds, batch)


async def _rounds(tenants: Tenants, seconds: float, rounds: int, batch: int) -> dict[str, Waits]:
    found: dict[str, Waits] = {"alone": defaultdict(list), "attacked": defaultdict(list)}

    def note(when: str, waits: Waits) -> None:
        for kind, each in waits.items():
            found[when][kind] += each

    watching = asyncio.create_task(tenants.watch())
    await tenants.measure(1)  # the first pods of a process take longer
    for _ in range(rounds):
        note("alone", await tenants.measure(seconds))
        async with tenants.attack(batch):
            note("attacked", await tenants.measure(seconds))
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    return found


def percentile(waits: list[float], percent: float) -> float:
    """Return a percentile in milliseconds."""
    return 1000 * float(np.percentile(waits, percent))


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10, help="of each half of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=0, help="pods that each attack begins with")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = asyncio.run(measure(args.seconds, args.rounds, args.batch))
    if args.json:
        print(json.dumps(found))
        return
    print(f"{'ms until bound':24}{'pods':>6}{'p50':>9}{'p90':>9}{'p99':>9}{'most':>9}")
    for kind in found["alone"]:
        for when, waits in found.items():
            figures = "".join(f"{percentile(waits[kind], each):9.1f}" for each in (50, 90, 99, 100))
            print(f"{f'{kind}, {when}':24}{len(waits[kind]):6}{figures}")
        ratio = percentile(found["attacked"][kind], 99) / percentile(found["alone"][kind], 99)
        aim = f"  (aim: at most {RATIO:g})" if kind == "ordinary" else ""
        print(f"{'ratio of p99':24}{ratio:33.2f}{aim}")


if __name__ == "__main__":
    main()

"""Measure pods that share claims and pods that have a claim each, structured and classic DRA.

    python benchmarks/shared_claims.py [--pods 120 250]

API server, scheduler and the controller of a classic driver are separate processes. Nodes, devices
and claims are created first, then the scheduler starts, then the pods are created; the time is
measured from their creation to the last bind. ``writes`` are all requests that change something in
that time, except the creation of pods. A classic claim has at most 32 users.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import classic
from classic import SECONDS, writes_so_far
from holdfast.api.classic_dra.names import MAX_CONSUMERS as CLASSIC_CONSUMERS
from holdfast.api.devices import MAX_CONSUMERS
from holdfast.api.scheme import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from holdfast.client.client import Client
from holdfast.testing import a_claim, a_device_class, a_node, a_pod, a_slice
from holdfast.testing.classic_dra.builders import named
from processes import Processes, api_server
from real_load import Observer

Figures = dict[str, float]
COUNTS = (120, 250)


@dataclass(frozen=True)
class Way:
    """A way for pods to get their devices: ``sharing`` pods have one claim."""

    sharing: int
    is_classic: bool = False

    def claims(self, pods: int) -> list[str]:
        """Return the name of each pod's claim."""
        return [f"c-{i // self.sharing:05}" for i in range(pods)]


WAYS = {
    "a claim each": Way(1),
    "one claim": Way(MAX_CONSUMERS),
    "a classic claim each": Way(1, is_classic=True),
    f"{CLASSIC_CONSUMERS} to a classic claim": Way(CLASSIC_CONSUMERS, is_classic=True),
}


async def measure(counts: Sequence[int]) -> dict[str, dict[int, Figures]]:
    """Return seconds and writes per pod, by way and number of pods."""
    return {
        words: {pods: await _measured(way, pods) for pods in counts} for words, way in WAYS.items()
    }


async def _measured(way: Way, pods: int) -> Figures:
    async with api_server() as (processes, client):
        return await _run(processes, client, way, pods)


async def _run(processes: Processes, client: Client, way: Way, pods: int) -> Figures:
    names = way.claims(pods)
    if way.is_classic:
        await classic.fill(client, -(-pods // classic.DEVICES), sorted(set(names)))
        await classic.start_driver(processes)
    else:
        await _fill(client, pods, sorted(set(names)))
    processes.start("scheduler", "--kubeconfig", str(processes.kubeconfig), "--health-port", "0")
    await processes.printed("scheduler", "scheduling for")
    observer = Observer(client, pods, pods)
    await observer.start()
    before, began = await writes_so_far(client), time.monotonic()
    made = (
        a_pod(f"pod-{i:05}", cpu="100m", claims=[_entry(way, claim)])
        for i, claim in enumerate(names)
    )
    await classic.create_all(client, ((PODS, raw, "default") for raw in made))
    await asyncio.wait_for(observer.finished(), SECONDS)
    took = time.monotonic() - began
    writes = (await writes_so_far(client) - before).total() / pods
    return {"seconds": took, "writes": writes}


def _entry(way: Way, claim: str) -> dict[str, Any]:
    return named("dev", claim) if way.is_classic else {"name": "dev", "resourceClaimName": claim}


async def _fill(client: Client, pods: int, claims: Sequence[str]) -> None:
    await client.create(NODES, a_node("n", cpu="1000", memory="4Ti", pods=1000))
    await client.create(DEVICE_CLASSES, a_device_class("gpu"))
    for i in range(-(-pods // 100)):
        made = a_slice(f"n-{i}", node="n", pool=f"pool-{i}", devices=100)
        await client.create(RESOURCE_SLICES, made)
    for name in claims:
        await client.create(RESOURCE_CLAIMS, a_claim(name), "default")


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pods", type=int, nargs="+", default=list(COUNTS),
                        help=f"at most {MAX_CONSUMERS}")  # fmt: skip
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = asyncio.run(measure(args.pods))
    if args.json:
        print(json.dumps(found))
        return
    for way, by_count in found.items():
        for pods, figures in by_count.items():
            print(f"{pods:4} pods, {way:24} {figures['seconds']:8.2f} s"
                  f" {figures['writes']:8.2f} writes per pod")  # fmt: skip


if __name__ == "__main__":
    main()

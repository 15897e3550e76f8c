"""Measure pods that share one claim, beside pods with a claim each: structured DRA, end to end.

    python benchmarks/shared_claims.py [--pods 250]

API server and scheduler are processes. Node, devices and claims are created first, then the
scheduler starts, then the pods are created; the time is measured from their creation to the last
bind. ``writes`` are all requests that change something in that time, but for the creation of pods.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import tempfile
import time
from pathlib import Path

from classic import AT_ONCE, SECONDS, start, until, writes_so_far
from holdfast.api.devices import MAX_CONSUMERS
from holdfast.api.scheme import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from holdfast.client.client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import load
from holdfast.testing import a_claim, a_device_class, a_node, a_pod, a_slice
from real_load import Observer

PODS_AT_MOST = MAX_CONSUMERS


async def measure(pods: int) -> dict[str, dict[str, float]]:
    """Return seconds and writes a pod, for a claim each and for one claim."""
    return {
        "a claim each": await _measured(pods, shared=False),
        "one claim": await _measured(pods, shared=True),
    }


async def _measured(pods: int, *, shared: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        processes = [start(data, "apiserver", "--data-dir", folder, "--port", "0")]
        try:
            await until(data, processes[0], b"serving")
            client = Client(HttpTransport(await load(data / "kubeconfig")))
            return await _run(client, data, processes, pods, shared=shared)
        finally:
            for process in reversed(processes):
                process.terminate()
            for process in processes:
                process.wait(30)


async def _run(
    client: Client, data: Path, processes: list[subprocess.Popen[bytes]], pods: int, *, shared: bool
) -> dict[str, float]:
    await client.create(NODES, a_node("n", cpu="1000", memory="4Ti", pods=1000))
    await client.create(DEVICE_CLASSES, a_device_class("gpu"))
    for i in range(-(-pods // 100)):
        made = a_slice(f"n-{i}", node="n", pool=f"pool-{i}", devices=100)
        await client.create(RESOURCE_SLICES, made)
    claims = ["shared"] * pods if shared else [f"c-{i:05}" for i in range(pods)]
    for name in sorted(set(claims)):
        await client.create(RESOURCE_CLAIMS, a_claim(name), "default")
    flags = ("--kubeconfig", str(data / "kubeconfig"), "--health-port", "0")
    processes.append(start(data, "scheduler", *flags))
    await until(data, processes[1], b"scheduling for", "scheduler")
    observer = Observer(client, pods, pods)
    await observer.start()
    before, began = await writes_so_far(client), time.monotonic()
    left = iter(enumerate(claims))

    async def create() -> None:
        for i, claim in left:
            devices = [{"name": "dev", "resourceClaimName": claim}]
            raw = a_pod(f"pod-{i:05}", cpu="100m", claims=devices)
            await client.create(PODS, raw, "default")

    await asyncio.gather(*(create() for _ in range(AT_ONCE)))
    await asyncio.wait_for(observer.finished(), SECONDS)
    took = time.monotonic() - began
    writes = (await writes_so_far(client) - before).total() / pods
    await client.close()
    return {"seconds": took, "writes": writes}


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pods", type=int, default=250, help=f"at most {PODS_AT_MOST}")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = asyncio.run(measure(args.pods))
    if args.json:
        print(json.dumps(found))
        return
    for way, figures in found.items():
        print(f"{way:14} {figures['seconds']:8.2f} s {figures['writes']:8.2f} writes a pod")


if __name__ == "__main__":
    main()

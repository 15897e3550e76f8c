"""Measure pods created and bound in the embedded cluster, in one process and in two.

    python benchmarks/server.py [--pods 2000] [--nodes 100] [--concurrency 32]

Each run starts ``holdfast up`` in a new process, creates pods over HTTPS from this process, and
counts the binds with a watch. Figures are per second of elapsed time; compare them only within one
run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from holdfast.api.scheme import PODS
from holdfast.client.client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import load
from holdfast.testing import a_pod

MODES = {"one process": "--single-process", "server apart": "--two-processes"}


async def measure(flag: str, pods: int, nodes: int, concurrency: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        command = [sys.executable, "-m", "holdfast", "up", "--data-dir", folder, "--port", "0",
                   "--nodes", str(nodes), flag]  # fmt: skip
        with (data / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            await wait_until_ready(data, process)
            return await drive(data, pods, concurrency, process.pid)
        finally:
            process.terminate()
            process.wait(30)


async def wait_until_ready(data: Path, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 120
    while not (data / "running.json").exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit((data / "log").read_text())
        await asyncio.sleep(0.05)


async def drive(data: Path, pods: int, concurrency: int, pid: int) -> dict[str, float]:
    endpoint = await load(data / "kubeconfig")
    client, watcher = Client(HttpTransport(endpoint)), Client(HttpTransport(endpoint))
    start = await client.list(PODS, limit=1)
    bound = asyncio.create_task(count_bound(watcher, start.resource_version, pods))
    began = time.perf_counter()
    numbers = iter(range(pods))

    async def create() -> None:
        for i in numbers:
            await client.create(PODS, a_pod(f"p{i}", cpu="10m", memory="16Mi"), "default")

    await asyncio.gather(*(create() for _ in range(concurrency)))
    created = time.perf_counter() - began
    await bound
    total = time.perf_counter() - began
    cpu = sum(cpu_seconds(p) for p in process_tree(pid))
    await client.close()
    await watcher.close()
    return {"created/s": pods / created, "bound/s": pods / total, "cpu ms/pod": 1000 * cpu / pods}


async def count_bound(client: Client, version: str, wanted: int) -> None:
    seen: set[str] = set()
    async for event in client.watch(PODS, resource_version=version):
        if event.type == "MODIFIED" and event.object.spec.node_name:
            seen.add(event.object.name)
            if len(seen) == wanted:
                return


def process_tree(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    found = [int(c) for c in children.read_text().split()] if children.exists() else []
    return [pid, *found]


def cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    results = {}
    for name, flag in MODES.items():
        results[name] = await measure(flag, args.pods, args.nodes, args.concurrency)
    if args.json:
        print(json.dumps(results))
        return
    print(f"{args.pods} pods, {args.nodes} nodes, {args.concurrency} creating at once")
    columns = list(next(iter(results.values())))
    print(f"{'':16}" + "".join(f"{c:>14}" for c in columns))
    for name, row in results.items():
        print(f"{name:16}" + "".join(f"{row[c]:14.1f}" for c in columns))


if __name__ == "__main__":
    asyncio.run(main())

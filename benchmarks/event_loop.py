"""Measure for how long decisions about devices keep a scheduler from doing anything else.

    python benchmarks/event_loop.py [--nodes 5000] [--pods 20] [--case counters ...]

An API server and a scheduler run in this process, on the real clock. For each case, nodes have the
devices of ``devices.py``, and pods with claims are created one after the other; the first of a
case needs a search on every node. Each step of a task is timed in CPU time, so that other load on
the machine does not count: ``longest`` is that of the scheduler's own task, and of all tasks.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import devices
from holdfast.api.meta import Object
from holdfast.api.resource import Resource
from holdfast.api.scheme import PODS
from holdfast.apiserver.inprocess import InProcessTransport
from holdfast.apiserver.server import ApiServer
from holdfast.cli import garbage_collection
from holdfast.client.client import Client
from holdfast.clock import SystemClock
from holdfast.plugins import default_profiles
from holdfast.scheduler.scheduler import Scheduler
from holdfast.store.store import Store
from holdfast.testing import a_claim, a_device_class, a_node
from holdfast.testing.builders import resource_of

SCHEDULER = "Scheduler._schedule_pods"
TIMEOUT_SECONDS = 600.0
AT_ONCE = 64


@contextmanager
def timed_steps() -> Iterator[dict[str, float]]:
    """Collect the longest step of each kind of task, in seconds of CPU time."""
    longest: dict[str, float] = defaultdict(float)
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        run(handle)
        took = time.thread_time() - began
        task = getattr(handle._callback, "__self__", None)
        name = getattr(task, "get_coro", lambda: handle._callback)()
        words = getattr(name, "__qualname__", str(name))
        longest[words] = max(longest[words], took)

    asyncio.Handle._run = timed  # type: ignore[method-assign]
    try:
        yield longest
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]


class Cluster:
    """An API server and a scheduler."""

    def __init__(self, folder: Path) -> None:
        clock = SystemClock()
        self.store = Store.open(folder, clock)
        self.server = ApiServer.create(self.store, clock)
        self.client = Client(InProcessTransport(self.server), "benchmark")
        scheduler = Client(InProcessTransport(self.server), "system:kube-scheduler")
        self.scheduler = Scheduler(scheduler, clock, default_profiles(), seed=1)

    async def create(self, *objects: dict[str, Any]) -> None:
        for raw in objects:
            resource: Resource[Object] = resource_of(raw)
            await self.client.create(resource, raw, raw["metadata"].get("namespace", ""))

    async def fill(self, case: devices.Case, nodes: int) -> None:
        await self.create(
            a_device_class("gpu", extendedResourceName=devices.RESOURCE),
            a_device_class("net", driver=devices.NETWORK),
        )
        names = iter([f"n{i}" for i in range(nodes)])

        async def create_nodes() -> None:
            for name in names:
                await self.create(a_node(name, cpu="64", memory="256Gi"), *case.slices(name))

        await asyncio.gather(*(create_nodes() for _ in range(AT_ONCE)))

    async def schedule(self, case: devices.Case, number: int) -> None:
        """Create a pod with a claim, and wait until it is bound."""
        if not case.resource:
            await self.create(a_claim(f"c{number}", **case.claim))
        await self.create(devices.a_pod_of(case, number))
        while not (await self.client.get(PODS, f"p{number}", "default")).spec.node_name:
            await asyncio.sleep(0.01)


async def measure(name: str, nodes: int, pods: int) -> None:
    case = devices.CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder))
        await cluster.server.start()
        await cluster.fill(case, nodes)
        await cluster.scheduler.start()
        garbage_collection.freeze_existing_objects()
        with timed_steps() as longest:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                for number in range(pods):
                    await cluster.schedule(case, number)
        await cluster.scheduler.stop()
        await cluster.server.stop()
        await cluster.store.close()
    gc.unfreeze()
    words = max(longest, key=longest.__getitem__)
    print(f"{case.words:32}{nodes:>7}{1000 * longest[SCHEDULER]:>9.1f}"
          f"{1000 * longest[words]:>9.1f}  {words}", flush=True)  # fmt: skip


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=20)
    parser.add_argument("--case", nargs="+", choices=list(devices.CASES),
                        default=list(devices.CASES))  # fmt: skip
    args = parser.parse_args()
    print(f"{'longest step in ms':32}{'nodes':>7}{'schedule':>9}{'any':>9}  of")
    for name in args.case:
        await measure(name, args.nodes, args.pods)


if __name__ == "__main__":
    asyncio.run(main())

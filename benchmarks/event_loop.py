"""Measure how long single decisions block a scheduler.

    python benchmarks/event_loop.py [--nodes 5000] [--pods 20] [--case counters ...]

An API server and a scheduler run in this process, on the real clock. For each case pods are created
one after the other; the first of a case needs a search on every node. Nodes have the devices of
``devices.py``, and pods have claims; in ``preemption`` nodes are full of pods of lower priority, in
``cores`` different CPUs and GPUs are in use on each node, as in ``cores_and_gpus.py``. In
``hostile`` selectors are costly, as in ``tenants.py``, and the pods fit nowhere. Each step of a
task is timed in CPU time, so that other load on the machine does not count: ``longest`` is shown
for the scheduler's own task and for all tasks.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Protocol

import cores_and_gpus
import devices
import tenants
from holdfast.api.decode import JsonObject
from holdfast.api.meta import Object
from holdfast.api.resource import Resource
from holdfast.api.scheme import PODS, PRIORITY_CLASSES
from holdfast.cli import garbage_collection
from holdfast.client.client import Client
from holdfast.runtime.clock import SystemClock
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.scheduler.scheduler import Scheduler
from holdfast.server.api_server import ApiServer
from holdfast.server.inprocess import InProcessTransport
from holdfast.server.store.store import Store
from holdfast.testing import a_claim, a_device_class, a_node, a_pod
from holdfast.testing.builders import an_object, resource_of

SCHEDULER = "Scheduler._schedule_pods"
TIMEOUT_SECONDS = 600.0
AT_ONCE = 64
PODS_A_NODE = 30


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


class Case(Protocol):
    """The objects to create: at first, for each node, and for each pod that is scheduled."""

    words: str

    def objects(self) -> Iterable[JsonObject]: ...
    def node_objects(self, node: str) -> Iterable[JsonObject]: ...
    def pod_objects(self, number: int) -> Iterable[JsonObject]: ...


class Claims:
    """Pods with claims for devices."""

    def __init__(self, case: devices.Case) -> None:
        self._case, self.words = case, case.words

    def objects(self) -> Iterable[JsonObject]:
        yield a_device_class("gpu", extendedResourceName=devices.RESOURCE)
        yield a_device_class("net", driver=devices.NETWORK)

    def node_objects(self, node: str) -> Iterable[JsonObject]:
        return a_node(node, cpu="64", memory="256Gi"), *self._case.slices(node)

    def pod_objects(self, number: int) -> Iterable[JsonObject]:
        if not self._case.resource:
            yield a_claim(f"c{number}", **self._case.claim)
        yield devices.a_pod_of(self._case, number)


class Preemption:
    """Pods of higher priority than those that fill the nodes."""

    words = "preemption of ordinary pods"

    def objects(self) -> Iterable[JsonObject]:
        for name, value in (("low", 1), ("high", 1000)):
            yield an_object(PRIORITY_CLASSES, name, {}) | {"value": value}

    def node_objects(self, node: str) -> Iterable[JsonObject]:
        yield a_node(node, cpu=str(PODS_A_NODE), memory="256Gi")
        for i in range(PODS_A_NODE):
            yield a_pod(f"{node}-{i}", cpu="1", node=node, priority_class_name="low")

    def pod_objects(self, number: int) -> Iterable[JsonObject]:
        yield a_pod(f"p{number}", cpu="2", priority_class_name="high")


class Cores:
    """Pods with exclusive CPUs and a part of a GPU, where no two nodes are alike."""

    words = "CPUs and GPUs"
    _dice = Random(1)

    def objects(self) -> Iterable[JsonObject]:
        return ()

    def node_objects(self, node: str) -> Iterable[JsonObject]:
        return *cores_and_gpus.node_objects(node), cores_and_gpus.busy_pod(node, self._dice)

    def pod_objects(self, number: int) -> Iterable[JsonObject]:
        yield cores_and_gpus.a_pod_of("different", number)


class Hostile:
    """Pods whose claims each have a different selector, which is evaluated for every device."""

    words = "hostile selectors"

    def objects(self) -> Iterable[JsonObject]:
        yield a_device_class("gpu")

    def node_objects(self, node: str) -> Iterable[JsonObject]:
        return tenants.node_objects(node)

    def pod_objects(self, number: int) -> Iterable[JsonObject]:
        selector = tenants.hostile_selector(number)
        return tenants.a_claiming_pod(f"p{number}", "default", selector)


CASES: dict[str, Case] = {name: Claims(case) for name, case in devices.CASES.items()}
CASES |= {"preemption": Preemption(), "cores": Cores(), "hostile": Hostile()}
AT_MOST = {"hostile": (tenants.NODES, 4)}
"""Nodes and pods of cases that take longer."""


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

    async def fill(self, case: Case, nodes: int) -> None:
        await self.create(*case.objects())
        names = iter([f"n{i}" for i in range(nodes)])

        async def create_nodes() -> None:
            for name in names:
                await self.create(*case.node_objects(name))

        await asyncio.gather(*(create_nodes() for _ in range(AT_ONCE)))

    async def schedule(self, case: Case, number: int) -> None:
        """Create a pod, and wait until it is bound, nominated to a node, or unschedulable."""
        await self.create(*case.pod_objects(number))
        while True:
            pod = await self.client.get(PODS, f"p{number}", "default")
            if pod.spec.node_name or pod.status.conditions:
                return
            await asyncio.sleep(0.01)


async def measure(name: str, nodes: int, pods: int) -> None:
    case = CASES[name]
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
    parser.add_argument("--case", nargs="+", choices=list(CASES),
                        default=list(CASES))  # fmt: skip
    args = parser.parse_args()
    print(f"{'longest step in ms':32}{'nodes':>7}{'schedule':>9}{'any':>9}  of")
    for name in args.case:
        nodes, pods = AT_MOST.get(name, (args.nodes, args.pods))
        await measure(name, min(nodes, args.nodes), min(pods, args.pods))


if __name__ == "__main__":
    asyncio.run(main())

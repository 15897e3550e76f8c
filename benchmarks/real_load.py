"""The load of the benchmark on a real control plane, and the observer that measures times."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import real_cores
import real_devices
from holdfast.api.scheme import EVENTS, NODES, PODS, RESERVATIONS
from holdfast.client.client import Client
from holdfast.client.transport import Request
from holdfast.testing import a_node, a_pod, a_reservation
from real_cores import CORE_CASES
from real_devices import DEVICE_CASES

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB = {"labelSelector": {"matchLabels": {"app": "web"}}}
AT_ONCE = 48
QUIET_SECONDS = 5.0
"""kube-scheduler drops events if it has too many; stop waiting after this time without one."""


def _required(topology: str) -> dict[str, Any]:
    return {"requiredDuringSchedulingIgnoredDuringExecution": [{**WEB, "topologyKey": topology}]}


SPREAD = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **WEB}
PREFERRED = {
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "podAffinityTerm": {**WEB, "topologyKey": HOST}}
    ]
}
WORKLOADS: dict[str, dict[str, Any]] = {
    "basic": {},
    "anti-affinity": {"affinity": {"podAntiAffinity": _required(HOST)}},
    "affinity": {"affinity": {"podAffinity": _required(ZONE)}},
    "spread": {"topology_spread_constraints": [SPREAD]},
    "preferred": {"affinity": {"podAffinity": PREFERRED}},
    "owners": {},
    **{case: {} for case in (*DEVICE_CASES, *CORE_CASES)},
}
"""Constraints of the pods by case; *owners* are basic pods that own reservations."""
RESERVED = 1000
HELD = {"cpu": "1", "memory": "5000Mi"}
"""The resources of each reservation: the requests of ten pods."""


def nodes(count: int) -> Iterable[dict[str, Any]]:
    """Return nodes like those of upstream's benchmark, in three zones."""
    for i in range(count):
        yield a_node(f"node-{i:05}", cpu="4", memory="32Gi", labels={ZONE: f"zone-{i % 3}"})


def pods(workload: str, count: int) -> Iterable[dict[str, Any]]:
    """Return equal pods of one application."""
    for i in range(count):
        yield a_pod(
            f"pod-{i:05}", cpu="100m", memory="500Mi", labels={"app": "web"}, **WORKLOADS[workload]
        )


async def reserve(client: Client, number: int, node_count: int) -> None:
    """Create a reservation that is already available on a node."""
    name = f"reservation-{number:04}"
    raw = a_reservation(
        name, **HELD, owner_labels={"app": "web"}, allocate_once=False, ttl="24h"
    )  # fmt: skip
    await client.create(RESERVATIONS, raw)
    on_its_node = {
        "phase": "Available", "nodeName": f"node-{number % node_count:05}", "allocatable": HELD
    }  # fmt: skip
    await client.patch(RESERVATIONS, name, {"status": on_its_node}, subresource="status")


async def fill(client: Client, workload: str, node_count: int, pod_count: int) -> None:
    """Create nodes, reservations or devices on them, then pods."""
    if workload in CORE_CASES:
        await _fill_with_cores(client, workload, node_count, pod_count)
        return
    await at_once(nodes(node_count), lambda raw: client.create(NODES, raw))
    if workload in DEVICE_CASES:
        await _fill_with_devices(client, workload, node_count, pod_count)
        return
    if workload == "owners":
        await at_once(range(RESERVED), lambda number: reserve(client, number, node_count))
    await at_once(pods(workload, pod_count), lambda raw: client.create(PODS, raw, "default"))


async def _fill_with_cores(client: Client, case: str, node_count: int, pod_count: int) -> None:
    await at_once(range(node_count), lambda i: real_cores.create_node(client, i))
    if case == "core-owners":
        held = range(min(node_count, real_cores.RESERVED))
        await at_once(held, lambda i: real_cores.create_reservation(client, i))
    made = real_cores.pods(case, pod_count)
    await at_once(made, lambda raw: client.create(PODS, raw, "default"))


async def _fill_with_devices(client: Client, case: str, node_count: int, pod_count: int) -> None:
    await real_devices.create_classes(client)
    names = [raw["metadata"]["name"] for raw in nodes(node_count)]
    await at_once(names, lambda name: real_devices.create_slices(client, case, name))
    old = range(real_devices.OLD_CLAIMS)
    await at_once(old, lambda i: real_devices.create_old_claim(client, i, node_count))
    if not real_devices.CASES[case].resource:
        await at_once(range(pod_count), lambda i: real_devices.create_claim(client, case, i))
    made = real_devices.pods(case, pod_count)
    await at_once(made, lambda raw: client.create(PODS, raw, "default"))


async def at_once(items: Iterable[Any], do: Callable[[Any], Awaitable[Any]]) -> None:
    """Call a function with all items, with many at a time."""
    left = iter(items)

    async def work() -> None:
        for item in left:
            await do(item)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


@dataclass
class SeenNames:
    """The names that were seen, and the times of the first and the last name."""

    wanted: int
    names: set[bytes] = field(default_factory=set)
    first: float = 0.0
    last: float = 0.0

    @property
    def complete(self) -> bool:
        return len(self.names) >= self.wanted

    def add(self, name: bytes) -> None:
        self.last = time.perf_counter()
        self.first = self.first or self.last
        self.names.add(name)


_NAME = re.compile(rb'"name":"([^"]+)"')
_VERSION = re.compile(rb'"resourceVersion":"(\d+)"')
_METADATA_ONLY = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


class Observer:
    """Watches binds and events, with metadata only to save CPU time."""

    def __init__(self, client: Client, pods: int, events: int) -> None:
        self._client = client
        self.binds, self.events = SeenNames(pods), SeenNames(events)
        self.began = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start the watches."""
        for resource, fields, seen in (
            (PODS, "spec.nodeName!=", self.binds),
            (EVENTS, "reason=Scheduled", self.events),
        ):
            version = (await self._client.list(resource, "default", limit=1)).resource_version
            query = {"watch": "true", "resourceVersion": version, "fieldSelector": fields}
            path = resource.path("default")
            self._tasks.append(asyncio.create_task(self._watch(path, query, seen)))

    async def finished(self) -> None:
        """Wait for all binds, and for events while some still arrive."""
        while not self.binds.complete:
            self._raise()
            await asyncio.sleep(0.1)
        while not self.events.complete:
            self._raise()
            if time.perf_counter() - max(self.events.last, self.binds.last) > QUIET_SECONDS:
                break
            await asyncio.sleep(0.1)
        for task in self._tasks:
            task.cancel()

    @property
    def seconds(self) -> float:
        """Seconds from the first bind to the last bind or event."""
        return max(self.binds.last, self.events.last) - self.binds.first

    def _raise(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()

    async def _watch(self, path: str, query: dict[str, str], seen: SeenNames) -> None:
        # A busy server ends slow watches: continue after the last revision.
        while True:
            request = Request("GET", path, query, {"accept": _METADATA_ONLY})
            async with self._client.transport.stream(request) as stream:
                if stream.status != 200:
                    raise SystemExit(b"".join([part async for part in stream]).decode())
                async for line in stream:
                    if found := _VERSION.search(line):
                        query["resourceVersion"] = found[1].decode()
                    if line.startswith(b'{"type":"ADDED"') and (found := _NAME.search(line)):
                        seen.add(found[1])
                        self.began.set()


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process so far, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mebibytes(pid: int) -> float:
    """Return the peak memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0

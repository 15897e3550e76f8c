"""Measure the CPU time that a scheduler needs for a pod, without a network and a server.

    python benchmarks/scheduler_cpu.py [--case counts ...] [--nodes 500] [--pods 1500]
    python benchmarks/scheduler_cpu.py --case counts --profile

It runs the scheduler of ``holdfast scheduler`` with its controllers over a transport that answers
every request at once and sends the watch events that kube-apiserver would send. So the figure is
the whole cost of a pod except HTTP and TLS: watch events, queue, decision, binding cycle, the
event. The time that the transport needs to answer is subtracted. Pods are scheduled in chunks; the
lower quartile of the chunks is shown, in microseconds per pod.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import pstats
import statistics
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from devices import CASES, CLAIMS, a_pod_of, a_result, an_allocation, cards_in_use
from devices import RESOURCE as EXTENDED_RESOURCE
from holdfast.api import scheme
from holdfast.api.resource import Resource
from holdfast.cli import garbage_collection
from holdfast.client.client import Client
from holdfast.client.transport import Request, Response
from holdfast.controllers.controller_manager import BESIDE_KUBERNETES, ControllerManager
from holdfast.controllers.profile_settings import controller_settings
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.scheduling.configuration.reading import Configuration
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.scheduler.scheduler import Scheduler
from holdfast.testing import a_claim, a_device_class, a_node, a_pod

Raw = dict[str, Any]
CHUNK = 100
MANAGED_FIELDS = {
    "manager": "kubectl-create", "operation": "Update", "apiVersion": "v1",
    "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
    "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:spec": {
        "f:containers": {'k:{"name":"main"}': {
            ".": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {},
            "f:resources": {".": {}, "f:requests": {".": {}, "f:cpu": {}, "f:memory": {}}},
            "f:terminationMessagePath": {}, "f:terminationMessagePolicy": {}}},
        "f:dnsPolicy": {}, "f:enableServiceLinks": {}, "f:restartPolicy": {},
        "f:schedulerName": {}, "f:securityContext": {}, "f:terminationGracePeriodSeconds": {}}},
}  # fmt: skip
"""managedFields of a pod, as kube-apiserver writes them."""
_encode, _decode = msgspec.json.encode, msgspec.json.decode
INITIAL_EVENTS_END = {
    "metadata": {"annotations": {"k8s.io/initial-events-end": "true"}, "resourceVersion": "1"}
}


PENDING = {"phase": "Pending", "qosClass": "Burstable"}
SCHEDULED = {
    "type": "PodScheduled", "status": "True", "lastProbeTime": None,
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}  # fmt: skip


class _Patch(msgspec.Struct):
    status: msgspec.Raw = msgspec.Raw(b"{}")
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


_patch = msgspec.json.Decoder(_Patch)


class Watch:
    """The unread lines of one watch; ``arrived`` is set when there are any."""

    def __init__(self) -> None:
        self.lines: deque[bytes] = deque()
        self.arrived = asyncio.Event()

    def send(self, kind: str, obj: bytes) -> None:
        self.lines.append(b'{"type":"%b","object":%b}' % (kind.encode(), obj))
        self.arrived.set()


class Stream:
    """A response that does not end."""

    status = 200

    def __init__(self, watch: Watch) -> None:
        self.headers: dict[str, str] = {}
        self._watch = watch

    async def __aiter__(self) -> AsyncIterator[bytes]:
        watch = self._watch
        while True:
            while watch.lines:
                yield watch.lines.popleft()
            watch.arrived.clear()
            await watch.arrived.wait()


class StubServer:
    """A transport that answers every request at once and checks nothing."""

    def __init__(self) -> None:
        self.watches: dict[str, Watch] = {}
        self.objects: dict[str, Raw] = {}
        self.revision = 1000
        self.seconds = 0.0
        """CPU time that was spent here, not in the scheduler."""
        self.bindings = self.events = self.wanted = 0
        self.done = asyncio.Event()

    def add(self, resource: Any, raw: Raw, *, managed_fields: bool = False) -> None:
        raw = {"apiVersion": resource.api_version, "kind": resource.kind, **raw}
        self.revision += 1
        name, namespace = raw["metadata"]["name"], raw["metadata"].get("namespace", "")
        meta = {
            "uid": f"uid-{name}", **raw["metadata"], "resourceVersion": str(self.revision),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }  # fmt: skip
        if managed_fields:
            meta["managedFields"] = [MANAGED_FIELDS]
        raw["metadata"] = meta
        self.objects[resource.path(namespace, name)] = raw
        self._watch(resource.path()).send("ADDED", _encode(raw))

    def _watch(self, path: str) -> Watch:
        watch = self.watches.get(path)
        if watch is None:
            watch = self.watches[path] = Watch()
        return watch

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        watch = self._watch(request.path)
        if request.query.get("sendInitialEvents"):
            watch.send("BOOKMARK", _encode(INITIAL_EVENTS_END))
        yield Stream(watch)

    async def send(self, request: Request) -> Response:
        began = time.thread_time()
        response = self._answer(request)
        self.seconds += time.thread_time() - began
        await asyncio.sleep(0)
        return response

    async def close(self) -> None:
        pass

    async def wait_for_events(self, count: int) -> None:
        self.wanted = count
        self.done.clear()
        await self.done.wait()

    def _answer(self, request: Request) -> Response:
        path = request.path
        if request.method == "GET":
            return self._read(request)
        if path.endswith("/events"):
            self.events += 1
            if self.events >= self.wanted:
                self.done.set()
            return Response(201, {}, request.body)
        if path.endswith("/binding"):
            self.bindings += 1
            node = _decode(request.body)["target"]["name"]
            raw = self.objects[path.removesuffix("/binding")]
            raw["spec"]["nodeName"] = node
            raw["status"] = {**PENDING, "conditions": [SCHEDULED]}
            self._changed(scheme.PODS, raw)
            return Response(201, {}, b'{"kind":"Status","status":"Success"}')
        if request.method == "POST":
            return self._create(request)
        found, _, part = path.rpartition("/")
        raw = self.objects[found if part == "status" else path]
        patch = _patch.decode(request.body)
        if part == "status":
            status = _decode(patch.status)
            raw["status"] = {**raw.get("status", {}), **status}
        else:
            raw["metadata"]["finalizers"] = _decode(patch.metadata)["finalizers"]
        resource = scheme.PODS if raw["kind"] == "Pod" else scheme.RESOURCE_CLAIMS
        return Response(200, {}, self._changed(resource, raw))

    def _create(self, request: Request) -> Response:
        raw = _decode(request.body)
        self.revision += 1
        meta = raw["metadata"]
        meta["name"] = f"{meta.pop('generateName')}{self.revision}"
        meta |= {"uid": f"uid-{meta['name']}", "managedFields": [MANAGED_FIELDS]}
        self.objects[f"{request.path}/{meta['name']}"] = raw
        return Response(201, {}, self._changed(scheme.RESOURCE_CLAIMS, raw, "ADDED"))

    def _changed(self, resource: Any, raw: Raw, kind: str = "MODIFIED") -> bytes:
        self.revision += 1
        raw["metadata"]["resourceVersion"] = str(self.revision)
        body = _encode(raw)
        self._watch(resource.path()).send(kind, body)
        return body

    def _read(self, request: Request) -> Response:
        """Return an empty list of any collection, or the discovery document; no classic DRA."""
        if request.path not in ("/api", "/apis"):
            return Response(200, {}, b'{"metadata":{"resourceVersion":"1"},"items":[]}')
        if "APIGroupDiscoveryList" not in request.headers["accept"]:
            return Response(200, {}, b'{"groups":[]}')
        served: dict[tuple[str, str], list[Raw]] = {}
        for each in vars(scheme).values():
            if isinstance(each, Resource) and bool(each.group) == (request.path == "/apis"):
                served.setdefault((each.group, each.version), []).append({
                    "resource": each.plural, "responseKind": {"kind": each.kind},
                    "scope": "Namespaced" if each.namespaced else "Cluster", "verbs": each.verbs,
                })  # fmt: skip
        groups = [
            {"metadata": {"name": group}, "versions": [{"version": version, "resources": found}]}
            for (group, version), found in served.items()
        ]
        return Response(200, {}, _encode({"kind": "APIGroupDiscoveryList", "items": groups}))


def add_cluster(server: StubServer, case_name: str, nodes: int, pods: int) -> None:
    for i in range(nodes):
        name = f"n{i}"
        zone = {"topology.kubernetes.io/zone": f"zone-{i % 3}"}
        server.add(scheme.NODES, a_node(name, cpu="64", memory="256Gi", labels=zone))
        if case_name != "basic":
            for raw in CASES[case_name].slices(name):
                server.add(scheme.RESOURCE_SLICES, raw)
    if case_name == "basic":
        return
    device_class = a_device_class("gpu", extendedResourceName=EXTENDED_RESOURCE)
    server.add(scheme.DEVICE_CLASSES, device_class)
    allocated = cards_in_use(CLAIMS, nodes)
    for i in range(CLAIMS):
        status: Raw = {}
        if i < allocated:
            node = f"n{(i // 2) % nodes}"
            status = {"status": {"allocation": an_allocation(node, a_result(node, i))}}
        server.add(scheme.RESOURCE_CLAIMS, a_claim(f"old{i}", **status), managed_fields=True)
    for i in range(0 if CASES[case_name].resource else pods):
        claim = a_claim(f"c{i}", **CASES[case_name].claim)
        server.add(scheme.RESOURCE_CLAIMS, claim, managed_fields=True)


def add_pods(server: StubServer, case_name: str, numbers: Iterable[int]) -> None:
    for i in numbers:
        if case_name == "basic":
            raw = a_pod(f"p{i}", cpu="100m", memory="128Mi", labels={"app": "web"})
        else:
            raw = a_pod_of(CASES[case_name], i)
        raw["status"] = {**PENDING}
        server.add(scheme.PODS, raw, managed_fields=True)


async def measure(case: str, nodes: int, count: int, profiler: cProfile.Profile | None) -> float:
    server, clock = StubServer(), SystemClock()
    add_cluster(server, case, nodes, count)
    client = Client(server, "holdfast-scheduler")
    configuration = Configuration(default_profiles())
    scheduler = Scheduler(client, clock, configuration.profiles, seed=1)
    controllers = ControllerManager(
        client, clock, scheduler.recorder, kinds=BESIDE_KUBERNETES,
        informers=scheduler.informers.informer_set,
        settings=controller_settings(configuration, FeatureGates()),
    )  # fmt: skip
    await scheduler.start()
    await controllers.start()
    add_pods(server, case, range(CHUNK))
    await server.wait_for_events(CHUNK)
    garbage_collection.freeze_existing_objects()
    times, done = [], CHUNK
    while done < count:
        add_pods(server, case, range(done, done + CHUNK))
        server.seconds = 0.0
        if profiler is not None:
            profiler.enable()
        began = time.thread_time()
        done += CHUNK
        await server.wait_for_events(done)
        times.append((time.thread_time() - began - server.seconds) / CHUNK)
        if profiler is not None:
            profiler.disable()
    assert server.bindings == count, "some pods were not bound"
    await controllers.stop()
    await scheduler.stop()
    gc.unfreeze()
    return 1e6 * statistics.quantiles(times, n=4)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    # "network" needs a separate device class.
    cases = ["basic", *(name for name in CASES if name != "network")]
    parser.add_argument("--case", nargs="+", choices=cases, default=cases)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=1500)
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    if args.pods % CHUNK or args.pods < 3 * CHUNK:
        parser.error(f"--pods: a multiple of {CHUNK}, at least {3 * CHUNK}")
    for case in args.case:
        profiler = cProfile.Profile() if args.profile else None
        found = asyncio.run(measure(case, args.nodes, args.pods, profiler))
        print(f"{case:14}{found:9.0f} us per pod", flush=True)
        if profiler is not None:
            pstats.Stats(profiler).strip_dirs().sort_stats("tottime").print_stats(70)


if __name__ == "__main__":
    main()

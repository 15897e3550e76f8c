"""The agent of one node: its Node object, its lease, and one worker for each of its pods."""
# ruff: noqa: PLC0415 - an HTTPS server is needed only where containers are processes

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.api.node_names import AGENT_LABEL, CERTIFICATE_ANNOTATION, EMBEDDED, FAILED_ANNOTATION
from holdfast.client.backoff import Backoff, retry
from holdfast.client.client import Client, PatchType
from holdfast.client.events import EventRecorder
from holdfast.client.informer_cache import ChangeType
from holdfast.client.informer_set import InformerSet
from holdfast.node.agent.addresses import AGENT_NODES, AddressPool, AgentNode
from holdfast.node.agent.device_plugins import DeviceCount
from holdfast.node.agent.node_leases import NodeLeases
from holdfast.node.agent.node_plugins import NodePlugins
from holdfast.node.agent.node_pod import NODE_PODS, NodePod
from holdfast.node.agent.node_services import NodeServices, Runtimes
from holdfast.node.agent.node_topology import publish_topology
from holdfast.node.agent.nodes import new_node, plan_node_status
from holdfast.node.agent.pod_worker import PodWorker
from holdfast.node.agent.simulated_claims import SimulatedClaims
from holdfast.node.cdi.registry import CdiRegistry
from holdfast.node.kubelet_api import (
    DEVICE_PLUGINS_DIRECTORY,
    LONGEST_SOCKET_PATH,
    PLUGINS_DIRECTORY,
    REGISTRY_DIRECTORY,
)
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import AlreadyExists, HoldfastError, NotFound, Refused
from holdfast.runtime.private_files import make_private_directory
from holdfast.runtime.settings import NodeShape

if TYPE_CHECKING:
    from holdfast.node.agent.kubelet_server.server import KubeletServer

ADDRESS = "127.0.0.1"
"""The address of nodes with an agent: they are on this machine."""
DIRECTORIES = (REGISTRY_DIRECTORY, PLUGINS_DIRECTORY, DEVICE_PLUGINS_DIRECTORY, "cdi", "pods")
CDI_DIRECTORIES = (Path("/etc/cdi"), Path("/var/run/cdi"))
"""Where drivers put CDI files by default; files in the node's own directory take precedence."""
_SOCKET_NAME_BYTES = 24
"""The assumed length of the name of a driver's registration socket."""
NODE_BACKOFF = Backoff(first=0.5, limit=10.0)
WORKER_RETRY_SECONDS = 10.0
"""The delay before a pod whose worker has failed gets a new worker."""
STOP_GRACE_SECONDS = 5.0
"""The time containers have to end when the embedded cluster is stopped."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """The identity under which an agent registers its node."""

    name: str
    directory: Path
    ordinal: int = 1
    shape: NodeShape = field(default_factory=NodeShape)
    agent: str = EMBEDDED
    """The value of the label that tells other agents which agent runs the node."""
    client_authority: Path | None = None
    """The certificate authority of the cluster's clients; the API server is one of them."""


class NodeAgent:
    """One node with its pods. The client acts as the node's own user.

    Raises BadConfiguration if a checkpoint of prepared devices is damaged, unless it is to be
    reset. Without ``with_claims`` pods that have resource claims are rejected. A node with the
    annotation ``holdfast.dev/failed`` reports nothing and leaves its containers alone until the
    annotation is removed.
    """

    def __init__(
        self,
        identity: NodeIdentity,
        client: Client,
        clock: Clock,
        runtimes: Runtimes,
        *,
        reset_checkpoint: bool = False,
        with_claims: bool = True,
    ) -> None:
        self.name = identity.name
        self._identity = identity
        self._client = client
        self._clock = clock
        prepare_directory(identity.directory)
        self._recorder = EventRecorder(client, clock, component="kubelet", instance=identity.name)
        self._informers = InformerSet(client, clock=clock)
        self._nodes = self._informers.get(AGENT_NODES, fields=f"metadata.name={self.name}")
        self._pods = self._informers.get(NODE_PODS, fields=f"spec.nodeName={self.name}")
        self._leases = NodeLeases(client, clock, own=True)
        self._workers: dict[str, PodWorker] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._node_changed = asyncio.Event()
        self._certificate = ""
        """The certificate of the node's server that clients trust; "" without a server."""
        self._device_counts: Mapping[str, DeviceCount] = {}
        self._failed = False
        self._waits = False
        """Whether the log already says that the node waits to be registered."""
        self._server: KubeletServer | None = None
        self._devices = NodePlugins(
            client, self.name, identity.directory, clock, active_pods=self._active_uids,
            counts_changed=self._counts_changed, reset_checkpoint=reset_checkpoint,
            keep_slices=runtimes.default == "simulated",
        )  # fmt: skip
        self.services = NodeServices(
            client, clock, self._recorder, runtimes,
            (
                self._devices.device_plugins,
                SimulatedClaims(self._devices.claims, client, identity.directory, runtimes),
            ),
            CdiRegistry((*CDI_DIRECTORIES, identity.directory / "cdi")),
            _pod_addresses(self.name), ADDRESS,
            node=lambda: self._nodes.cache.get(self.name),
            active_pods=lambda: [w.pod for w in self._workers.values() if w.admitted],
            with_claims=with_claims,
        )  # fmt: skip

    @property
    def started(self) -> bool:
        """Whether the node is registered and its pods have workers."""
        return bool(self._tasks)

    @property
    def healthy(self) -> bool:
        """Whether the agent is running."""
        return self.started and not any(task.done() for task in self._tasks)

    @property
    def pods(self) -> list[NodePod]:
        """The pods of the node."""
        return [worker.pod for worker in self._workers.values()]

    async def start(self) -> None:
        """Register the node, continue with its pods, and work in the background.

        Waits for an API server that cannot be reached, as a kubelet does.
        """
        self._recorder.start()
        self._nodes.add_handler(lambda *_change: self._node_changed.set())
        self._certificate = await self._serve()
        await retry(self._register, self._clock, NODE_BACKOFF, on_failure=self._log_waiting)
        await self._informers.start()
        await self._remove_leftovers()
        node = self._nodes.cache.get(self.name)
        self._failed = node is not None and FAILED_ANNOTATION in node.metadata.annotations
        self._pods.add_handler(self._pod_changed)
        self._tasks = [
            asyncio.create_task(work, name=f"node {self.name}: {name}")
            for name, work in (
                ("status", self._keep_node()),
                ("lease", self._leases.run()),
                ("devices", self._devices.run()),
            )
        ]

    async def stop(self, *, stop_containers: bool = True) -> None:
        """Stop; pods and node are not changed. Containers are stopped or left to the next agent."""
        await self._informers.stop()
        workers = list(self._workers.values())
        await self._stop_workers()
        if stop_containers:
            await asyncio.gather(*(w.stop_containers(STOP_GRACE_SECONDS) for w in workers))
        await asyncio.gather(*(w.leave_containers() for w in workers))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.stop()
        await self._recorder.stop()

    async def _serve(self) -> str:
        """Serve logs and exec if containers can be processes; return the certificate to trust."""
        authority = self._identity.client_authority
        if authority is None or not self.services.runtimes.any_real:
            return ""
        from holdfast.node.agent.kubelet_server.node_containers import NodeContainers
        from holdfast.node.agent.kubelet_server.server import KubeletServer

        containers = NodeContainers(self._workers.values, self._clock)
        self._server = KubeletServer(containers, self._clock)
        return await self._server.start(self._identity.directory, authority)

    def _log_waiting(self, failure: HoldfastError) -> None:
        if not self._waits:
            self._waits = True
            log.warning("node %s is not registered yet: %s; trying again", self.name, failure)

    async def _register(self) -> None:
        identity = self._identity
        body = new_node(
            identity.name, identity.ordinal, identity.shape,
            address=ADDRESS, now=self._clock.now(), agent=identity.agent,
        )  # fmt: skip
        body["status"]["nodeInfo"] = self._node_info(body["status"]["nodeInfo"])
        port = self._server.port if self._server is not None else 0
        body["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": port}}
        annotations = {CERTIFICATE_ANNOTATION: self._certificate or None}
        if self._certificate:
            body["metadata"].setdefault("annotations", {}).update(annotations)
        try:
            node = await self._client.create(AGENT_NODES, body)
        except AlreadyExists:
            metadata = {"labels": {AGENT_LABEL: identity.agent}, "annotations": annotations}
            node = await self._client.patch(AGENT_NODES, self.name, {"metadata": metadata})
            changed = ("addresses", "nodeInfo", "daemonEndpoints")
            status = {key: body["status"][key] for key in changed}
            await self._patch_status({"status": status})
        if identity.shape.publishes:
            await publish_topology(self._client, node, identity.shape, identity.agent)

    def _node_info(self, info: dict[str, Any]) -> dict[str, Any]:
        name = self.services.runtimes.default
        return info | {
            "osImage": "Holdfast node, not isolated" if name == "process" else info["osImage"],
            "containerRuntimeVersion": f"{name}://1",
        }

    async def _keep_node(self) -> None:
        """Reconcile the node after every change of it or of its devices."""
        failures = 0
        while True:
            self._node_changed.clear()
            try:
                await self._reconcile_node(self._nodes.cache.get(self.name))
                failures = 0
            except HoldfastError as failure:
                failures += 1
                log.warning("node %s is not updated: %s; trying again", self.name, failure)
                await self._clock.sleep(NODE_BACKOFF.delay(failures))
                continue
            await self._node_changed.wait()

    async def _reconcile_node(self, node: AgentNode | None) -> None:
        """Renew the lease and complete the status, unless the node is deleted or failed."""
        if node is None or FAILED_ANNOTATION in node.metadata.annotations:
            self._leases.remove(self.name)
            if node is not None and not self._failed:
                self._failed = True
                workers = list(self._workers.values())
                await self._stop_workers()
                await asyncio.gather(*(w.leave_containers() for w in workers))
            return
        if self.name not in self._leases:
            await self._leases.add(node)
        await self._repair_certificate(node)
        if self._failed:
            await self._remove_leftovers()  # of pods that were removed since
            self._failed = False
            for pod in self._pods.cache.values():
                self._pod_changed("added", None, pod)
        patch = plan_node_status(node, ADDRESS, self._clock.now()) or {"status": {}}
        patch["status"].pop("nodeInfo", None)
        patch["status"] |= _resource_patch(node, self._device_counts)
        if patch["status"]:
            await self._patch_status(patch)

    async def _repair_certificate(self, node: AgentNode) -> None:
        """Write the certificate again if another client changed it: logs depend on it."""
        wanted = self._certificate or None
        if node.metadata.annotations.get(CERTIFICATE_ANNOTATION) != wanted:
            metadata = {"annotations": {CERTIFICATE_ANNOTATION: wanted}}
            with suppress(NotFound):
                await self._client.patch(AGENT_NODES, self.name, {"metadata": metadata})

    async def _patch_status(self, patch: dict[str, Any]) -> None:
        with suppress(NotFound):
            await self._client.patch(
                AGENT_NODES, self.name, patch, type=PatchType.STRATEGIC, subresource="status"
            )

    def _counts_changed(self, counts: Mapping[str, DeviceCount]) -> None:
        self._device_counts = dict(counts)
        self._node_changed.set()

    def _active_uids(self) -> Collection[str] | None:
        """Return the pods whose devices are in use; None while they are not known."""
        if not self._informers.has_synced or self._failed:
            return None
        known = {pod.uid for pod in self._pods.cache.values() if not pod.finished}
        return known | set(self._running)

    async def _remove_leftovers(self) -> None:
        """Kill an earlier agent's processes of pods that are gone or use another runtime."""
        pods = {pod.uid: pod for pod in self._pods.cache.values()}
        for runtime in self.services.runtimes.all:
            for uid in await runtime.known_pods():
                pod = pods.get(uid)
                if pod is None or self.services.runtimes.choose(pod) is not runtime:
                    await runtime.remove(uid)

    def _pod_changed(self, kind: ChangeType, old: NodePod | None, new: NodePod | None) -> None:
        if self._failed:
            return
        if new is None:
            if old is not None and (worker := self._workers.get(old.uid)) is not None:
                worker.remove()
        elif (worker := self._workers.get(new.uid)) is not None:
            worker.update(new)
        else:
            self._run_worker(PodWorker(new, self.services))

    def _run_worker(self, worker: PodWorker) -> None:
        uid = worker.pod.uid
        self._workers[uid] = worker
        task = asyncio.create_task(self._work(worker), name=f"pod {worker.pod.key}")
        self._running[uid] = task
        task.add_done_callback(lambda _task: self._running.pop(uid, None))

    async def _work(self, worker: PodWorker) -> None:
        """Run a worker to its end; after a defect start another one for the pod."""
        try:
            await worker.run()
        except Exception:
            log.exception("pod %s: its worker failed; trying again", worker.pod.key)
            await self._clock.sleep(WORKER_RETRY_SECONDS)
            self._workers.pop(worker.pod.uid, None)
            again = PodWorker(worker.pod, self.services)
            if worker.removed:
                again.remove()
            self._run_worker(again)
            return
        self._workers.pop(worker.pod.uid, None)
        self.services.addresses.release(worker.pod.uid)

    async def _stop_workers(self) -> None:
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._workers.clear()


def _resource_patch(node: AgentNode, counts: Mapping[str, DeviceCount]) -> dict[str, Any]:
    """Return the changes of a node's capacity and allocatable by device plugins."""
    patch: dict[str, Any] = {}
    for name, known, wanted in (
        ("capacity", node.status.capacity, {k: str(c.capacity) for k, c in counts.items()}),
        (
            "allocatable",
            node.status.allocatable,
            {k: str(c.allocatable) for k, c in counts.items()},
        ),
    ):
        if changed := {k: text for k, text in wanted.items() if str(known.get(k)) != text}:
            patch[name] = changed
    return patch


def prepare_directory(directory: Path) -> None:
    """Create a node's directories; raise Refused if sockets in them would have too long paths."""
    if problem := socket_path_problem(directory):
        raise Refused(problem)
    try:
        for name in DIRECTORIES:
            make_private_directory(directory / name)
    except OSError as error:
        raise Refused(
            f"cannot write to the node's directory {directory} ({error.strerror}): choose another "
            "one with --kubelet-dir NODE=DIR"
        ) from error


def socket_path_problem(directory: Path) -> str:
    """Return why a node's directory cannot hold the sockets of drivers, or ""."""
    longest = len(str(directory / REGISTRY_DIRECTORY / ("x" * _SOCKET_NAME_BYTES)).encode())
    if longest <= LONGEST_SOCKET_PATH:
        return ""
    return (
        f"the path {directory} is too long for the sockets of drivers ({longest} bytes with the "
        f"name of a socket, at most {LONGEST_SOCKET_PATH}): choose another directory with "
        "--kubelet-dir NODE=DIR"
    )


def _pod_addresses(node: str) -> AddressPool:
    """Return addresses for pods whose containers are simulated, not those of simulated nodes."""
    block = zlib.crc32(node.encode()) % 2**14
    return AddressPool(f"100.{64 + block // 256}.{block % 256}.0/24")

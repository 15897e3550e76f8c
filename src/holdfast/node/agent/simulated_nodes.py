"""Run any number of simulated nodes with one watch each for pods, nodes and claims.

A driver needs a node with directories, sockets and a task for each pod. 5,000 such nodes on one
machine are neither possible nor needed (decision 0015). So there are two kinds of agents, and this
one shares everything: watches, workers, the queue. A quiet node costs one renewal of its lease
every ten seconds (``node_leases``).
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import Any

from holdfast.api.devices import ResourceClaim
from holdfast.api.meta import ObjectReference
from holdfast.api.node_names import AGENT_LABEL, FAILED_ANNOTATION, SIMULATED, STANDALONE
from holdfast.api.pod_claim_errors import InvalidEntries
from holdfast.api.scheme import RESOURCE_CLAIMS
from holdfast.client.backoff import retry
from holdfast.client.client import Client, PatchType
from holdfast.client.discovery import find_classic_resources
from holdfast.client.events import EventRecorder
from holdfast.client.informer import Informer
from holdfast.client.informer_cache import ChangeType
from holdfast.client.informer_set import InformerSet
from holdfast.client.workqueue import WorkQueue, run_workers
from holdfast.node.agent.addresses import AGENT_NODES, AGENT_PODS, AddressPool, AgentNode, AgentPod
from holdfast.node.agent.claims import (
    AnyClaim,
    ClaimKey,
    NeededClaim,
    needed_claims,
    unready_reason,
)
from holdfast.node.agent.live_claims import LiveClaims, NeverUsable
from holdfast.node.agent.node_leases import NodeLeases
from holdfast.node.agent.node_topology import publish_topology
from holdfast.node.agent.nodes import (
    as_node,
    new_node,
    node_name,
    plan_node_status,
)
from holdfast.node.agent.pod_devices import FAILED_PREPARE, failed_prepare
from holdfast.node.agent.simulated_pod import (
    NO_PROCESSES,
    PodStep,
    asks_for_process,
    needs_step,
    plan_pod,
)
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import AlreadyExists, NotFound, TooLarge
from holdfast.runtime.settings import NodeShape

POD_NETWORK = "10.0.0.0/8"
NODE_NETWORK = "172.16.0.0/12"
WORKERS = 16
REGISTER_BATCH = 64
TOO_LARGE_RETRY_SECONDS = 600.0
"""The delay before a status that was too large for the store is written again."""
_NODE, _POD = "node:", "pod:"

log = logging.getLogger(__name__)


class SimulatedNodes:
    """All simulated nodes of a cluster.

    ``register`` creates Node objects. Every Node whose lease no other agent renews is adopted, so
    that a Node created by a user or a test becomes ready. The keys of the queue are ``node:`` or
    ``pod:`` and the object's key. It reads as the user of its client, with one watch for all nodes,
    and writes as the node whose object it is. Without ``claims`` pods do not wait for their
    resource claims. A node with the annotation ``holdfast.dev/failed`` is left alone until the
    annotation is removed. ``others`` are the names of nodes that other agents run.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        claims: bool = True,
        others: frozenset[str] = frozenset(),
    ) -> None:
        self._client = client
        self._clock = clock
        self._others = others
        self._recorder = EventRecorder(client, clock, component="kubelet")
        self._informers = InformerSet(client, clock=clock)
        self._nodes = self._informers.get(AGENT_NODES)
        self._pods = self._informers.get(AGENT_PODS)
        self._claims = self._informers.get(RESOURCE_CLAIMS) if claims else None
        self._classic: Informer[Any] | None = None
        """Of classic claims, if they are served."""
        self._node_leases = NodeLeases(client, clock)
        self._queue = WorkQueue(clock)
        self._pod_ips = AddressPool(POD_NETWORK)
        self._node_ips = AddressPool(NODE_NETWORK)
        self._pods_on_node: dict[str, dict[str, None]] = defaultdict(dict)
        self._waiting_for_claim: dict[ClaimKey, set[str]] = defaultdict(set)
        self._tasks: list[asyncio.Task[None]] = []
        self._nodes.add_handler(self._node_changed)
        self._pods.add_handler(self._pod_changed)
        if self._claims is not None:
            self._claims.add_handler(self._claim_changed)

    async def start(self) -> None:
        """Start the informers, wait until they have synced, and work in the background."""
        self._recorder.start()
        await self._node_leases.list_stored()
        classic = None
        if self._claims is not None:
            classic = await retry(lambda: find_classic_resources(self._client), self._clock)
        if classic is not None:
            self._classic = self._informers.get(classic.claims)
            self._classic.add_handler(self._claim_changed)
        await self._informers.start()
        self._tasks = [
            asyncio.create_task(
                run_workers(self._queue, self._reconcile, workers=WORKERS, name="simulated nodes"),
                name="simulated nodes: workers",
            ),
            asyncio.create_task(self._node_leases.run(), name="simulated nodes: leases"),
        ]

    async def stop(self) -> None:
        """Stop; pods and nodes are not changed."""
        await self._informers.stop()
        self._queue.shutdown()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._recorder.stop()

    @property
    def healthy(self) -> bool:
        """Whether the workers are running."""
        return bool(self._tasks) and not any(task.done() for task in self._tasks)

    async def register(self, count: int, shape: NodeShape | None = None) -> None:
        """Create the Nodes ``node-0001`` to ``node-<count>``; existing ones are not changed.

        A topology and devices of the shape are published for both.
        """
        shape = shape or NodeShape()
        numbers = [n for n in range(1, count + 1) if node_name(n) not in self._others]
        for start in range(0, len(numbers), REGISTER_BATCH):
            batch = numbers[start : start + REGISTER_BATCH]
            await asyncio.gather(*(self._register(ordinal, shape) for ordinal in batch))

    async def _register(self, ordinal: int, shape: NodeShape) -> None:
        name = node_name(ordinal)
        address = self._node_ips.allocate(name)
        body = new_node(name, ordinal, shape, address=address, now=self._clock.now())
        client = as_node(self._client, name)
        try:
            node = await client.create(AGENT_NODES, body)
        except AlreadyExists:
            if not shape.publishes:
                return
            node = await client.get(AGENT_NODES, name)
        await publish_topology(client, node, shape, SIMULATED)

    def _node_changed(self, kind: ChangeType, old: AgentNode | None, new: AgentNode | None) -> None:
        either = new or old
        assert either is not None
        self._queue.add(_NODE + either.name)
        if new is None:
            self._node_leases.forget(either.name)
            self._node_ips.release(either.name)

    def _pod_changed(self, kind: ChangeType, old: AgentPod | None, new: AgentPod | None) -> None:
        if old is not None and new is None:
            self._pod_ips.release(old.uid)
            self._pods_on_node[old.spec.node_name].pop(old.key, None)
        elif new is not None and new.spec.node_name:
            if new.status.pod_ip and not new.spec.host_network:
                self._pod_ips.allocate(new.uid, new.status.pod_ip)
            self._pods_on_node[new.spec.node_name][new.key] = None
            if needs_step(new):
                self._queue.add(_POD + new.key)

    def _claim_changed(self, kind: ChangeType, old: AnyClaim | None, new: AnyClaim | None) -> None:
        either = new or old
        assert either is not None
        changed = either.namespace, either.name, not isinstance(either, ResourceClaim)
        for key in self._waiting_for_claim.pop(changed, ()):
            self._queue.add(_POD + key)

    async def _reconcile(self, key: str) -> None:
        if key.startswith(_NODE):
            await self._reconcile_node(key.removeprefix(_NODE))
        else:
            await self._reconcile_pod(key.removeprefix(_POD))

    async def _reconcile_node(self, name: str) -> None:
        """Adopt a node whose lease no other agent renews, and complete its status."""
        node = self._nodes.cache.get(name)
        if node is None:
            self._node_leases.forget(name)
            return
        if FAILED_ANNOTATION in node.metadata.annotations:
            self._node_leases.remove(name)
            return
        if name in self._others or node.metadata.labels.get(AGENT_LABEL) == STANDALONE:
            self._node_leases.remove(name)
            return
        if not self._node_leases.renews(node):
            foreign = await self._node_leases.seconds_until_free(name)
            if foreign > 0:
                self._queue.add_after(_NODE + name, foreign)
                return
            await self._node_leases.add(node)
            for key in self._pods_on_node[name]:
                self._queue.add(_POD + key)
        address = self._node_ips.allocate(name, node.internal_ip)
        patch = plan_node_status(node, address, self._clock.now())
        if patch is not None:
            try:
                await as_node(self._client, name).patch(
                    AGENT_NODES, name, patch, type=PatchType.STRATEGIC, subresource="status"
                )
            except NotFound:
                return

    async def _reconcile_pod(self, key: str) -> None:
        """Execute the next step of a pod on an adopted node."""
        pod = self._pods.cache.get(key)
        if pod is None or pod.spec.node_name not in self._node_leases:
            return
        node = self._nodes.cache.get(pod.spec.node_name)
        host_ip = (node.internal_ip if node else "") or self._node_ips.allocate(pod.spec.node_name)
        problem, refused = await self._problem(pod)
        step = plan_pod(
            pod, pod_ip=self._pod_ips.allocate(pod.uid, pod.status.pod_ip), host_ip=host_ip,
            problem=problem, now=self._clock.now(), refused=refused,
        )  # fmt: skip
        try:
            await self._execute(pod, step)
        except NotFound:
            return
        except TooLarge as refusal:
            self._report_too_large(pod, refusal)
            return
        if step.requeue_after is not None:
            self._queue.add_after(_POD + key, step.requeue_after)

    def _report_too_large(self, pod: AgentPod, refusal: TooLarge) -> None:
        """Report that a pod's status is too large for the store, and retry much later."""
        log.warning("pod %s: the status cannot be stored: %s", pod.key, refusal)
        message = f"Failed to update the status: {refusal}"
        self._recorder.record(_reference(pod), "Warning", "FailedStatusUpdate", message)
        self._queue.add_after(_POD + pod.key, TOO_LARGE_RETRY_SECONDS)

    async def _problem(self, pod: AgentPod) -> tuple[str, bool]:
        """Return why a pod must not run now, or "", and whether it never may."""
        if asks_for_process(pod):
            return NO_PROCESSES, False
        if self._claims is None or pod.status.phase == "Running" or pod.terminating:
            return "", False
        try:
            problem = unready_reason(pod, lambda needed: self._cached_claim(pod, needed))
            if problem and (live := await self._live_claims(pod)):
                problem = unready_reason(
                    pod, lambda needed: live.get(needed) or self._cached_claim(pod, needed)
                )
            for needed in needed_claims(pod) if problem else ():
                self._waiting_for_claim[needed.key(pod)].add(pod.key)
        except (NeverUsable, InvalidEntries) as error:
            return str(error), True
        return problem, False

    def _cached_claim(self, pod: AgentPod, needed: NeededClaim) -> AnyClaim | None:
        key = f"{pod.namespace}/{needed.name}"
        if not needed.classic:
            return self._claims.cache.get(key) if self._claims is not None else None
        return self._classic.cache.get(key) if self._classic is not None else None

    async def _live_claims(self, pod: AgentPod) -> dict[NeededClaim, AnyClaim]:
        """Read a pod's classic claims, which may be newer than the cache; raise NeverUsable.

        A pod with a classic claim that it may not use fails for ever, so a stale cache must not
        decide that.
        """
        resource = self._classic.resource if self._classic is not None else None
        live = LiveClaims(self._client, resource)
        classic = [needed for needed in needed_claims(pod) if needed.classic]
        return {needed: await live.usable(pod, needed) for needed in classic}

    async def _execute(self, pod: AgentPod, step: PodStep) -> None:
        client = as_node(self._client, pod.spec.node_name)
        if step.status is not None:
            await client.patch(
                AGENT_PODS, pod.name, step.status, pod.namespace,
                type=PatchType.STRATEGIC, subresource="status",
            )  # fmt: skip
        if step.problem and step.status is not None:
            reason, message = FAILED_PREPARE, failed_prepare(step.problem)
            if step.problem == NO_PROCESSES:
                reason, message = "SimulatedNode", step.problem
            self._recorder.record(_reference(pod), "Warning", reason, message)
        if step.remove:
            await client.delete(AGENT_PODS, pod.name, pod.namespace, grace_seconds=0, uid=pod.uid)


def _reference(pod: AgentPod) -> ObjectReference:
    return ObjectReference(
        api_version="v1", kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid
    )

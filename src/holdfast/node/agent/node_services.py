"""Services that the workers of all pods of a node share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from holdfast.api.meta import ObjectReference
from holdfast.api.pod import Pod
from holdfast.api.resource import Resource
from holdfast.client.client import Client
from holdfast.client.events import EventRecorder
from holdfast.node.agent.addresses import AddressPool, AgentNode
from holdfast.node.agent.node_pod import Data, NodeContainer, NodePod
from holdfast.node.agent.pod_admission import PodRejection, admit, unsupported_claims
from holdfast.node.agent.pod_devices import DeviceEdits, DeviceProvider, resolve_devices
from holdfast.node.agent.runtime import Runtime
from holdfast.node.agent.simulated_pod import RUNTIME, SimulatedRuntime
from holdfast.node.cdi.registry import CdiRegistry
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import NotFound


@dataclass(frozen=True, slots=True)
class Runtimes:
    """The runtimes of a node, by name, and which of them pods may use."""

    all: tuple[Runtime, ...]
    default: str
    allowed: frozenset[str]

    @property
    def any_real(self) -> bool:
        """Whether pods may have containers that are processes."""
        return any(r.real and r.name in self.allowed for r in self.all)

    def choose(self, pod: Pod) -> Runtime | PodRejection:
        """Return the runtime that a pod asks for, or why it does not get it.

        A pod that asks for none gets processes only if each container names its command: the
        command of an image is unknown. Only the spec counts, so that every agent decides alike.
        """
        simulated = SimulatedRuntime.name if self.why_simulated(pod) else self.default
        wanted = pod.metadata.annotations.get(RUNTIME, simulated)
        runtime = next((r for r in self.all if r.name == wanted), None)
        if runtime is None:
            names = ", ".join(r.name for r in self.all)
            return PodRejection(
                "UnknownRuntime", f"annotation {RUNTIME}: {wanted!r} is none of {names}"
            )
        if wanted not in self.allowed:
            return PodRejection(
                "RuntimeNotAllowed",
                f"the pod asks for the runtime {wanted}, which runs commands as the user of "
                "Holdfast: it needs `holdfast up --allow-process-runtime`",
            )
        return runtime

    def why_simulated(self, pod: Pod) -> str:
        """Return why a node with processes simulates a pod that did not ask for it, or ""."""
        if self.default == SimulatedRuntime.name or RUNTIME in pod.metadata.annotations:
            return ""
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            if isinstance(container, NodeContainer) and not container.command:
                return (
                    f"the pod is simulated: container {container.name} has no command, and the "
                    "process runtime has no image that would say what to run"
                )
        return ""


@dataclass(slots=True)
class NodeServices:
    """The node as its pods see it."""

    client: Client
    clock: Clock
    recorder: EventRecorder
    runtimes: Runtimes
    devices: Sequence[DeviceProvider]
    cdi: CdiRegistry
    addresses: AddressPool
    host_ip: str
    node: Callable[[], AgentNode | None]
    active_pods: Callable[[], Iterable[NodePod]]
    """The pods that the node has admitted and that have not ended."""
    with_claims: bool = True
    """Whether pods may have resource claims."""

    def admit(self, pod: NodePod) -> PodRejection | None:
        """Return why the node does not take a pod; None: it does."""
        node = self.node()
        if node is None:
            return PodRejection("NodeNotFound", f"node {pod.spec.node_name} is not registered")
        if not self.with_claims and (rejection := unsupported_claims(pod)) is not None:
            return rejection
        return admit(pod, node, (p for p in self.active_pods() if p.uid != pod.uid))

    def event(self, pod: NodePod, type_: str, reason: str, message: str) -> None:
        """Record an event about a pod."""
        about = ObjectReference(
            api_version="v1", kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid
        )
        self.recorder.record(about, type_, reason, message)

    async def read(self, resource: Resource[Data], name: str, namespace: str) -> Data | None:
        """Return a ConfigMap or Secret, or None."""
        try:
            return await self.client.get(resource, name, namespace)
        except NotFound:
            return None

    def device_edits(self, pod: NodePod, container: str) -> DeviceEdits:
        """Return the edits of a container for its devices; raise NotStarted."""
        container_devices = [devices.container_devices(pod, container) for devices in self.devices]
        return resolve_devices(container_devices, self.cdi)

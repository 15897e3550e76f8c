"""Pods as a node agent reads them: with everything that starting their containers needs."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.api.meta import Object, Struct
from holdfast.api.pod import Container, ContainerStatus, Pod, PodSpec
from holdfast.api.quantity import AmountText
from holdfast.api.resource import Resource
from holdfast.api.scheme import PODS
from holdfast.node.agent.addresses import AgentPodStatus


class KeySelector(Struct, frozen=True):
    """A key of a ConfigMap or Secret; an optional one may be missing."""

    name: str = ""
    key: str = ""
    optional: bool = False


class FieldReference(Struct, frozen=True):
    """A field of the pod."""

    field_path: str = ""


class ResourceFieldReference(Struct, frozen=True):
    """A request or limit of a container, in units of the divisor."""

    container_name: str = ""
    resource: str = ""
    divisor: AmountText = "0"


class EnvSource(Struct, frozen=True):
    """The source of a variable's value; exactly one field is set."""

    config_map_key_ref: KeySelector | None = None
    secret_key_ref: KeySelector | None = None
    field_ref: FieldReference | None = None
    resource_field_ref: ResourceFieldReference | None = None


class EnvVar(Struct, frozen=True):
    """A variable of a container's environment."""

    name: str = ""
    value: str = ""
    value_from: EnvSource | None = None


class EnvFromSource(Struct, frozen=True):
    """All entries of a ConfigMap or Secret as variables, with a prefix."""

    prefix: str = ""
    config_map_ref: KeySelector | None = None
    secret_ref: KeySelector | None = None


class ExecAction(Struct, frozen=True):
    """A command to run in the container."""

    command: tuple[str, ...] = ()


class HttpHeader(Struct, frozen=True):
    """A header field of a request."""

    name: str = ""
    value: str = ""


class HttpAction(Struct, frozen=True):
    """A GET request to the container; the port is a number or the name of a container port."""

    path: str = "/"
    port: int | str = 0
    host: str = ""
    scheme: str = "HTTP"
    http_headers: tuple[HttpHeader, ...] = ()


class TcpAction(Struct, frozen=True):
    """A connection to a port of the container."""

    port: int | str = 0
    host: str = ""


class SleepAction(Struct, frozen=True):
    """A pause."""

    seconds: float = 0


class LifecycleHandler(Struct, frozen=True):
    """A lifecycle hook; exactly one field is set."""

    exec: ExecAction | None = None
    http_get: HttpAction | None = None
    tcp_socket: TcpAction | None = None
    sleep: SleepAction | None = None
    grpc: dict[str, Any] | None = None


class Probe(LifecycleHandler, frozen=True):
    """A check of a container, with its times in seconds."""

    initial_delay_seconds: float = 0
    timeout_seconds: float = 1
    period_seconds: float = 10
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: float | None = None


class Lifecycle(Struct, frozen=True):
    """What to do after a container's start and before its stop."""

    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None


class VolumeMount(Struct, frozen=True):
    """The path at which a container expects a volume."""

    name: str = ""
    mount_path: str = ""


class NodeContainer(Container, frozen=True):
    """A container with all fields that its start needs."""

    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    startup_probe: Probe | None = None
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    volume_mounts: tuple[VolumeMount, ...] = ()
    termination_message_policy: str = ""
    stdin: bool = False
    tty: bool = False

    @property
    def sidecar(self) -> bool:
        """Whether an init container keeps running together with the containers."""
        return self.restart_policy == "Always"


class ReadinessGate(Struct, frozen=True):
    """A condition that must be true before the pod is ready."""

    condition_type: str = ""


class NodePodSpec(PodSpec, frozen=True):
    """A spec with its containers."""

    containers: tuple[NodeContainer, ...] = ()
    init_containers: tuple[NodeContainer, ...] = ()
    readiness_gates: tuple[ReadinessGate, ...] = ()
    service_account_name: str = ""


class NodeContainerStatus(ContainerStatus, frozen=True):
    """A container's status with its states, as written before a restart of the agent."""

    state: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    last_state: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    started: bool | None = None


class NodePodStatus(AgentPodStatus, frozen=True):
    """A status with the statuses of its containers."""

    container_statuses: tuple[NodeContainerStatus, ...] = ()
    init_container_statuses: tuple[NodeContainerStatus, ...] = ()
    reason: str = ""
    message: str = ""
    host_ip: str = msgspec.field(default="", name="hostIP")


class NodePod(Pod, frozen=True):
    """A pod of a node that has its own agent."""

    spec: NodePodSpec = NodePodSpec()
    status: NodePodStatus = NodePodStatus()


class Data(Object, frozen=True):
    """A ConfigMap, or a Secret, whose values are in base64."""

    data: dict[str, str] = msgspec.field(default_factory=dict)


NODE_PODS = Resource(
    PODS.group, PODS.version, PODS.plural, PODS.kind, NodePod, subresources=PODS.subresources
)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", Data)
SECRETS = Resource("", "v1", "secrets", "Secret", Data)

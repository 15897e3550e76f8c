"""All settings of Holdfast; only ``cli`` reads flags and environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.runtime.feature_gates import FeatureGates


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of the HTTPS server on its clients; docs/security.md names the test of each limit.

    "System" users are system:masters, nodes, the scheduler and the controller manager. Their
    requests, those of other users and anonymous requests are counted separately.
    """

    handshake_seconds: float = 10.0
    """From the accepted connection to the end of the TLS handshake."""
    header_seconds: float = 10.0
    """From the first byte of a request to the end of its header; without credentials also from
    the end of the last request."""
    idle_seconds: float = 90.0
    """Between two requests on a connection with credentials."""
    body_seconds: float = 30.0
    """From the header to the end of the body."""
    write_seconds: float = 60.0
    """How long a client may read nothing while more than 512 KiB are waiting to be sent."""
    linger_seconds: float = 2.0
    """How long a connection stays open after an error, so that the client can read it."""
    discarded_bytes: int = 64 * 1024
    """How much of a rejected body without credentials is read and discarded in this time."""
    header_bytes: int = 64 * 1024
    """Request line and header fields together; label selectors are in the request line."""
    headers: int = 512
    """Header fields of one request; a proxy that impersonates sends one for each group."""
    connections: int = 16384
    """Connections in all; fewer if the limit of open files is lower."""
    unauthenticated_connections: int = 512
    """Without a client certificate or a known token; half as many from one remote address."""
    reserved_descriptors: int = 128
    """File descriptors kept for the store, logs and listening sockets."""
    system_requests: int = 600
    """Requests in flight of all system users."""
    other_requests: int = 400
    """Requests in flight of all other users with credentials."""
    user_requests: int = 200
    """Requests in flight of one user that is not in system:masters."""
    anonymous_requests: int = 50
    """Requests in flight without credentials."""
    system_body_bytes: int = 96 * 1024 * 1024
    """Request bodies in memory of all system users."""
    other_body_bytes: int = 64 * 1024 * 1024
    """Request bodies in memory of all other users."""
    user_body_bytes: int = 32 * 1024 * 1024
    """Request bodies in memory of one user that is not in system:masters."""
    system_response_bytes: int = 1024 * 1024 * 1024
    """Responses over 256 KiB being sent to all system users, without watches."""
    other_response_bytes: int = 512 * 1024 * 1024
    """The same for all other users."""
    user_response_bytes: int = 256 * 1024 * 1024
    """The same for one user that is not in system:masters."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The embedded API server."""

    host: str = "127.0.0.1"
    """Loopback unless the user says otherwise; TLS always."""
    port: int = 6443
    """0: any free port."""
    limits: ServerLimits = field(default_factory=ServerLimits)
    feature_gates: FeatureGates = field(default_factory=FeatureGates)


THREADS_PER_CORE = 2
"""CPUs of a core of a node whose topology is published."""


@dataclass(frozen=True, slots=True)
class NodeShape:
    """The capacity and labels of registered nodes, and the number of zones for them."""

    cpu: str = "32"
    memory: str = "128Gi"
    pods: str = "110"
    ephemeral_storage: str = "500Gi"
    zones: int = 3
    extra: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    numa: int = 0
    """NUMA nodes of a published NodeResourceTopology; 0: none is published."""
    koordinator_gpus: int = 0
    """GPUs of a published Device; 0: none is published."""

    @property
    def publishes(self) -> bool:
        """Whether other objects than the Node are published for a node of this shape."""
        return self.numa > 0 or self.koordinator_gpus > 0

    @property
    def capacity(self) -> dict[str, str]:
        """The capacity in the form of a node's status."""
        return {
            "cpu": self.cpu, "memory": self.memory, "pods": self.pods,
            "ephemeral-storage": self.ephemeral_storage, **self.extra,
        }  # fmt: skip

    def __str__(self) -> str:
        """Return the value of ``--node-shape``."""
        parts = self.capacity | {"numa": self.numa, "koordinator-gpus": self.koordinator_gpus}
        return ",".join(f"{name}={amount}" for name, amount in parts.items() if amount)


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """The nodes of the embedded cluster."""

    count: int = 3
    """Nodes registered at start; Node objects that users create are simulated as well."""
    shape: NodeShape | None = None
    """The shape of registered nodes; None: the default, or that of the machine for processes."""
    driver_nodes: int | None = None
    """How many of them, from the first, have their own agent and can run drivers; None: one, unless
    the path of its directory is too long for the sockets of drivers."""
    kubelet_dirs: Mapping[str, Path] = field(default_factory=dict)
    """More nodes with an agent, or other directories for them, by node name."""
    runtime: str = "simulated"
    """How these nodes run containers: simulated, or process (not isolated)."""
    allow_process_runtime: bool = False
    """Whether a pod on such a node may ask for the process runtime by annotation."""
    reset_checkpoint: bool = False
    """Whether these nodes start without their records of prepared claims."""
    feature_gates: FeatureGates = field(default_factory=FeatureGates)
    """Without ``DynamicResourceAllocation`` they refuse pods that have resource claims."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The agent of one node in a separate process."""

    node: str
    """The name of the node."""
    node_dir: Path
    """Its directory, for drivers and pods."""
    nodes: NodeSettings = field(default_factory=NodeSettings)
    """How the agent runs containers."""


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """The scheduler."""

    seed: int | None = None
    """Seed of the random choice among nodes of equal score; None: a new one at each start."""
    check_invariants: bool = False
    """Check the invariants after every decision; a violation stops the scheduler."""
    leader_elect: bool | None = None
    """Whether only the leader of several replicas schedules; None: as in the configuration, where
    the default is true. The embedded cluster has one scheduler and no leader election."""
    config: Path | None = None
    """A KubeSchedulerConfiguration."""
    feature_gates: FeatureGates = field(default_factory=FeatureGates)
    controllers: bool = True
    """Whether ``holdfast scheduler`` also runs the controllers, in the same process."""


@dataclass(frozen=True, slots=True)
class ReservationSettings:
    """The reservation controller; times are seconds."""

    workers: int = 1
    """Reservations reconciled at once."""
    gc_enabled: bool = True
    """Whether ended reservations are deleted."""
    gc_after_seconds: float = 86400.0
    """How long an ended reservation is kept; not at all if its node was deleted."""
    gc_interval_seconds: float = 60.0
    """How often the controller looks for them."""


@dataclass(frozen=True, slots=True)
class ResourcePolicySettings:
    """The resource policy controller."""

    drain_excess: bool = False
    """Whether a scale-in removes pods above the cap of their unit first."""


@dataclass(frozen=True, slots=True)
class NodeLifecycleSettings:
    """Nodes that fail: kube-controller-manager's flags and their defaults; times are seconds."""

    monitor_grace_seconds: float = 50.0
    """Without a sign of life for this long, the conditions of a node become Unknown."""
    startup_grace_seconds: float = 60.0
    """The same for a node that has never had a Ready condition."""
    eviction_rate: float = 0.1
    """Nodes of a zone that get a NoExecute taint in a second."""
    secondary_eviction_rate: float = 0.01
    """The same in a large zone that is partly disrupted; in a smaller one it is 0."""
    large_cluster_size: int = 50
    """A zone with more nodes than this is large."""
    unhealthy_zone_threshold: float = 0.55
    """A zone is partly disrupted if at least this share of its nodes are not ready."""
    terminated_pods: int = 12_500
    """How many finished pods are kept; 0: all."""


@dataclass(frozen=True, slots=True)
class ClassicClaimSettings:
    """The claim controller of classic DRA."""

    deallocate_unused: bool = False
    """Whether a claim that waits for its first consumer is deallocated after its last one."""


@dataclass(frozen=True, slots=True)
class ObjectLimit:
    """How many pods of one workload, or of one namespace, may be evicted in a time."""

    seconds: float = 300.0
    """0: no limit."""
    max_migrating: int | str | None = None
    """A count, or a percentage of the replicas; None: as ``per_workload``."""
    burst: int = 1


@dataclass(frozen=True, slots=True)
class MigrationSettings:
    """The pod migration controller; Koordinator's defaults, times are seconds."""

    workers: int = 1
    """Jobs reconciled at once."""
    dry_run: bool = False
    """Whether jobs are only arbitrated: nothing is reserved or evicted."""
    default_mode: str = "ReservationFirst"
    """The mode of jobs that set none."""
    evict_failed_bare_pods: bool = False
    evict_all_bare_pods: bool = False
    """Whether to evict bare pods too, which no controller creates again."""
    evict_local_storage_pods: bool = False
    evict_system_critical_pods: bool = False
    ignore_pvc_pods: bool = False
    priority_threshold: int | None = None
    """Pods of this priority or a higher one do not migrate."""
    label_selector: Mapping[str, object] | None = None
    """A raw label selector; other pods do not migrate."""
    included_namespaces: frozenset[str] = frozenset()
    """Empty: all."""
    excluded_namespaces: frozenset[str] = frozenset()
    max_globally: int | None = None
    """Pods that migrate at once; None or 0: no limit."""
    max_per_namespace: int | None = None
    max_per_node: int | None = 2
    max_per_workload: int | str | None = None
    """A count, or a percentage of the replicas; None: by the number of replicas."""
    max_unavailable_per_workload: int | str | None = None
    """The same for pods that migrate or are not ready."""
    skip_check_expected_replicas: bool = False
    """Whether workloads may migrate if their limit is as high as their number of replicas."""
    object_limits: Mapping[str, ObjectLimit] = field(
        default_factory=lambda: {"workload": ObjectLimit()}
    )
    """By ``workload`` and ``namespace``."""
    evict_qps: float = 10.0
    """0: no limit."""
    evict_burst: int = 1
    eviction_policy: str = "Eviction"
    """How pods are evicted, unless the pod or the job sets another policy."""
    delete_options: Mapping[str, object] | None = None
    """The delete options of jobs that have none."""
    reserve_volume_claims: bool = True
    """Whether a reservation keeps the volume claims of its pod, which may tie it to a node."""
    arbitrate: bool = True
    arbitration_interval_seconds: float = 0.5
    default_ttl_seconds: float = 300.0
    """The ttl of the jobs that the descheduler creates."""
    scheduler_names: frozenset[str] = frozenset(("koord-scheduler",))
    """The descheduler moves pods of these schedulers only: they must support reservations."""


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The settings of the controllers: arguments of the scheduler's plugins, and the gates."""

    reservations: ReservationSettings = field(default_factory=ReservationSettings)
    resource_policies: ResourcePolicySettings = field(default_factory=ResourcePolicySettings)
    feature_gates: FeatureGates = field(default_factory=FeatureGates)
    nodes: NodeLifecycleSettings = field(default_factory=NodeLifecycleSettings)
    classic_claims: ClassicClaimSettings = field(default_factory=ClassicClaimSettings)
    migration: MigrationSettings = field(default_factory=MigrationSettings)


@dataclass(frozen=True, slots=True)
class ElectionSettings:
    """The leader election of a process; times are seconds."""

    name: str
    """The name of the lease."""
    namespace: str = "kube-system"
    leader_elect: bool = True
    """Whether only the leader of several replicas works."""
    lease_duration_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_period_seconds: float = 2.0


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits of the requests to the API server."""

    qps: float = 0.0
    """0: no limit."""
    burst: int = 0
    """0: the default."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The embedded cluster of ``holdfast up``."""

    data_dir: Path
    kubeconfig: Path | None = None
    """Where to write the admin's kubeconfig; None: in the data directory."""
    single_process: bool = False
    """Whether the API server runs in the same process as the components."""
    server: ServerSettings = field(default_factory=ServerSettings)
    nodes: NodeSettings = field(default_factory=NodeSettings)
    health_port: int | None = None
    """Port of the scheduler's health and metrics pages, on loopback; None: no pages."""
    descheduler: bool = False
    """Whether the descheduler runs."""
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)

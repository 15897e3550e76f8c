"""Every setting of a running Holdfast, as one tree; only ``cli`` reads flags and environment."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FrontLimits:
    """What the HTTPS front accepts from clients; docs/security.md says which test covers what.

    "System" users are system:masters, nodes, the scheduler and the controller manager. Their
    requests are counted apart from those of other users, and those apart from anonymous ones.
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
    """How long a client may read nothing while more than half a megabyte waits for it."""
    linger_seconds: float = 2.0
    """How long a connection stays open after a refusal, so that the client can read it."""
    discarded_bytes: int = 64 * 1024
    """How much of a refused body without credentials is read and discarded meanwhile."""
    header_bytes: int = 64 * 1024
    """Request line and header fields together; label selectors are in the request line."""
    headers: int = 512
    """Header fields of one request; a proxy that impersonates sends one for each group."""
    connections: int = 16384
    """In all; fewer if the limit of open files is lower."""
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
    system_answer_bytes: int = 1024 * 1024 * 1024
    """Answers of more than 256 KiB being sent to all system users; watches do not count."""
    other_answer_bytes: int = 512 * 1024 * 1024
    """The same for all other users."""
    user_answer_bytes: int = 256 * 1024 * 1024
    """The same for one user that is not in system:masters."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The embedded API server."""

    host: str = "127.0.0.1"
    """Loopback unless the user says otherwise; TLS always."""
    port: int = 6443
    """0 takes any free port."""
    limits: FrontLimits = field(default_factory=FrontLimits)


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """The simulated nodes of the embedded cluster."""

    count: int = 3
    """Nodes registered at start; Node objects that users create are adopted besides."""


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """How pods are placed."""

    seed: int | None = None
    """Seed of the dice that break ties; None: a new one at each start."""
    check_invariants: bool = False
    """Check the ledgers after every decision and crash loudly when a promise is broken."""
    leader_elect: bool | None = None
    """Only one of several replicas decides; None: as the configuration says, which is yes unless
    told otherwise. The embedded cluster has one scheduler and no election."""
    config: Path | None = None
    """A KubeSchedulerConfiguration."""


@dataclass(frozen=True, slots=True)
class ReservationSettings:
    """How reservations are looked after once they have their node; seconds."""

    workers: int = 1
    """Reservations brought up to date at once."""
    gc_enabled: bool = True
    """Delete those that ended."""
    gc_after_seconds: float = 86400.0
    """How long they are kept before; on a node that is gone not at all."""
    gc_interval_seconds: float = 60.0
    """How often to look for them."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """`holdfast up`: everything in one place."""

    data_dir: Path
    kubeconfig: Path | None = None
    """Where to write the admin's kubeconfig; None: beside the data."""
    single_process: bool = False
    """Run the API server in the same process as everything else."""
    server: ServerSettings = field(default_factory=ServerSettings)
    nodes: NodeSettings = field(default_factory=NodeSettings)
    health_port: int | None = None
    """Where the scheduler shows its health and metrics, on loopback; None: nowhere."""
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)

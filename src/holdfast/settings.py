"""Every setting of a running Holdfast, as one tree; only ``cli`` reads flags and environment."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The embedded API server."""

    host: str = "127.0.0.1"
    """Loopback unless the user says otherwise; TLS always."""
    port: int = 6443
    """0 takes any free port."""


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
    collect: bool = True
    """Delete those that ended."""
    keep_ended: float = 86400.0
    """How long they are kept before; on a node that is gone not at all."""
    collect_every: float = 60.0
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

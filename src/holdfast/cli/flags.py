"""Flags that several commands share: their types, metavariables and help."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.node_shape import parse_node_shape
from holdfast.cli.usage import parse_port
from holdfast.runtime.settings import NodeShape


class RuntimeName(StrEnum):
    """How nodes with an agent run containers."""

    simulated = "simulated"
    process = "process"


class Output(StrEnum):
    """Output formats."""

    text = "text"
    json = "json"


DataDir = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Directory of the database, certificates and log; default: ~/.local/share/holdfast.",
    ),
]
Host = Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")]
Port = Annotated[
    int,
    typer.Option(metavar="PORT", parser=parse_port, help="Port to listen on; 0: any free port."),
]
WriteKubeconfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Where to write the admin's kubeconfig; default: kubeconfig in the data directory.",
    ),
]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Kubeconfig of the cluster; default: the one kubectl would use.",
    ),
]
CheckInvariants = Annotated[
    bool,
    typer.Option(
        "--check-invariants",
        help="After every decision check that no node, reservation or device is over-committed "
        "(slow; for debugging).",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="KubeSchedulerConfiguration of the scheduler; default: the built-in profiles.",
    ),
]
SchedulerConfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="KubeSchedulerConfiguration the cluster's scheduler runs with; default: the one the "
        "embedded cluster was started with, else the built-in profiles.",
    ),
]
LeaderElect = Annotated[
    bool | None,
    typer.Option(
        "--leader-elect/--no-leader-elect",
        help="Work only while this replica holds the lease; default: as the configuration says, "
        "else yes.",
    ),
]
HealthPort = Annotated[
    int,
    typer.Option(
        metavar="PORT",
        parser=parse_port,
        help="Serve /healthz, /readyz and /metrics on this port of 127.0.0.1; 0: any free port.",
    ),
]
Gates = Annotated[
    str,
    typer.Option(
        "--feature-gates",
        metavar="NAME=BOOL,...",
        help="Turn features on or off, by Kubernetes' names, such as DRADeviceTaintRules=true.",
    ),
]
KubernetesVersion = Annotated[
    str,
    typer.Option(
        metavar="1.N",
        help="Release of Kubernetes for the defaults of gates; default: 1.36, or 1.37 if the "
        "file has a DeviceTaintRule of resource.k8s.io/v1.",
    ),
]
SchedulerGates = Annotated[
    str,
    typer.Option(
        "--feature-gates",
        metavar="NAME=BOOL,...",
        help="Feature gates of the cluster's scheduler; default: those that an embedded cluster "
        "says it has, else Kubernetes' defaults.",
    ),
]
OutputOption = Annotated[
    Output,
    typer.Option("-o", "--output", metavar="FORMAT", help="text (for people) or json."),
]
NamespaceOption = Annotated[
    str, typer.Option("-n", "--namespace", metavar="NAMESPACE", help="Namespace of the object.")
]
RuntimeOption = Annotated[
    RuntimeName,
    typer.Option(
        metavar="RUNTIME",
        help="How nodes with an agent run containers: simulated, or process, which runs their "
        "commands as your user, not isolated.",
    ),
]
NodeShapeOption = Annotated[
    NodeShape | None,
    typer.Option(
        metavar="NAME=AMOUNT,...",
        parser=parse_node_shape,
        help="Resources of a registered node, such as cpu=16,memory=64Gi,nvidia.com/gpu=8; numa=N "
        "publishes a NodeResourceTopology with N NUMA nodes, koordinator-gpus=N a Device with N "
        "GPUs; default: cpu=32,memory=128Gi.",
    ),
]
AllowProcessRuntime = Annotated[
    bool,
    typer.Option(
        "--allow-process-runtime",
        help="Pods on nodes with an agent may ask for the process runtime (not isolated) with the "
        "annotation holdfast.dev/runtime: process.",
    ),
]
ResetCheckpoint = Annotated[
    bool,
    typer.Option(
        "--reset-checkpoint",
        help="Forget which claims nodes with an agent have prepared, if the record is damaged.",
    ),
]

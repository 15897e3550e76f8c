"""The commands and their flags; the implementation of a command is imported when it runs."""
# ruff: noqa: PLC0415 - NumPy and aiohttp take seconds to import; `holdfast status` needs neither

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from holdfast.cli import background, running_cluster
from holdfast.cli.flags import (
    AllowProcessRuntime,
    CheckInvariants,
    Config,
    DataDir,
    Gates,
    HealthPort,
    Host,
    Kubeconfig,
    KubernetesVersion,
    LeaderElect,
    NamespaceOption,
    NodeShapeOption,
    Output,
    OutputOption,
    Port,
    ResetCheckpoint,
    RuntimeName,
    RuntimeOption,
    SchedulerConfig,
    SchedulerGates,
    WriteKubeconfig,
)
from holdfast.cli.usage import at_least, parse_kubelet_dirs, parse_port
from holdfast.runtime.errors import Refused
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.runtime.settings import (
    AgentSettings,
    ClusterSettings,
    NodeSettings,
    SchedulerSettings,
    ServerSettings,
)


def up(
    nodes: Annotated[
        int,
        typer.Option(
            metavar="N",
            parser=at_least(0),
            help="Create nodes until there are N; existing ones are kept.",
        ),
    ] = 3,
    node_shape: NodeShapeOption = None,
    driver_nodes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            parser=at_least(0),
            help="The first N nodes get their own agents and can run drivers; all others are "
            "simulated together; default: 1.",
        ),
    ] = None,
    kubelet_dir: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODE=DIR",
            help="Give this node an agent, with DIR as its directory instead of nodes/NODE in the "
            "data directory; may be repeated.",
        ),
    ] = None,
    runtime: RuntimeOption = RuntimeName.simulated,
    allow_process_runtime: AllowProcessRuntime = False,
    reset_checkpoint: ResetCheckpoint = False,
    data_dir: DataDir = None,
    host: Host = "127.0.0.1",
    port: Port = 6443,
    kubeconfig: WriteKubeconfig = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Run in the background; return when it is ready.")
    ] = False,
    single_process: Annotated[
        bool,
        typer.Option(
            "--single-process/--two-processes",
            help="Run the API server in the scheduler's process, or in a separate one (faster).",
        ),
    ] = False,
    config: Config = None,
    health_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            parser=parse_port,
            help="Serve the scheduler's /healthz, /readyz and /metrics on this port of 127.0.0.1; "
            "0: any free port; default: not served.",
        ),
    ] = None,
    descheduler: Annotated[
        bool,
        typer.Option(
            "--descheduler",
            help="Also run the descheduler, with the DeschedulerConfiguration in --config, if any.",
        ),
    ] = False,
    check_invariants: CheckInvariants = False,
    feature_gates: Gates = "",
) -> None:
    """Run the embedded cluster: API server, scheduler, controllers and nodes.

    Everything is stored in the data directory; the next start continues with it.
    """
    gates = FeatureGates.parse(feature_gates)
    settings = ClusterSettings(
        data_dir=running_cluster.data_dir(data_dir),
        kubeconfig=kubeconfig.expanduser().absolute() if kubeconfig else None,
        single_process=single_process,
        server=ServerSettings(host, port, feature_gates=gates),
        nodes=NodeSettings(
            nodes,
            shape=node_shape,
            driver_nodes=driver_nodes,
            kubelet_dirs=parse_kubelet_dirs(kubelet_dir or ()),
            runtime=runtime.value,
            allow_process_runtime=allow_process_runtime,
            reset_checkpoint=reset_checkpoint,
            feature_gates=gates,
        ),
        health_port=health_port,
        descheduler=descheduler,
        scheduler=SchedulerSettings(
            check_invariants=check_invariants,
            config=config.expanduser().absolute() if config else None,
            feature_gates=gates,
        ),
    )
    running_cluster.prepare_data_dir(settings.data_dir)
    others = (settings.kubeconfig.parent,) if settings.kubeconfig else ()
    running_cluster.warn_if_shared(settings.data_dir, *others)
    running_cluster.warn_if_readable(settings.data_dir)
    if detach:
        background.start(settings)
    else:
        from holdfast.cli.up_command import run_cluster

        run_cluster(settings)


def down(data_dir: DataDir = None) -> None:
    """Stop the embedded cluster and wait until it has ended; its data stays."""
    directory = running_cluster.data_dir(data_dir)
    named = None if data_dir else running_cluster.find_named()
    if named and named != directory:
        stop_named, stop_default = (
            f"`holdfast down --data-dir {quote(str(place))}`" for place in (named, directory)
        )
        raise Refused(
            f"KUBECONFIG names the cluster on {named}: {stop_named} stops it, {stop_default} the "
            "default one"
        )
    if not data_dir and (url := running_cluster.other_cluster(directory)):
        raise Refused(
            f"KUBECONFIG names another cluster, at {url}: `holdfast down --data-dir DIR`, with its "
            f"data directory, stops it, `holdfast down --data-dir {quote(str(directory))}` the "
            "default one"
        )
    background.stop(directory)


def status(data_dir: DataDir = None) -> None:
    """Show whether the embedded cluster is running, and its address.

    The exit code is 1 if it is not running or not ready.
    """
    from holdfast.cli.status import show

    raise typer.Exit(show(running_cluster.data_dir(data_dir)))


def apiserver(
    data_dir: DataDir = None,
    host: Host = "127.0.0.1",
    port: Port = 6443,
    kubeconfig: WriteKubeconfig = None,
    feature_gates: Gates = "",
    announce: Annotated[bool, typer.Option("--announce", hidden=True)] = False,
) -> None:
    """Run the API server alone, on one data directory, until SIGINT or SIGTERM."""
    from holdfast.cli.apiserver_command import run_apiserver

    directory = running_cluster.data_dir(data_dir)
    running_cluster.prepare_data_dir(directory)
    path = kubeconfig.expanduser().absolute() if kubeconfig else directory / "kubeconfig"
    if not announce:
        running_cluster.warn_if_shared(directory, path.parent)
        running_cluster.warn_if_readable(directory)
    settings = ServerSettings(host, port, feature_gates=FeatureGates.parse(feature_gates))
    run_apiserver(directory, path, settings, announce=announce)


def scheduler(
    kubeconfig: Kubeconfig = None,
    config: Config = None,
    leader_elect: LeaderElect = None,
    health_port: HealthPort = 10259,
    check_invariants: CheckInvariants = False,
    controllers: Annotated[
        bool,
        typer.Option(
            "--controllers/--no-controllers",
            help="Whether to run the controllers in this process too; `holdfast controllers` runs "
            "them alone.",
        ),
    ] = True,
    feature_gates: Gates = "",
) -> None:
    """Run the scheduler and its controllers against any API server, until SIGINT or SIGTERM."""
    from holdfast.cli.scheduler_command import run_scheduler

    settings = SchedulerSettings(
        check_invariants=check_invariants,
        leader_elect=leader_elect,
        config=config,
        controllers=controllers,
        feature_gates=FeatureGates.parse(feature_gates),
    )
    run_scheduler(kubeconfig, health_port, settings)


def controllers(
    kubeconfig: Kubeconfig = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="KubeSchedulerConfiguration of the scheduler: plugin arguments that concern the "
            "controllers, leader election (without the lease's name) and client connection are "
            "read; and DeschedulerConfiguration with the arguments of MigrationController; "
            "default: their defaults.",
        ),
    ] = None,
    leader_elect: LeaderElect = None,
    health_port: HealthPort = 10257,
) -> None:
    """Run the controllers of reservations, policies and migrations, until SIGINT or SIGTERM.

    `holdfast scheduler` runs them too, unless it is started with --no-controllers.
    """
    from holdfast.cli.controllers_command import run_controllers

    run_controllers(kubeconfig, health_port, config, leader_elect)


def descheduler(
    kubeconfig: Kubeconfig = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="DeschedulerConfiguration: policies and their arguments, interval and limits; and "
            "the scheduler's configuration, by which targets are predicted; default: all policies.",
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Run one cycle, print the pods to move, and end.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write nothing; only report which pods should move.")
    ] = False,
    leader_elect: LeaderElect = None,
    health_port: HealthPort = 10258,
) -> None:
    """Write PodMigrationJobs for pods that should run elsewhere, until SIGINT or SIGTERM.

    The controllers run the jobs; see `holdfast controllers`.
    """
    from holdfast.cli.descheduler_command import run_descheduler

    run_descheduler(kubeconfig, health_port, config, leader_elect, once=once, dry_run=dry_run)


def agent(
    node: Annotated[str, typer.Option(metavar="NAME", help="Name of the node.")],
    node_dir: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Directory of the node: sockets of drivers, CDI files, pods; as /var/lib/kubelet.",
        ),
    ],
    kubeconfig: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="Kubeconfig with the credential of the user system:node:NAME."
        ),
    ],
    node_shape: NodeShapeOption = None,
    runtime: RuntimeOption = RuntimeName.simulated,
    allow_process_runtime: AllowProcessRuntime = False,
    reset_checkpoint: ResetCheckpoint = False,
    health_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            parser=parse_port,
            help="Serve /healthz, /readyz and /metrics on this port of 127.0.0.1; 0: any free "
            "port; default: not served.",
        ),
    ] = None,
    feature_gates: Gates = "",
) -> None:
    """Run the agent of one node against any API server, until SIGINT or SIGTERM.

    It registers the node and does what a kubelet does: it calls the drivers of devices, runs the
    node's pods and reports their status. Processes of pods keep running after it ends.
    """
    from holdfast.cli.agent_command import run_agent

    settings = AgentSettings(
        node,
        node_dir.expanduser().absolute(),
        NodeSettings(
            shape=node_shape,
            runtime=runtime.value,
            allow_process_runtime=allow_process_runtime,
            reset_checkpoint=reset_checkpoint,
            feature_gates=FeatureGates.parse(feature_gates),
        ),
    )
    run_agent(kubeconfig.expanduser().absolute(), health_port, settings)


def why(
    pod: Annotated[str, typer.Argument(metavar="POD", hidden=True)],
    namespace: NamespaceOption = "default",
    kubeconfig: Kubeconfig = None,
    config: SchedulerConfig = None,
    feature_gates: SchedulerGates = "",
    output: OutputOption = Output.text,
) -> None:
    """Explain why a pod is on its node, or has none.

    POD is a name, or NAMESPACE/NAME. The decision is repeated locally, from the objects of the
    cluster; nothing is changed, and preemption is a dry run.
    """
    from holdfast.cli.why_command import explain_pod

    key = pod if "/" in pod else f"{namespace}/{pod}"
    explain_pod(key, kubeconfig, config, feature_gates, output.value)


def explain(
    snapshot: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="API objects: a v1 List, or YAML or JSON documents; -: standard input.",
        ),
    ] = "",
    pod: Annotated[
        str, typer.Option(metavar="NAMESPACE/NAME", help="The pod of the file to schedule.")
    ] = "",
    config: Config = None,
    preempt: Annotated[
        bool, typer.Option("--preempt", help="If the pod fits nowhere, try preemption.")
    ] = False,
    now: Annotated[
        str,
        typer.Option(
            metavar="RFC3339",
            help="Time of the decision, such as 2026-01-31T12:00:00Z; default: now.",
        ),
    ] = "",
    feature_gates: Gates = "",
    kubernetes_version: KubernetesVersion = "",
    output: OutputOption = Output.text,
    batch: Annotated[
        bool,
        typer.Option(
            "--batch",
            help='Read JSON lines from standard input: {"objects": [...], "pod": '
            '"NAMESPACE/NAME"}, optionally with config, preempt, now and featureGates; write one '
            "line each.",
        ),
    ] = False,
) -> None:
    """Explain a scheduling decision from a file of API objects; no cluster is needed."""
    flags = (snapshot, pod, config, preempt, now, feature_gates, kubernetes_version)
    if batch and any(flags):
        raise typer.BadParameter("--batch takes no other flag: each line has its own fields.")
    if not batch and not (snapshot and pod):
        raise typer.BadParameter("Give --snapshot FILE and --pod NAMESPACE/NAME, or --batch.")
    from holdfast.cli.explain import explain_file, explain_lines

    if batch:
        explain_lines(sys.stdin.buffer, sys.stdout.buffer)
        return
    code = explain_file(
        snapshot, pod, config, feature_gates, kubernetes_version,
        preempt=preempt, now=now, output=output.value,
    )  # fmt: skip
    raise typer.Exit(code)

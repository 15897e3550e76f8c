"""The commands and their flags, thin: what carries a command out is imported when it is given."""
# ruff: noqa: PLC0415 - NumPy, aiohttp and the rest take seconds that `holdfast status` has not

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import detached, running
from holdfast.settings import ClusterSettings, NodeSettings, SchedulerSettings, ServerSettings


class Output(StrEnum):
    """In which form to answer."""

    text = "text"
    json = "json"


DataDir = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where everything is kept; default ~/.local/share/holdfast."),
]
Host = Annotated[str, typer.Option(help="Address to listen on.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0: any free port.")]
WriteKubeconfig = Annotated[
    Path | None, typer.Option(help="Where to write it; default: in the data directory.")
]
Kubeconfig = Annotated[Path | None, typer.Option(help="Default: as kubectl finds it.")]
CheckInvariants = Annotated[
    bool, typer.Option("--check-invariants", help="Check every promise after every decision.")
]
Config = Annotated[Path | None, typer.Option(help="A KubeSchedulerConfiguration.")]
TheirConfig = Annotated[
    Path | None,
    typer.Option(
        help="The KubeSchedulerConfiguration the scheduler runs with; default: the one your "
        "embedded cluster was started with."
    ),
]
OutputOption = Annotated[Output, typer.Option("-o", "--output", help="For people or for programs.")]


def up(
    nodes: Annotated[int, typer.Option(min=0, help="Simulated nodes there must be.")] = 3,
    data_dir: DataDir = None,
    host: Host = "127.0.0.1",
    port: Port = 6443,
    kubeconfig: WriteKubeconfig = None,
    detach: Annotated[bool, typer.Option("--detach", help="Go on in the background.")] = False,
    single_process: Annotated[
        bool,
        typer.Option("--single-process/--two-processes", help="API server in this process or not."),
    ] = False,
    config: Config = None,
    health_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Show the scheduler's /healthz, /readyz, /metrics on loopback; default: nowhere.",
        ),
    ] = None,
    check_invariants: CheckInvariants = False,
) -> None:
    """Run API server, scheduler, controllers and simulated nodes."""
    settings = ClusterSettings(
        data_dir=running.data_dir(data_dir),
        kubeconfig=kubeconfig.expanduser().absolute() if kubeconfig else None,
        single_process=single_process,
        server=ServerSettings(host, port),
        nodes=NodeSettings(nodes),
        health_port=health_port,
        scheduler=SchedulerSettings(
            check_invariants=check_invariants,
            config=config.expanduser().absolute() if config else None,
        ),
    )
    running.claim(settings.data_dir)
    elsewhere = (settings.kubeconfig.parent,) if settings.kubeconfig else ()
    running.warn_if_shared(settings.data_dir, *elsewhere)
    if detach:
        detached.start(settings)
    else:
        from holdfast.cli.foreground import run

        run(settings)


def down(data_dir: DataDir = None) -> None:
    """Stop the cluster; its data stays."""
    detached.stop(running.data_dir(data_dir))


def status(data_dir: DataDir = None) -> None:
    """Say whether the cluster runs; exit 1 if it does not, or is not ready."""
    from holdfast.cli.status import show

    raise typer.Exit(show(running.data_dir(data_dir)))


def apiserver(
    data_dir: DataDir = None,
    host: Host = "127.0.0.1",
    port: Port = 6443,
    kubeconfig: WriteKubeconfig = None,
    announce: Annotated[bool, typer.Option("--announce", hidden=True)] = False,
) -> None:
    """Serve the Kubernetes API from one data directory until told to stop."""
    from holdfast.cli.serving import serve

    directory = running.data_dir(data_dir)
    running.claim(directory)
    path = kubeconfig.expanduser().absolute() if kubeconfig else directory / "kubeconfig"
    if not announce:
        running.warn_if_shared(directory, path.parent)
    serve(directory, path, ServerSettings(host, port), announce=announce)


def scheduler(
    kubeconfig: Kubeconfig = None,
    config: Config = None,
    leader_elect: Annotated[
        bool | None,
        typer.Option(
            "--leader-elect/--no-leader-elect",
            help="Let one replica decide at a time; default: as the configuration says, else yes.",
        ),
    ] = None,
    health_port: Annotated[
        int, typer.Option(min=0, max=65535, help="/healthz, /readyz, /metrics on loopback.")
    ] = 10259,
    check_invariants: CheckInvariants = False,
) -> None:
    """Place pods on any API server, a real one included."""
    from holdfast.cli.scheduling import schedule

    settings = SchedulerSettings(
        check_invariants=check_invariants, leader_elect=leader_elect, config=config
    )
    schedule(kubeconfig, health_port, settings)


def why(
    pod: Annotated[str, typer.Argument(help="NAME or NAMESPACE/NAME.")],
    namespace: Annotated[str, typer.Option("-n", "--namespace")] = "default",
    kubeconfig: Kubeconfig = None,
    config: TheirConfig = None,
    output: OutputOption = Output.text,
) -> None:
    """Say why a pod is, or is not, where it is; preemption is tried as a dry run."""
    from holdfast.cli.why import tell

    tell(pod if "/" in pod else f"{namespace}/{pod}", kubeconfig, config, output.value)


def explain(
    snapshot: Annotated[
        str, typer.Option(metavar="FILE", help="A v1 List, or YAML/JSON documents; -: stdin.")
    ] = "",
    pod: Annotated[str, typer.Option(metavar="NAMESPACE/NAME", help="Whom to decide for.")] = "",
    config: Config = None,
    preempt: Annotated[bool, typer.Option("--preempt", help="Try preemption too.")] = False,
    now: Annotated[
        str, typer.Option(metavar="RFC3339", help="The time to decide at; default: the present.")
    ] = "",
    output: OutputOption = Output.text,
    batch: Annotated[
        bool,
        typer.Option(
            "--batch",
            help='JSON lines on standard input: {"objects": [...], "pod": "NAMESPACE/NAME"}, '
            "and config, preempt, now if you like.",
        ),
    ] = False,
) -> None:
    """Explain a decision over a snapshot."""
    if batch and (snapshot or pod or config or preempt or now):
        raise typer.BadParameter("with --batch everything stands in the lines themselves")
    if not batch and not (snapshot and pod):
        raise typer.BadParameter("give --snapshot FILE and --pod NAMESPACE/NAME, or --batch")
    from holdfast.cli.explain import explain_file, explain_lines

    if batch:
        explain_lines(sys.stdin.buffer, sys.stdout.buffer)
        return
    code = explain_file(snapshot, pod, config, preempt=preempt, now=now, output=output.value)
    raise typer.Exit(code)

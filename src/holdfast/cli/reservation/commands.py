"""The commands of ``holdfast reservation`` and their flags."""
# ruff: noqa: PLC0415 - the implementation is imported when the command runs

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli.flags import (
    Kubeconfig,
    NamespaceOption,
    Output,
    OutputOption,
    SchedulerConfig,
    SchedulerGates,
)
from holdfast.cli.usage import Command, at_least, command_group, parse_seconds

app = command_group("reservation", "Create, list and explain reservations; show free resources.")


@app.command(
    "create", cls=Command, short_help="Reserve resources for future replicas of a workload."
)
def create(
    target: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="KIND/NAME",
            help="The workload: a deployment, replicaset or statefulset, such as deployment/web.",
        ),
    ],
    replicas: Annotated[
        int,
        typer.Option(metavar="N", parser=at_least(1), help="How many reservations, one a pod."),
    ] = 1,
    namespace: NamespaceOption = "default",
    ttl: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="Lifetime of a reservation, such as 1h30m; 0: no end."
        ),
    ] = "24h",
    expires: Annotated[
        str,
        typer.Option(
            metavar="RFC3339", help="End of the reservation as a time; takes precedence over --ttl."
        ),
    ] = "",
    node: Annotated[
        str, typer.Option(metavar="NODE", help="Reserve on this node; default: any that fits.")
    ] = "",
    policy: Annotated[
        str,
        typer.Option(
            metavar="POLICY",
            help="Aligned: pods may use free resources of the node too; Restricted: they may not; "
            "default: Koordinator's default policy.",
        ),
    ] = "",
    reusable: Annotated[
        bool,
        typer.Option(
            "--reusable", help="Serve pods as long as resources are left; default: one pod."
        ),
    ] = False,
    scheduler_name: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Scheduler that places the reservation; default: that of the workload's pods.",
        ),
    ] = "",
    wait: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            parser=parse_seconds,
            help="How long to wait until the reservations have nodes; 0: do not wait.",
        ),
    ] = 30,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the reservation; create nothing.")
    ] = False,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Reserve resources for future replicas of a workload.

    One reservation per replica is created from the workload's pod template, for the pods that the
    workload's selector matches. The exit code is 1 if some have no node after --wait.
    """
    from holdfast.cli.reservation.creating import ReservationFlags, run

    wish = ReservationFlags(ttl, expires, node, policy, reusable, scheduler_name)
    raise typer.Exit(
        run(target, namespace, replicas, wish, timeout=wait, dry_run=dry_run,
            kubeconfig=kubeconfig)
    )  # fmt: skip


@app.command("list", cls=Command, short_help="List reservations: resources, owners, end.")
def list_(kubeconfig: Kubeconfig = None, output: OutputOption = Output.text) -> None:
    """List reservations: their resources, owners and end, and below the table their problems."""
    from holdfast.cli.reservation.listing import run

    run(kubeconfig, output.value)


@app.command("why", cls=Command, short_help="Explain the state of one reservation.")
def why(
    name: Annotated[str, typer.Argument(metavar="NAME", hidden=True)],
    kubeconfig: Kubeconfig = None,
    config: SchedulerConfig = None,
    feature_gates: SchedulerGates = "",
    output: OutputOption = Output.text,
) -> None:
    """Explain the state of the reservation NAME.

    For a reservation without a node the decision is repeated locally, from the objects of the
    cluster; nothing is changed.
    """
    from holdfast.cli.reservation.why import run

    run(name, kubeconfig, config, feature_gates, output.value)


@app.command(
    "free", cls=Command, short_help="Show used, reserved and free resources of every node."
)
def free(
    resource: Annotated[
        list[str] | None,
        typer.Option(
            "--resource",
            "-r",
            metavar="NAME",
            help="Resource to show; may be repeated; default: cpu and memory.",
        ),
    ] = None,
    kubeconfig: Kubeconfig = None,
    output: OutputOption = Output.text,
) -> None:
    """Show the used, reserved and free resources of every node.

    Reserved resources are those of reservations that no pod uses yet.
    """
    from holdfast.cli.reservation.free import run

    run(resource or (), kubeconfig, output.value)

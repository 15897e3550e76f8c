"""The commands of ``holdfast reservation`` and their flags."""
# ruff: noqa: PLC0415 - what carries a command out is imported when it is given

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli.commands import Kubeconfig, Output, OutputOption, TheirConfig

app = typer.Typer(
    name="reservation",
    help="Make, list and explain reservations; see what room there is.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("create", help="Hold room for replicas a workload is to have.")
def create(
    target: Annotated[
        str, typer.Option("--for", metavar="KIND/NAME", help="Such as deployment/web.")
    ],
    replicas: Annotated[int, typer.Option(min=1, help="How many pods to hold room for.")] = 1,
    namespace: Annotated[str, typer.Option("-n", "--namespace")] = "default",
    ttl: Annotated[str, typer.Option(help="How long to hold it; 0: for ever.")] = "24h",
    expires: Annotated[str, typer.Option(metavar="RFC3339", help="Until when, instead.")] = "",
    node: Annotated[str, typer.Option(help="On this node and no other.")] = "",
    policy: Annotated[str, typer.Option(help="Aligned or Restricted.")] = "",
    reusable: Annotated[
        bool, typer.Option("--reusable", help="Serve pods as long as room lasts, not one.")
    ] = False,
    scheduler_name: Annotated[
        str, typer.Option(help="Who places it; default: whoever places the workload's pods.")
    ] = "",
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for nodes; 0: do not wait.")
    ] = 30.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print it, create nothing.")] = False,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Create one reservation a replica, for the pods the workload's selector chooses."""
    from holdfast.cli.reservation.creating import run
    from holdfast.cli.reservation.making import ReservationFlags

    wish = ReservationFlags(ttl, expires, node, policy, reusable, scheduler_name)
    raise typer.Exit(
        run(target, namespace, replicas, wish, patience=wait, dry_run=dry_run,
            kubeconfig=kubeconfig)
    )  # fmt: skip


@app.command("list", help="Every reservation: what it holds, for whom, how long.")
def list_(kubeconfig: Kubeconfig = None, output: OutputOption = Output.text) -> None:
    """List the reservations and what is wrong with some of them."""
    from holdfast.cli.reservation.listing import run

    run(kubeconfig, output.value)


@app.command("why", help="Say where a reservation stands, and what keeps it there.")
def why(
    name: Annotated[str, typer.Argument(help="The reservation's name.")],
    kubeconfig: Kubeconfig = None,
    config: TheirConfig = None,
    output: OutputOption = Output.text,
) -> None:
    """Explain one reservation; one without a node is decided for again, here."""
    from holdfast.cli.reservation.reasons import run

    run(name, kubeconfig, config, output.value)


@app.command("free", help="What each node has: used, reserved and unused, free for everybody.")
def free(
    resource: Annotated[
        list[str] | None, typer.Option("--resource", "-r", help="Instead of cpu and memory.")
    ] = None,
    kubeconfig: Kubeconfig = None,
    output: OutputOption = Output.text,
) -> None:
    """Show the room of every node."""
    from holdfast.cli.reservation.room import run

    run(resource or (), kubeconfig, output.value)

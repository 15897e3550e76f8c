"""The commands of ``holdfast node`` and their flags."""
# ruff: noqa: PLC0415 - the implementation is imported when the command runs

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli.flags import Kubeconfig, Output, OutputOption
from holdfast.cli.usage import Command, command_group

app = command_group("node", "Let nodes fail and recover; list them.")
Names = Annotated[list[str], typer.Argument(metavar="NAME...", hidden=True)]


@app.command("fail", cls=Command, short_help="Let nodes stop working.")
def fail(names: Names, kubeconfig: Kubeconfig = None) -> None:
    """Make the nodes NAME... fail: no leases, no status, no pod starts or stops.

    They stay failed, even after a restart, until `holdfast node recover`. After 50 s the
    controllers report them as unreachable and taint them; docs/nodes.md says what follows.
    """
    from holdfast.cli.node.failing import run

    run(names, kubeconfig, fails=True)


@app.command("recover", cls=Command, short_help="Let failed nodes work again.")
def recover(names: Names, kubeconfig: Kubeconfig = None) -> None:
    """Make the failed nodes NAME... work again."""
    from holdfast.cli.node.failing import run

    run(names, kubeconfig, fails=False)


@app.command("list", cls=Command, short_help="List nodes: state, lease, pods, taints.")
def list_(kubeconfig: Kubeconfig = None, output: OutputOption = Output.text) -> None:
    """List nodes: whether they are ready, agent or failed, age of the lease, pods and taints."""
    from holdfast.cli.node.listing import run

    run(kubeconfig, output.value)

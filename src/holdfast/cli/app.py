"""The ``holdfast`` command and its subcommands."""

from __future__ import annotations

import logging
import sys

import typer
from rich.console import Console

from holdfast.cli import explain, up, why
from holdfast.cli.processes import apiserver, scheduler
from holdfast.errors import HoldfastError

app = typer.Typer(
    name="holdfast",
    help="A Kubernetes scheduler and control plane that holds room and keeps its promises.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("up", help="Run the embedded cluster.")(up.up)
app.command("down", help="Stop the embedded cluster of a data directory.")(up.down)
app.command("status", help="Say whether the embedded cluster runs, and where.")(up.status)
app.command("apiserver", help="Run the API server alone.")(apiserver)
app.command("scheduler", help="Run the scheduler against any API server.")(scheduler)
app.command("why", help="Say why a pod is, or is not, where it is.")(why.why)
app.command("explain", help="Decide over a file of API objects; no cluster needed.")(
    explain.explain
)


def main() -> None:
    """Run the command line; a HoldfastError is a sentence, never a traceback."""
    logging.basicConfig(
        level=logging.WARNING, stream=sys.stderr, format="%(levelname).1s %(name)s: %(message)s"
    )
    try:
        app()
    except HoldfastError as refusal:
        Console(stderr=True, highlight=False).print(
            f"holdfast: {refusal}", style="red", markup=False
        )
        sys.exit(1)

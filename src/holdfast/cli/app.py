"""The ``holdfast`` program: its commands, and what becomes of their failures."""

from __future__ import annotations

import logging
import os
import sys
from typing import Annotated

import typer

from holdfast.cli import commands
from holdfast.cli.log_format import LogFormatter
from holdfast.cli.reservation import commands as reservation
from holdfast.errors import HoldfastError
from holdfast.repeated_log import RepeatFilter

app = typer.Typer(
    name="holdfast",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _say_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version  # noqa: PLC0415 - rarely asked

        print(f"holdfast {version('holdfast')}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_say_version, is_eager=True, help="Say which version this is."
        ),
    ] = False,
) -> None:
    """A Kubernetes scheduler and control plane that holds room and keeps its promises."""


app.command("up", help="Run the embedded cluster.")(commands.up)
app.command("down", help="Stop the embedded cluster of a data directory.")(commands.down)
app.command("status", help="Say whether the embedded cluster runs, and where.")(commands.status)
app.command("apiserver", help="Run the API server alone.")(commands.apiserver)
app.command("scheduler", help="Run the scheduler against any API server.")(commands.scheduler)
app.command("why", help="Say why a pod is, or is not, where it is.")(commands.why)
app.command("explain", help="Decide over a file of API objects; no cluster needed.")(
    commands.explain
)
app.add_typer(reservation.app)


def main() -> None:
    """Run the command line; a HoldfastError is a sentence, never a traceback."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    # What clients do to their connections must not fill the log.
    logging.getLogger("asyncio").addFilter(RepeatFilter())
    try:
        app()
    except HoldfastError as refusal:
        typer.secho(f"holdfast: {refusal}", fg="red", err=True)
        sys.exit(1)
    except BrokenPipeError:
        # Whoever read our output has enough; the interpreter would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)

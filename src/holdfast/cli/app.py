"""The ``holdfast`` program: its commands, and the output of errors and log records."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Annotated

import typer

from holdfast.cli import commands
from holdfast.cli.classic_dra import commands as classic_commands
from holdfast.cli.cpus.command import cpus
from holdfast.cli.devices.command import devices
from holdfast.cli.driver import commands as driver
from holdfast.cli.node import commands as node
from holdfast.cli.policy import commands as policy
from holdfast.cli.reservation import commands as reservation
from holdfast.cli.table import escaped
from holdfast.cli.usage import Command, Group
from holdfast.runtime.errors import HoldfastError
from holdfast.runtime.repeated_log import RepeatFilter

app = typer.Typer(
    name="holdfast",
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version  # noqa: PLC0415 - rarely needed

        print(f"holdfast {version('holdfast-scheduler')}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """A Kubernetes scheduler and control plane with resource reservations."""


_SUMMARIES = (
    (commands.up, "Run the embedded cluster."),
    (commands.down, "Stop the embedded cluster; its data stays."),
    (commands.status, "Show whether the embedded cluster is running."),
    (commands.apiserver, "Run the API server alone."),
    (commands.scheduler, "Run the scheduler against any API server."),
    (commands.controllers, "Run the controllers alone, against any API server."),
    (commands.descheduler, "Write PodMigrationJobs for pods that should run elsewhere."),
    (commands.agent, "Run the agent of one node, against any API server."),
    (commands.why, "Explain why a pod is on its node, or has none."),
    (commands.explain, "Explain a decision from a file of API objects."),
    (classic_commands.convert, "Convert manifests with classic claims for a real cluster."),
    (classic_commands.webhook, "Run the admission webhook of classic claims."),
    (devices, "List devices, their state and what holds them."),
    (cpus, "Draw the CPUs of a node and what holds them."),
)
for _command, _summary in _SUMMARIES:
    app.command(_command.__name__, cls=Command, short_help=_summary)(_command)
app.add_typer(node.app)
app.add_typer(driver.app)
app.add_typer(reservation.app)
app.add_typer(policy.app)


@cache
def _command_line() -> Callable[[], None]:
    """Return the program with all its commands; building it takes 20 ms."""
    return typer.main.get_command(app)


class LogFormatter(logging.Formatter):
    r"""Escape control characters of messages and indent the lines of tracebacks.

    Messages contain names and paths that clients choose. With line breaks or terminal escapes
    in them a client could otherwise forge log lines.

    >>> record = logging.LogRecord("a", logging.ERROR, "", 0, "GET %s", ("/x\nE a: \x1b[2J",), None)
    >>> LogFormatter().format(record)
    'E a: GET /x\\nE a: \\x1b[2J'
    """

    def __init__(self) -> None:
        super().__init__("%(levelname).1s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Format the message on one line."""
        record.message = escaped(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:
        """Format a traceback with every line indented."""
        text = super().formatException(ei)  # type: ignore[arg-type]
        return "\n".join(f"    {escaped(line)}" for line in text.split("\n"))


def main() -> None:
    """Run the command line; print a HoldfastError as one sentence, without a traceback."""
    # When imported, NumPy starts a BLAS thread for each core; Holdfast never uses them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    # asyncio logs every aborted connection; clients must not be able to fill the log.
    logging.getLogger("asyncio").addFilter(RepeatFilter())
    try:
        _command_line()()
    except HoldfastError as error:
        typer.secho(f"holdfast: {error}", fg="red", err=True)
        sys.exit(1)
    except BrokenPipeError:
        # The reader of our output has closed the pipe. Without this the interpreter would report
        # the error once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)

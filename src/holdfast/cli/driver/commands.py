"""The commands of ``holdfast driver`` and their flags."""
# ruff: noqa: PLC0415 - the implementation is imported when the command runs

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.usage import Command, command_group

app = command_group("driver", "Start the project of a device driver.")


@app.command("new", cls=Command, short_help="Write a driver with tests and manifests.")
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", hidden=True)],
    directory: Annotated[
        Path | None,
        typer.Option(
            "--directory",
            metavar="DIR",
            help="Where to write the project; default: NAME with dashes for dots.",
        ),
    ] = None,
    classic: Annotated[
        bool,
        typer.Option("--classic", help="A driver of classic DRA, which allocates claims itself."),
    ] = False,
) -> None:
    """Write the project of the DRA driver NAME, such as gpu.example.com, into a new directory.

    It contains the driver with simulated devices, tests, a DaemonSet with its rights, and an
    example.
    """
    from holdfast.cli.driver.project import write_project

    write_project(name, directory, classic=classic)

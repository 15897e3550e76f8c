"""The command ``holdfast devices`` and its flags."""
# ruff: noqa: PLC0415 - the implementation is imported when the command runs

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from holdfast.cli.flags import Kubeconfig, SchedulerGates


class MapOutput(StrEnum):
    """Output formats of ``holdfast devices``."""

    text = "text"
    wide = "wide"
    json = "json"
    yaml = "yaml"


def devices(
    node: Annotated[
        str, typer.Option(metavar="NODE", help="Only devices that pods on this node can use.")
    ] = "",
    driver: Annotated[
        str, typer.Option(metavar="DRIVER", help="Only the devices of this driver.")
    ] = "",
    class_name: Annotated[
        str,
        typer.Option("--class", metavar="CLASS", help="Only devices that this class selects."),
    ] = "",
    free: Annotated[
        bool,
        typer.Option("--free", help="Only devices that a claim without tolerations can still get."),
    ] = False,
    namespace: Annotated[
        str,
        typer.Option(
            "-n",
            "--namespace",
            metavar="NAMESPACE",
            help="Only devices that claims or pods of this namespace hold.",
        ),
    ] = "",
    kubeconfig: Kubeconfig = None,
    feature_gates: SchedulerGates = "",
    output: Annotated[
        MapOutput,
        typer.Option(
            "-o",
            "--output",
            metavar="FORMAT",
            help="text (for people), wide (every device, with attributes), json or yaml.",
        ),
    ] = MapOutput.text,
) -> None:
    """List devices: pool, node, state, the claims and pods that hold them, taints, what is left.

    The devices are followed by a line for each pool, and by any problems. Many devices are summed
    up by pool, many pools by driver; the flags select a part, and -o wide lists every device. A
    separate table shows the GPUs, RDMA cards and FPGAs of Device objects, which pods share by
    percent.
    """
    from holdfast.cli.devices.choosing import Filter
    from holdfast.cli.devices.listing import run

    which = Filter(node, driver, class_name, namespace, free=free)
    run(which, kubeconfig, feature_gates, output.value)

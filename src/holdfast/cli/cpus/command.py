"""The command ``holdfast cpus`` and its flags."""
# ruff: noqa: PLC0415 - the implementation is imported when the command runs

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli.flags import Kubeconfig, Output, OutputOption


def cpus(
    node: Annotated[str, typer.Argument(metavar="NODE", hidden=True)] = "",
    kubeconfig: Kubeconfig = None,
    output: OutputOption = Output.text,
) -> None:
    """Draw the sockets, NUMA nodes, cores and CPUs of NODE, and what holds each CPU.

    Holders are pods that are bound to CPUs, reservations, the kubelet and the system. Without NODE
    every node that has a NodeResourceTopology is listed.
    """
    from holdfast.cli.cpus.listing import run

    run(node, kubeconfig, output.value)

"""The commands of ``holdfast policy`` and their flags."""
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
from holdfast.cli.usage import Command, command_group

app = command_group("policy", "List resource policies; show and explain their units.")
NameArgument = Annotated[str, typer.Argument(metavar="NAME", hidden=True)]


@app.command("list", cls=Command, short_help="List resource policies: units, caps, headroom.")
def list_(
    namespace: Annotated[
        str,
        typer.Option(
            "-n",
            "--namespace",
            metavar="NAMESPACE",
            help="Only the policies of this namespace; default: of all namespaces.",
        ),
    ] = "",
    kubeconfig: Kubeconfig = None,
    output: OutputOption = Output.text,
) -> None:
    """List resource policies: strategy, pods and cap of each unit, headroom; below, problems."""
    from holdfast.cli.policy.listing import run

    run(namespace, kubeconfig, output.value)


@app.command("status", cls=Command, short_help="Show the nodes, pods and caps of each unit.")
def status(
    name: NameArgument,
    namespace: NamespaceOption = "default",
    pods: Annotated[
        bool, typer.Option("--pods", help="Also list the pods of each unit and their nodes.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    output: OutputOption = Output.text,
) -> None:
    """Show the units of the resource policy NAME: nodes, pods, caps, conditions, conflicts.

    NAME is a name, or NAMESPACE/NAME. Pods are counted here, from the objects of the cluster.
    """
    from holdfast.cli.policy.status import run

    run(name, namespace, kubeconfig, output.value, with_pods=pods)


@app.command("why", cls=Command, short_help="Explain where the next pod is placed, unit by unit.")
def why(
    name: NameArgument,
    namespace: NamespaceOption = "default",
    pod: Annotated[
        str, typer.Option(metavar="POD", help="Explain this pod of the policy's namespace.")
    ] = "",
    target: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="KIND/NAME",
            help="Explain one more pod of this workload: a deployment, replicaset or statefulset.",
        ),
    ] = "",
    kubeconfig: Kubeconfig = None,
    config: SchedulerConfig = None,
    feature_gates: SchedulerGates = "",
    output: OutputOption = Output.text,
) -> None:
    """Explain where the next pod of the resource policy NAME is placed, and why not elsewhere.

    NAME is a name, or NAMESPACE/NAME. Without --pod and --for the next pod is the pending pod of
    the policy that is tried first, or otherwise one more like the newest. The decision is made
    locally, from the objects of the cluster; nothing is changed, and preemption is a dry run.
    """
    if pod and target:
        raise typer.BadParameter("Give --pod or --for, not both.")
    from holdfast.cli.policy.why import run

    run(name, namespace, pod, target, kubeconfig, config, feature_gates, output.value)

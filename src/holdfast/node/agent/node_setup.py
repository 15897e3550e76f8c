"""Make the node agents of a cluster from its settings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast.api.node_names import NODE_USER
from holdfast.client.client import Client
from holdfast.node.agent.node_agent import NodeAgent, NodeIdentity, socket_path_problem
from holdfast.node.agent.node_services import Runtimes
from holdfast.node.agent.nodes import node_name
from holdfast.node.agent.pod_directory import PodDirectories
from holdfast.node.agent.process_runtime import ProcessRuntime
from holdfast.node.agent.runtime import Runtime
from holdfast.node.agent.simulated_pod import SimulatedRuntime
from holdfast.runtime.clock import Clock
from holdfast.runtime.feature_gates import Feature
from holdfast.runtime.settings import NodeSettings, NodeShape


def agent_directories(settings: NodeSettings, directory: Path) -> dict[str, Path]:
    """Return the nodes that have their own agent, with the directory of each."""
    wanted = settings.driver_nodes
    if wanted is None:
        simulated = settings.runtime == SimulatedRuntime.name and not settings.allow_process_runtime
        wanted = 0 if simulated and socket_path_problem(directory / node_name(1)) else 1
    first = range(1, min(wanted, settings.count) + 1)
    directories = {node_name(ordinal): directory / node_name(ordinal) for ordinal in first}
    return directories | dict(settings.kubelet_dirs)


def make_agents(
    client_for: Callable[[str], Client],
    clock: Clock,
    settings: NodeSettings,
    directories: Mapping[str, Path],
    client_authority: Path | None = None,
) -> list[NodeAgent]:
    """Return the agents of the nodes with these names and directories."""
    shape = settings.shape or NodeShape()
    return [
        make_agent(
            NodeIdentity(name, path, ordinal, shape, client_authority=client_authority),
            client_for(NODE_USER + name),
            clock,
            settings,
        )
        for ordinal, (name, path) in enumerate(directories.items(), 1)
    ]


def make_agent(
    identity: NodeIdentity, client: Client, clock: Clock, settings: NodeSettings
) -> NodeAgent:
    """Return the agent of one node."""
    runtimes = make_runtimes(identity.directory, clock, settings)
    return NodeAgent(
        identity,
        client,
        clock,
        runtimes,
        reset_checkpoint=settings.reset_checkpoint,
        with_claims=settings.feature_gates.enabled(Feature.DYNAMIC_RESOURCE_ALLOCATION),
    )


def make_runtimes(directory: Path, clock: Clock, settings: NodeSettings) -> Runtimes:
    """Return the runtimes of a node.

    The process runtime exists even if no pod may use it: it ends processes of an earlier agent.
    """
    known: list[Runtime] = [SimulatedRuntime(clock)]
    if sys.platform == "linux" or settings.runtime == ProcessRuntime.name:
        known.append(ProcessRuntime(PodDirectories(directory), clock))
    allowed = {SimulatedRuntime.name, settings.runtime}
    if settings.allow_process_runtime:
        allowed.add(ProcessRuntime.name)
    return Runtimes(tuple(known), settings.runtime, frozenset(allowed))

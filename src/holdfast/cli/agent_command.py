"""``holdfast agent``: run the agent of one node in its own process, against any API server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from holdfast.cli import signals
from holdfast.cli.health import HealthChecks, HealthServer, ProcessState
from holdfast.client.kubeconfig import load
from holdfast.processes.agent import AgentProcess
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.settings import AgentSettings


@dataclass(slots=True, kw_only=True)
class AgentState(ProcessState):
    """The state of an agent's process, for its pages."""

    command: ClassVar[str] = "agent"
    process: AgentProcess

    def alive_checks(self) -> HealthChecks:
        """Return the checks of /healthz and /livez."""
        return {"agent": lambda: self.process.problem}

    def ready_checks(self) -> HealthChecks:
        """Return the checks of /readyz."""
        return {"agent": lambda: self.process.not_ready, "shutdown": self.shutdown}


def run_agent(kubeconfig: Path, health_port: int | None, settings: AgentSettings) -> None:
    """Run an agent until a stop signal; raise HoldfastError if it ends before.

    Health checks are served while it waits for its API server.
    """
    signals.run(_run(kubeconfig, health_port, settings))


async def _run(kubeconfig: Path, health_port: int | None, settings: AgentSettings) -> None:
    stop = signals.stop_event()
    endpoint, clock = await load(kubeconfig), SystemClock()
    process = AgentProcess(endpoint, settings, clock)
    pages = None
    try:
        if health_port is not None:
            state = AgentState(
                process=process, clock=clock, leads=lambda: True, metrics=process.metrics_page,
                stopping=lambda: process.stopping,
            )  # fmt: skip
            pages = await HealthServer.start(health_port, state)
        if await process.start(stop):
            _print_start(endpoint.url, settings, pages)
            await process.run(stop)
    finally:
        if pages is not None:
            await pages.close()
        await process.close()
    print("stopped; containers that are processes keep running until the next start", flush=True)


def _print_start(url: str, settings: AgentSettings, pages: HealthServer | None) -> None:
    print(f"running node {settings.node} for {url}")
    if settings.nodes.runtime == "process":
        print("  Pods run as processes of your user, not isolated.")
    elif settings.nodes.allow_process_runtime:
        print("  Pods that ask for it run as processes of your user, not isolated.")
    print(f"  directory for drivers: {settings.node_dir}")
    if pages is not None:
        print(f"  curl {pages.url}/healthz")
    print("Stop it with Ctrl-C.", flush=True)

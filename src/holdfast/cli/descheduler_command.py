"""``holdfast descheduler``: write PodMigrationJobs at intervals, or once, with a table."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from holdfast.cli import garbage_collection, signals
from holdfast.cli.elected_run import ElectedState, run_with_pages
from holdfast.cli.table import counted, format_table
from holdfast.client.kubeconfig import load
from holdfast.processes.descheduler import (
    DeschedulerConfiguration,
    DeschedulerProcess,
    DeschedulerProcessSettings,
    PlannedMove,
    load_settings,
    run_once,
)
from holdfast.runtime.clock import SystemClock


@dataclass(slots=True, kw_only=True)
class DeschedulerState(ElectedState):
    """The state of a descheduler process."""

    command: ClassVar[str] = "descheduler"
    process: DeschedulerProcess

    def failure(self) -> str:
        """Return a message if the descheduler has ended, else ""."""
        return "" if self.process.healthy else "the descheduler has ended"


def run_descheduler(
    kubeconfig: Path | None,
    health_port: int,
    config: Path | None,
    leader_elect: bool | None,
    *,
    once: bool,
    dry_run: bool,
) -> None:
    """Run the descheduler for the cluster of a kubeconfig, or of the configuration's kubeconfig."""
    settings = load_settings(config).with_flags(leader_elect=leader_elect, dry_run=dry_run)
    print_warnings(settings.configuration, config)
    if kubeconfig is None and (named := settings.configuration.client_connection.kubeconfig):
        kubeconfig = Path(named)
    if once:
        signals.run(_once(kubeconfig, settings))
        return
    flags = {
        "kubeconfig": kubeconfig or "",
        "health-port": health_port,
        "config": config or "",
        "leader_elect": leader_elect,
        "dry_run": dry_run,
    }
    signals.run(_deschedule(kubeconfig, health_port, settings, flags))


def print_warnings(configuration: DeschedulerConfiguration, config: Path | None) -> None:
    """Print warnings about parts of a file that are valid but probably mistakes."""
    for warning in configuration.warnings:
        print(f"holdfast: warning: {config}: {warning}", file=sys.stderr, flush=True)


async def _once(kubeconfig: Path | None, settings: DeschedulerProcessSettings) -> None:
    moves = await run_once(await load(kubeconfig), settings, SystemClock())
    print(moves_text(moves, dry_run=settings.configuration.dry_run), flush=True)


def moves_text(moves: Sequence[PlannedMove], *, dry_run: bool) -> str:
    """Return a table of the pods to move, and of what was done with each."""
    if not moves:
        return "no pod should move"
    rows = [
        (move.pod.namespace, move.pod.name, move.node, move.target or "-", move.policy, move.reason)
        for move in moves
    ]
    table = format_table(("NAMESPACE", "POD", "NODE", "TARGET", "POLICY", "REASON"), rows)
    written = sum(not dry_run and not move.dry_run for move in moves)
    done = counted(written, "PodMigrationJob") + " written" if written else "nothing was written"
    return f"{table}\n{done}"


async def _deschedule(
    kubeconfig: Path | None,
    health_port: int,
    settings: DeschedulerProcessSettings,
    flags: Mapping[str, Any],
) -> None:
    logging.getLogger("holdfast.controllers.descheduler").setLevel(logging.INFO)
    stop = signals.stop_event()
    endpoint, clock = await load(kubeconfig), SystemClock()

    def started() -> None:
        garbage_collection.freeze_existing_objects()
        interval = settings.configuration.interval_seconds
        print(f"descheduling every {interval:g} s for {endpoint.url}", flush=True)

    process = DeschedulerProcess(endpoint, settings, clock, started)
    state = DeschedulerState(
        process=process,
        clock=clock,
        leads=process.leads,
        metrics=process.metrics_page,
        lease=process.lease_problem,
        configuration=settings.configuration.effective(),
        flags=flags,
        stopping=lambda: process.stopping,
    )
    await run_with_pages(process, state, health_port, stop)

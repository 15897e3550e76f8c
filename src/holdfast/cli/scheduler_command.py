"""``holdfast scheduler``: run the scheduler in its own process, against any API server."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path

from holdfast.cli import garbage_collection, signals
from holdfast.cli.elected_run import run_with_pages
from holdfast.cli.scheduler_configuration import load_configuration
from holdfast.cli.scheduler_pages import SchedulerState
from holdfast.client.kubeconfig import load
from holdfast.processes.scheduler import SchedulerProcess
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.settings import SchedulerSettings
from holdfast.scheduling.configuration.reading import Configuration, effective_configuration
from holdfast.scheduling.scheduler.dump import log_dump


def run_scheduler(kubeconfig: Path | None, health_port: int, settings: SchedulerSettings) -> None:
    """Run the scheduler for the cluster of a kubeconfig, or of the configuration's kubeconfig."""
    configuration = load_configuration(settings.config)
    named = configuration.client_connection.kubeconfig
    where = kubeconfig or (Path(named) if named else None)
    signals.run(_schedule(where, configuration, health_port, settings))


async def _schedule(
    kubeconfig: Path | None,
    configuration: Configuration,
    health_port: int,
    settings: SchedulerSettings,
) -> None:
    stop = signals.stop_event()
    endpoint, clock = await load(kubeconfig), SystemClock()

    def started() -> None:
        names = ", ".join(configuration.profiles)
        print(f"scheduling for {endpoint.url} as {names}", flush=True)

    process = SchedulerProcess(
        endpoint,
        configuration,
        settings,
        clock,
        started=started,
        synced=garbage_collection.freeze_existing_objects,
    )
    signals.on_dump_signal(partial(log_dump, process.scheduler))
    state = SchedulerState(
        scheduler=process.scheduler,
        clock=clock,
        leads=process.leads,
        metrics=process.scheduler.metrics_page,
        lease=process.lease_problem,
        configuration=effective_configuration(configuration),
        flags={
            "kubeconfig": kubeconfig or "",
            "health-port": health_port,
            **asdict(settings),
            "feature_gates": str(settings.feature_gates),
        },
        stopping=lambda: process.stopping,
    )
    await run_with_pages(process, state, health_port, stop)

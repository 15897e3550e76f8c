"""``holdfast scheduler``: the scheduler in a process of its own, on any API server."""

from __future__ import annotations

import logging
from dataclasses import asdict
from functools import partial
from pathlib import Path

from holdfast.cli import collector, signals
from holdfast.cli.configured import configured
from holdfast.cli.health import HealthPage, Subject
from holdfast.client.kubeconfig import load
from holdfast.client.leader import LeaderElection
from holdfast.clock import SystemClock
from holdfast.configuration.reading import Configuration, effective
from holdfast.scheduler.dump import log_dump
from holdfast.scheduler_process import SchedulerProcess
from holdfast.settings import SchedulerSettings


def schedule(kubeconfig: Path | None, health_port: int, settings: SchedulerSettings) -> None:
    """Schedule for the cluster of a kubeconfig, or else of the configuration."""
    configuration = configured(settings.config)
    named = configuration.client_connection.kubeconfig
    where = kubeconfig or (Path(named) if named else None)
    signals.run(_schedule(where, configuration, health_port, settings))


async def _schedule(
    kubeconfig: Path | None,
    configuration: Configuration,
    health_port: int,
    settings: SchedulerSettings,
) -> None:
    stop = signals.stop_signal()
    endpoint, clock = await load(kubeconfig), SystemClock()

    def started() -> None:
        collector.settle()
        names = ", ".join(configuration.profiles)
        print(f"scheduling for {endpoint.url} as {names}", flush=True)

    process = SchedulerProcess(endpoint, configuration, settings, clock, started)
    signals.on_dump_signal(partial(log_dump, process.scheduler))
    subject = Subject(
        process.scheduler, clock, process.leads, process.lease_problem,
        configuration=effective(configuration),
        flags={"kubeconfig": kubeconfig or "", "health-port": health_port, **asdict(settings)},
        stopping=lambda: process.stopping,
    )  # fmt: skip
    page = await HealthPage.start(health_port, subject)
    if process.leader_elect:
        # Whoever waits for a lease wants to know what keeps it.
        logging.getLogger(LeaderElection.__module__).setLevel(logging.INFO)
        print(f"waiting for the lease {process.lease} as {process.identity}", flush=True)
    try:
        await process.run(stop)
    finally:
        await page.close()
        await process.close()
    print("stopped", flush=True)

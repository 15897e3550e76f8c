"""``holdfast controllers``: run the controllers in their own process, against any API server."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from holdfast.cli import garbage_collection, signals
from holdfast.cli.elected_run import ElectedState, run_with_pages
from holdfast.client.kubeconfig import load
from holdfast.processes.controllers import (
    ControllersProcess,
    ControllersProcessSettings,
    default_settings,
    settings_of_configuration,
)
from holdfast.runtime.clock import SystemClock


@dataclass(slots=True, kw_only=True)
class ControllersState(ElectedState):
    """The state of a controllers process."""

    command: ClassVar[str] = "controllers"
    process: ControllersProcess

    def failure(self) -> str:
        """Return why a controller does not run, or ""."""
        return self.process.failure_reason


def run_controllers(
    kubeconfig: Path | None, health_port: int, config: Path | None, leader_elect: bool | None
) -> None:
    """Run the controllers for the cluster of a kubeconfig, or of the configuration's kubeconfig."""
    flags = {
        "kubeconfig": kubeconfig or "",
        "health-port": health_port,
        "config": config or "",
        "leader_elect": leader_elect,
    }
    effective: Mapping[str, Any] = {}
    settings = default_settings(leader_elect=leader_elect)
    if config is not None:
        # Reading a configuration imports every plugin; without one they are not needed.
        from holdfast.cli.scheduler_configuration import load_configuration  # noqa: PLC0415
        from holdfast.scheduling.configuration.reading import effective_configuration  # noqa: PLC0415

        configuration = load_configuration(config)
        effective = effective_configuration(configuration)
        settings = settings_of_configuration(configuration, leader_elect=leader_elect)
        if kubeconfig is None and (named := configuration.client_connection.kubeconfig):
            kubeconfig = Path(named)
    signals.run(_control(kubeconfig, health_port, settings, effective, flags))


async def _control(
    kubeconfig: Path | None,
    health_port: int,
    settings: ControllersProcessSettings,
    configuration: Mapping[str, Any],
    flags: Mapping[str, Any],
) -> None:
    # A controller whose resources are installed later should log when it starts.
    logging.getLogger("holdfast.controllers").setLevel(logging.INFO)
    stop = signals.stop_event()
    endpoint, clock = await load(kubeconfig), SystemClock()

    def started() -> None:
        garbage_collection.freeze_existing_objects()
        names = ", ".join(process.running) or "no controller yet"
        print(f"running {names} for {endpoint.url}", flush=True)

    process = ControllersProcess(endpoint, settings, clock, started)
    state = ControllersState(
        process=process,
        clock=clock,
        leads=process.leads,
        metrics=process.metrics_page,
        lease=process.lease_problem,
        configuration=configuration,
        flags=flags,
        stopping=lambda: process.stopping,
    )
    await run_with_pages(process, state, health_port, stop)

"""``holdfast descheduler``: the descheduler with its own leader election, or one cycle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry, generate_latest

from holdfast.client.client import Client
from holdfast.client.endpoint import Endpoint
from holdfast.client.http import HttpTransport
from holdfast.controllers.descheduler.configuration import NAME, DeschedulerConfiguration, read
from holdfast.controllers.descheduler.descheduler import Descheduler
from holdfast.controllers.descheduler.plan import PlannedMove
from holdfast.processes.elected import ElectedProcess
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import BadConfiguration
from holdfast.runtime.metric_types import CallbackMetric, MetricCollector
from holdfast.runtime.settings import ElectionSettings, RequestLimits
from holdfast.scheduling.configuration.file import load as load_scheduling
from holdfast.scheduling.configuration.file import load_descheduling
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.plugins import default_profiles
from holdfast.state.migration.arguments import KIND

__all__ = [
    "DeschedulerConfiguration",
    "DeschedulerProcess",
    "DeschedulerProcessSettings",
    "PlannedMove",
    "load_settings",
    "run_once",
]


@dataclass(frozen=True, slots=True)
class DeschedulerProcessSettings:
    """The settings of the process."""

    configuration: DeschedulerConfiguration = field(default_factory=DeschedulerConfiguration)
    profiles: Mapping[str, Profile] = field(default_factory=default_profiles)
    """The profiles of the scheduler, with which targets are predicted."""

    def with_flags(self, *, leader_elect: bool | None, dry_run: bool) -> DeschedulerProcessSettings:
        """Return the settings with flags, which take precedence over the file."""
        given = self.configuration
        election = given.leader_election
        if leader_elect is not None:
            election = msgspec.structs.replace(election, leader_elect=leader_elect)
        changed = replace(given, dry_run=given.dry_run or dry_run, leader_election=election)
        return replace(self, configuration=changed)


def load_settings(path: Path | None, *, required: bool = True) -> DeschedulerProcessSettings:
    """Return the settings in a file, which may also have the configuration of the scheduler.

    Without ``required``, the file may lack a DeschedulerConfiguration.
    """
    if path is None:
        return DeschedulerProcessSettings()
    configuration = load_descheduling(path, read)
    if configuration is None and required:
        raise BadConfiguration(f"{path}: expected a {KIND}, found none")
    profiles = load_scheduling(path).profiles
    return DeschedulerProcessSettings(configuration or DeschedulerConfiguration(), profiles)


class DeschedulerProcess(ElectedProcess):
    """The descheduler; ``started`` is called when the informers have synced."""

    name = NAME
    subject = "the descheduler"

    def __init__(
        self,
        endpoint: Endpoint,
        settings: DeschedulerProcessSettings,
        clock: Clock,
        started: Callable[[], None] = lambda: None,
    ) -> None:
        given = settings.configuration
        connection, election = given.client_connection, given.leader_election
        super().__init__(
            endpoint,
            ElectionSettings(
                election.resource_name,
                election.resource_namespace,
                election.leader_elect,
                election.lease_duration,
                election.renew_deadline,
                election.retry_period,
            ),
            RequestLimits(connection.qps, connection.burst),
            clock,
        )
        self._started = started
        self._descheduler = Descheduler(self.client, clock, given, settings.profiles.values())
        unreadable = CallbackMetric(
            "holdfast_objects_not_taken_in_total",
            "Objects that were unreadable, invalid or raised an error, since the start.",
            ("resource", "trouble"),
            self._descheduler.informers.error_counts,
        )
        self._registry = CollectorRegistry(auto_describe=False)
        for metrics in (
            self._descheduler.metrics,
            self.leader_metrics,
            MetricCollector(unreadable),
        ):
            self._registry.register(metrics)

    @property
    def ready(self) -> bool:
        """Whether the informers have synced."""
        return self._descheduler.ready

    @property
    def healthy(self) -> bool:
        """Whether the descheduler runs."""
        return self._descheduler.healthy

    async def work(self) -> None:
        """Deschedule at intervals until it fails."""
        await self._descheduler.start(self._started)
        await self._descheduler.wait()

    async def stop_work(self) -> None:
        """Stop the descheduler and its informers."""
        await self._descheduler.stop()

    def metrics_page(self) -> bytes:
        """Render /metrics."""
        return generate_latest(self._registry)


async def run_once(
    endpoint: Endpoint, settings: DeschedulerProcessSettings, clock: Clock
) -> list[PlannedMove]:
    """Run one cycle without a lease, and return what was moved."""
    client = Client(HttpTransport(endpoint), NAME)
    descheduler = Descheduler(client, clock, settings.configuration, settings.profiles.values())
    try:
        await descheduler.sync()
        return await descheduler.run_cycle()
    finally:
        await descheduler.stop()
        await client.close()

"""The scheduler of ``holdfast scheduler``: transports, leader election and controllers."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.client.client import Client
from holdfast.client.endpoint import Endpoint
from holdfast.controllers.controller_manager import BESIDE_KUBERNETES, ControllerManager
from holdfast.controllers.profile_settings import controller_settings
from holdfast.processes.elected import ElectedProcess
from holdfast.runtime.clock import Clock
from holdfast.runtime.settings import SchedulerSettings
from holdfast.runtime.tasks import wait_for_first
from holdfast.scheduling.configuration.reading import (
    Configuration,
    election_settings,
    request_limits,
)
from holdfast.scheduling.scheduler.scheduler import Scheduler


def scheduler_for(
    client: Client, clock: Clock, configuration: Configuration, settings: SchedulerSettings
) -> Scheduler:
    """Return the scheduler of a configuration."""
    return Scheduler(
        client,
        clock,
        configuration.profiles,
        extenders=configuration.extenders,
        backoff=configuration.backoff,
        seed=settings.seed,
        check_invariants=settings.check_invariants,
        feature_gates=settings.feature_gates,
    )


class SchedulerProcess(ElectedProcess):
    """A scheduler, with the controllers unless the settings leave them out.

    ``synced`` is called before the first pod is scheduled, ``started`` when the scheduler and the
    controllers run.
    """

    name = "holdfast-scheduler"
    subject = "the scheduler"

    def __init__(
        self,
        endpoint: Endpoint,
        configuration: Configuration,
        settings: SchedulerSettings,
        clock: Clock,
        *,
        started: Callable[[], None] = lambda: None,
        synced: Callable[[], None] = lambda: None,
    ) -> None:
        election = election_settings(configuration, leader_elect=settings.leader_elect)
        super().__init__(endpoint, election, request_limits(configuration), clock)
        self._started, self._synced = started, synced
        self.scheduler = scheduler_for(self.client, clock, configuration, settings)
        # The controllers share the scheduler's informers.
        self._controllers = ControllerManager(
            self.client,
            clock,
            self.scheduler.recorder,
            kinds=BESIDE_KUBERNETES if settings.controllers else (),
            informers=self.scheduler.informers.informer_set,
            settings=controller_settings(configuration, settings.feature_gates),
        )
        for metrics in (self._controllers.metrics, self.leader_metrics):
            self.scheduler.metrics.registry.register(metrics)

    async def work(self) -> None:
        """Schedule and reconcile until one of them fails."""
        await self.scheduler.start()
        self._synced()
        await self._controllers.start()
        self._started()
        await wait_for_first(self.scheduler.wait(), self._controllers.failure())

    async def stop_work(self) -> None:
        """Stop the controllers, then the scheduler with the informers of both."""
        await self._controllers.stop()
        await self.scheduler.stop()

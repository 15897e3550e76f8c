"""The controllers of ``holdfast controllers``, with their own leader election."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest

from holdfast.client.endpoint import Endpoint
from holdfast.controllers.controller_manager import BESIDE_KUBERNETES, ControllerManager
from holdfast.processes.elected import ElectedProcess
from holdfast.runtime.clock import Clock
from holdfast.runtime.metric_types import CallbackMetric, MetricCollector
from holdfast.runtime.settings import ControllerSettings, ElectionSettings, RequestLimits

if TYPE_CHECKING:
    from holdfast.scheduling.configuration.reading import Configuration

NAME = "holdfast-controllers"
"""The name of the lease, and the user agent."""


@dataclass(frozen=True, slots=True)
class ControllersProcessSettings:
    """The settings of the process and of its controllers."""

    election: ElectionSettings = field(default_factory=lambda: ElectionSettings(NAME))
    limits: RequestLimits = field(default_factory=RequestLimits)
    controllers: ControllerSettings = field(default_factory=ControllerSettings)


def default_settings(*, leader_elect: bool | None) -> ControllersProcessSettings:
    """Return the settings without a configuration."""
    return ControllersProcessSettings(
        ElectionSettings(NAME, leader_elect=leader_elect is not False)
    )


def settings_of_configuration(
    configuration: Configuration, *, leader_elect: bool | None
) -> ControllersProcessSettings:
    """Return the settings in a configuration of the scheduler, with the name of our own lease."""
    # These import every plugin; without a configuration they are not needed.
    from holdfast.controllers.profile_settings import controller_settings  # noqa: PLC0415
    from holdfast.scheduling.configuration.reading import (  # noqa: PLC0415
        election_settings,
        request_limits,
    )

    return ControllersProcessSettings(
        election_settings(configuration, leader_elect=leader_elect, name=NAME),
        request_limits(configuration),
        controller_settings(configuration),
    )


class ControllersProcess(ElectedProcess):
    """The controllers to run in addition to kube-controller-manager.

    ``started`` is called when the informers have synced and the controllers run.
    """

    name = NAME
    subject = "a controller"

    def __init__(
        self,
        endpoint: Endpoint,
        settings: ControllersProcessSettings,
        clock: Clock,
        started: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(endpoint, settings.election, settings.limits, clock)
        self._started = started
        self._manager = ControllerManager(
            self.client, clock, kinds=BESIDE_KUBERNETES, settings=settings.controllers
        )
        unreadable = CallbackMetric(
            "holdfast_objects_not_taken_in_total",
            "Objects that were unreadable, invalid or raised an error, since the start.",
            ("resource", "trouble"),
            self._manager.informers.error_counts,
        )
        self._registry = CollectorRegistry(auto_describe=False)
        for metrics in (self._manager.metrics, self.leader_metrics, MetricCollector(unreadable)):
            self._registry.register(metrics)

    @property
    def running(self) -> tuple[str, ...]:
        """The names of the controllers that were started."""
        return self._manager.running

    @property
    def ready(self) -> bool:
        """Whether the informers have synced and the controllers run."""
        return self._manager.ready

    @property
    def failure_reason(self) -> str:
        """The controller that has stopped and why, "" while all run."""
        return self._manager.failure_reason

    async def work(self) -> None:
        """Reconcile until a controller fails."""
        await self._manager.start()
        self._started()
        await self._manager.failure()

    async def stop_work(self) -> None:
        """Stop the controllers and their informers."""
        await self._manager.stop()

    def metrics_page(self) -> bytes:
        """Render /metrics."""
        return generate_latest(self._registry)

"""The HTTP pages of a controllers process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from holdfast.cli.health import HealthChecks, ProcessState
from holdfast.controllers_process import ControllersProcess


@dataclass(slots=True, kw_only=True)
class ControllersState(ProcessState):
    """The state of a controllers process."""

    command: ClassVar[str] = "controllers"
    process: ControllersProcess

    def alive_checks(self) -> HealthChecks:
        """Return the checks of /healthz and /livez."""
        return {**ProcessState.alive_checks(self), "controllers": self.reconciling}

    def ready_checks(self) -> HealthChecks:
        """Return the checks of /readyz."""
        return {**ProcessState.ready_checks(self), "informer-sync": self.informer_sync}

    def reconciling(self) -> str:
        """Return why a controller does not run, or ""."""
        if self.leads() and self.process.ready and not self.stopping():
            return self.process.failure_reason
        return ""

    def informer_sync(self) -> str:
        """Return why the informers are not synced, or ""."""
        return "" if self.process.ready or not self.leads() else "informers are not synced yet"

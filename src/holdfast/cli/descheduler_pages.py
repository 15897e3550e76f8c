"""The HTTP pages of a descheduler process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from holdfast.cli.health import HealthChecks, ProcessState
from holdfast.descheduler_process import DeschedulerProcess


@dataclass(slots=True, kw_only=True)
class DeschedulerState(ProcessState):
    """The state of a descheduler process."""

    command: ClassVar[str] = "descheduler"
    process: DeschedulerProcess

    def alive_checks(self) -> HealthChecks:
        """Return the checks of /healthz and /livez."""
        return {**ProcessState.alive_checks(self), "descheduler": self.descheduling}

    def ready_checks(self) -> HealthChecks:
        """Return the checks of /readyz."""
        return {**ProcessState.ready_checks(self), "informer-sync": self.informer_sync}

    def descheduling(self) -> str:
        """Return that the descheduler has ended, or ""."""
        if self.leads() and self.process.ready and not self.stopping():
            return "" if self.process.healthy else "the descheduler has ended"
        return ""

    def informer_sync(self) -> str:
        """Return why the informers are not synced, or ""."""
        return "" if self.process.ready or not self.leads() else "informers are not synced yet"

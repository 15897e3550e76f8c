"""What every controller is: informers fill a queue of keys, workers make each key true."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from holdfast.api.meta import Object, ObjectReference
from holdfast.api.resource import Resource
from holdfast.client.client import Client
from holdfast.client.events import EventRecorder
from holdfast.client.informer_set import InformerSet
from holdfast.client.workqueue import WorkQueue, work
from holdfast.clock import Clock
from holdfast.errors import Conflict, HoldfastError, Retryable
from holdfast.settings import ReservationSettings

TELL_AFTER = 5
"""How many times in a row the work on an object fails before an event says so."""
MOST_TEXT = 1024
"""How long the message of an event may be."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What a controller is given: a client, shared informers, a clock, a recorder, its settings."""

    client: Client
    informers: InformerSet
    clock: Clock
    recorder: EventRecorder
    reservations: ReservationSettings = field(default_factory=ReservationSettings)


class Reconciler:
    """One controller. Subclasses add handlers that queue keys, and say what to do with a key.

    ``needs`` are the resources without which the controller is of no use; where a cluster does
    not serve them it is not started.
    """

    name = ""
    needs: tuple[Resource[Any], ...] = ()
    workers = 2

    def __init__(self, tools: Tools) -> None:
        self.client = tools.client
        self.informers = tools.informers
        self.clock = tools.clock
        self.recorder = tools.recorder
        self.queue = WorkQueue(tools.clock)
        self._running = False

    async def reconcile(self, key: str) -> None:
        """Make the cluster agree with what the object of that key asks for."""
        raise NotImplementedError

    async def run(self) -> None:
        """Work until ``stop``; a failure is tried again and ends nothing."""
        self._running = True
        try:
            await self.caught_up()
            await work(self.queue, self.reconcile, workers=self.workers, name=self.name,
                       failed=self._tell_failure)  # fmt: skip
        finally:
            self._running = False

    async def caught_up(self) -> None:
        """Wait until all it needs has been read once: half a picture is a wrong one."""
        for resource in self.needs:
            await self.informers.get(resource).synced()

    def stop(self) -> None:
        """Take no more keys; ``run`` ends when those in line are done."""
        self.queue.shutdown()

    @property
    def healthy(self) -> bool:
        """Whether the controller is at work."""
        return self._running

    def tell(self, about: Object | ObjectReference, type_: str, reason: str, message: str) -> None:
        """Record an event about an object."""
        self.recorder.record(about, type_, reason, message, component=self.name)

    def subject(self, key: str) -> Object | ObjectReference | None:
        """Find the object that a key is about: that of the first resource the controller needs."""
        found: Object | None = None
        if self.needs:
            found = self.informers.get(self.needs[0]).cache.get(key)
        return found

    def _tell_failure(self, key: str, failure: Exception, failures: int) -> None:
        """Say on the object that its controller cannot work with it."""
        if failures < TELL_AFTER or isinstance(failure, Conflict | Retryable):
            return  # the next attempt may succeed, or the reconciler has told already
        about = self.subject(key)
        if about is not None:
            known = isinstance(failure, HoldfastError)
            words = str(failure) if known else f"{type(failure).__name__}: {failure}"
            self.tell(about, "Warning", "FailedReconcile", f"Error: {words}"[:MOST_TEXT])

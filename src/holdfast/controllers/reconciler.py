"""The base class of controllers: informers enqueue keys, workers reconcile them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from holdfast.api.meta import Object, ObjectReference
from holdfast.api.resource import Resource
from holdfast.client.client import Client
from holdfast.client.events import EventRecorder
from holdfast.client.informer_set import InformerSet
from holdfast.client.workqueue import WorkQueue, run_workers
from holdfast.controllers.metrics import ControllerMetrics
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import Conflict, HoldfastError, Retryable
from holdfast.runtime.feature_gates import Feature
from holdfast.runtime.settings import ControllerSettings

EVENT_AFTER_FAILURES = 5
"""An event is recorded after this many consecutive failures of an object."""
MAX_MESSAGE_LENGTH = 1024
"""The maximum length of an event's message."""


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """What all controllers share: client, informers, clock, events, metrics and settings."""

    client: Client
    informers: InformerSet
    clock: Clock
    recorder: EventRecorder
    metrics: ControllerMetrics
    settings: ControllerSettings = field(default_factory=ControllerSettings)


class Reconciler:
    """A controller. Subclasses add event handlers that enqueue keys, and implement ``reconcile``.

    A controller is started only if its ``feature`` is on, and only on an API server that serves
    all ``required_resources``.
    """

    name = ""
    feature: Feature | None = None
    queue_name = ""
    """The name of the work queue in metrics, if upstream's is not the name of the controller."""
    required_resources: tuple[Resource[Any], ...] = ()
    optional = False
    """Whether it waits without a warning for resources that the API server does not serve."""
    workers = 2

    def __init__(self, context: ControllerContext) -> None:
        self.client = context.client
        self.informers = context.informers
        self.clock = context.clock
        self.recorder = context.recorder
        self._metrics = context.metrics
        observer = context.metrics.queues.queue(self.queue_name or self.name)
        self.queue = WorkQueue(context.clock, observer=observer)
        self._running = False

    async def reconcile(self, key: str) -> None:
        """Make the cluster match the spec of the object of a key."""
        raise NotImplementedError

    async def run(self) -> None:
        """Process the queue until ``stop``; failed keys are retried."""
        self._running = True
        try:
            await self.wait_for_sync()
            await run_workers(self.queue, self._measured, workers=self.workers, name=self.name,
                       failed=self._record_failure_event)  # fmt: skip
        finally:
            self._running = False

    async def _measured(self, key: str) -> None:
        """Reconcile a key, and count the result and the duration."""
        began, failed = self.clock.monotonic(), False
        try:
            await self.reconcile(key)
        except Exception:
            failed = True
            raise
        finally:
            self._metrics.reconciled(self.name, self.clock.monotonic() - began, failed=failed)

    async def wait_for_sync(self) -> None:
        """Wait until the informers of all required resources have synced."""
        for resource in self.required_resources:
            await self.informers.get(resource).wait_for_sync()

    def stop(self) -> None:
        """Accept no more keys; ``run`` ends when the queued ones are processed."""
        self.queue.shutdown()

    @property
    def healthy(self) -> bool:
        """Whether the controller is running."""
        return self._running

    def record_event(
        self, about: Object | ObjectReference, type_: str, reason: str, message: str
    ) -> None:
        """Record an event about an object."""
        self.recorder.record(about, type_, reason, message, component=self.name)

    def object_for_key(self, key: str) -> Object | ObjectReference | None:
        """Return the object of a key, from the cache of the first required resource."""
        obj: Object | None = None
        if self.required_resources:
            obj = self.informers.get(self.required_resources[0]).cache.get(key)
        return obj

    def _record_failure_event(self, key: str, failure: Exception, failures: int) -> None:
        self.record_failure(self.object_for_key(key), failure, failures)

    def record_failure(
        self, about: Object | ObjectReference | None, failure: Exception, failures: int
    ) -> None:
        """Record an event about an object that fails repeatedly."""
        if failures < EVENT_AFTER_FAILURES or isinstance(failure, Conflict | Retryable):
            return  # the next attempt may succeed, or the controller has recorded an event
        if about is not None:
            known = isinstance(failure, HoldfastError)
            message = str(failure) if known else f"{type(failure).__name__}: {failure}"
            self.record_event(
                about, "Warning", "FailedReconcile", f"Error: {message}"[:MAX_MESSAGE_LENGTH]
            )

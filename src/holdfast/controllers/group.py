"""All controllers together: shared informers, one start, one stop."""

from __future__ import annotations

import asyncio
import logging

from holdfast.client.backoff import Backoff, retry
from holdfast.client.client import Client
from holdfast.client.events import EventRecorder
from holdfast.client.informer_set import InformerSet
from holdfast.clock import Clock
from holdfast.controllers.claim_cleanup import ResourceClaimController
from holdfast.controllers.deployment import DeploymentController
from holdfast.controllers.discovery import ServedResources, discover
from holdfast.controllers.disruption import DisruptionController
from holdfast.controllers.garbage import GarbageCollector
from holdfast.controllers.namespace import NamespaceController
from holdfast.controllers.node_taints import NodeTaintController
from holdfast.controllers.reconciler import Reconciler, Tools
from holdfast.controllers.replicaset import ReplicaSetController
from holdfast.controllers.reservation import ReservationController
from holdfast.controllers.stranded_pods import StrandedPodController
from holdfast.errors import HoldfastError
from holdfast.settings import ReservationSettings

CONTROLLERS: tuple[type[Reconciler], ...] = (
    NamespaceController,
    NodeTaintController,
    ReplicaSetController,
    DeploymentController,
    DisruptionController,
    StrandedPodController,
    ResourceClaimController,
    ReservationController,
)
BESIDE_KUBERNETES: tuple[type[Reconciler], ...] = (ReservationController,)
"""What to run on a cluster whose own controller manager does the rest."""
LOOK_AGAIN_EVERY = 30.0
ASK_AGAIN = Backoff(first=1.0, limit=1.0)
LOOK_SECONDS = 1.0
"""How often to look whether every controller still lives."""

log = logging.getLogger(__name__)


class ControllerGroup:
    """Run every controller whose resources the server serves; the rest when it does.

    ``informers`` may be somebody else's in the same process, who has them started already.

    ``await start()`` returns when all have read the cluster once; ``run()`` also stays until
    ``stop()``.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        recorder: EventRecorder | None = None,
        *,
        kinds: tuple[type[Reconciler], ...] = CONTROLLERS,
        reservations: ReservationSettings | None = None,
        informers: InformerSet | None = None,
    ) -> None:
        self._own_recorder = recorder is None
        self._own_informers = informers is None
        self._recorder = recorder or EventRecorder(client, clock, component="holdfast-controllers")
        self._tools = Tools(
            client, informers or InformerSet(client, clock=clock), clock, self._recorder,
            reservations or ReservationSettings(),
        )  # fmt: skip
        self._running: dict[Reconciler, asyncio.Task[None]] = {}
        self._waiting = list(kinds)
        self._collects = kinds is CONTROLLERS
        self._looking: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()
        self.ready = False

    async def start(self) -> None:
        """Start what can be started; the garbage collector last, on everybody's informers."""
        if self._own_recorder:
            self._recorder.start()
        await self._start_served(await self._ask_what_is_served())
        if self._collects:
            shared = {resource for each in self._running for resource in each.needs}
            self._start_one(GarbageCollector(self._tools, shared))
        await self._tools.informers.start()
        self._looking = asyncio.create_task(self._look_again(), name="controllers: look again")
        self.ready = True

    async def run(self) -> None:
        """Start, and stay until stopped."""
        await self.start()
        await self._stopped.wait()

    async def stop(self) -> None:
        """Finish what is in hand and end."""
        self.ready = False
        if self._looking is not None:
            self._looking.cancel()
        if self._own_informers:
            await self._tools.informers.stop()
        for controller in self._running:
            controller.stop()
        for task in self._running.values():
            task.cancel()
        tasks = [*self._running.values(), *([self._looking] if self._looking else [])]
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._own_recorder:
            await self._recorder.stop()
        self._stopped.set()

    @property
    def healthy(self) -> bool:
        """Whether every started controller still works."""
        return self.ready and all(each.healthy for each in self._running)

    async def failure(self) -> None:
        """Wait until a controller ends by itself, and raise what it ended with."""
        while not (ended := [task for task in self._running.values() if task.done()]):
            await self._tools.clock.sleep(LOOK_SECONDS)
        ended[0].result()
        raise HoldfastError(f"the {ended[0].get_name()} has stopped")

    async def _ask_what_is_served(self) -> ServedResources:
        def tell(failure: HoldfastError) -> None:
            log.warning("cannot tell what is served: %s; trying again", failure)

        tools = self._tools
        return await retry(lambda: discover(tools.client), tools.clock, ASK_AGAIN, tell=tell)

    async def _start_served(self, served: ServedResources) -> None:
        for kind in list(self._waiting):
            if all(resource in served for resource in kind.needs):
                self._waiting.remove(kind)
                self._start_one(kind(self._tools))

    def _start_one(self, controller: Reconciler) -> None:
        task = asyncio.create_task(controller.run(), name=controller.name)
        self._running[controller] = task

    async def _look_again(self) -> None:
        """Start the controllers of custom resources that were installed later."""
        while self._waiting:
            missing = ", ".join(kind.name for kind in self._waiting)
            log.info("not started, the server does not serve their resources: %s", missing)
            await self._tools.clock.sleep(LOOK_AGAIN_EVERY)
            try:
                await self._start_served(await discover(self._tools.client))
                await self._tools.informers.start()
            except HoldfastError as failure:
                log.warning("cannot tell what is served: %s; trying again", failure)

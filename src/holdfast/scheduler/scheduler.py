"""The scheduler as a component: informers in, decisions, bindings out; start, health, stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

import numpy as np

from holdfast.client.adaptive_limit import START
from holdfast.client.client import Client
from holdfast.client.events import EventRecorder
from holdfast.clock import Clock
from holdfast.engine.audit import Auditor
from holdfast.engine.profile import Profile
from holdfast.framework.extender import EXTENDER, ExtenderConfig
from holdfast.framework.plugin import Placement
from holdfast.framework.world import World
from holdfast.scheduler.binding import Driver
from holdfast.scheduler.binding_cycle import BindingTasks, Flight, Flights
from holdfast.scheduler.consultation import Consultations
from holdfast.scheduler.cycle import TurnedAway, attempt
from holdfast.scheduler.errands import Errands
from holdfast.scheduler.extenders import Extenders
from holdfast.scheduler.hearing import Hearing
from holdfast.scheduler.metrics import Metrics, Stopwatch, add_levels
from holdfast.scheduler.news import NewsDesk
from holdfast.scheduler.object_metrics import ReservationMetrics
from holdfast.scheduler.outcomes import Outcomes
from holdfast.scheduler.plugin_metrics import Meter
from holdfast.scheduler.preemption import Evictor
from holdfast.scheduler.queued_pods import QueuedPod
from holdfast.scheduler.reports import Reporter
from holdfast.scheduler.reservation_news import ReservationDesk
from holdfast.scheduler.resizing import Resizer
from holdfast.scheduler.scheduling_queue import SchedulingQueue
from holdfast.scheduler.sources import Sources

log = logging.getLogger(__name__)

SLICE_SECONDS = 0.002
"""How long deciding may hold the loop before news and bindings get their turn."""
STOP_SECONDS = 5.0
"""How long stopping waits for writes under way."""
MOST_BINDINGS = START
"""Bindings writing at once; beyond it deciding waits for one to finish. Those that wait for a
volume to be made write nothing meanwhile. As many as event writers, so that on a busy server the
last event is stored soon after the last bind; more would queue there and cost a connection each."""


class Scheduler:
    """Finds nodes for the pods (and reservations) of its profiles.

    ``backoff`` is how long a pod waits after its first rejection, and at most; seconds.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        profiles: Mapping[str, Profile],
        *,
        extenders: Sequence[ExtenderConfig] = (),
        seed: int | None = None,
        check: bool = False,
        backoff: tuple[float, float] = (1.0, 10.0),
    ) -> None:
        self._clock = clock
        self._ready = asyncio.Event()
        self.metrics = metrics = Metrics()
        self._meter = Meter(metrics, clock.monotonic)
        self.profiles = {name: self._meter.profile(found) for name, found in profiles.items()}
        self.world = World(uncounted=self._uncounted, auditor=Auditor if check else None)
        hearing = Hearing(
            self.profiles,
            self.world,
            clock.now,
            {EXTENDER} if extenders else (),
            Stopwatch(clock.monotonic, metrics.hint_seconds.observe),
        )
        self.queue = SchedulingQueue(
            judge=hearing.judge, gatekeeper=hearing.gate, hearers=hearing.hearers,
            alike=hearing.alike, mark=hearing.mark, on_ready=self._ready.set,
            on_move=metrics.incoming.add, initial_backoff=backoff[0], longest_backoff=backoff[1],
        )  # fmt: skip
        self.recorder = EventRecorder(client, clock)
        self._reporter = reporter = Reporter(client, self.recorder, clock)
        self._desk = NewsDesk(
            self.world,
            self.queue,
            self.profiles.__contains__,
            clock.monotonic,
            Stopwatch(clock.monotonic, metrics.event_seconds.observe),
        )
        self._errands = errands = Errands()
        self._resizer = Resizer(client, clock, self.world, self.recorder, errands.go)
        reservations = ReservationDesk(
            self._desk,
            lambda pod_info, words: errands.go(reporter.refuse(pod_info, words)),
            self._resizer,
        )
        self.sources = Sources(client, clock, self._desk, reservations)
        self._rng = np.random.default_rng(seed)  # noqa: TID251 - the one place dice are made
        self._bindings = BindingTasks(self.world)
        evictor = Evictor(
            client, clock, self.world, self.queue, reporter, self._bindings.recall,
            Stopwatch(clock.monotonic, metrics.evicted),
        )  # fmt: skip
        self._outcomes = Outcomes(
            client, clock, self.world, self.queue, reporter, metrics, evictor, errands
        )
        self.extenders = Extenders(extenders, client, clock, self.world)
        watch = Stopwatch(clock.monotonic, metrics.point_seconds.observe)
        driver = Driver(client, clock, self.extenders, watch=watch)
        self._flights = Flights(driver, self._outcomes, self._bindings)
        self._consultations = Consultations(
            self.extenders, self.profiles, self.world, clock, self._rng, self._conclude,
            self._bindings.landed,
        )  # fmt: skip
        metrics.registry.register(ReservationMetrics(self.sources.reservations))
        add_levels(
            metrics,
            self.queue,
            self.world,
            self._bindings.__len__,
            self.sources.informers.error_counts,
        )
        self._loops: list[asyncio.Task[None]] = []
        self.synced = asyncio.Event()

    @property
    def healthy(self) -> bool:
        """Every loop still runs."""
        return not self.failure_reason

    @property
    def failure_reason(self) -> str:
        """Say which loop has stopped, and of what; "" while all run."""
        if not self._loops:
            return "deciding has not begun"
        for task in self._loops:
            if task.done():
                cause = None if task.cancelled() else task.exception()
                return f"{task.get_name()} has stopped: {cause!r}"
        return ""

    async def start(self) -> None:
        """Read the whole cluster, then begin to decide; returns once reading is done."""
        self.recorder.start()
        await self.sources.start()
        await self.extenders.start()
        self.synced.set()
        self._resizer.begin()
        self._loops = [
            asyncio.create_task(self._decide_forever(), name="scheduler: decide"),
            asyncio.create_task(self._flush_forever(), name="scheduler: flush"),
            # Deciding on a picture that is no longer kept up would be worse than not deciding.
            asyncio.create_task(self.sources.wait_until_stopped(), name="scheduler: follow"),
        ]

    async def stopped(self) -> None:
        """Wait until deciding ends; a loop that failed raises what it failed with."""
        await asyncio.gather(*self._loops)

    async def stop(self) -> None:
        """Finish the bindings under way, for a few seconds at most, write the last events, stop."""
        for task in self._loops:
            task.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        await self._consultations.stop()
        await asyncio.gather(
            self._bindings.finish(self._clock, STOP_SECONDS),
            self._errands.finish(self._clock, STOP_SECONDS),
        )
        await self.extenders.stop()
        await self.sources.stop()
        await self.recorder.stop()

    async def _decide_forever(self) -> None:
        while True:
            await self._ready.wait()
            began = self._clock.monotonic()
            while (queued := self.queue.pop(self._clock.monotonic())) is not None:
                self.try_one(queued)
                if self._flights.writing >= MOST_BINDINGS:
                    await self._bindings.errands.one_done()
                    began = self._clock.monotonic()
                elif self._clock.monotonic() - began > SLICE_SECONDS:
                    await asyncio.sleep(0)
                    began = self._clock.monotonic()
            self._ready.clear()

    async def _flush_forever(self) -> None:
        while True:
            now = self._clock.monotonic()
            await self._clock.sleep(1.0 - now % 1.0)
            self.queue.flush(self._clock.monotonic())
            self._resizer.retry()

    def try_one(self, queued: QueuedPod) -> None:
        """Give one pod its turn; what takes time goes on beside the next pod's turn."""
        pod_info = queued.pod_info
        if pod_info.terminating:
            self.queue.done(pod_info.uid)
            self._reporter.failed(pod_info, f"skip schedule deleting pod: {pod_info.key}")
            return
        if self.extenders and self.extenders.wanted(pod_info):
            self._consultations.enter(queued)
            return
        profile = self.profiles[pod_info.scheduler_name]
        began = self._clock.monotonic()
        self._meter.begin()
        try:
            outcome = attempt(profile, pod_info, self.world, self._clock.now(), self._rng)
        except Exception as failure:
            # One pod with an impossible field must not stop the others.
            log.exception("deciding for %s failed", pod_info.key)
            self._outcomes.failed(queued, str(failure) or repr(failure))
            return
        took = self._clock.monotonic() - began
        self.metrics.algorithm_seconds.observe(took)
        self._meter.end(pod_info.scheduler_name, placed=isinstance(outcome, Placement))
        self._conclude(queued, outcome, took)

    def _conclude(
        self, queued: QueuedPod, outcome: Placement | TurnedAway | None, took: float
    ) -> None:
        """Do what an attempt came to; None: the pod wants no node any more."""
        if self.world.auditor is not None:
            self.world.auditor.complain()
        if outcome is None:
            self.queue.done(queued.uid)
        elif isinstance(outcome, TurnedAway):
            self._outcomes.turned_away(queued, outcome, took)
        else:
            self._placed(queued, outcome, took)

    def _placed(self, queued: QueuedPod, placement: Placement, took: float) -> None:
        profile = self.profiles[queued.pod_info.scheduler_name]
        self._flights.begin(Flight(queued, profile, placement, took))
        if placement.promised and placement.promised != placement.node:
            self._desk.promise_ended(queued.pod_info, placement.promised)

    def _uncounted(self, resource: str) -> bool:
        return any(profile.uncounted(resource) for profile in self.profiles.values())

    def metrics_page(self) -> bytes:
        """Render /metrics as things are now."""
        return self.metrics.page()

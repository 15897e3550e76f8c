"""The scheduler as a component: informers in, decisions, bindings out; start, health, stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import numpy as np

from holdfast.client.client import Client
from holdfast.client.events import EventRecorder
from holdfast.clock import Clock
from holdfast.columns.pod_facts import PodFacts
from holdfast.errors import HoldfastError
from holdfast.framework.audit import Auditor
from holdfast.framework.plugin import (
    ClusterEvent,
    Code,
    Effect,
    Placement,
    PreBinds,
    concerned,
)
from holdfast.framework.profile import Profile
from holdfast.framework.runner import closed_gate
from holdfast.framework.waiting import WaitingPod
from holdfast.framework.world import World
from holdfast.scheduler.aftermath import Aftermath, find_out
from holdfast.scheduler.binding import BindFailed, Driver, bind, carry_out, post_bind, undo
from holdfast.scheduler.cycle import TurnedAway, attempt, refused_there, release
from holdfast.scheduler.hearing import Hearing
from holdfast.scheduler.metrics import Metrics
from holdfast.scheduler.news import NewsDesk, on_node
from holdfast.scheduler.permission import await_word
from holdfast.scheduler.preemption import PREEMPTING, Evictor
from holdfast.scheduler.queue import SchedulingQueue
from holdfast.scheduler.queued_pod import QueuedPod
from holdfast.scheduler.reports import Reporter
from holdfast.scheduler.reservation_metrics import ReservationMetrics
from holdfast.scheduler.reservation_news import ReservationDesk
from holdfast.scheduler.resizing import Resizer
from holdfast.scheduler.sources import Sources

log = logging.getLogger(__name__)

SLICE_SECONDS = 0.002
"""How long deciding may hold the loop before news and bindings get their turn."""
STOP_SECONDS = 5.0
"""How long stopping waits for writes under way."""
MOST_BINDINGS = 128
"""Bindings writing at once; beyond it deciding waits for one to finish. Those that wait for a
volume to be made write nothing meanwhile."""


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
        seed: int | None = None,
        check: bool = False,
        backoff: tuple[float, float] = (1.0, 10.0),
    ) -> None:
        self._client = client
        self._clock = clock
        self._driver = Driver(client, clock)
        self.profiles = profiles
        self.world = World()
        self.metrics = Metrics()
        hearing = Hearing(profiles, self.world, clock.now)
        self.queue = SchedulingQueue(
            judge=hearing.judge, gatekeeper=self._gate, hearers=hearing.hearers,
            alike=hearing.alike, on_move=self.metrics.entered,
            initial_backoff=backoff[0], longest_backoff=backoff[1],
        )  # fmt: skip
        self.recorder = EventRecorder(client, clock)
        self._reporter = Reporter(client, self.recorder, clock)
        self._desk = NewsDesk(self.world, self.queue, self.profiles.__contains__, clock.now)
        self._resizer = Resizer(client, clock, self.world, self.recorder, self._go)
        reservations = ReservationDesk(
            self._desk, lambda facts, words: self._go(self._reporter.refuse(facts, words)),
            self._resizer,
        )  # fmt: skip
        self.sources = Sources(client, clock, self._desk, reservations)
        self.metrics.registry.register(ReservationMetrics(self.sources.reservations))
        self._evictor = Evictor(client, clock, self.world, self.queue, self._reporter, self._recall)
        self._rng = np.random.default_rng(seed)  # noqa: TID251 - the one place dice are made
        self._auditor = Auditor(self.world) if check else None
        self._ready = asyncio.Event()
        self.queue.on_ready = self._ready.set
        self._tasks: set[asyncio.Task[None]] = set()
        self._bindings: set[asyncio.Task[None]] = set()
        self._flights: dict[str, tuple[Placement, asyncio.Task[None]]] = {}
        """Bindings under way, by the pod's uid."""
        self._loops: list[asyncio.Task[None]] = []
        self.synced = asyncio.Event()

    @property
    def healthy(self) -> bool:
        """Every loop still runs."""
        return bool(self._loops) and not any(task.done() for task in self._loops)

    async def start(self) -> None:
        """Read the whole cluster, then begin to decide; returns once reading is done."""
        self.recorder.start()
        await self.sources.start()
        self.synced.set()
        self._loops = [
            asyncio.create_task(self._decide_forever(), name="scheduler: decide"),
            asyncio.create_task(self._flush_forever(), name="scheduler: flush"),
            # Deciding on a picture that is no longer kept up would be worse than not deciding.
            asyncio.create_task(self.sources.followed(), name="scheduler: follow"),
        ]

    async def stopped(self) -> None:
        """Wait until deciding ends; a loop that failed raises what it failed with."""
        await asyncio.gather(*self._loops)

    async def stop(self) -> None:
        """Finish the bindings under way, for a few seconds at most, write the last events, stop."""
        for task in self._loops:
            task.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        for pod in self.world.waiting:
            # Whoever decides next finds it without a node, as if we had never looked at it.
            self._flights[pod.placement.pod.uid][1].cancel()
        await self._finish(self._bindings | self._tasks)
        await self.sources.stop()
        await self.recorder.stop()

    async def _finish(self, tasks: set[asyncio.Task[None]]) -> None:
        """Wait for what is under way; what a dead server keeps us from finishing is dropped."""
        if not tasks:
            return
        deadline = asyncio.create_task(self._clock.sleep(STOP_SECONDS))
        left = set(tasks)
        while left and not deadline.done():
            _, left = await asyncio.wait({deadline, *left}, return_when=asyncio.FIRST_COMPLETED)
            left.discard(deadline)
        for task in (deadline, *tasks):
            task.cancel()
        await asyncio.gather(deadline, *tasks, return_exceptions=True)

    async def _decide_forever(self) -> None:
        while True:
            await self._ready.wait()
            began = self._clock.monotonic()
            while (queued := self.queue.pop(self._clock.now())) is not None:
                self.try_one(queued)
                if len(self._bindings) - self._driver.asleep >= MOST_BINDINGS:
                    await asyncio.wait(self._bindings, return_when=asyncio.FIRST_COMPLETED)
                    began = self._clock.monotonic()
                elif self._clock.monotonic() - began > SLICE_SECONDS:
                    await asyncio.sleep(0)
                    began = self._clock.monotonic()
            self._ready.clear()

    async def _flush_forever(self) -> None:
        while True:
            now = self._clock.now()
            await self._clock.sleep(1.0 - now % 1.0)
            self.queue.flush(self._clock.now())
            self._resizer.retry()

    def try_one(self, queued: QueuedPod) -> None:
        """Give one pod its turn; what takes time goes on beside the next pod's turn."""
        facts = queued.facts
        if facts.terminating:
            self.queue.done(facts.uid)
            self._reporter.failed(facts, f"skip schedule deleting pod: {facts.key}")
            return
        profile = self.profiles[facts.scheduler_name]
        began = self._clock.monotonic()
        promised = self.world.nominations.node_of(facts.uid)
        if self._auditor is not None:
            self._auditor.before()
        try:
            outcome = attempt(profile, facts, self.world, self._clock.now(), self._rng)
        except Exception as failure:
            # One pod with an impossible field must not stop the others.
            log.exception("deciding for %s failed", facts.key)
            self._attempt_failed(queued, str(failure) or repr(failure))
            return
        took = self._clock.monotonic() - began
        if self._auditor is not None:
            self._auditor.after(outcome if isinstance(outcome, Placement) else None)
        if isinstance(outcome, Placement):
            self._placed(queued, profile, outcome, promised, took)
        elif outcome.error:
            self._attempt_failed(queued, outcome.message)
        else:
            self.metrics.attempt("unschedulable", facts.scheduler_name, took)
            self._turned_away(queued, outcome)

    def _placed(
        self,
        queued: QueuedPod,
        profile: Profile,
        placement: Placement,
        promised: str,
        took: float,
    ) -> None:
        if self.world.waiting.get(queued.uid) is None:
            self._granted(queued, took)
        self.queue.activate(placement.activate)
        task = self._go(self._bind(queued, profile, placement, took), self._bindings)
        self._flights[queued.uid] = (placement, task)
        task.add_done_callback(lambda _: self._flights.pop(queued.uid, None))
        if promised and promised != placement.node:
            self._desk.promise_ended(queued.facts, promised)

    def _granted(self, queued: QueuedPod, took: float) -> None:
        """From here on a failure is nobody's fault but the attempt's."""
        self.metrics.attempt("scheduled", queued.facts.scheduler_name, took)
        self.queue.done(queued.uid)
        if queued.flushed:
            self.metrics.scheduled_after_flush.inc()

    def _turned_away(self, queued: QueuedPod, outcome: TurnedAway) -> None:
        facts, effect = queued.facts, outcome.effect
        # The promise is made and the gate closed before the pod is back in the queue.
        work = [] if effect is None else self._take_effect(facts, effect)
        self.queue.reject(queued, outcome.rejectors, outcome.pending_on, self._clock.now())
        self._reporter.failed(facts, outcome.message)
        promised = self.world.nominations.node_of(facts.uid)
        self._go(
            self._reporter.mark_unscheduled(
                facts, "Unschedulable", outcome.message, nominated=promised
            )
        )
        for part in work:
            self._go(part)

    def _take_effect(self, facts: PodFacts, effect: Effect) -> list[Coroutine[Any, Any, None]]:
        """Do at once what a plugin wants done that needs no writing; answers the rest."""
        for reason, message in effect.notes:
            self._reporter.warn(facts, reason, message)
        if PREEMPTING in effect.plugin:
            self.metrics.preemption_attempts.inc()
        if effect.nominate is not None:
            self.world.nominations.set(facts, effect.nominate)
        work = []
        if effect.evict:
            self.metrics.preemption_victims.observe(len(effect.evict))
            work = self._evictor.begin(facts, effect)
        return [*work, self._carry_out(effect)] if effect.calls else work

    def _attempt_failed(self, queued: QueuedPod, message: str) -> None:
        facts = queued.facts
        self.metrics.attempt("error", facts.scheduler_name, 0.0)
        self.world.nominations.clear(facts.uid)
        self.queue.fail(queued, self._clock.now())
        self._reporter.failed(facts, message)
        self._go(self._reporter.mark_unscheduled(facts, "SchedulerError", message, nominated=""))

    async def _bind(
        self, queued: QueuedPod, profile: Profile, placement: Placement, took: float
    ) -> None:
        waiting = self.world.waiting.get(queued.uid)
        slow = any(concerned(plugin, placement) for plugin in profile.having(PreBinds))
        if (slow or waiting is not None) and not placement.pod.reserve_for:
            await self._reporter.announce(placement.pod, placement.node)
        if waiting is not None and not await self._permitted(queued, profile, waiting, took):
            return
        try:
            await bind(self._driver, profile, placement)
        except BindFailed as failure:
            found = await find_out(self._client, self._clock, self.world, queued.facts)
            if found.node != placement.node:
                await undo(self._driver, placement, failure)
                self._take_back(queued, profile, placement, found, str(failure))
                return
            # The answer was lost, the write was not: the promise stands.
        self._reporter.scheduled(placement)
        await post_bind(self._driver, profile, placement)
        self.queue.activate(placement.activate)

    async def _permitted(
        self, queued: QueuedPod, profile: Profile, pod: WaitingPod, took: float
    ) -> bool:
        """Wait for a word about the pod, and do what a bad one means."""
        began = self._clock.monotonic()
        try:
            outcome = await self._driver.idle(await_word(self._clock, pod))
        finally:
            self.world.waiting.remove(queued.uid)
        self.metrics.permit_waited(outcome.code.word, self._clock.monotonic() - began)
        if outcome.code is Code.PASS:
            self._granted(queued, took)
            return True
        release(profile, self.world, pod.placement)
        if outcome.code is Code.ERROR:
            self._room_came_back(pod.placement)
            self._attempt_failed(queued, f"waiting on permit for pod: {outcome.words}")
            return False
        self.metrics.attempt("unschedulable", queued.facts.scheduler_name, took)
        self._turned_away(queued, refused_there(outcome.plugin, outcome.words))
        # Told last: the room it gave up itself must not send it round in circles.
        self._room_came_back(pod.placement, lambda other: other.uid != queued.uid)
        return False

    def _take_back(
        self,
        queued: QueuedPod,
        profile: Profile,
        placement: Placement,
        found: Aftermath,
        message: str,
    ) -> None:
        """Give the room back to everybody and the pod, if it still waits, another try.

        News may have overtaken the answer we have: a pod that is no longer assumed is gone, or on
        a node, since.
        """
        waits = self.world.nodes.is_assumed(queued.uid)
        release(profile, self.world, placement)
        if found.waiting is not None and waits:
            queued.facts = found.waiting
            self._attempt_failed(queued, message)
        self._room_came_back(placement)

    def _room_came_back(
        self, placement: Placement, only: Callable[[QueuedPod], bool] = lambda _: True
    ) -> None:
        gone = on_node(placement.pod.pod, placement.node)
        self.queue.notify(
            ClusterEvent("AssignedPod", "Delete", gone, None), self._clock.now(), only
        )

    async def _recall(self, uid: str, why: str) -> bool:
        """Stop a binding under way; tell whether the pod is without a node afterwards."""
        flight = self._flights.get(uid)
        if flight is None:
            return False
        placement, task = flight
        placement.recalled = why
        waiting = self.world.waiting.get(uid)
        if waiting is not None:
            waiting.preempt(PREEMPTING, "preempted")
        await asyncio.wait({task})
        standing = self.world.nodes.pod(uid)
        return standing is None or standing[1] != placement.row

    async def _carry_out(self, effect: Effect) -> None:
        try:
            for call in effect.calls:
                await carry_out(self._client, call)
        except HoldfastError as failure:
            log.warning("%s: %s", effect.plugin, failure)

    def _gate(self, facts: PodFacts) -> str:
        profile = self.profiles[facts.scheduler_name]
        gate = closed_gate(profile, facts, self.world, self._clock.now())
        return "" if gate is None else gate[0]

    def _go(
        self, work: Coroutine[Any, Any, None], among: set[asyncio.Task[None]] | None = None
    ) -> asyncio.Task[None]:
        tasks = self._tasks if among is None else among
        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return task

    def metrics_page(self) -> bytes:
        """Render /metrics as things are now."""
        counts = self.queue.counts()
        pending = {q: counts[q] for q in ("active", "backoff", "unschedulable", "gated")}
        nodes = self.world.nodes
        sizes = {"nodes": len(nodes.row_of), "pods": len(nodes.pods())}
        return self.metrics.page(pending, self.queue.blamed(), sizes)

"""Placements on their way to being bound: permitted, written, told; or taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from holdfast.clock import Clock
from holdfast.engine.profile import Profile
from holdfast.framework.plugin import ClusterEvent, Code, Placement, PreBinds, concerned
from holdfast.framework.waiting import Outcome, WaitingPod
from holdfast.framework.world import World
from holdfast.scheduler.binding import (
    Aftermath,
    BindFailed,
    Driver,
    bind,
    find_out,
    post_bind,
    undo,
)
from holdfast.scheduler.cycle import refused_there, release
from holdfast.scheduler.errands import Errands, Task
from holdfast.scheduler.news import on_node
from holdfast.scheduler.outcomes import Outcomes
from holdfast.scheduler.preemption import PREEMPTING
from holdfast.scheduler.queued_pods import QueuedPod

ROUNDING = 0.001
"""Seconds by which times of day, added and subtracted, may be off."""


@dataclass(frozen=True, slots=True)
class Flight:
    """A pod of a profile with its place, which it took so many seconds to find."""

    queued: QueuedPod
    profile: Profile
    placement: Placement
    took: float

    @property
    def slow(self) -> bool:
        """Whether plugins write, or wait for something, before the pod is bound."""
        preparing = self.profile.having(PreBinds)
        return any(concerned(plugin, self.placement) for plugin in preparing)


@dataclass(slots=True, eq=False)
class BindingTasks:
    """Every binding under way, by the pod's uid: one can be recalled, or waited for."""

    world: World
    errands: Errands = field(default_factory=Errands)
    _under_way: dict[str, tuple[Flight, Task]] = field(default_factory=dict, init=False)

    def __len__(self) -> int:
        return len(self.errands)

    def begin(self, flight: Flight, work: Coroutine[Any, Any, None]) -> None:
        """Let a binding begin."""
        uid = flight.queued.uid
        task = self.errands.go(work)
        self._under_way[uid] = (flight, task)
        task.add_done_callback(lambda _: self._under_way.pop(uid, None))

    async def recall(self, uid: str, why: str) -> bool:
        """Stop a binding under way; tell whether the pod is without a node afterwards."""
        if uid not in self._under_way:
            return False
        flight, task = self._under_way[uid]
        placement = flight.placement
        placement.recalled = why
        waiting = self.world.waiting.get(uid)
        if waiting is not None:
            waiting.preempt(PREEMPTING, "preempted")
        await asyncio.wait({task})
        standing = self.world.nodes.pod(uid)
        return standing is None or standing[1] != placement.row

    async def landed(self, uid: str) -> None:
        """Wait until a pod is bound, or is not; if something holds it up nobody waits for that."""
        if uid in self._under_way and self.world.waiting.get(uid) is None:
            flight, task = self._under_way[uid]
            if not flight.slow:
                await asyncio.wait({task})

    async def finish(self, clock: Clock, seconds: float) -> None:
        """Let those that write come to an end; for words that did not come nobody waits."""
        for pod in self.world.waiting:
            # Whoever decides next finds it without a node, as if we had never looked at it.
            self._under_way[pod.placement.pod.uid][1].cancel()
        await self.errands.finish(clock, seconds)


@dataclass(frozen=True, slots=True)
class Flights:
    """Takes placements through their binding cycle."""

    driver: Driver
    outcomes: Outcomes
    tasks: BindingTasks

    @property
    def writing(self) -> int:
        """How many are writing; those that wait for something are not counted."""
        return len(self.tasks) - self.driver.asleep

    def begin(self, flight: Flight) -> None:
        """Bind a pod that has its room, once it is permitted."""
        if self.outcomes.world.waiting.get(flight.queued.uid) is None:
            self.outcomes.granted(flight.queued)
        self.outcomes.queue.activate(flight.placement.activate)
        self.tasks.begin(flight, self._bind(flight))

    async def _bind(self, flight: Flight) -> None:
        placement, outcomes = flight.placement, self.outcomes
        began = self.driver.clock.monotonic() - flight.took
        waiting = outcomes.world.waiting.get(flight.queued.uid)
        if (flight.slow or waiting is not None) and not placement.pod.stands_in:
            await outcomes.reporter.announce(placement.pod, placement.node)
        if waiting is not None and not await self._permitted(flight, waiting):
            return
        try:
            await bind(self.driver, flight.profile, placement)
        except BindFailed as failure:
            found = await find_out(
                outcomes.client, outcomes.clock, outcomes.world, flight.queued.pod_info
            )
            if found.node != placement.node:
                await undo(self.driver, placement, failure)
                took = self.driver.clock.monotonic() - began
                self._take_back(flight, found, str(failure), took)
                return
            # The answer was lost, the write was not: the promise stands.
        outcomes.bound(flight.queued, self.driver.clock.monotonic() - began)
        outcomes.reporter.scheduled(placement)
        await post_bind(self.driver, flight.profile, placement)
        outcomes.queue.activate(placement.activate)

    async def _permitted(self, flight: Flight, pod: WaitingPod) -> bool:
        """Wait for a word about the pod, and do what a bad one means."""
        queued, outcomes, clock = flight.queued, self.outcomes, self.driver.clock
        began = clock.monotonic()
        try:
            word = await self.driver.idle(await_word(clock, pod))
        finally:
            outcomes.world.waiting.remove(queued.uid)
        outcomes.metrics.permit_seconds.observe(clock.monotonic() - began, word.code.word)
        if word.code is Code.PASS:
            outcomes.granted(queued)
            return True
        release(flight.profile, outcomes.world, pod.placement)
        if word.code is Code.ERROR:
            self._room_came_back(pod.placement)
            outcomes.failed(queued, f"waiting on permit for pod: {word.words}")
            return False
        outcomes.turned_away(queued, refused_there(word.plugin, word.words), flight.took)
        # Told last: the room it gave up itself must not send it round in circles.
        self._room_came_back(pod.placement, lambda other: other.uid != queued.uid)
        return False

    def _take_back(self, flight: Flight, found: Aftermath, message: str, took: float) -> None:
        """Give the room back to everybody and the pod, if it still waits, another try.

        News may have overtaken the answer we have: a pod that is no longer assumed is gone, or on
        a node, since.
        """
        queued, world = flight.queued, self.outcomes.world
        waits = world.nodes.is_assumed(queued.uid)
        release(flight.profile, world, flight.placement)
        if found.waiting is not None and waits:
            queued.pod_info = found.waiting
            self.outcomes.failed(queued, message, took)
        self._room_came_back(flight.placement)

    def _room_came_back(
        self, placement: Placement, only: Callable[[QueuedPod], bool] = lambda _: True
    ) -> None:
        gone = on_node(placement.pod.pod, placement.node)
        event = ClusterEvent("AssignedPod", "Delete", gone, None)
        self.outcomes.queue.notify(event, self.driver.clock.monotonic(), only)


async def await_word(clock: Clock, pod: WaitingPod) -> Outcome:
    """Wait until the pod is allowed, rejected or preempted, or a plugin's time is up."""
    heard = asyncio.Event()
    # Deadlines are times of day as of the decision; a clock that is set meanwhile moves none.
    ahead = clock.now() - clock.monotonic()
    pod.on_end = heard.set
    word = asyncio.create_task(heard.wait())
    try:
        while pod.outcome is None:
            seconds = max(0.0, pod.next_deadline() - ahead - clock.monotonic())
            timer = asyncio.create_task(clock.sleep(seconds))
            try:
                await asyncio.wait({word, timer}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                timer.cancel()
            pod.expire(ahead + clock.monotonic() + ROUNDING)
    finally:
        word.cancel()
    return pod.outcome

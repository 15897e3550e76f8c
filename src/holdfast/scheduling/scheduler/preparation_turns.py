"""Compute in short steps what a scheduling cycle will read; namespaces take turns.

A scheduling cycle cannot pause. The first pod with a new claim may need thousands of searches for
devices, the first preemption ranks all pods. This is done before, in short steps between which
other tasks run. Then the cycle finds the results. If the world changes before that, outdated
results are computed again.

The cost of a pod here depends on its claims and selectors, which users write. So a pod that needs
steps lets the pods behind it pass, and the namespaces of such pods take turns, a step each: with N
of them at most N - 1 steps lie between two steps of a namespace, whatever pods the others create.

At first pods were prepared in the order of the queue, each for up to half a second. Four claims a
second with expensive selectors made the pods of all tenants wait ever longer. Turns by priority
were no alternative: users of a high PriorityClass would decide what others wait for (decision
0020). The price is that a pod of lower priority may get a node first.
"""

from __future__ import annotations

import heapq
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from holdfast.runtime.clock import Clock
from holdfast.scheduling.engine.preparation import needs_no_step, prepare_in_steps
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.scheduler.queued_pods import QueuedPodInfo
from holdfast.state.columns.pod_info import PodInfo

log = logging.getLogger(__name__)

STEP_SECONDS = 0.002
"""Other tasks run, and the next namespace has its turn, after this time."""
_MAX_ROUNDS = 5
"""How often outdated results are computed again; then the cycle computes the rest."""
_FEW_PODS = 64
"""Up to this number, removed pods are left among the waiting pods of a namespace."""
Steps = Iterator[None]


class CyclePreparation:
    """The preparation of one pod's scheduling cycle, in rounds until one needs no pause.

    Each round finds the results of those before, and computes again what the world changed.
    """

    __slots__ = ("_clock", "_pod_info", "_profile", "_rounds", "_steps", "_world",
                 "is_overtaken", "queued")  # fmt: skip

    def __init__(self, profile: Profile, queued: QueuedPodInfo, world: World, clock: Clock) -> None:
        self._profile = profile
        self._world = world
        self._clock = clock
        self._pod_info = queued.pod_info
        self._steps: Steps | None = None
        self._rounds = 0
        self.queued = queued
        self.is_overtaken = False
        """Whether the world has changed in every round, so that some results are outdated."""

    def begin(self) -> bool:
        """Return whether the cycle can begin at once, because it needs no step."""
        self._begin_round()
        return self._go_on(lambda: False)

    def step(self) -> bool:
        """Take one step; return whether the cycle is to begin now, before anything changes."""
        pause_at = self._clock.monotonic() + STEP_SECONDS
        while True:
            if self._pod_info is not self.queued.pod_info:
                self._pod_info, self._steps = self.queued.pod_info, None
            began_before = self._steps is not None
            if not began_before:
                self._begin_round()
            if not self._go_on(lambda: self._clock.monotonic() < pause_at):
                return False
            # A round that began in this step has read the world as it is now.
            if not began_before or self._rounds >= _MAX_ROUNDS:
                self.is_overtaken = began_before
                return True

    def _begin_round(self) -> None:
        now = self._clock.now()
        self._steps = prepare_in_steps(self._profile, self._pod_info, self._world, now)
        self._rounds += 1

    def _go_on(self, may_go_on: Callable[[], bool]) -> bool:
        """Continue the round while there is no pause; return whether it has ended.

        An error ends it, too, and is not handled here: what the round had read before a pause may
        have been outdated. If it was not, the error occurs again in the next round, and then in the
        cycle, which handles it.
        """
        assert self._steps is not None
        try:
            if not all(may_go_on() for _ in self._steps):
                return False
        except Exception:
            log.debug("preparing the cycle of %s failed", self._pod_info.key, exc_info=True)
        self._steps = None
        return True


@dataclass(slots=True)
class _Namespace:
    """The pods of a namespace that wait: one is being prepared, the others by priority and age.

    Pods behind the first have not begun: preparations of thousands would need memory.
    """

    first: CyclePreparation | None = None
    others: list[tuple[int, float, int, QueuedPodInfo]] = field(default_factory=list)
    clean_at: int = _FEW_PODS
    """When there are more others than that, the removed ones among them are dropped."""


class Preparations:
    """The pods whose cycles need steps before they begin, by namespace.

    Such a pod is in flight for the scheduling queue, but no events are stored for it: its last
    round reads the same world as its cycle. ``on_removed`` is called with pods that were removed
    while others of their namespace were prepared.
    """

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        world: World,
        clock: Clock,
        on_removed: Callable[[QueuedPodInfo], None],
    ) -> None:
        self._profiles = profiles
        self._world = world
        self._clock = clock
        self._on_removed = on_removed
        self._waiting: dict[str, _Namespace] = {}
        self.turns: deque[str] = deque()
        """The namespaces that wait, the next one first."""
        self._order = count()

    def __bool__(self) -> bool:
        return bool(self.turns)

    def begin(self, queued: QueuedPodInfo) -> View | None:
        """Return the view of a pod if its cycle can begin at once; else ``step`` returns it later.

        No step is taken here: the pods behind wait for none.
        """
        profile = self._profiles[queued.pod_info.scheduler_name]
        view = profile.view(queued.pod_info, self._world, self._clock.now())
        if queued.removed or self._needs_no_step(profile, view):
            return view
        # Nearly every preparation ends here, without a pause and without a task.
        preparation = self._preparation(queued)
        if preparation.begin():
            return view
        name = _turn_of(queued.pod_info)
        namespace = self._waiting.get(name)
        if namespace is None:
            self._waiting[name] = _Namespace(preparation)
            self.turns.append(name)
        else:
            self._add(namespace, queued)
        return None

    def _needs_no_step(self, profile: Profile, view: View) -> bool:
        try:
            return needs_no_step(profile, view)
        except Exception:
            # A plugin may raise an error for one pod. The cycle handles it, if it occurs there too.
            log.debug("asking what %s needs failed", view.pod.key, exc_info=True)
            return False

    def step(self) -> CyclePreparation | None:
        """Take a step of the namespace whose turn it is; return the preparation that has ended.

        The cycle of its pod is to begin at once.
        """
        name = self.turns.popleft()
        namespace = self._waiting[name]
        first = namespace.first
        if first is None:
            first = namespace.first = self._preparation(heapq.heappop(namespace.others)[-1])
        ended = first.queued.removed or first.step()
        if ended:
            namespace.first = None
        if namespace.first or namespace.others:
            self.turns.append(name)
        else:
            del self._waiting[name]
        return first if ended else None

    def _preparation(self, queued: QueuedPodInfo) -> CyclePreparation:
        profile = self._profiles[queued.pod_info.scheduler_name]
        return CyclePreparation(profile, queued, self._world, self._clock)

    def _add(self, namespace: _Namespace, queued: QueuedPodInfo) -> None:
        entry = (-queued.pod_info.priority, queued.since, next(self._order), queued)
        heapq.heappush(namespace.others, entry)
        if len(namespace.others) > namespace.clean_at:
            # A tenant may create and delete pods faster than they are prepared.
            for *_, pod in namespace.others:
                if pod.removed:
                    self._on_removed(pod)
            namespace.others = [entry for entry in namespace.others if not entry[-1].removed]
            heapq.heapify(namespace.others)
            namespace.clean_at = max(_FEW_PODS, 2 * len(namespace.others))


def _turn_of(pod: PodInfo) -> str:
    """Return the namespace of a pod; reservations have none, and take turns as one namespace."""
    return "" if pod.is_reserve_pod else pod.namespace

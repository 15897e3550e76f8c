"""Pods that have their room and wait for a word before they are bound (Permit).

A waiting pod is assumed on its node like any other placement: nobody else gets the room. It waits
until every plugin that held it back has allowed it, until one of them rejects it, until the
shortest of their times is up, or until it is deleted or preempted. The first word counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.api.durations import SECOND, format_nanoseconds
from holdfast.framework.values import Code, Placement

LONGEST_WAIT = 900.0
"""Seconds no plugin may exceed."""
REMOVED = "removed"
"""What a pod that is deleted while it waits is told."""


@dataclass(frozen=True, slots=True)
class WaitOutcome:
    """How waiting ended: PASS to go on, UNSCHEDULABLE if rejected, ERROR if preempted."""

    code: Code
    plugin: str = ""
    message: str = ""


def _nobody() -> None:
    pass


@dataclass(slots=True, eq=False)
class WaitingPod:
    """A pod that waits; ``pending`` are the plugins that have not allowed it yet.

    They map to the time at which each gives up. ``on_end`` is called once, when waiting ends.
    """

    placement: Placement
    pending: dict[str, float]
    outcome: WaitOutcome | None = None
    on_end: Callable[[], None] = _nobody
    _asked: Mapping[str, float] = field(default_factory=dict)

    def allow(self, plugin: str) -> None:
        """Let the pod go on as far as this plugin is concerned; the last one to do so frees it."""
        self.pending.pop(plugin, None)
        if not self.pending:
            self._end(WaitOutcome(Code.PASS))

    def reject(self, plugin: str, words: str) -> bool:
        """Refuse the pod; False if its fate was sealed before."""
        return self._end(WaitOutcome(Code.UNSCHEDULABLE, plugin, words))

    def preempt(self, plugin: str, words: str) -> bool:
        """Take its room for another pod; it is not to blame and is tried again after backoff."""
        return self._end(WaitOutcome(Code.ERROR, plugin, words))

    def next_deadline(self) -> float:
        """When the first of the plugins still pending gives up."""
        return min(self.pending.values())

    def expire(self, now: float) -> None:
        """Reject the pod if a plugin's time is up."""
        for plugin, deadline in sorted(self.pending.items(), key=lambda item: item[1]):
            if deadline <= now:
                waited = format_nanoseconds(round(self._asked[plugin] * SECOND))
                self.reject(
                    plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}"
                )
                return

    def _end(self, outcome: WaitOutcome) -> bool:
        if self.outcome is not None:
            return False
        self.outcome = outcome
        self.on_end()
        return True


class WaitingPods:
    """Every pod that waits, by uid."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))

    def get(self, uid: str) -> WaitingPod | None:
        """The waiting pod of that uid, or None."""
        return self._pods.get(uid)

    def add(self, placement: Placement, seconds: Mapping[str, float], now: float) -> WaitingPod:
        """Let a placed pod wait, at most so long for each plugin."""
        asked = {plugin: min(wait, LONGEST_WAIT) for plugin, wait in seconds.items()}
        pending = {plugin: now + wait for plugin, wait in asked.items()}
        pod = self._pods[placement.pod.uid] = WaitingPod(placement, pending, _asked=asked)
        return pod

    def remove(self, uid: str) -> None:
        """Forget a pod whose waiting is over; one that does not wait is fine."""
        self._pods.pop(uid, None)

    def fork(self) -> WaitingPods:
        """A copy for a what-if: whatever is said to the pods in it, nobody hears it."""
        copy = WaitingPods()
        for uid, pod in self._pods.items():
            copy._pods[uid] = WaitingPod(
                pod.placement, dict(pod.pending), pod.outcome, _asked=pod._asked
            )
        return copy

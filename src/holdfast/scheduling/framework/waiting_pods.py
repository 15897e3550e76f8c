"""Pods that wait for the approval of Permit plugins.

A waiting pod is assumed on its node, so its resources are in use. It waits until every plugin that
returned Wait has allowed it, one of them rejects it, the shortest of their timeouts expires, or it
is deleted or preempted. The first of these counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.api.durations import SECOND, format_nanoseconds
from holdfast.scheduling.framework.values import Code, Placement

LONGEST_WAIT = 900.0
"""Seconds; a longer timeout is reduced to this."""
REMOVED = "removed"
"""The message for a pod that is deleted while it waits."""


@dataclass(frozen=True, slots=True)
class WaitOutcome:
    """How waiting ended: PASS if allowed, UNSCHEDULABLE if rejected, ERROR if preempted."""

    code: Code
    plugin: str = ""
    message: str = ""


def _do_nothing() -> None:
    pass


@dataclass(slots=True, eq=False)
class WaitingPod:
    """A pod that waits; ``pending`` has the deadlines of the plugins that have not allowed it yet.

    ``on_end`` is called once, when waiting ends.
    """

    placement: Placement
    pending: dict[str, float]
    outcome: WaitOutcome | None = None
    on_end: Callable[[], None] = _do_nothing
    _timeouts: Mapping[str, float] = field(default_factory=dict)

    def allow(self, plugin: str) -> None:
        """Allow the pod for this plugin; waiting ends when no plugin is pending."""
        self.pending.pop(plugin, None)
        if not self.pending:
            self._end(WaitOutcome(Code.PASS))

    def reject(self, plugin: str, message: str) -> bool:
        """Reject the pod; return False if waiting had ended before."""
        return self._end(WaitOutcome(Code.UNSCHEDULABLE, plugin, message))

    def preempt(self, plugin: str, message: str) -> bool:
        """End waiting in favour of another pod; this one is tried again after backoff."""
        return self._end(WaitOutcome(Code.ERROR, plugin, message))

    def next_deadline(self) -> float:
        """Return the earliest deadline of the pending plugins."""
        return min(self.pending.values())

    def expire(self, now: float) -> None:
        """Reject the pod if a deadline has passed."""
        for plugin, deadline in sorted(self.pending.items(), key=lambda item: item[1]):
            if deadline <= now:
                waited = format_nanoseconds(round(self._timeouts[plugin] * SECOND))
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
    """All waiting pods, by uid."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))

    def get(self, uid: str) -> WaitingPod | None:
        """Return the waiting pod of that uid, or None."""
        return self._pods.get(uid)

    def add(self, placement: Placement, seconds: Mapping[str, float], now: float) -> WaitingPod:
        """Add a placed pod, with a timeout in seconds per plugin."""
        timeouts = {plugin: min(wait, LONGEST_WAIT) for plugin, wait in seconds.items()}
        pending = {plugin: now + wait for plugin, wait in timeouts.items()}
        pod = self._pods[placement.pod.uid] = WaitingPod(placement, pending, _timeouts=timeouts)
        return pod

    def remove(self, uid: str) -> None:
        """Remove a pod, if it is there."""
        self._pods.pop(uid, None)

    def fork(self) -> WaitingPods:
        """Return a copy for a simulation; ``on_end`` is not copied."""
        copy = WaitingPods()
        for uid, pod in self._pods.items():
            copy._pods[uid] = WaitingPod(
                pod.placement, dict(pod.pending), pod.outcome, _timeouts=pod._timeouts
            )
        return copy

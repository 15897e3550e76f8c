"""Execute a preemption: nominate the node at once, delete the victims in the background.

The preemptor is gated until every victim is being deleted; then it waits, like any rejected pod,
for the victims' resources. Victims end within their own grace period. A write whose response was
lost is sent again: deleting a pod twice does no harm, but choosing other victims would.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from holdfast.api.scheme import PODS
from holdfast.api.timestamps import rfc3339
from holdfast.client.backoff import retry
from holdfast.client.client import Client, PatchType
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import NotFound
from holdfast.scheduling.framework.events import ActionType, EventResource
from holdfast.scheduling.framework.plugin import ClusterEvent, PostFilterResult
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.scheduler.event_handlers import with_node_name
from holdfast.scheduling.scheduler.metrics import NO_DURATIONS, DurationRecorder
from holdfast.scheduling.scheduler.scheduling_queue import SchedulingQueue
from holdfast.scheduling.scheduler.status_reporter import StatusReporter
from holdfast.state.columns.pod_info import PodInfo

log = logging.getLogger(__name__)

TRIES = 4
PREEMPTING = "DefaultPreemption"
DISRUPTION_TARGET = "DisruptionTarget"
BY_SCHEDULER = "PreemptionByScheduler"
CANCEL_REASON = f"preempted by {PREEMPTING}"

CancelBinding = Callable[[str, str], Awaitable[bool]]
"""Cancels the binding cycle of a pod for a reason; returns whether the pod got no node."""


@dataclass(frozen=True, slots=True)
class PreemptionExecutor:
    """Deletes victims and clears nominations for preemptors."""

    client: Client
    clock: Clock
    world: World
    queue: SchedulingQueue
    reporter: StatusReporter
    cancel_binding: CancelBinding
    durations: DurationRecorder = NO_DURATIONS

    def prepare(
        self, preemptor: PodInfo, effect: PostFilterResult
    ) -> list[Coroutine[Any, Any, None]]:
        """Clear lower nominations and gate the preemptor at once; return the API writes to do."""
        assert effect.nominated_node, f"{effect.plugin} evicts pods but nominates no node"
        cleared = self._clear_lower_nominations(preemptor, effect)
        # The nomination of a reservation is not stored in the API.
        work = [self.reporter.clear_nomination(pod) for pod in cleared if not pod.is_reserve_pod]
        victims = [pod for pod in effect.victims if not pod.terminating]
        if victims:
            self.world.evictions.begin(preemptor.uid, (pod.uid for pod in victims))
            work.append(self._evict(preemptor, victims, effect.nominated_node))
        return work

    def _clear_lower_nominations(
        self, preemptor: PodInfo, effect: PostFilterResult
    ) -> list[PodInfo]:
        """Clear nominations of lower priority on the node: those pods may no longer fit."""
        assert effect.nominated_node
        nominated = self.world.nominations.on(effect.nominated_node).values()
        cleared = [pod for pod in nominated if pod.priority < preemptor.priority]
        for pod in cleared:
            self.world.nominations.clear(pod.uid)
        return cleared

    async def _evict(self, preemptor: PodInfo, victims: Sequence[PodInfo], node: str) -> None:
        """Delete every victim, the last one after all others; its deletion ends the gate."""
        *others, last = victims
        began, result = self.durations.now(), "success"
        try:
            ends = await asyncio.gather(
                *(self._preempt(preemptor, pod, node) for pod in others),
                return_exceptions=True,
            )
            for end in ends:
                if isinstance(end, BaseException):
                    raise end
            await self._preempt(preemptor, last, node)
        except Exception as failure:
            log.warning(
                "preempting pods on node %s for %s failed: %s", node, preemptor.key, failure
            )
            result = "error"
            self.world.evictions.end(preemptor.uid)
            self.queue.activate((preemptor.uid,))
        else:
            self.world.evictions.requests_sent(preemptor.uid)
            # The victims may be deleted already: then no other event requeues the preemptor.
            deleted = ClusterEvent(
                EventResource.ASSIGNED_POD, ActionType.DELETE, with_node_name(last.pod, node), None
            )
            self.queue.recheck_gate(preemptor.uid, deleted.label, self.clock.monotonic())
        self.durations.record(self.durations.now() - began, result)

    async def _preempt(self, preemptor: PodInfo, victim: PodInfo, node: str) -> None:
        message = f"Preempted by pod {preemptor.uid} on node {node}"
        if await self.cancel_binding(victim.uid, CANCEL_REASON):
            message += " (in kube-scheduler memory)."
        else:
            await self._write(lambda: self._write_disruption_target(preemptor, victim))
            await self._write(lambda: self._delete(victim))
        self.reporter.preempted(victim, preemptor, message)

    async def _write_disruption_target(self, preemptor: PodInfo, victim: PodInfo) -> None:
        scheduler, meta = preemptor.scheduler_name, victim.pod.metadata
        condition = {
            "type": DISRUPTION_TARGET, "status": "True", "reason": BY_SCHEDULER,
            "message": f"{scheduler}: preempting to accommodate a higher priority pod",
            "observedGeneration": meta.generation or None,
            "lastProbeTime": None, "lastTransitionTime": rfc3339(self.clock.now()),
        }  # fmt: skip
        body = {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}
        await self.client.patch(
            PODS, victim.name, body, victim.namespace,
            type=PatchType.STRATEGIC, subresource="status",
        )  # fmt: skip

    async def _delete(self, victim: PodInfo) -> None:
        await self.client.delete(PODS, victim.name, victim.namespace, uid=victim.pod.metadata.uid)

    async def _write(self, write: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Send a write, with retries; a victim that does not exist is no error."""
        with suppress(NotFound):
            await retry(write, self.clock, tries=TRIES)

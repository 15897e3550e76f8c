"""Carrying out a preemption: the node is promised at once, the victims are asked to leave.

The preemptor waits behind a gate until every victim was asked and the picture shows it; then it
waits, like any rejected pod, for the room to come back. Victims leave within their own grace
period. An answer that was lost is asked for again: deleting twice does no harm, evicting somebody
else instead would.
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
from holdfast.clock import Clock
from holdfast.columns.pod_info import PodInfo
from holdfast.errors import NotFound
from holdfast.framework.plugin import ClusterEvent, PostFilterResult
from holdfast.framework.world import World
from holdfast.scheduler.event_handlers import with_node_name
from holdfast.scheduler.metrics import NO_DURATIONS, DurationRecorder
from holdfast.scheduler.scheduling_queue import SchedulingQueue
from holdfast.scheduler.status_reporter import StatusReporter

log = logging.getLogger(__name__)

TRIES = 4
PREEMPTING = "DefaultPreemption"
TARGET = "DisruptionTarget"
BY_SCHEDULER = "PreemptionByScheduler"
CANCEL_REASON = f"preempted by {PREEMPTING}"

CancelBinding = Callable[[str, str], Awaitable[bool]]
"""Stop a pod's binding for a reason; answers whether the pod is without a node afterwards."""


@dataclass(frozen=True, slots=True)
class PreemptionExecutor:
    """Makes room for preemptors."""

    client: Client
    clock: Clock
    world: World
    queue: SchedulingQueue
    reporter: StatusReporter
    recall: CancelBinding
    watch: DurationRecorder = NO_DURATIONS

    def begin(
        self, preemptor: PodInfo, effect: PostFilterResult
    ) -> list[Coroutine[Any, Any, None]]:
        """Promise the node and close the gate at once; answers what remains to be written."""
        assert effect.nominated_node, f"{effect.plugin} evicts pods without naming a node"
        outranked = self._outrank(preemptor, effect)
        # A reservation's promise is written nowhere.
        work = [self.reporter.clear_nomination(pod) for pod in outranked if not pod.is_reserve_pod]
        victims = [pod for pod in effect.victims if not pod.terminating]
        if victims:
            self.world.evictions.begin(preemptor.uid, (pod.uid for pod in victims))
            work.append(self._evict(preemptor, victims, effect.nominated_node))
        return work

    def _outrank(self, preemptor: PodInfo, effect: PostFilterResult) -> list[PodInfo]:
        """Take the node's promise back from less important pods: they may no longer fit."""
        assert effect.nominated_node
        there = self.world.nominations.on(effect.nominated_node).values()
        outranked = [pod for pod in there if pod.priority < preemptor.priority]
        for pod in outranked:
            self.world.nominations.clear(pod.uid)
        return outranked

    async def _evict(self, preemptor: PodInfo, victims: Sequence[PodInfo], node: str) -> None:
        """Ask every victim to leave, all but the last at once; the last one opens the gate."""
        *others, last = victims
        began, result = self.watch.read(), "success"
        try:
            ends = await asyncio.gather(
                *(self._ask_to_leave(preemptor, pod, node) for pod in others),
                return_exceptions=True,
            )
            for end in ends:
                if isinstance(end, BaseException):
                    raise end
            await self._ask_to_leave(preemptor, last, node)
        except Exception as failure:
            log.warning("preempting on %s for %s: %s", node, preemptor.key, failure)
            result = "error"
            self.world.evictions.end(preemptor.uid)
            self.queue.activate((preemptor.uid,))
        else:
            self.world.evictions.requests_sent(preemptor.uid)
            # The victims may be gone already: then nobody else will knock at the gate.
            gone = ClusterEvent("AssignedPod", "Delete", with_node_name(last.pod, node), None)
            self.queue.recheck_gate(preemptor.uid, gone.label, self.clock.monotonic())
        self.watch.tell(self.watch.read() - began, result)

    async def _ask_to_leave(self, preemptor: PodInfo, victim: PodInfo, node: str) -> None:
        words = f"Preempted by pod {preemptor.uid} on node {node}"
        if await self.recall(victim.uid, CANCEL_REASON):
            words += " (in kube-scheduler memory)."
        else:
            await self._persist(lambda: self._mark(preemptor, victim))
            await self._persist(lambda: self._delete(victim))
        self.reporter.preempted(victim, preemptor, words)

    async def _mark(self, preemptor: PodInfo, victim: PodInfo) -> None:
        scheduler, meta = preemptor.scheduler_name, victim.pod.metadata
        condition = {
            "type": TARGET, "status": "True", "reason": BY_SCHEDULER,
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

    async def _persist(self, write: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Write until it is known to be written; a victim that is gone is fine."""
        with suppress(NotFound):
            await retry(write, self.clock, tries=TRIES)

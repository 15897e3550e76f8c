"""What users read about a decision: the pod's condition and events, the reservation's status."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.api import reservation_status
from holdfast.api.meta import Condition
from holdfast.api.scheme import PODS
from holdfast.api.timestamps import rfc3339
from holdfast.client.backoff import Retries
from holdfast.client.client import Client, PatchType
from holdfast.client.events import EventRecorder
from holdfast.clock import Clock
from holdfast.columns.pod_info import PodInfo
from holdfast.errors import HoldfastError, Retryable
from holdfast.framework.plugin import Placement
from holdfast.scheduler.scheduled_objects import (
    ScheduledObject,
    name_of,
    namespace_of,
    read_newest,
    reference_to,
    resource_of,
    wants_node,
)

log = logging.getLogger(__name__)

LONGEST_NOTE = 1024
TRIES = 4
MAX_WRITES = 16
"""Statuses written at once: bindings have other things to do than to wait for reports."""
MAX_REMEMBERED = 4096
ReportedStatus = tuple[str, str, str]
"""The reason, message and nomination of a pod without a node."""
BodyOf = Callable[[Sequence[Condition]], dict[str, Any]]
"""What to write, seeing the conditions that the newest version has."""


def truncated_note(message: str) -> str:
    """Cut an event's note to what the API takes, marking that something is missing.

    >>> len(shortened("x" * 2000)), shortened("short")
    (1024, 'short')
    """
    data = message.encode()
    if len(data) <= LONGEST_NOTE:
        return message
    return data[: LONGEST_NOTE - 4].decode(errors="ignore") + " ..."


class StatusReporter:
    """Writes what became of pods and reservations; a failed report never fails an attempt."""

    def __init__(self, client: Client, recorder: EventRecorder, clock: Clock) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._numbers = itertools.count()
        self._newest: dict[str, tuple[int, ReportedStatus | None]] = {}
        """The newest write about each object that has one under way, and what it says."""
        self._written: OrderedDict[str, tuple[str, ReportedStatus]] = OrderedDict()
        """What we last wrote about a pod, and the version that was."""
        self._turns = asyncio.Semaphore(MAX_WRITES)

    def scheduled(self, placement: Placement) -> None:
        """Tell that the pod (or reservation) has its node, and what plugins noted on the way."""
        pod_info, node = placement.pod, placement.node
        for reason, words in placement.events:
            self._event(pod_info, "Normal", reason, words, "Scheduling")
        words = f"Successfully assigned {name_of(pod_info)} to {node}"
        self._event(pod_info, "Normal", "Scheduled", words, "Binding")

    def failed(self, pod_info: PodInfo, message: str) -> None:
        """Tell why an attempt put the pod on no node."""
        self.warn(pod_info, "FailedScheduling", message)

    def warn(self, pod_info: PodInfo, reason: str, message: str) -> None:
        """Tell what else there is to say about an attempt that failed."""
        self._event(pod_info, "Warning", reason, truncated_note(message), "Scheduling")

    def preempted(self, victim: PodInfo, preemptor: PodInfo, words: str) -> None:
        """Tell a victim for whom it had to leave."""
        self._recorder.record(
            victim.pod, "Normal", "Preempted", words, action="Preempting",
            related=reference_to(preemptor), component=preemptor.scheduler_name,
        )  # fmt: skip

    async def clear_nomination(self, pod_info: PodInfo) -> None:
        """Write that a waiting pod is no longer promised a node."""
        body = {"status": {"nominatedNodeName": None}}
        await self._write(pod_info, lambda _: body, PatchType.STRATEGIC)

    async def write_nominated_node(self, pod_info: PodInfo, node: str) -> None:
        """Write where a pod is about to be bound, because getting it there takes a while."""
        if pod_info.pod.status.nominated_node_name == node:
            return
        meta = pod_info.pod.metadata
        body = {"metadata": {"uid": meta.uid}, "status": {"nominatedNodeName": node}}
        try:
            await self._client.patch(
                PODS, pod_info.name, body, pod_info.namespace,
                type=PatchType.STRATEGIC, subresource="status",
            )  # fmt: skip
        except HoldfastError as failure:
            log.warning("announcing %s for %s: %s", node, pod_info.key, failure)

    async def mark_unscheduled(
        self, pod_info: PodInfo, reason: str, message: str, *, nominated: str = ""
    ) -> None:
        """Write PodScheduled=False (Scheduled=False on a reservation), if it changed.

        ``nominated`` is the node the pod is promised, or "".
        """
        if pod_info.is_reserve_pod:
            await self.mark_reservation(pod_info, message)
        else:
            await self._mark_pod(pod_info, reason, message, nominated)

    async def _mark_pod(self, pod_info: PodInfo, reason: str, message: str, nominated: str) -> None:
        status = pod_info.pod.status
        old = next((c for c in status.conditions if c.type == "PodScheduled"), None)
        same = old and (old.status, old.reason, old.message) == ("False", reason, message)
        if same and nominated == status.nominated_node_name:
            return
        said = (reason, message, nominated)
        if self._said_already(pod_info, said):
            return
        condition: dict[str, Any] = {
            "type": "PodScheduled", "status": "False", "reason": reason, "message": message,
            "lastProbeTime": None, "observedGeneration": pod_info.pod.metadata.generation or None,
            "lastTransitionTime": old.last_transition_time
            if old and old.status == "False" and old.last_transition_time
            else rfc3339(self._clock.now()),
        }  # fmt: skip
        body: dict[str, Any] = {"status": {"conditions": [condition]}}
        if nominated != status.nominated_node_name:
            body["status"]["nominatedNodeName"] = nominated or None
        await self._write(pod_info, lambda _: body, PatchType.STRATEGIC, said)

    def _said_already(self, pod_info: PodInfo, said: ReportedStatus) -> bool:
        """Tell whether the same is being written, or was and the pod we look at is older."""
        under_way = self._newest.get(pod_info.uid)
        if under_way is not None:
            return under_way[1] == said
        version, written = self._written.get(pod_info.uid, ("", None))
        return written == said and not _newer(pod_info.pod.metadata.resource_version, version)

    async def reject_reservation(self, pod_info: PodInfo, words: str) -> None:
        """Say why a reservation is not even tried, unless it says so already."""
        if not any(c.message == words for c in pod_info.pod.status.conditions):
            self.failed(pod_info, words)
            await self.mark_reservation(pod_info, words)

    async def mark_reservation(self, pod_info: PodInfo, message: str) -> None:
        """Write Scheduled=False on a reservation, whatever kept it from a node."""

        def body(seen: Sequence[Condition]) -> dict[str, Any]:
            now = self._clock.now()
            conditions = reservation_status.refused(seen, message, now)
            return {"status": {"phase": "Pending", "conditions": conditions}}

        await self._write(pod_info, body, PatchType.MERGE)

    async def _write(
        self, pod_info: PodInfo, body: BodyOf, kind: PatchType, said: ReportedStatus | None = None
    ) -> None:
        """Write a status unless the object has found its node, or gone, since the attempt.

        The write is bound to the version it is about: a late one must not undo a later success,
        nor a later write about the same object. Only so many are under way at once; of several
        that wait their turn about one object, the newest is written.
        """
        number = next(self._numbers)
        self._newest[pod_info.uid] = (number, said)
        try:
            async with self._turns:
                stored = await self._insist(pod_info, body, kind, number)
            if stored is not None and said is not None:
                self._remember(pod_info.uid, stored.metadata.resource_version, said)
        finally:
            if self._overtaken(pod_info.uid, number) is False:
                del self._newest[pod_info.uid]

    def _overtaken(self, uid: str, number: int) -> bool | None:
        """Tell whether a newer write about the object was begun; None if none is known at all."""
        newest = self._newest.get(uid)
        return None if newest is None else newest[0] != number

    def _remember(self, uid: str, version: str, said: ReportedStatus) -> None:
        self._written.pop(uid, None)
        self._written[uid] = (version, said)
        if len(self._written) > MAX_REMEMBERED:
            self._written.popitem(last=False)

    async def _insist(
        self, pod_info: PodInfo, body: BodyOf, kind: PatchType, number: int
    ) -> ScheduledObject | None:
        """Write until it is written, or of no use any more; answers what was stored."""
        resource, namespace = resource_of(pod_info), namespace_of(pod_info)
        seen: ScheduledObject = pod_info.pod
        retries = Retries(self._clock, tries=TRIES)
        while retries.any_left:
            if self._overtaken(pod_info.uid, number):
                return None
            guard = {"uid": seen.uid, "resourceVersion": seen.metadata.resource_version}
            guarded = {**body(seen.status.conditions), "metadata": guard}
            try:
                stored: ScheduledObject = await self._client.patch(
                    resource, pod_info.name, guarded, namespace, type=kind, subresource="status"
                )
                return stored
            except Retryable as failure:
                await retries.wait(failure)
            except HoldfastError:
                return None
            newer = await self._still_waiting(pod_info)
            if newer is None:
                return None
            seen = newer
        return None

    async def _still_waiting(self, pod_info: PodInfo) -> ScheduledObject | None:
        """The newest version of what is still without a node, None if that is over."""
        try:
            found = await read_newest(self._client, pod_info)
        except Retryable:
            return pod_info.pod
        except HoldfastError:
            return None
        return found if found is not None and wants_node(found) else None

    def _event(self, pod_info: PodInfo, type_: str, reason: str, message: str, action: str) -> None:
        self._recorder.record(
            reference_to(pod_info), type_, reason, message, action=action,
            component=pod_info.scheduler_name,
        )  # fmt: skip


def _newer(version: str, than: str) -> bool:
    """Tell whether a version is later than another; versions count up."""
    return not (version.isdigit() and than.isdigit()) or int(version) > int(than)

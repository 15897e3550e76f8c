"""Report results to users: events, the pod's condition, the reservation's status."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.api import reservation_status
from holdfast.api.group_scheduling import NOT_IMPLEMENTED, ignored_group_requests
from holdfast.api.meta import Condition, Object, version_guard
from holdfast.api.scheme import EVENTS, PODS
from holdfast.api.timestamps import rfc3339
from holdfast.client.backoff import Retries
from holdfast.client.client import Client, PatchType
from holdfast.client.events import EventRecorder
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import HoldfastError, NotFound, Retryable
from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.scheduler.scheduled_objects import (
    ScheduledObject,
    name_of,
    namespace_of,
    read_newest,
    reference_to,
    resource_of,
    wants_node,
)
from holdfast.state.columns.pod_info import PodInfo

log = logging.getLogger(__name__)

NOT_READY = "NotReadyForScheduling"
"""Reason of the condition and the event of a pod that a PreEnqueue plugin rejects."""
CLAIM_NOT_CREATED = "FailedResourceClaimCreation"
"""Reason of the event with which the claim controllers report a claim that they cannot create."""
_FORBIDDEN = re.compile(r' \S+ "[^"]*" is forbidden:')
"""Matches the name of a claim that was not created; each attempt generates another name."""
LONGEST_NOTE = 1024
TRIES = 4
MAX_WRITES = 16
"""Status writes at once, so that bindings do not wait for them."""
MAX_REMEMBERED = 4096
ReportedStatus = tuple[str, str, str]
"""The reason, message and nomination of a pod without a node."""
BodyOf = Callable[[Sequence[Condition]], dict[str, Any]]
"""Returns the patch of a status, given the conditions of the newest version."""


def truncated_note(message: str) -> str:
    """Truncate an event's note to the API's limit of 1024 bytes; " ..." marks the cut.

    >>> len(truncated_note("x" * 2000)), truncated_note("short")
    (1024, 'short')
    """
    data = message.encode()
    if len(data) <= LONGEST_NOTE:
        return message
    return data[: LONGEST_NOTE - 4].decode(errors="ignore") + " ..."


@dataclass(slots=True)
class _RunningWrites:
    """The writes of one object that run or wait."""

    count: int = 0
    newest: int = -1
    """Number of the newest one; it may have ended, while an older one still waits to be retried."""
    status: ReportedStatus | None = None
    has_ended: bool = False
    """Whether the newest one has ended."""


class StatusReporter:
    """Records events and writes statuses; a failed write never fails an attempt."""

    def __init__(self, client: Client, recorder: EventRecorder, clock: Clock) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._numbers = itertools.count()
        self._running: dict[str, _RunningWrites] = {}
        """The running writes by uid."""
        self._written: OrderedDict[str, tuple[str, ReportedStatus]] = OrderedDict()
        """Resource version and status of our last write to a pod, by uid."""
        self._slots = asyncio.Semaphore(MAX_WRITES)

    def scheduled(self, placement: Placement) -> None:
        """Record the events of a scheduled pod or reservation, with those of the plugins."""
        pod_info, node = placement.pod, placement.node
        for reason, message in placement.events:
            self.note(pod_info, reason, message)
        message = f"Successfully assigned {name_of(pod_info)} to {node}"
        self._event(pod_info, "Normal", "Scheduled", message, "Binding")

    def failed(self, pod_info: PodInfo, message: str) -> None:
        """Record a FailedScheduling event."""
        self.warn(pod_info, "FailedScheduling", message)

    def warn(self, pod_info: PodInfo, reason: str, message: str) -> None:
        """Record another warning about a failed attempt."""
        self._event(pod_info, "Warning", reason, truncated_note(message), "Scheduling")

    def warn_of_groups(self, pod_info: PodInfo) -> None:
        """Record an event if a pod asks for a gang or an elastic quota, which have no effect."""
        if sentences := list(ignored_group_requests(pod_info.pod)):
            self.warn(pod_info, NOT_IMPLEMENTED, "; ".join(sentences))

    def warn_of_object(self, regarding: Object, reason: str, message: str) -> None:
        """Record a warning about an object that is not scheduled here."""
        self._recorder.record(
            regarding, "Warning", reason, truncated_note(message), action="Scheduling"
        )

    def note(self, pod_info: PodInfo, reason: str, message: str) -> None:
        """Record a normal event of a plugin."""
        self._event(pod_info, "Normal", reason, truncated_note(message), "Scheduling")

    def preempted(self, victim: PodInfo, preemptor: PodInfo, message: str) -> None:
        """Record a Preempted event on the victim."""
        self._recorder.record(
            victim.pod, "Normal", "Preempted", message, action="Preempting",
            related=reference_to(preemptor), component=preemptor.scheduler_name,
        )  # fmt: skip

    async def clear_nomination(self, pod_info: PodInfo) -> None:
        """Clear ``status.nominatedNodeName`` of a pod."""
        body = {"status": {"nominatedNodeName": None}}
        await self._write(pod_info, lambda _: body, PatchType.MERGE)

    async def write_nominated_node(self, pod_info: PodInfo, node: str) -> None:
        """Write ``status.nominatedNodeName`` of a pod whose binding may take a while."""
        if pod_info.pod.status.nominated_node_name == node:
            return
        meta = pod_info.pod.metadata
        body = {"metadata": {"uid": meta.uid}, "status": {"nominatedNodeName": node}}
        path = PODS.path(pod_info.namespace, pod_info.name, "status")
        try:
            await self._client.write(
                "PATCH", path, msgspec.json.encode(body), PatchType.MERGE.value
            )
        except NotFound:
            return  # The pod has been deleted.
        except HoldfastError as failure:
            log.warning(
                "writing nominatedNodeName %s of %s failed: %s", node, pod_info.key, failure
            )

    async def mark_unscheduled(
        self, pod_info: PodInfo, reason: str, message: str, *, nominated: str = ""
    ) -> None:
        """Write PodScheduled=False (Scheduled=False on a reservation), if it changed.

        ``nominated`` is the nominated node of the pod, or "".
        """
        if pod_info.is_reserve_pod:
            await self.mark_reservation(pod_info, message)
        else:
            await self._mark_pod(pod_info, reason, message, nominated)

    async def mark_unready(self, pod_info: PodInfo, message: str, *, nominated: str = "") -> None:
        """Record why PreEnqueue rejects a pod, and why it has no claim, unless that is known."""
        if failure := await self._claim_failure(pod_info):
            message = f"{message}: {failure}"
        old = pod_info.pod.condition("PodScheduled")
        if old is None or (old.reason, old.message) != (NOT_READY, message):
            self.warn(pod_info, NOT_READY, message)
            await self.mark_unscheduled(pod_info, NOT_READY, message, nominated=nominated)

    async def _claim_failure(self, pod_info: PodInfo) -> str:
        """Return why the last creation of a claim of the pod has failed, or ""."""
        pod = pod_info.pod
        if not pod.names_claims:
            return ""
        fields = f"involvedObject.uid={pod_info.uid},reason={CLAIM_NOT_CREATED}"
        try:
            async with self._slots:
                listing = await self._client.list(EVENTS, pod_info.namespace, fields=fields)
            events = listing.items
        except HoldfastError:
            return ""  # without the right to read events the message is shorter
        last = max(events, key=lambda event: event.last_seen).message if events else ""
        return _FORBIDDEN.sub("", last)

    async def _mark_pod(self, pod_info: PodInfo, reason: str, message: str, nominated: str) -> None:
        status, old = pod_info.pod.status, pod_info.pod.condition("PodScheduled")
        same = old and (old.status, old.reason, old.message) == ("False", reason, message)
        if same and nominated == status.nominated_node_name:
            return
        reported = (reason, message, nominated)
        if self._already_reported(pod_info, reported):
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
        await self._write(pod_info, lambda _: body, PatchType.STRATEGIC, reported)

    def _already_reported(self, pod_info: PodInfo, reported: ReportedStatus) -> bool:
        """Tell whether this status is being written, or was written to a newer version."""
        running = self._running.get(pod_info.uid)
        if running is not None and not running.has_ended:
            return running.status == reported
        version, written = self._written.get(pod_info.uid, ("", None))
        return written == reported and not _newer(pod_info.pod.metadata.resource_version, version)

    async def reject_reservation(self, pod_info: PodInfo, message: str) -> None:
        """Report why an invalid reservation is not scheduled, unless its status says so already."""
        if not any(c.message == message for c in pod_info.pod.status.conditions):
            self.failed(pod_info, message)
            await self.mark_reservation(pod_info, message)

    async def mark_reservation(self, pod_info: PodInfo, message: str) -> None:
        """Write Scheduled=False with this message on a reservation."""

        def body(seen: Sequence[Condition]) -> dict[str, Any]:
            now = self._clock.now()
            conditions = reservation_status.refused(seen, message, now)
            return {"status": {"phase": "Pending", "conditions": conditions}}

        await self._write(pod_info, body, PatchType.MERGE)

    async def _write(
        self,
        pod_info: PodInfo,
        body: BodyOf,
        kind: PatchType,
        reported: ReportedStatus | None = None,
    ) -> None:
        """Write a status unless the object was scheduled or deleted since the attempt.

        The write names the resource version it is about, so that a late write overwrites neither a
        later success nor a later status. At most ``MAX_WRITES`` run at once; of several for one
        object only the newest is sent.
        """
        number = next(self._numbers)
        running = self._running.setdefault(pod_info.uid, _RunningWrites())
        running.count += 1
        running.newest, running.status, running.has_ended = number, reported, False
        try:
            async with self._slots:
                stored = await self._send(pod_info, body, kind, number)
            if stored is not None and reported is not None:
                self._remember(pod_info.uid, stored.metadata.resource_version, reported)
        finally:
            running.count -= 1
            running.has_ended = running.has_ended or running.newest == number
            if running.count == 0:
                del self._running[pod_info.uid]

    def _remember(self, uid: str, version: str, reported: ReportedStatus) -> None:
        self._written.pop(uid, None)
        self._written[uid] = (version, reported)
        if len(self._written) > MAX_REMEMBERED:
            self._written.popitem(last=False)

    async def _send(
        self, pod_info: PodInfo, body: BodyOf, kind: PatchType, number: int
    ) -> ScheduledObject | None:
        """Send a status with retries while it is current; return the stored object, or None."""
        resource, namespace = resource_of(pod_info), namespace_of(pod_info)
        seen: ScheduledObject = pod_info.pod
        retries = Retries(self._clock, tries=TRIES)
        while retries.any_left:
            if self._running[pod_info.uid].newest != number:
                return None
            guard = version_guard(seen)
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
            newer = await self._read_if_pending(pod_info)
            if newer is None:
                return None
            seen = newer
        return None

    async def _read_if_pending(self, pod_info: PodInfo) -> ScheduledObject | None:
        """Return the newest version of an object that is still to be scheduled, or None."""
        try:
            obj = await read_newest(self._client, pod_info)
        except Retryable:
            return pod_info.pod
        except HoldfastError:
            return None
        return obj if obj is not None and wants_node(obj) else None

    def _event(self, pod_info: PodInfo, type_: str, reason: str, message: str, action: str) -> None:
        self._recorder.record(
            reference_to(pod_info), type_, reason, message, action=action,
            component=pod_info.scheduler_name,
        )  # fmt: skip


def _newer(version: str, than: str) -> bool:
    """Tell whether a resource version is later than another; unknown forms count as later."""
    return not (version.isdigit() and than.isdigit()) or int(version) > int(than)

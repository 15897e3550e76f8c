"""What users read about a decision: the pod's condition and events, the reservation's status."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.api import reservation_status
from holdfast.api.meta import Condition, ObjectReference
from holdfast.api.pod import Pod
from holdfast.api.reservation import Reservation
from holdfast.api.scheme import PODS, RESERVATIONS
from holdfast.api.timestamps import rfc3339
from holdfast.client.client import Client, PatchType
from holdfast.client.events import EventRecorder
from holdfast.clock import Clock
from holdfast.columns.pod_facts import PodFacts
from holdfast.errors import HoldfastError, Retryable
from holdfast.framework.plugin import Placement

log = logging.getLogger(__name__)

LONGEST_NOTE = 1024
TRIES = 4
BodyOf = Callable[[Sequence[Condition]], dict[str, Any]]
"""What to write, seeing the conditions that the newest version has."""


def shortened(message: str) -> str:
    """Cut an event's note to what the API takes, marking that something is missing.

    >>> len(shortened("x" * 2000)), shortened("short")
    (1024, 'short')
    """
    data = message.encode()
    if len(data) <= LONGEST_NOTE:
        return message
    return data[: LONGEST_NOTE - 4].decode(errors="ignore") + " ..."


class Reporter:
    """Writes what became of pods and reservations; a failed report never fails an attempt."""

    def __init__(self, client: Client, recorder: EventRecorder, clock: Clock) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._numbers = itertools.count()
        self._newest: dict[str, int] = {}
        """The newest write about each object that has one under way."""

    def scheduled(self, placement: Placement) -> None:
        """Tell that the pod (or reservation) has its node, and what plugins noted on the way."""
        facts, node = placement.pod, placement.node
        for reason, words in placement.notes:
            self._event(facts, "Normal", reason, words, "Scheduling")
        who = facts.name if facts.reserve_for else facts.key
        self._event(
            facts, "Normal", "Scheduled", f"Successfully assigned {who} to {node}", "Binding"
        )

    def failed(self, facts: PodFacts, message: str) -> None:
        """Tell why an attempt put the pod on no node."""
        self.warn(facts, "FailedScheduling", message)

    def warn(self, facts: PodFacts, reason: str, message: str) -> None:
        """Tell what else there is to say about an attempt that failed."""
        self._event(facts, "Warning", reason, shortened(message), "Scheduling")

    def preempted(self, victim: PodFacts, preemptor: PodFacts, words: str) -> None:
        """Tell a victim for whom it had to leave."""
        self._recorder.record(
            victim.pod, "Normal", "Preempted", words, action="Preempting",
            related=_reference(preemptor), component=preemptor.scheduler_name,
        )  # fmt: skip

    async def clear_nomination(self, facts: PodFacts) -> None:
        """Write that a waiting pod is no longer promised a node."""
        body = {"status": {"nominatedNodeName": None}}
        await self._write(facts, lambda _: body, PatchType.STRATEGIC)

    async def announce(self, facts: PodFacts, node: str) -> None:
        """Write where a pod is about to be bound, because getting it there takes a while."""
        if facts.pod.status.nominated_node_name == node:
            return
        meta = facts.pod.metadata
        body = {"metadata": {"uid": meta.uid}, "status": {"nominatedNodeName": node}}
        try:
            await self._client.patch(
                PODS, facts.name, body, facts.namespace,
                type=PatchType.STRATEGIC, subresource="status",
            )  # fmt: skip
        except HoldfastError as failure:
            log.warning("announcing %s for %s: %s", node, facts.key, failure)

    async def mark_unscheduled(
        self, facts: PodFacts, reason: str, message: str, *, nominated: str = ""
    ) -> None:
        """Write PodScheduled=False (Scheduled=False on a reservation), if it changed.

        ``nominated`` is the node the pod is promised, or "".
        """
        if facts.reserve_for:
            await self.mark_reservation(facts, message)
        else:
            await self._mark_pod(facts, reason, message, nominated)

    async def _mark_pod(self, facts: PodFacts, reason: str, message: str, nominated: str) -> None:
        status = facts.pod.status
        old = next((c for c in status.conditions if c.type == "PodScheduled"), None)
        same = old and (old.status, old.reason, old.message) == ("False", reason, message)
        if same and nominated == status.nominated_node_name:
            return
        condition: dict[str, Any] = {
            "type": "PodScheduled", "status": "False", "reason": reason, "message": message,
            "lastProbeTime": None, "observedGeneration": facts.pod.metadata.generation or None,
            "lastTransitionTime": old.last_transition_time
            if old and old.status == "False" and old.last_transition_time
            else rfc3339(self._clock.now()),
        }  # fmt: skip
        body: dict[str, Any] = {"status": {"conditions": [condition]}}
        if nominated != status.nominated_node_name:
            body["status"]["nominatedNodeName"] = nominated or None
        await self._write(facts, lambda _: body, PatchType.STRATEGIC)

    async def refuse(self, facts: PodFacts, words: str) -> None:
        """Say why a reservation is not even tried, unless it says so already."""
        if not any(c.message == words for c in facts.pod.status.conditions):
            self.failed(facts, words)
            await self.mark_reservation(facts, words)

    async def mark_reservation(self, facts: PodFacts, message: str) -> None:
        """Write Scheduled=False on a reservation, whatever kept it from a node."""

        def body(seen: Sequence[Condition]) -> dict[str, Any]:
            now = self._clock.now()
            conditions = reservation_status.refused(seen, message, now)
            return {"status": {"phase": "Pending", "conditions": conditions}}

        await self._write(facts, body, PatchType.MERGE)

    async def _write(self, facts: PodFacts, body: BodyOf, kind: PatchType) -> None:
        """Write a status unless the object has found its node, or gone, since the attempt.

        The write is bound to the version it is about: a late one must not undo a later success,
        nor a later write about the same object.
        """
        number = self._newest[facts.uid] = next(self._numbers)
        try:
            await self._insist(facts, body, kind, number)
        finally:
            if self._newest.get(facts.uid) == number:
                del self._newest[facts.uid]

    async def _insist(self, facts: PodFacts, body: BodyOf, kind: PatchType, number: int) -> None:
        resource, namespace = (RESERVATIONS, "") if facts.reserve_for else (PODS, facts.namespace)
        seen: Pod | Reservation = facts.pod
        for attempt in range(TRIES):
            guard = {"uid": seen.uid, "resourceVersion": seen.metadata.resource_version}
            guarded = {**body(seen.status.conditions), "metadata": guard}
            try:
                await self._client.patch(
                    resource, facts.name, guarded, namespace, type=kind, subresource="status"
                )  # type: ignore[misc]
                return
            except Retryable as failure:
                await self._clock.sleep(failure.after or 0.1 * 2**attempt)
            except HoldfastError:
                return
            newer = await self._still_waiting(facts)
            if newer is None or self._newest.get(facts.uid) != number:
                return
            seen = newer

    async def _still_waiting(self, facts: PodFacts) -> Pod | Reservation | None:
        """The newest version of what is still without a node, None if that is over."""
        try:
            if facts.reserve_for:
                found: Pod | Reservation = await self._client.get(RESERVATIONS, facts.name)
            else:
                found = await self._client.get(PODS, facts.name, facts.namespace)
        except Retryable:
            return facts.pod
        except HoldfastError:
            return None
        same = found.uid == facts.pod.metadata.uid
        return found if same and _waits(found) else None

    def _event(self, facts: PodFacts, type_: str, reason: str, message: str, action: str) -> None:
        self._recorder.record(
            _reference(facts), type_, reason, message, action=action,
            component=facts.scheduler_name,
        )  # fmt: skip


def _reference(facts: PodFacts) -> ObjectReference:
    version = facts.pod.metadata.resource_version
    if facts.reserve_for:
        return ObjectReference(
            api_version=RESERVATIONS.api_version, kind="Reservation", name=facts.name,
            uid=facts.reserve_for, resource_version=version,
        )  # fmt: skip
    return ObjectReference(
        api_version="v1", kind="Pod", namespace=facts.namespace, name=facts.name,
        uid=facts.uid, resource_version=version,
    )  # fmt: skip


def _waits(found: Pod | Reservation) -> bool:
    if isinstance(found, Reservation):
        return found.phase == "Pending" and not found.status.node_name
    return not found.spec.node_name and not found.finished

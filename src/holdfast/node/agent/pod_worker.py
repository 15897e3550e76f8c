"""Run one pod on its node: admit, prepare, start, report, stop, unprepare, report the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from holdfast.api.timestamps import rfc3339, seconds_of
from holdfast.client.backoff import Backoff
from holdfast.client.client import PatchType
from holdfast.node.agent.container_status import PodState, pod_status
from holdfast.node.agent.container_supervisor import ContainerSupervisor, pod_grace
from holdfast.node.agent.node_pod import NODE_PODS, NodeContainerStatus, NodePod
from holdfast.node.agent.node_services import NodeServices
from holdfast.node.agent.pod_admission import PodRejection
from holdfast.node.agent.pod_containers import ContainerRecord, Role, new_records, plan_containers
from holdfast.node.agent.pod_devices import NotPrepared
from holdfast.node.agent.runtime import LOST_MESSAGE, LOST_REASON, ContainerExit, Runtime
from holdfast.node.agent.status_patches import rejected_status
from holdfast.runtime.errors import Conflict, HoldfastError, Invalid, NotFound, TooLarge

PREPARE_BACKOFF = Backoff(first=1.0, limit=10.0)
STATUS_BACKOFF = Backoff(first=0.5, limit=10.0)
TOO_LARGE_RETRY_SECONDS = 600.0
"""The delay before a status that was too large for the store is written again."""
FORCED_GRACE_SECONDS = 1.0
"""The time the containers of a pod have to end if its object is already gone."""
DEADLINE_EXCEEDED = "Pod was active on the node longer than the specified deadline"

log = logging.getLogger(__name__)


class PodWorker:
    """The task of one pod, from its binding until its object is gone.

    ``update`` and ``remove`` report changes of the object; the worker does the rest by itself. One
    task does everything in a kubelet's order, so no step can overtake another: devices are
    unprepared after all containers have stopped, and the end is reported after that.
    """

    def __init__(self, pod: NodePod, node: NodeServices) -> None:
        self.pod = pod
        self.admitted = False
        """Whether the node runs the pod, so that its resources are in use."""
        self._node = node
        self._records = new_records(pod)
        self._state = PodState(pod.status.pod_ip, node.host_ip, pod.status.start_time or "")
        self._supervisor: ContainerSupervisor | None = None
        self._runtime: Runtime | None = None
        self._prepared = False
        self._prepare_at = 0.0
        """When to prepare again after a failure; changes of the pod do not make it earlier.

        The failure is in the pod's status, and the change of the status wakes this task: without
        this time, the driver would be called again at once.
        """
        self._failures = 0
        self._backing_off: set[str] = set()
        self.removed = False
        self._wake = asyncio.Event()
        self._urgent = asyncio.Event()
        self._written: dict[str, Any] = {}
        self._write_at = 0.0
        self._write_failures = 0
        self._refused = False
        """Whether the server refused the last status that was written.

        Then the removal does not wait until a status is stored: such a pod stayed Terminating.
        """

    @property
    def records(self) -> Sequence[ContainerRecord]:
        """The containers, init containers first."""
        return self._records

    @property
    def runtime(self) -> Runtime | None:
        """The runtime of the containers, once the node has taken the pod."""
        return self._runtime

    def update(self, pod: NodePod) -> None:
        """Use a newer version of the pod."""
        if _revision(pod) >= _revision(self.pod):
            self.pod = pod
            if pod.terminating and pod.metadata.deletion_grace_period_seconds == 0:
                self._urgent.set()
            self._wake.set()

    def remove(self) -> None:
        """Stop the containers at once: the object is gone."""
        self.removed = True
        self._urgent.set()
        self._wake.set()

    async def run(self) -> None:
        """Run the pod until its object and everything that belongs to it are gone."""
        try:
            if not self.pod.finished:
                await self._live()
            elif not self.removed:
                await self._unprepare()
            await self._wait_for_removal()
            for runtime in self._node.runtimes.all:
                await runtime.remove(self.pod.uid)
        finally:
            if self._supervisor is not None:
                await self._supervisor.close()

    async def stop_containers(self, grace: float) -> None:
        """Stop processes after the worker was cancelled; the status is not changed."""
        if self._runtime is None or not self._runtime.real:
            return
        running = [r.running for r in self._records if r.running is not None]
        await asyncio.gather(*(c.stop(grace) for c in running), return_exceptions=True)
        await self._runtime.kill(self.pod.uid)  # containers that were about to start

    async def leave_containers(self) -> None:
        """Leave the containers to the next agent after the worker was cancelled."""
        for record in self._records:
            if record.running is not None:
                await record.running.leave()

    async def _live(self) -> None:
        rejection = self._admit()
        if rejection is not None:
            await self._reject(rejection)
            return
        assert self._runtime is not None
        self._supervisor = ContainerSupervisor(self._node, self._runtime, self._wake.set)
        await self._find_containers()
        phase, reason, message, grace = await self._run_containers()
        self._state = replace(self._state, reason=reason, message=message)
        await self._stop_all(grace)
        await self._unprepare()
        self.admitted = False
        self._state = replace(self._state, phase=phase or self._last_phase(), sandbox=False)
        await self._write_until_stored()

    def _admit(self) -> PodRejection | None:
        chosen = self._node.runtimes.choose(self.pod)
        if isinstance(chosen, PodRejection):
            return chosen
        self._runtime = chosen
        started_before = self.pod.status.start_time is not None
        rejection = None if started_before else self._node.admit(self.pod)
        self.admitted = rejection is None
        if self.admitted:
            if not started_before and (why := self._node.runtimes.why_simulated(self.pod)):
                self._event("Normal", "Simulated", why)
            now = self._node.clock.now()
            address = self._node.addresses.allocate(self.pod.uid, self.pod.status.pod_ip)
            self._state = replace(
                self._state,
                pod_ip=self._node.host_ip if chosen.real else address,
                start_time=self.pod.status.start_time or rfc3339(now),
            )
        return rejection

    async def _reject(self, rejection: PodRejection) -> None:
        """Report that the node does not take the pod."""
        for runtime in self._node.runtimes.all:
            await runtime.remove(self.pod.uid)
        self._event("Warning", rejection.reason, rejection.message)
        now = self._node.clock.now()
        status = rejected_status(self.pod, rejection.reason, rejection.message, now)
        await self._write_until_stored(status)

    async def _find_containers(self) -> None:
        """Continue with the containers that an earlier agent started, if any."""
        assert self._supervisor is not None
        status = self.pod.status
        known = {s.name: s for s in (*status.container_statuses, *status.init_container_statuses)}
        for record in self._records:
            # An earlier agent may have been killed between a start and its status.
            old = known.get(record.name) or NodeContainerStatus()
            record.previous = old.last_state.get("terminated", {})
            running, ended = old.state.get("running"), old.state.get("terminated")
            if running is not None or ended is not None or old.restart_count:
                record.attempt = old.restart_count
            started_at = seconds_of((running or {}).get("startedAt"))
            await self._supervisor.find(self.pod, record, started_at)
            self._prepared = self._prepared or record.attempt >= 0
            if record.running is not None:
                continue
            if ended is None and running is not None:
                ended = {"exitCode": 137, "reason": LOST_REASON, "message": LOST_MESSAGE}
            if ended is not None:
                _recall(record, ended, started_at, self._node.clock.now())
        if self._prepared:
            for devices in self._node.devices:
                devices.resume(self.pod)

    async def _run_containers(self) -> tuple[str, str, str, float]:
        """Run until the pod must end; return phase, reason, message and grace period."""
        while True:
            self._wake.clear()
            now, pod = self._node.clock.now(), self.pod
            if self.removed:
                return "", "", "", FORCED_GRACE_SECONDS
            if pod.terminating:
                return "", "", "", float(pod.metadata.deletion_grace_period_seconds or 0)
            deadline = self._deadline()
            if deadline is not None and deadline <= now:
                self._event("Normal", "DeadlineExceeded", DEADLINE_EXCEEDED)
                return "Failed", "DeadlineExceeded", DEADLINE_EXCEEDED, pod_grace(pod)
            try:
                wake_at = await self._prepare_if_needed()
            except NotPrepared as failure:
                return "Failed", failure.reason, f"Pod was rejected: {failure}", 0.0
            if self._prepared:
                phase, wake_at = await self._start_containers()
                if phase:
                    return phase, "", "", pod_grace(pod)
            await self._write()
            await self._wait(wake_at, deadline, self._write_at or None)

    def _deadline(self) -> float | None:
        seconds = self.pod.spec.active_deadline_seconds
        started = seconds_of(self._state.start_time)
        return started + seconds if seconds is not None and started is not None else None

    async def _prepare_if_needed(self) -> float | None:
        """Prepare the devices; return when to try again after a failure."""
        if self._prepared or self._prepare_at > self._node.clock.now():
            return None if self._prepared else self._prepare_at
        try:
            for devices in self._node.devices:
                await devices.prepare(self.pod)
        except NotPrepared as failure:
            self._event("Warning", failure.reason, str(failure))
            if failure.permanent:
                raise
            self._failures += 1
            self._state = replace(self._state, sandbox=False, problem=str(failure))
            self._prepare_at = self._node.clock.now() + PREPARE_BACKOFF.delay(self._failures)
            return self._prepare_at
        self._prepared, self._failures = True, 0
        self._state = replace(self._state, sandbox=True, problem="")
        return None

    async def _start_containers(self) -> tuple[str, float | None]:
        """Start containers that are due; return the last phase if the pod has ended."""
        assert self._supervisor is not None
        while True:
            steps = plan_containers(self.pod, self._records, self._node.clock.now())
            if steps.phase or not steps.start:
                self._report_backoff()
                return steps.phase, steps.wake_at
            for record in steps.start:
                await self._supervisor.start(self.pod, record)

    def _report_backoff(self) -> None:
        """Record an event for each container that waits for its next start."""
        now = self._node.clock.now()
        for record in self._records:
            waits = record.running is None and record.exit is not None and record.retry_at > now
            if waits and record.name not in self._backing_off:
                text = f"Back-off restarting failed container {record.name} in pod {self.pod.name}"
                self._event("Warning", "BackOff", f"{text}_{self.pod.namespace}({self.pod.uid})")
            (self._backing_off.add if waits else self._backing_off.discard)(record.name)

    async def _stop_all(self, grace: float) -> None:
        """Stop the containers, then the sidecars from the last to the first."""
        end = self._node.clock.monotonic() + grace
        mains = [r for r in self._records if r.role is not Role.SIDECAR]
        await asyncio.gather(*(self._stop(record, grace) for record in mains))
        for record in reversed(self._records):
            await self._stop(record, max(0.0, end - self._node.clock.monotonic()))

    async def _stop(self, record: ContainerRecord, grace: float) -> None:
        """Stop one container; without grace as soon as the object is gone."""
        if record.running is None or self._supervisor is None:
            return
        why = f"Stopping container {record.name}"
        stopping = asyncio.create_task(self._supervisor.stop(self.pod, record, grace, why))
        urgent = asyncio.create_task(self._urgent.wait())
        try:
            await asyncio.wait({stopping, urgent}, return_when=asyncio.FIRST_COMPLETED)
            if not stopping.done():
                forced = asyncio.create_task(self._node.clock.sleep(FORCED_GRACE_SECONDS))
                await asyncio.wait({stopping, forced}, return_when=asyncio.FIRST_COMPLETED)
                forced.cancel()
            if not stopping.done():
                stopping.cancel()
                await self._supervisor.stop(self.pod, record, 0.0, why)
            await asyncio.gather(stopping, return_exceptions=True)
        finally:
            urgent.cancel()
            stopping.cancel()

    async def _unprepare(self) -> None:
        """Release the devices, however long it takes."""
        failures = 0
        for devices in self._node.devices:
            while True:
                try:
                    await devices.unprepare(self.pod)
                    break
                except NotPrepared as failure:
                    failures += 1
                    self._event("Warning", failure.reason, str(failure))
                    await self._node.clock.sleep(PREPARE_BACKOFF.delay(failures))

    def _last_phase(self) -> str:
        mains = [r for r in self._records if r.role is Role.MAIN]
        return "Succeeded" if all(r.succeeded for r in mains) else "Failed"

    async def _wait_for_removal(self) -> None:
        """Remove the object of a pod that is deleted; wait until it is gone."""
        while not self.removed:
            self._wake.clear()
            pod = self.pod
            waits_for_finalizers = (
                pod.metadata.finalizers and pod.metadata.deletion_grace_period_seconds == 0
            )
            retry_at = None
            if pod.terminating and not waits_for_finalizers:
                try:
                    await self._node.client.delete(
                        NODE_PODS, pod.name, pod.namespace, grace_seconds=0, uid=pod.uid
                    )
                except (NotFound, Conflict):
                    pass
                except HoldfastError as failure:
                    log.warning("pod %s is not removed: %s; trying again", pod.key, failure)
                    self._write_failures += 1
                    retry_at = self._node.clock.now() + STATUS_BACKOFF.delay(self._write_failures)
            if not self.removed:
                await self._wait(retry_at)

    async def _write_until_stored(self, patch: dict[str, Any] | None = None) -> None:
        """Write the last status; a deleted pod does not wait if the server refuses it."""
        self._write_at = 0.0
        while not self.removed:
            self._wake.clear()
            await self._write(patch)
            if not self._write_at or (self._refused and self.pod.terminating):
                return
            await self._wait(self._write_at)

    async def _write(self, patch: dict[str, Any] | None = None) -> None:
        """Write the status if it has changed; sets when to try again after a failure."""
        pod, now = self.pod, self._node.clock.now()
        if self.removed or self._write_at > now:
            return
        patch = patch or pod_status(pod, self._records, self._state, now)
        self._write_at, self._refused = 0.0, False
        if patch == self._written:
            return
        try:
            stored = await self._node.client.patch(
                NODE_PODS, pod.name, patch, pod.namespace,
                type=PatchType.STRATEGIC, subresource="status",
            )  # fmt: skip
        except NotFound:
            return
        except (Invalid, TooLarge) as refusal:
            log.warning("pod %s: the status cannot be stored: %s", pod.key, refusal)
            self._event("Warning", "FailedStatusUpdate", f"Failed to update the status: {refusal}")
            self._write_failures += 1
            self._refused, backoff = True, STATUS_BACKOFF.delay(self._write_failures)
            too_large = isinstance(refusal, TooLarge)
            self._write_at = now + (TOO_LARGE_RETRY_SECONDS if too_large else backoff)
            return
        except HoldfastError as failure:
            log.warning("pod %s: the status is not written: %s; trying again", pod.key, failure)
            self._write_failures += 1
            self._write_at = now + STATUS_BACKOFF.delay(self._write_failures)
            return
        self._write_failures, self._written = 0, patch
        if _revision(stored) > _revision(self.pod):
            self.pod = stored

    async def _wait(self, *times: float | None) -> None:
        """Wait for a change, or until the first of these times."""
        known = [time for time in times if time is not None]
        if not known:
            await self._wake.wait()
            return
        change = asyncio.create_task(self._wake.wait())
        timer = asyncio.create_task(
            self._node.clock.sleep(max(0.0, min(known) - self._node.clock.now()))
        )
        try:
            await asyncio.wait({change, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            change.cancel()
            timer.cancel()

    def _event(self, type_: str, reason: str, message: str) -> None:
        self._node.event(self.pod, type_, reason, message)


def _recall(
    record: ContainerRecord, ended: dict[str, Any], started_at: float | None, now: float
) -> None:
    """Read the end of an attempt from the pod's status."""
    record.started_at = started_at or seconds_of(ended.get("startedAt")) or 0.0
    record.id = ended.get("containerID", "")
    how = ContainerExit(
        ended.get("exitCode", 0), seconds_of(ended.get("finishedAt")) or now,
        ended.get("signal", 0), ended.get("reason", ""), ended.get("message", ""),
    )  # fmt: skip
    record.end(how)


def _revision(pod: NodePod) -> int:
    version = pod.metadata.resource_version
    return int(version) if version.isdigit() else 0

"""Start, probe and stop the containers of one pod."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from holdfast.node.agent.environment import container_environment, expand
from holdfast.node.agent.node_pod import NodePod, Probe
from holdfast.node.agent.node_services import NodeServices
from holdfast.node.agent.pod_containers import CONFIG_RETRY_SECONDS, ContainerRecord, Role
from holdfast.node.agent.probes import ActionTarget, run_action
from holdfast.node.agent.runtime import ContainerConfig, NotStarted, RunningContainer, Runtime
from holdfast.runtime.errors import HoldfastError

LEAST_GRACE_SECONDS = 2.0
"""The time a container has to end if its preStop hook has used up the grace period."""


class ContainerSupervisor:
    """The containers of one pod; ``changed`` is called after every change of a record."""

    def __init__(self, node: NodeServices, runtime: Runtime, changed: Callable[[], None]) -> None:
        self._node = node
        self._runtime = runtime
        self._changed = changed
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def find(self, pod: NodePod, record: ContainerRecord, started_at: float | None) -> None:
        """Continue with a container that an earlier agent started, if any."""
        config = ContainerConfig(
            pod, record.name, max(record.attempt, 0), completes=record.role is Role.INIT
        )
        running = await self._runtime.find(config, started_at)
        if running is not None:
            self._follow(pod, record, running)

    async def start(self, pod: NodePod, record: ContainerRecord) -> None:
        """Start the next attempt of a container, or record why it cannot be started."""
        try:
            config = await self._config(pod, record)
            for devices in self._node.devices:
                await devices.before_start(pod, record.name)
            running = await self._runtime.start(config)
        except HoldfastError as failure:
            reason = failure.reason if isinstance(failure, NotStarted) else "CreateContainerError"
            record.waiting = (reason, str(failure))
            record.retry_at = self._node.clock.now() + CONFIG_RETRY_SECONDS
            self._node.event(pod, "Warning", "Failed", f"Error: {failure}")
            return
        if self._runtime.real:
            self._node.event(pod, "Normal", "Started", f"Started container {record.name}")
        self._follow(pod, record, running)
        await self._post_start(pod, record, running)

    async def stop(self, pod: NodePod, record: ContainerRecord, grace: float, why: str) -> None:
        """Stop a container with its preStop hook, within the grace period."""
        running = record.running
        if running is None:
            return
        if self._runtime.real:
            self._node.event(pod, "Normal", "Killing", why)
            clock = self._node.clock
            deadline = clock.monotonic() + grace
            if grace > 0:
                await self._pre_stop(pod, record, running, grace)
            grace = max(min(LEAST_GRACE_SECONDS, grace), deadline - clock.monotonic())
        await running.stop(grace)
        await asyncio.gather(self._watches[record.name], return_exceptions=True)

    async def close(self) -> None:
        """Stop watching; the containers are not changed."""
        tasks = {*self._tasks, *self._watches.values()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _config(self, pod: NodePod, record: ContainerRecord) -> ContainerConfig:
        spec = record.spec
        attempt = record.attempt + 1
        completes = record.role is Role.INIT
        edits = self._node.device_edits(pod, record.name)
        record.edits = edits.shown()
        if not self._runtime.real:
            return ContainerConfig(pod, record.name, attempt, completes=completes)
        if edits.unapplied:
            self._node.event(
                pod, "Warning", "NotIsolated",
                f"container {record.name} is a process, not a container: it does not get "
                f"{edits.unapplied}",
            )  # fmt: skip
        node = self._node.node()
        env = await container_environment(
            pod, spec, node.status.allocatable if node else {},
            partial(self._node.read, namespace=pod.namespace),
        )  # fmt: skip
        env = edits.defaults | env | edits.env
        words = (*spec.command, *spec.args) if spec.command else ()
        return ContainerConfig(
            pod, record.name, attempt, tuple(expand(word, env) for word in words), env,
            spec.working_dir, completes,
        )  # fmt: skip

    def _follow(self, pod: NodePod, record: ContainerRecord, running: RunningContainer) -> None:
        """Record a start, and probe and watch the container from now on."""
        record.start(running)
        spec = record.spec
        probing: asyncio.Task[None] | None = None
        record.started = spec.startup_probe is None or not self._runtime.real
        record.ready = record.started and (spec.readiness_probe is None or not self._runtime.real)
        if self._runtime.real and (
            spec.startup_probe or spec.readiness_probe or spec.liveness_probe
        ):
            probing = self._spawn(self._probe(pod, record, running))
        self._watches[record.name] = asyncio.create_task(
            self._watch(record, running, probing), name=f"watch {running.id}"
        )

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _watch(
        self, record: ContainerRecord, running: RunningContainer, probing: asyncio.Task[None] | None
    ) -> None:
        how = await running.wait()
        if probing is not None:
            probing.cancel()
        record.end(how)
        self._changed()

    async def _probe(
        self, pod: NodePod, record: ContainerRecord, running: RunningContainer
    ) -> None:
        spec = record.spec
        if spec.startup_probe is not None:
            if not await self._probe_until(pod, record, running, spec.startup_probe, "Startup"):
                return
            record.started = True
            record.ready = spec.readiness_probe is None
            self._changed()
        loops = []
        if spec.readiness_probe is not None:
            loops.append(self._probe_readiness(pod, record, running, spec.readiness_probe))
        if spec.liveness_probe is not None:
            loops.append(self._probe_liveness(pod, record, running, spec.liveness_probe))
        await asyncio.gather(*loops)

    async def _probe_until(
        self,
        pod: NodePod,
        record: ContainerRecord,
        running: RunningContainer,
        probe: Probe,
        kind: str,
    ) -> bool:
        """Probe until the first success; after too many failures kill the container."""
        await self._wait_for_first(running, probe)
        failures = 0
        while True:
            if not (why := await self._try(record, running, probe)):
                return True
            self._unhealthy(pod, kind, why)
            failures += 1
            if failures >= probe.failure_threshold:
                self._spawn(self._kill(pod, record, probe, kind.lower()))
                return False
            await self._node.clock.sleep(probe.period_seconds)

    async def _probe_liveness(
        self, pod: NodePod, record: ContainerRecord, running: RunningContainer, probe: Probe
    ) -> None:
        while await self._probe_until(pod, record, running, probe, "Liveness"):
            await self._node.clock.sleep(probe.period_seconds)

    async def _probe_readiness(
        self, pod: NodePod, record: ContainerRecord, running: RunningContainer, probe: Probe
    ) -> None:
        await self._wait_for_first(running, probe)
        successes = failures = 0
        while True:
            why = await self._try(record, running, probe)
            successes, failures = (0, failures + 1) if why else (successes + 1, 0)
            if why:
                self._unhealthy(pod, "Readiness", why)
            ready = record.ready
            if successes >= probe.success_threshold:
                ready = True
            elif failures >= probe.failure_threshold:
                ready = False
            if ready != record.ready:
                record.ready = ready
                self._changed()
            await self._node.clock.sleep(probe.period_seconds)

    async def _wait_for_first(self, running: RunningContainer, probe: Probe) -> None:
        clock = self._node.clock
        await clock.sleep(max(0.0, running.started_at + probe.initial_delay_seconds - clock.now()))

    async def _try(self, record: ContainerRecord, running: RunningContainer, probe: Probe) -> str:
        return await run_action(probe, self._target(record, running), probe.timeout_seconds)

    async def _kill(self, pod: NodePod, record: ContainerRecord, probe: Probe, kind: str) -> None:
        own = probe.termination_grace_period_seconds
        grace = own if own is not None else pod_grace(pod)
        why = f"Container {record.name} failed {kind} probe, will be restarted"
        await self.stop(pod, record, grace, why)

    async def _post_start(
        self, pod: NodePod, record: ContainerRecord, running: RunningContainer
    ) -> None:
        hook = record.spec.lifecycle.post_start if record.spec.lifecycle else None
        if hook is None or not self._runtime.real:
            return
        why = await run_action(hook, self._target(record, running), pod_grace(pod))
        if why:
            self._node.event(pod, "Warning", "FailedPostStartHook", f"PostStartHook failed: {why}")
            await self.stop(pod, record, pod_grace(pod), "FailedPostStartHook")

    async def _pre_stop(
        self, pod: NodePod, record: ContainerRecord, running: RunningContainer, grace: float
    ) -> None:
        hook = record.spec.lifecycle.pre_stop if record.spec.lifecycle else None
        if hook is None:
            return
        why = await run_action(hook, self._target(record, running), grace)
        if why:
            self._node.event(pod, "Warning", "FailedPreStopHook", f"PreStopHook failed: {why}")

    def _target(self, record: ContainerRecord, running: RunningContainer) -> ActionTarget:
        return ActionTarget(record.spec, running, self._node.host_ip, self._node.clock)

    def _unhealthy(self, pod: NodePod, kind: str, why: str) -> None:
        self._node.event(pod, "Warning", "Unhealthy", f"{kind} probe failed: {why}")


def pod_grace(pod: NodePod) -> float:
    """Return a pod's grace period in seconds."""
    own = pod.spec.termination_grace_period_seconds
    return 30.0 if own is None else float(own)

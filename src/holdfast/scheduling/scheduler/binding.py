"""Bind a pod: run the PreBind and Bind plugins, and undo their writes when one fails.

The generators of plugins yield API calls, which ``ApiCallRunner`` sends.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from holdfast.api.allocation_keys import ALLOCATION_ANNOTATIONS
from holdfast.api.scheme import PODS
from holdfast.client.backoff import retry
from holdfast.client.client import Client, PatchType
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import HoldfastError, NotFound
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.extender import ExtenderFailed
from holdfast.scheduling.framework.plugin import (
    ApiCall,
    ApiCalls,
    Code,
    Placement,
    PreBindCalls,
    Reject,
    Reserver,
    Skip,
)
from holdfast.scheduling.framework.points import Point
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.scheduler.api_call_runner import ApiCallRunner
from holdfast.scheduling.scheduler.scheduled_objects import (
    node_of,
    pod_info_of,
    read_newest,
    wants_node,
)
from holdfast.state.columns.pod_info import PodInfo

log = logging.getLogger(__name__)

NamedReserver = tuple[str, Reserver]
"""The name of a plugin, and its plan for the pod."""


class BindFailed(Exception):
    """A write of a binding failed; the message is that of the pod's condition.

    ``started`` are the plans whose ``pre_bind`` was started, in order. Nothing is undone yet: the
    failed write may have been stored although its response was an error. ``rejected`` is a PreBind
    plugin that has rejected the pod, which is no error, with its result.
    """

    started: tuple[NamedReserver, ...] = ()
    rejected: tuple[str, Reject] | None = None

    @classmethod
    def at(cls, plugin: str, point: str, cause: Exception) -> BindFailed:
        """Return the error of a plugin at an extension point."""
        return cls(f'running {point} plugin "{plugin}": {cause or repr(cause)}')

    @classmethod
    def rejected_by(cls, plugin: str, reject: Reject) -> BindFailed:
        """Return the rejection by a PreBind plugin."""
        failure = cls(", ".join(reject.reasons))
        failure.rejected = (plugin, reject)
        return failure


class EndedPending(Exception):
    """A PreBind plugin ended the attempt: the pod waits for an event of this plugin.

    ``started`` are the plans before it, in order; their writes are not undone yet.
    """

    def __init__(self, plugin: str, reject: Reject, started: tuple[NamedReserver, ...]) -> None:
        super().__init__(plugin, reject)
        self.plugin, self.reject, self.started = plugin, reject, started


async def bind(call_runner: ApiCallRunner, profile: Profile, placement: Placement) -> None:
    """Run the PreBind plugins and bind the pod.

    Raises BindFailed. The caller then reads whether the pod was bound nevertheless, and if not
    calls ``undo``, unreserves and requeues the pod. Raises EndedPending, after which the pod is
    certainly not bound.
    """
    started: list[NamedReserver] = []
    point, began, status = "PreBind", call_runner.durations.now(), "Success"
    try:
        for name, plan in _all_pre_binders(call_runner, profile, placement):
            _raise_if_cancelled(placement)
            started.append((name, plan))
            steps = plan.pre_bind(placement)
            call_runner.pre_binding += 1
            try:
                rejected = await _run(call_runner, name, "PreBind", steps, placement.pod)
            finally:
                call_runner.pre_binding -= 1
            if rejected is not None:
                _check_rejected(name, plan, placement, rejected)
                if rejected.code is not Code.PENDING:
                    raise BindFailed.rejected_by(name, rejected)
                raise EndedPending(name, rejected, tuple(started[:-1]))
        _raise_if_cancelled(placement)
        if started:
            call_runner.record_duration(point, status, profile, began)
        point, began = "Bind", call_runner.durations.now()
        await _bind_pod(call_runner, profile, placement)
    except BindFailed as failure:
        failure.started = tuple(started)
        status = failure.rejected[1].code.upstream_name if failure.rejected else "Error"
        raise
    except EndedPending as ended:
        status = ended.reject.code.upstream_name
        raise
    except Exception as bug:
        # The resources must be freed and the pod requeued whatever a plugin raises.
        log.exception("%s of %s failed", point, placement.pod.key)
        failed = BindFailed(f"running {point} plugins: {bug or repr(bug)}")
        failed.started, status = tuple(started), "Error"
        raise failed from bug
    finally:
        call_runner.record_duration(point, status, profile, began)


async def undo(
    call_runner: ApiCallRunner, placement: Placement, failure: BindFailed | EndedPending
) -> None:
    """Undo the PreBind plugins of a pod that was not bound, in reverse order."""
    for name, plan in reversed(failure.started):
        await _undo(call_runner, name, plan, placement)


async def post_bind(call_runner: ApiCallRunner, profile: Profile, placement: Placement) -> None:
    """Run the PostBind plugins of a bound pod; their errors are only logged."""
    for name, plan in profile.reservers(Point.POST_BIND, placement):
        try:
            steps = plan.post_bind(placement)
            if steps is not None:
                await call_runner.run(steps, placement.pod)
        except Exception as failure:
            log.warning("PostBind plugin %s for %s failed: %s", name, placement.pod.key, failure)


def _raise_if_cancelled(placement: Placement) -> None:
    if placement.abort_reason:
        raise BindFailed(placement.abort_reason)


def _check_rejected(name: str, plan: Reserver, placement: Placement, rejected: Reject) -> None:
    """Raise BindFailed for a Reject that the contract does not allow."""
    if rejected.code not in (Code.PENDING, Code.UNSCHEDULABLE, Code.UNRESOLVABLE):
        message = f"pre_bind may not return {rejected.code.name}: raise an error instead"
        raise BindFailed.at(name, "PreBind", TypeError(message))
    if rejected.code is Code.PENDING and not plan.may_end_pending(placement):
        message = "pre_bind returned PENDING, but may_end_pending does not return True"
        raise BindFailed.at(name, "PreBind", TypeError(message))


def pre_binders(profile: Profile, placement: Placement) -> Iterator[NamedReserver]:
    """Return the plans that may write or wait before the pod is bound."""
    for name, plan in profile.reservers(Point.PRE_BIND, placement):
        if plan.pre_bind_pre_flight(placement):
            yield name, plan


def _all_pre_binders(
    call_runner: ApiCallRunner, profile: Profile, placement: Placement
) -> Iterator[NamedReserver]:
    """Return the same, and the writer of annotations if an extender binds the pod."""
    yield from pre_binders(profile, placement)
    binder = call_runner.binder
    if placement.annotations and binder is not None and binder.is_binder(placement.pod):
        yield "AnnotationWriter", AnnotationWriter()


class AnnotationWriter(Reserver):
    """Writes the annotations of a Binding with a patch, for pods that an extender binds."""

    def pre_bind(self, placement: Placement) -> PreBindCalls:
        """Write the annotations of the placement."""
        yield self._write(placement, placement.annotations)
        return None

    def undo_pre_bind(self, placement: Placement) -> ApiCalls:
        """Write the previous values of these annotations; the pod has no allocation any more."""
        before = {
            key: text
            for key, text in placement.pod.pod.metadata.annotations.items()
            if key not in ALLOCATION_ANNOTATIONS
        }
        yield self._write(placement, {key: before.get(key) for key in placement.annotations})

    @staticmethod
    def _write(placement: Placement, annotations: Mapping[str, str | None]) -> ApiCall:
        pod = placement.pod
        meta = {"uid": pod.pod.uid, "annotations": dict(annotations)}
        path = PODS.path(pod.namespace, pod.name)
        return ApiCall("patch", path, {"metadata": meta}, PatchType.MERGE.value)


async def _bind_pod(call_runner: ApiCallRunner, profile: Profile, placement: Placement) -> None:
    try:
        binder = call_runner.binder
        if binder is not None and binder.is_binder(placement.pod) and await binder.bind(placement):
            return
    except ExtenderFailed as failure:
        raise BindFailed(str(failure)) from failure
    for plugin in profile.plugins_at(Point.BIND):
        steps = plugin.bind(placement)
        if not isinstance(steps, Skip):
            await _run(call_runner, plugin.name, "Bind", steps, placement.pod)
            return
    raise AssertionError(f"no bind plugin took {placement.pod.key}")


async def _run(
    call_runner: ApiCallRunner,
    plugin: str,
    point: str,
    steps: PreBindCalls,
    pod: PodInfo,
) -> Reject | None:
    try:
        return await call_runner.run(steps, pod)
    except HoldfastError as cause:
        raise BindFailed.at(plugin, point, cause) from cause
    except Exception as bug:
        # The resources must be freed and the pod requeued whatever a plugin raises.
        log.exception("%s plugin %s failed", point, plugin)
        raise BindFailed.at(plugin, point, bug) from bug


async def _undo(
    call_runner: ApiCallRunner, name: str, plan: Reserver, placement: Placement
) -> None:
    try:
        await call_runner.run(plan.undo_pre_bind(placement), placement.pod)
    except NotFound:
        return
    except Exception as failure:
        # The controllers clean up what is left; the pod must be requeued in any case.
        log.warning("undoing PreBind plugin %s for %s failed: %s", name, placement.pod.key, failure)


@dataclass(frozen=True, slots=True)
class BindOutcome:
    """Whether a failed bind was stored: the response may be lost although the write succeeded.

    ``node`` is the node of the stored pod, or "". ``pending`` is its newest version if it is still
    to be scheduled.
    """

    node: str
    pending: PodInfo | None = None


async def read_bind_outcome(
    client: Client, clock: Clock, world: World, pod_info: PodInfo
) -> BindOutcome:
    """Read the pod until the server responds; until then it stays assumed, as it may be bound."""

    async def read() -> BindOutcome:
        try:
            obj = await read_newest(client, pod_info)
        except NotFound:
            obj = None
        if obj is None:
            return BindOutcome("")
        pending = wants_node(obj) and obj.metadata.deletion_timestamp is None
        return BindOutcome(node_of(obj), pod_info_of(world, obj) if pending else None)

    return await retry(read, clock, on=HoldfastError, honor_retry_after=False)

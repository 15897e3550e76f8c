"""How a decision leaves the house: pre-bind writes, the Binding, and undo when one fails.

Plugins yield ``ApiCall`` values and never do I/O; here each call is carried out and its answer (or
its failure) goes back into the plugin's generator.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import msgspec

from holdfast.api.scheme import PODS
from holdfast.client.backoff import retry
from holdfast.client.client import Client, PatchType
from holdfast.client.transport import Request
from holdfast.clock import Clock
from holdfast.columns.pod_info import PodInfo
from holdfast.engine.profile import Profile
from holdfast.errors import HoldfastError, NotFound, from_status
from holdfast.framework.extender import ExtenderFailed
from holdfast.framework.plugin import (
    ApiCall,
    ApiCalls,
    BindPlugin,
    Placement,
    PostBindPlugin,
    PreBindPlugin,
    Skip,
    runs_for,
)
from holdfast.framework.world import World
from holdfast.scheduler.metrics import NO_DURATIONS, DurationRecorder
from holdfast.scheduler.scheduled_objects import node_of, pod_info_of, read_newest, wants_node

log = logging.getLogger(__name__)
T = TypeVar("T")

METHODS = {"create": "POST", "bind": "POST", "update": "PUT", "patch": "PATCH",
           "delete": "DELETE", "get": "GET"}  # fmt: skip


class ExternalBinder(Protocol):
    """Somebody outside who binds pods."""

    def is_binder(self, pod: PodInfo) -> bool:
        """Tell whether it does so for this pod."""
        ...

    async def bind(self, placement: Placement) -> bool:
        """Bind the pod, or leave it to the plugins; raises ExtenderFailed."""
        ...


class BindFailed(Exception):
    """A pod was not bound; the words are what its condition then says.

    ``begun`` are the plugins whose pre-bind writes were begun, in order. Nothing is undone yet:
    the failed write may have taken effect all the same.
    """

    begun: tuple[PreBindPlugin, ...] = ()

    @classmethod
    def at(cls, plugin: str, point: str, cause: Exception) -> BindFailed:
        """A plugin's writes failed."""
        return cls(f'running {point} plugin "{plugin}": {cause or repr(cause)}')


@dataclass(slots=True)
class ApiCallRunner:
    """Carries out what plugins yield; ``asleep`` is how many of them are waiting."""

    client: Client
    clock: Clock
    binder: ExternalBinder | None = None
    asleep: int = 0
    watch: DurationRecorder = NO_DURATIONS

    def told(self, point: str, status: str, profile: Profile, began: float) -> None:
        """Note how long the plugins of an extension point took."""
        self.watch.tell(self.watch.read() - began, point, status, profile.name)

    async def run(self, steps: Generator[ApiCall, Any, None]) -> None:
        """Run a plugin's generator to its end; what it raises comes through."""
        try:
            call = next(steps)
            while True:
                try:
                    answer = await self._answer(call)
                except HoldfastError as failure:
                    call = steps.throw(failure)
                else:
                    call = steps.send(answer)
        except StopIteration:
            return

    async def _answer(self, call: ApiCall) -> Any:
        """Carry one call out; a read is repeated until the server answers.

        Whoever reads wants to know what became of a write: no answer is none.
        """
        if call.verb == "sleep":
            await self.idle(self.clock.sleep(call.body))
            return None
        if call.verb == "get":
            return await retry(lambda: send_call(self.client, call), self.clock)
        return await send_call(self.client, call)

    async def idle(self, wait: Awaitable[T]) -> T:
        """Wait for something that needs no writing."""
        self.asleep += 1
        try:
            return await wait
        finally:
            self.asleep -= 1


async def bind(call_runner: ApiCallRunner, profile: Profile, placement: Placement) -> None:
    """Write everything that puts the pod on its node.

    Raises BindFailed; the caller finds out whether the pod is on its node nevertheless, and if
    not calls ``undo``, withdraws the promises and puts the pod back.
    """
    begun: list[Any] = []
    point, began, status = "PreBind", call_runner.watch.read(), "Success"
    try:
        for plugin in _preparing(call_runner, profile, placement):
            _stop_if_recalled(placement)
            begun.append(plugin)
            steps = plugin.pre_bind(placement.states.get(plugin.name), placement)
            await _run(call_runner, plugin.name, "PreBind", steps)
        _stop_if_recalled(placement)
        if begun:
            call_runner.told(point, status, profile, began)
        point, began = "Bind", call_runner.watch.read()
        await _bind_pod(call_runner, profile, placement)
    except BindFailed as failure:
        failure.begun, status = tuple(begun), "Error"
        raise
    finally:
        call_runner.told(point, status, profile, began)


async def undo(call_runner: ApiCallRunner, placement: Placement, failure: BindFailed) -> None:
    """Take back what was written for a pod that is not on its node, in reverse order."""
    for plugin in reversed(failure.begun):
        await _undo(call_runner, plugin, placement)


async def post_bind(call_runner: ApiCallRunner, profile: Profile, placement: Placement) -> None:
    """Tell the plugins that the pod has its node; what they make of it changes nothing."""
    for plugin in profile.plugins_at(PostBindPlugin):
        if not runs_for(plugin, placement):
            continue
        try:
            steps = plugin.post_bind(placement.states.get(plugin.name), placement)
            if steps is not None:
                await call_runner.run(steps)
        except Exception as failure:
            log.warning("PostBind plugin %s for %s: %s", plugin.name, placement.pod.key, failure)


async def send_call(client: Client, call: ApiCall) -> Any:
    """Perform one write and return the stored object; failures raise."""
    body = b"" if call.body is None else msgspec.json.encode(call.body)
    headers = {"accept": "application/json", "content-type": call.content_type}
    request = Request(METHODS[call.verb], call.path, {}, headers, body)
    answer = await client.transport.send(request)
    found = msgspec.json.decode(answer.body) if answer.body else {}
    if answer.status >= 400:
        raise from_status(answer.status, found if isinstance(found, dict) else {})
    return found


def _stop_if_recalled(placement: Placement) -> None:
    if placement.abort_reason:
        raise BindFailed(placement.abort_reason)


def _preparing(call_runner: ApiCallRunner, profile: Profile, placement: Placement) -> Iterator[Any]:
    """Everybody who writes before the pod is bound."""
    for plugin in profile.plugins_at(PreBindPlugin):
        if runs_for(plugin, placement):
            yield plugin
    binder = call_runner.binder
    if placement.annotations and binder is not None and binder.is_binder(placement.pod):
        yield AnnotationWriter()


class AnnotationWriter:
    """Writes what else would travel in the Binding, for a binder that does not know of it."""

    name = "Annotator"

    def pre_bind(self, _state: None, placement: Placement) -> ApiCalls:
        """Write the annotations."""
        yield self._write(placement, placement.annotations)

    def undo_pre_bind(self, _state: None, placement: Placement) -> ApiCalls:
        """Write what was there before."""
        before = placement.pod.pod.metadata.annotations
        yield self._write(placement, {key: before.get(key) for key in placement.annotations})

    @staticmethod
    def _write(placement: Placement, annotations: Mapping[str, str | None]) -> ApiCall:
        pod = placement.pod
        meta = {"uid": pod.pod.uid, "annotations": dict(annotations)}
        path = PODS.path(pod.namespace, pod.name)
        return ApiCall("patch", path, {"metadata": meta}, PatchType.MERGE.value)


async def _bind_pod(call_runner: ApiCallRunner, profile: Profile, placement: Placement) -> None:
    try:
        if call_runner.binder is not None and await call_runner.binder.bind(placement):
            return
    except ExtenderFailed as failure:
        raise BindFailed(str(failure)) from failure
    for plugin in profile.plugins_at(BindPlugin):
        steps = plugin.bind(placement.states.get(plugin.name), placement)
        if not isinstance(steps, Skip):
            await _run(call_runner, plugin.name, "Bind", steps)
            return
    raise AssertionError(f"no bind plugin took {placement.pod.key}")


async def _run(
    call_runner: ApiCallRunner, plugin: str, point: str, steps: Generator[ApiCall, Any, None]
) -> None:
    try:
        await call_runner.run(steps)
    except HoldfastError as cause:
        raise BindFailed.at(plugin, point, cause) from cause
    except Exception as bug:
        # The room must come back and the pod be tried again, whatever a plugin does.
        log.exception("%s plugin %s", point, plugin)
        raise BindFailed.at(plugin, point, bug) from bug


async def _undo(call_runner: ApiCallRunner, plugin: PreBindPlugin, placement: Placement) -> None:
    try:
        await call_runner.run(plugin.undo_pre_bind(placement.states.get(plugin.name), placement))
    except NotFound:
        return
    except Exception as failure:
        # The controllers clean up what stays behind; the pod must be retried regardless.
        log.warning("undoing %s for %s: %s", plugin.name, placement.pod.key, failure)


@dataclass(frozen=True, slots=True)
class BindOutcome:
    """What became of a pod whose binding failed; an answer may be lost although the write was not.

    ``node`` is where the pod is ("" for nowhere), ``waiting`` its newest version if it still wants
    a node.
    """

    node: str
    waiting: PodInfo | None = None


async def read_bind_outcome(
    client: Client, clock: Clock, world: World, pod_info: PodInfo
) -> BindOutcome:
    """Ask the API server until it answers. Until then the room stays held: it may be taken."""

    async def ask() -> BindOutcome:
        try:
            found = await read_newest(client, pod_info)
        except NotFound:
            found = None
        if found is None:
            return BindOutcome("")
        waits = wants_node(found) and found.metadata.deletion_timestamp is None
        return BindOutcome(node_of(found), pod_info_of(world, found) if waits else None)

    return await retry(ask, clock, on=HoldfastError, honor_retry_after=False)

"""How a decision leaves the house: pre-bind writes, the Binding, and undo when one fails.

Plugins yield ``Call`` values and never do I/O; here each call is carried out and its answer (or
its failure) goes back into the plugin's generator.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from typing import Any

import msgspec

from holdfast.client.client import Client
from holdfast.client.transport import Request
from holdfast.errors import HoldfastError, NotFound, from_status
from holdfast.framework.plugin import Binds, Call, Placement, PreBinds, Skip
from holdfast.framework.profile import Profile

log = logging.getLogger(__name__)

METHODS = {"create": "POST", "bind": "POST", "update": "PUT", "patch": "PATCH",
           "delete": "DELETE", "get": "GET"}  # fmt: skip


class BindFailed(Exception):
    """A plugin's writes failed; its words are what the pod's condition then says.

    ``begun`` are the plugins whose pre-bind writes were begun, in order. Nothing is undone yet:
    the failed write may have taken effect all the same.
    """

    def __init__(self, plugin: str, point: str, cause: Exception) -> None:
        super().__init__(f'running {point} plugin "{plugin}": {cause or repr(cause)}')
        self.cause = cause
        self.begun: tuple[Any, ...] = ()


async def bind(client: Client, profile: Profile, placement: Placement) -> None:
    """Write everything that puts the pod on its node.

    Raises BindFailed; the caller finds out whether the pod is on its node nevertheless, and if
    not calls ``undo``, withdraws the promises and puts the pod back.
    """
    begun: list[Any] = []
    try:
        for plugin in profile.having(PreBinds):
            if plugin.name in placement.states:
                begun.append(plugin)
                steps = plugin.pre_bind(placement.states[plugin.name], placement)
                await _run(client, plugin.name, "PreBind", steps)
        await _bind_pod(client, profile, placement)
    except BindFailed as failure:
        failure.begun = tuple(begun)
        raise


async def undo(client: Client, placement: Placement, failure: BindFailed) -> None:
    """Take back what was written for a pod that is not on its node, in reverse order."""
    for plugin in reversed(failure.begun):
        await _undo(client, plugin, placement)


async def carry_out(client: Client, call: Call) -> Any:
    """Perform one write and return the stored object; failures raise."""
    body = b"" if call.body is None else msgspec.json.encode(call.body)
    headers = {"accept": "application/json", "content-type": call.content_type}
    request = Request(METHODS[call.verb], call.path, {}, headers, body)
    answer = await client.transport.send(request)
    found = msgspec.json.decode(answer.body) if answer.body else {}
    if answer.status >= 400:
        raise from_status(answer.status, found if isinstance(found, dict) else {})
    return found


async def _bind_pod(client: Client, profile: Profile, placement: Placement) -> None:
    for plugin in profile.having(Binds):
        steps = plugin.bind(placement.states.get(plugin.name), placement)
        if not isinstance(steps, Skip):
            await _run(client, plugin.name, "Bind", steps)
            return
    raise AssertionError(f"no bind plugin took {placement.pod.key}")


async def _run(client: Client, plugin: str, point: str, steps: Generator[Call, Any, None]) -> None:
    try:
        await _drive(client, steps)
    except HoldfastError as cause:
        raise BindFailed(plugin, point, cause) from cause
    except Exception as bug:
        # The room must come back and the pod be tried again, whatever a plugin does.
        log.exception("%s plugin %s", point, plugin)
        raise BindFailed(plugin, point, bug) from bug


async def _undo(client: Client, plugin: Any, placement: Placement) -> None:
    try:
        await _drive(client, plugin.undo_bind(placement.states[plugin.name], placement))
    except NotFound:
        return
    except Exception as failure:
        # The controllers clean up what stays behind; the pod must be retried regardless.
        log.warning("undoing %s for %s: %s", plugin.name, placement.pod.key, failure)


async def _drive(client: Client, steps: Generator[Call, Any, None]) -> None:
    try:
        call = next(steps)
        while True:
            try:
                answer = await carry_out(client, call)
            except HoldfastError as failure:
                call = steps.throw(failure)
            else:
                call = steps.send(answer)
    except StopIteration:
        return

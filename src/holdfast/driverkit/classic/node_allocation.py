"""Allocations that the driver's node part makes itself: the answers in its NodeInventory.

The controller books devices in the status of the inventory; the node part calls the author's
function for each booking and writes the answer into the spec. A node may read only its own
inventory by name, so it is read again and again rather than watched.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from holdfast.api.meta import version_guard
from holdfast.api.node_inventory import NODE_INVENTORIES, BookedClaim, NodeAnswer
from holdfast.client.client import Client
from holdfast.clock import Clock
from holdfast.driverkit.classic.fitting import Unsuitable
from holdfast.driverkit.classic.inventory_objects import choice_of
from holdfast.errors import HoldfastError, NotFound
from holdfast.repeated_log import Repeats

POLL_SECONDS = 0.5
log = logging.getLogger(__name__)


class NodeAllocation:
    """Answers the bookings of one node."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        namespace: str,
        node: str,
        *,
        function: Callable[..., Awaitable[Any]],
        types: tuple[Any, Any],
    ) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._node = node
        self._function = function
        self._types = types
        """Of the parameters of claims and of classes."""
        self._repeats = Repeats(now=clock.monotonic)

    async def run(self) -> None:
        """Answer until cancelled."""
        while True:
            try:
                await self.answer_all()
            except HoldfastError as error:
                self._repeats.log(log, logging.WARNING, f"bookings cannot be answered: {error}")
            await self._clock.sleep(POLL_SECONDS)

    async def answer_all(self) -> None:
        """Answer the bookings that have no answer, and remove answers without booking."""
        try:
            found = await self._client.get(NODE_INVENTORIES, self._node, self._namespace)
        except NotFound:
            return
        allocated, answers = found.status.allocated, found.spec.answers
        changes: dict[str, Any] = {uid: None for uid in answers if uid not in allocated}
        for uid, claim in allocated.items():
            if uid not in answers:
                answer = await self._answer(uid, claim)
                if answer is not None:
                    changes[uid] = msgspec.to_builtins(answer)
        if changes:
            # If the bookings have changed meanwhile, an answer may be for an older one.
            guard = version_guard(found)
            body = {"metadata": guard, "spec": {"answers": changes}}
            await self._client.patch(NODE_INVENTORIES, self._node, body, self._namespace)

    async def _answer(self, uid: str, claim: BookedClaim) -> NodeAnswer | None:
        """Call the author's function; None if it fails, and is called again."""
        parameters = (claim.parameters, claim.class_parameters)
        try:
            request, of_class = (
                given if kind is None or given is None else msgspec.convert(given, kind)
                for given, kind in zip(parameters, self._types, strict=True)
            )
            data = await self._function(request, choice_of(claim), of_class, uid)
            return NodeAnswer(data=msgspec.to_builtins(data))
        except Unsuitable as unsuitable:
            return NodeAnswer(refused=str(unsuitable) or "it refuses")
        except Exception as error:
            # The author's code.
            line = f"allocate_on_node of claim {claim.namespace}/{claim.name} failed"
            self._repeats.log(log, logging.ERROR, line, exc_info=error)
            return None

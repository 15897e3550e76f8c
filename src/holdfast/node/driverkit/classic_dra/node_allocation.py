"""Allocations that the driver's node part makes itself: the answers in its NodeInventory.

The controller books devices in the status of the inventory; the node part calls the author's
function for each booking and writes the answer into the spec. A node may read only its own
inventory by name, so the inventory is polled rather than watched.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from holdfast.api.classic_dra.node_inventory import NODE_INVENTORIES, BookedClaim, NodeAnswer
from holdfast.api.meta import version_guard
from holdfast.client.client import Client
from holdfast.node.driverkit.classic_dra.fitting import Unsuitable
from holdfast.node.driverkit.classic_dra.inventory_conversion import choice_of, request_of
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import HoldfastError, NotFound
from holdfast.runtime.repeated_log import Repeats

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
        """The types of the parameters of claims and of classes."""
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
        """Answer the bookings that have no answer, and remove answers without booking.

        Before a call, its begin is stored: from then on the booking stays until it is answered, so
        that no result of a call is lost.
        """
        try:
            inventory = await self._client.get(NODE_INVENTORIES, self._node, self._namespace)
        except NotFound:
            return
        allocated, answers = inventory.status.allocated, inventory.spec.answers
        unanswered = [uid for uid in allocated if uid not in answers or not answers[uid].is_final]
        changes: dict[str, NodeAnswer | None] = {uid: None for uid in answers.keys() - allocated}
        changes |= {uid: NodeAnswer(begun=True) for uid in unanswered if uid not in answers}
        await self._write(changes, version_guard(inventory))
        results = {uid: await self._answer(uid, allocated[uid]) for uid in unanswered}
        final = {uid: answer for uid, answer in results.items() if answer is not None}
        await self._write(final, {"uid": inventory.uid})

    async def _write(
        self, changes: Mapping[str, NodeAnswer | None], guard: Mapping[str, str]
    ) -> None:
        if changes:
            body = {"metadata": guard, "spec": {"answers": msgspec.to_builtins(changes)}}
            await self._client.patch(NODE_INVENTORIES, self._node, body, self._namespace)

    async def _answer(self, uid: str, claim: BookedClaim) -> NodeAnswer | None:
        """Call the author's function; None if it fails and will be called again."""
        try:
            request, of_class = request_of(claim, *self._types)
            data = await self._function(request, choice_of(claim), of_class, uid)
            return NodeAnswer(begun=True, result=msgspec.json.encode(data).decode())
        except Unsuitable as unsuitable:
            return NodeAnswer(begun=True, refused=str(unsuitable) or "it refuses")
        except Exception as error:
            # The author's code.
            line = f"allocate_on_node of claim {claim.namespace}/{claim.name} failed"
            self._repeats.log(log, logging.ERROR, line, exc_info=error)
            return None

"""Renew the leases of the nodes of an agent, evenly distributed over the interval.

After a restart under load the leases of 5,000 nodes were older than the grace period: each lease
was read before it was renewed, and the delay of slow renewals was never made up. So all leases are
listed once, a renewal costs one request, and each tick renews as many leases as the elapsed time
requires.
"""

from __future__ import annotations

import asyncio
import logging
import math
from contextlib import suppress

from holdfast.api.node import Node
from holdfast.api.node_names import AGENT_LABEL, LEASE_NAMESPACE
from holdfast.api.scheme import LEASES
from holdfast.client.client import Client
from holdfast.node.agent.nodes import as_node, foreign_lease_seconds, lease_renewal, new_lease
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import AlreadyExists, HoldfastError, NotFound

INTERVAL = 10.0
SHORTEST_TICK = 0.2

log = logging.getLogger(__name__)


class NodeLeases:
    """Renew the lease of each node once per interval, but not all at the same time.

    ``own``: the client has the node's credentials and need not impersonate it.
    """

    def __init__(
        self, client: Client, clock: Clock, interval: float = INTERVAL, *, own: bool = False
    ) -> None:
        self._client = client
        self._own = own
        self._clock = clock
        self._interval = interval
        self._nodes: dict[str, Node] = {}
        self._round: list[str] = []
        self._stored: set[str] = set()
        """Nodes whose lease is stored and has the label of our agents."""

    def __contains__(self, name: str) -> bool:
        return name in self._nodes

    def renews(self, node: Node) -> bool:
        """Return whether this node's lease is renewed, not that of a deleted node of its name."""
        known = self._nodes.get(node.name)
        return known is not None and known.uid == node.uid

    async def list_stored(self) -> None:
        """Read the leases of all nodes, so that thousands need not be read one by one."""
        with suppress(HoldfastError):  # then they are read one by one
            listing = await self._client.list(LEASES, LEASE_NAMESPACE)
            self._stored = {o.name for o in listing.items if AGENT_LABEL in o.metadata.labels}

    async def seconds_until_free(self, name: str) -> float:
        """Return for how many seconds the lease of a node belongs to another agent."""
        if name in self._stored:
            return 0.0
        try:
            lease = await self._client_of(name).get(LEASES, name, LEASE_NAMESPACE)
        except NotFound:
            return 0.0
        return foreign_lease_seconds(lease, self._clock.now())

    async def add(self, node: Node) -> None:
        """Renew the lease of a node now and from now on."""
        await self._renew(node)
        self._nodes[node.name] = node

    def remove(self, name: str) -> None:
        """Stop renewing the lease of a node."""
        self._nodes.pop(name, None)

    def forget(self, name: str) -> None:
        """Stop renewing the lease of a node that was deleted."""
        self.remove(name)
        self._stored.discard(name)

    async def run(self) -> None:
        """Renew leases until cancelled; the next renewals make up for the time of slow ones."""
        before = self._clock.monotonic()
        while True:
            count = len(self._nodes)
            tick = max(SHORTEST_TICK, self._interval / count) if count else self._interval
            await self._clock.sleep(min(tick, self._interval))
            now = self._clock.monotonic()
            due = self._next(min(count, math.ceil(count * (now - before) / self._interval)))
            before = now
            await asyncio.gather(*(self._renew_safely(node) for node in due))

    def _next(self, count: int) -> list[Node]:
        """Return the next nodes of the round; nodes that were removed since are skipped."""
        due: list[Node] = []
        while len(due) < count and self._nodes:
            if not self._round:
                if due:
                    break
                self._round = list(reversed(self._nodes))
            node = self._nodes.get(self._round.pop())
            if node is not None:
                due.append(node)
        return due

    async def _renew_safely(self, node: Node) -> None:
        try:
            await self._renew(node)
        except HoldfastError as failure:
            log.warning("lease of node %s not renewed: %s; trying again", node.name, failure)

    async def _renew(self, node: Node) -> None:
        now, client = self._clock.now(), self._client_of(node.name)
        if node.name in self._stored:
            try:
                await client.patch(LEASES, node.name, lease_renewal(now), LEASE_NAMESPACE)
                return
            except NotFound:
                self._stored.discard(node.name)
        try:
            await client.create(LEASES, new_lease(node, now), LEASE_NAMESPACE)
        except AlreadyExists:  # of another agent before, or created since
            await client.patch(LEASES, node.name, lease_renewal(now), LEASE_NAMESPACE)
        self._stored.add(node.name)

    def _client_of(self, name: str) -> Client:
        return self._client if self._own else as_node(self._client, name)

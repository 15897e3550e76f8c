"""Track open connections, and choose which to close when there are too many.

On a loopback server every client has the same address, so addresses do not separate a flood from
the components of the cluster. So connections without credentials are closed first, oldest first: a
new client always gets a connection, and a client with credentials sends them within milliseconds
(decision 0009). Without this, 1,050 idle connections under a limit of 1,024 file descriptors kept
new clients out.

A connection over its user's limit gets one response, 429, and is then closed. When it stayed open,
a client that retried on it was refused for ever, even after the user's other connections had ended.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from holdfast.runtime.settings import ServerLimits
from holdfast.server.user import User

LOOPBACK = frozenset({"127.0.0.1", "::1"})


@dataclass(slots=True, eq=False)
class IncomingConnection:
    """The state of one open connection; times are those of the event loop."""

    address: str
    since: float
    """The time when it was accepted, or when its last request ended."""
    abort: Callable[[], None] = lambda: None
    closed: bool = False
    user: User | None = None
    """The authenticated user, None before authentication."""
    over_limit: bool = False
    """Whether its user has too many connections: its requests are rejected."""
    requests: int = 0
    """Requests being handled."""
    header_since: float | None = None
    """The time when the first byte of an incomplete header was received."""
    blocked_since: float | None = None
    """The time since which the write buffer is full, because the client does not read."""


class Connections:
    """All open connections of one server."""

    def __init__(self, limits: ServerLimits, max_connections: int) -> None:
        self._limits = limits
        self.max_connections = max_connections
        self.max_unauthenticated = min(
            limits.unauthenticated_connections, max(1, max_connections // 2)
        )
        self._all: dict[IncomingConnection, None] = {}
        self._unauthenticated: dict[IncomingConnection, None] = {}
        self._unauthenticated_by_address: Counter[str] = Counter()
        self._by_user: Counter[str] = Counter()
        self.empty = asyncio.Event()
        self.empty.set()

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[IncomingConnection]:
        return iter(tuple(self._all))

    def add(self, address: str, now: float) -> IncomingConnection | None:
        """Add a new connection, closing another one if needed; return None if none can be closed.

        That happens only if all connections have credentials and are in use.
        """
        self._limit_unauthenticated(address)
        if len(self._all) >= self.max_connections and not self.close_one():
            return None
        connection = IncomingConnection(address, now)
        self._all[connection] = self._unauthenticated[connection] = None
        self._unauthenticated_by_address[address] += 1
        self.empty.clear()
        return connection

    def authenticate(self, connection: IncomingConnection, user: User) -> None:
        """Set the authenticated user of a connection.

        A user outside the control plane may have a quarter of all connections, and all such users
        together may have half of them. Over the limit their longest idle connection is closed.
        """
        if connection.user is not None or connection.closed:
            return
        self._remove_unauthenticated(connection)
        connection.user = user
        if not user.is_control_plane:
            self._limit_user(user, connection)
            self._by_user[user.name] += 1

    def remove(self, connection: IncomingConnection) -> None:
        """Remove a connection that has ended; calling it again does nothing."""
        if connection.closed:
            return
        connection.closed = True
        del self._all[connection]
        self._remove_unauthenticated(connection)
        if connection.user is not None and not connection.user.is_control_plane:
            _count_down(self._by_user, connection.user.name)
        if not self._all:
            self.empty.set()

    def close(self, connection: IncomingConnection) -> None:
        """Close a connection at once, even if it is in use."""
        self.remove(connection)
        connection.abort()

    def close_one(self) -> bool:
        """Close the oldest connection without credentials, else the longest idle one."""
        victim = next(iter(self._unauthenticated), None) or _idle_longest(self._all)
        if victim is None:
            return False
        self.close(victim)
        return True

    def close_idle_unauthenticated(self) -> None:
        """Close all connections without credentials that are not in use."""
        for connection in tuple(self._unauthenticated):
            if not connection.requests:
                self.close(connection)

    def close_overdue(self, now: float) -> None:
        """Close connections that exceed a time limit."""
        for connection in self:
            if self._is_overdue(connection, now):
                self.close(connection)

    def _is_overdue(self, connection: IncomingConnection, now: float) -> bool:
        limits = self._limits
        if connection.blocked_since is not None:
            allowed = limits.write_seconds if connection.user else limits.header_seconds
            return now - connection.blocked_since > allowed
        if connection.requests:
            return False
        if connection.header_since is not None:
            return now - connection.header_since > limits.header_seconds
        allowed = limits.idle_seconds if connection.user else limits.header_seconds
        return now - connection.since > allowed

    def _limit_unauthenticated(self, address: str) -> None:
        most = self.max_unauthenticated
        if address not in LOOPBACK:  # a loopback address is shared by many clients
            most = max(1, most // 2)
        if self._unauthenticated_by_address[address] >= most:
            victim = next(c for c in self._unauthenticated if c.address == address)
            self.close(victim)
        elif len(self._unauthenticated) >= self.max_unauthenticated:
            self.close(next(iter(self._unauthenticated)))

    def _limit_user(self, user: User, new: IncomingConnection) -> None:
        if self._by_user[user.name] >= max(1, self.max_connections // 4):
            candidates = {c: None for c in self._all if c.user == user and c is not new}
        elif self._by_user.total() >= max(1, self.max_connections // 2):
            candidates = {
                c: None
                for c in self._all
                if c.user and not c.user.is_control_plane and c is not new
            }
        else:
            return
        victim = _idle_longest(candidates)
        if victim is None:
            new.over_limit = True
        else:
            self.close(victim)

    def _remove_unauthenticated(self, connection: IncomingConnection) -> None:
        if connection in self._unauthenticated:
            del self._unauthenticated[connection]
            _count_down(self._unauthenticated_by_address, connection.address)


def _count_down(counts: Counter[str], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def _idle_longest(connections: dict[IncomingConnection, None]) -> IncomingConnection | None:
    idle = [c for c in connections if not c.requests]
    return min(idle, key=lambda c: c.since, default=None)

"""Keep count of open connections and choose which to close when there are too many.

On a loopback server every client has the same address, so an address alone cannot tell a flood
from the cluster's own components. Connections that have shown credentials are therefore kept, and
those that have not are closed first, oldest first: a new client always gets its turn, and one with
credentials shows them within milliseconds.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from holdfast.apiserver.user import User
from holdfast.settings import FrontLimits

LOOPBACK = frozenset({"127.0.0.1", "::1"})


@dataclass(slots=True, eq=False)
class IncomingConnection:
    """What is known of one open connection; times are those of the event loop."""

    address: str
    since: float
    """When it was accepted, or its last request ended."""
    abort: Callable[[], None] = lambda: None
    closed: bool = False
    user: User | None = None
    """The user whose credentials were shown on it."""
    over_limit: bool = False
    """Its user has more connections than allowed: requests on it are refused."""
    requests: int = 0
    """Requests being answered."""
    header_since: float | None = None
    """When the first byte of a request came whose header is not complete."""
    blocked_since: float | None = None
    """Since when the client reads too little of what was written."""


class Connections:
    """All open connections of one server."""

    def __init__(self, limits: FrontLimits, most: int) -> None:
        self._limits = limits
        self.max_connections = most
        self.max_unauthenticated = min(limits.unauthenticated_connections, max(1, most // 2))
        self._all: dict[IncomingConnection, None] = {}
        self._unauthenticated: dict[IncomingConnection, None] = {}
        self._unauthenticated_at: Counter[str] = Counter()
        self._of_user: Counter[str] = Counter()
        self.empty = asyncio.Event()
        self.empty.set()

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[IncomingConnection]:
        return iter(tuple(self._all))

    def add(self, address: str, now: float) -> IncomingConnection | None:
        """Count a new connection, closing another one for it if needed; None: no room.

        There is no room only when every connection has credentials and is in use.
        """
        self._make_room_for_unauthenticated(address)
        if len(self._all) >= self.max_connections and not self.close_one():
            return None
        connection = IncomingConnection(address, now)
        self._all[connection] = self._unauthenticated[connection] = None
        self._unauthenticated_at[address] += 1
        self.empty.clear()
        return connection

    def authenticate(self, connection: IncomingConnection, user: User) -> None:
        """Note whose credentials were shown on a connection.

        Users outside system:masters may have a quarter of all connections each and half of them
        together; their oldest idle connection is closed for a new one.
        """
        if connection.user is not None or connection.closed:
            return
        self._forget_unauthenticated(connection)
        connection.user = user
        if not user.is_master:
            self._make_room_for_user(user, connection)
            self._of_user[user.name] += 1

    def remove(self, connection: IncomingConnection) -> None:
        """Forget a connection that has ended; doing so twice is harmless."""
        if connection.closed:
            return
        connection.closed = True
        del self._all[connection]
        self._forget_unauthenticated(connection)
        if connection.user is not None and not connection.user.is_master:
            _count_down(self._of_user, connection.user.name)
        if not self._all:
            self.empty.set()

    def close(self, connection: IncomingConnection) -> None:
        """Close a connection at once, whatever it is doing."""
        self.remove(connection)
        connection.abort()

    def close_one(self) -> bool:
        """Close the oldest connection without credentials, else one that is idle longest."""
        victim = next(iter(self._unauthenticated), None) or _idle_longest(self._all)
        if victim is None:
            return False
        self.close(victim)
        return True

    def close_idle_unauthenticated(self) -> None:
        """Close every connection without credentials on which no request is being answered."""
        for connection in tuple(self._unauthenticated):
            if not connection.requests:
                self.close(connection)

    def close_overdue(self, now: float) -> None:
        """Close what has taken longer than the limits allow."""
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

    def _make_room_for_unauthenticated(self, address: str) -> None:
        most = self.max_unauthenticated
        if address not in LOOPBACK:  # these are many clients
            most = max(1, most // 2)
        if self._unauthenticated_at[address] >= most:
            victim = next(c for c in self._unauthenticated if c.address == address)
            self.close(victim)
        elif len(self._unauthenticated) >= self.max_unauthenticated:
            self.close(next(iter(self._unauthenticated)))

    def _make_room_for_user(self, user: User, new: IncomingConnection) -> None:
        if self._of_user[user.name] >= max(1, self.max_connections // 4):
            mine = {c: None for c in self._all if c.user == user and c is not new}
        elif self._of_user.total() >= max(1, self.max_connections // 2):
            mine = {c: None for c in self._all if c.user and not c.user.is_master and c is not new}
        else:
            return
        victim = _idle_longest(mine)
        if victim is None:
            new.over_limit = True
        else:
            self.close(victim)

    def _forget_unauthenticated(self, connection: IncomingConnection) -> None:
        if connection in self._unauthenticated:
            del self._unauthenticated[connection]
            _count_down(self._unauthenticated_at, connection.address)


def _count_down(counts: Counter[str], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def _idle_longest(connections: dict[IncomingConnection, None]) -> IncomingConnection | None:
    idle = [c for c in connections if not c.requests]
    return min(idle, key=lambda c: c.since, default=None)

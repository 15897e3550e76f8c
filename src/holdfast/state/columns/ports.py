"""Host ports in use, by row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

ANY_ADDRESS = "0.0.0.0"
HostPort = tuple[str, int, str]
"""Protocol, port, address; the address is never empty (``0.0.0.0`` is every address)."""
_MAX_COUNTS = 64


def ports_conflict(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    """Return whether two sets of host ports cannot be used on one node.

    >>> ports_conflict([("TCP", 80, "0.0.0.0")], [("TCP", 80, "10.0.0.1")])
    True
    """
    taken = list(used)
    return any(
        protocol == other_protocol
        and port == other_port
        and (address == other or ANY_ADDRESS in (address, other))
        for protocol, port, address in wanted
        for other_protocol, other_port, other in taken
    )


def count_conflicts(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> int:
    """Return how many of the used ports conflict with the wanted ones."""
    return sum(ports_conflict(wanted, (port,)) for port in used)


class PortIndex:
    """The number of pods that use each (protocol, port), per row and address.

    Another scheduler may bind two pods with the same port to one node, so users are counted.
    """

    __slots__ = ("_counts", "_users")

    def __init__(self) -> None:
        self._users: dict[tuple[str, int], dict[int, dict[str, int]]] = {}
        self._counts: dict[frozenset[HostPort], NDArray[np.int64]] = {}

    def add(self, row: int, ports: Iterable[HostPort]) -> None:
        """Add the ports of a pod to the row."""
        for protocol, port, address in ports:
            addresses = self._users.setdefault((protocol, port), {}).setdefault(row, {})
            addresses[address] = addresses.get(address, 0) + 1
        self._move(row, ports, 1)

    def remove(self, row: int, ports: Iterable[HostPort]) -> None:
        """Remove the ports of a pod from the row."""
        for protocol, port, address in ports:
            rows = self._users[protocol, port]
            addresses = rows[row]
            addresses[address] -= 1
            if not addresses[address]:
                del addresses[address]
            if not addresses:
                del rows[row]
            if not rows:
                del self._users[protocol, port]
        self._move(row, ports, -1)

    def _move(self, row: int, ports: Iterable[HostPort], by: int) -> None:
        for wanted, column in [*self._counts.items()]:
            if row < len(column):
                column[row] += by * count_conflicts(wanted, ports)
            else:
                del self._counts[wanted]

    def count(self, wanted: frozenset[HostPort], capacity: int) -> NDArray[np.int64]:
        """Return how many used ports conflict with the wanted ones, per row; kept up to date."""
        counts = self._counts.pop(wanted, None)
        if counts is None or len(counts) != capacity:
            counts = np.zeros(capacity, np.int64)
            for row in self.rows_taken(wanted):
                counts[row] = self._conflicts_at(row, wanted)
            if len(self._counts) >= _MAX_COUNTS:
                del self._counts[next(iter(self._counts))]
        self._counts[wanted] = counts
        return counts

    def _conflicts_at(self, row: int, wanted: frozenset[HostPort]) -> int:
        return sum(
            count * count_conflicts(wanted, [(protocol, port, address)])
            for protocol, port in {(protocol, port) for protocol, port, _ in wanted}
            for address, count in self._users.get((protocol, port), {}).get(row, {}).items()
        )

    def taken_at(self, row: int, wanted: Iterable[HostPort], less: Sequence[HostPort] = ()) -> bool:
        """Return whether a wanted port is in use on the row, ignoring the ports in ``less``."""
        for protocol, port, address in wanted:
            addresses = self._users.get((protocol, port), {}).get(row)
            if addresses and less:
                addresses = {
                    used: count
                    for used, count in addresses.items()
                    if count > less.count((protocol, port, used))
                }
            if addresses and _address_conflicts(address, addresses):
                return True
        return False

    def rows_taken(self, wanted: Iterable[HostPort]) -> set[int]:
        """Return the rows on which a wanted port is in use."""
        return {
            row
            for protocol, port, address in wanted
            for row, addresses in self._users.get((protocol, port), {}).items()
            if _address_conflicts(address, addresses)
        }

    def fork(self) -> PortIndex:
        """Return an independent copy."""
        copy = PortIndex()
        copy._users = {
            port: {row: dict(addresses) for row, addresses in rows.items()}
            for port, rows in self._users.items()
        }
        return copy


def _address_conflicts(address: str, used: dict[str, int]) -> bool:
    return address == ANY_ADDRESS or address in used or ANY_ADDRESS in used

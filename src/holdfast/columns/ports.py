"""Who uses which host port where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

ANY_ADDRESS = "0.0.0.0"
HostPort = tuple[str, int, str]
"""Protocol, port, address; the address is never empty (``0.0.0.0`` is every one)."""
_MOST_COUNTS = 64


def clash(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    """Tell whether two sets of host ports cannot be on one node.

    >>> clash([("TCP", 80, "0.0.0.0")], [("TCP", 80, "10.0.0.1")])
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


def clashes(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> int:
    """How many of the used ports cannot be on one node with those wanted."""
    return sum(clash(wanted, (port,)) for port in used)


class PortIndex:
    """Counts the users of each (protocol, port) per row and address.

    Counted, because a foreign scheduler may put two pods with one port on a node.
    """

    __slots__ = ("_counts", "_users")

    def __init__(self) -> None:
        self._users: dict[tuple[str, int], dict[int, dict[str, int]]] = {}
        self._counts: dict[frozenset[HostPort], NDArray[np.int64]] = {}

    def add(self, row: int, ports: Iterable[HostPort]) -> None:
        """Note that a pod with these ports stands on the row."""
        for protocol, port, address in ports:
            addresses = self._users.setdefault((protocol, port), {}).setdefault(row, {})
            addresses[address] = addresses.get(address, 0) + 1
        self._move(row, ports, 1)

    def remove(self, row: int, ports: Iterable[HostPort]) -> None:
        """Note that it left."""
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
                column[row] += by * clashes(wanted, ports)
            else:
                del self._counts[wanted]

    def count(self, wanted: frozenset[HostPort], capacity: int) -> NDArray[np.int64]:
        """How many ports in use on each row clash with those wanted; counted on from now on."""
        found = self._counts.pop(wanted, None)
        if found is None or len(found) != capacity:
            found = np.zeros(capacity, np.int64)
            for row in self.rows_taken(wanted):
                found[row] = self._clashing_at(row, wanted)
            if len(self._counts) >= _MOST_COUNTS:
                del self._counts[next(iter(self._counts))]
        self._counts[wanted] = found
        return found

    def _clashing_at(self, row: int, wanted: frozenset[HostPort]) -> int:
        return sum(
            count * clashes(wanted, [(protocol, port, address)])
            for protocol, port in {(protocol, port) for protocol, port, _ in wanted}
            for address, count in self._users.get((protocol, port), {}).get(row, {}).items()
        )

    def taken_at(self, row: int, wanted: Iterable[HostPort], less: Sequence[HostPort] = ()) -> bool:
        """Tell whether one of the wanted ports is taken on the row, not counting ``less``."""
        for protocol, port, address in wanted:
            addresses = self._users.get((protocol, port), {}).get(row)
            if addresses and less:
                addresses = {
                    used: count
                    for used, count in addresses.items()
                    if count > less.count((protocol, port, used))
                }
            if addresses and _meets(address, addresses):
                return True
        return False

    def rows_taken(self, wanted: Iterable[HostPort]) -> set[int]:
        """Rows on which one of the wanted ports is taken."""
        return {
            row
            for protocol, port, address in wanted
            for row, addresses in self._users.get((protocol, port), {}).items()
            if _meets(address, addresses)
        }

    def fork(self) -> PortIndex:
        """An independent copy."""
        copy = PortIndex()
        copy._users = {
            port: {row: dict(addresses) for row, addresses in rows.items()}
            for port, rows in self._users.items()
        }
        return copy


def _meets(address: str, used: dict[str, int]) -> bool:
    return address == ANY_ADDRESS or address in used or ANY_ADDRESS in used

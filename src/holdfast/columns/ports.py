"""Who uses which host port where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

ANY_ADDRESS = "0.0.0.0"
HostPort = tuple[str, int, str]
"""Protocol, port, address; the address is never empty (``0.0.0.0`` is every one)."""


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


class PortIndex:
    """Counts the users of each (protocol, port) per row and address.

    Counted, because a foreign scheduler may put two pods with one port on a node.
    """

    __slots__ = ("_users",)

    def __init__(self) -> None:
        self._users: dict[tuple[str, int], dict[int, dict[str, int]]] = {}

    def add(self, row: int, ports: Iterable[HostPort]) -> None:
        """Note that a pod with these ports stands on the row."""
        for protocol, port, address in ports:
            addresses = self._users.setdefault((protocol, port), {}).setdefault(row, {})
            addresses[address] = addresses.get(address, 0) + 1

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

"""Allocate the addresses of a network."""

from __future__ import annotations

import heapq
from ipaddress import IPv4Address, IPv4Network


class AddressPool:
    """Addresses of a network by owner; the lowest released address is allocated first."""

    def __init__(self, network: str) -> None:
        self._network = IPv4Network(network)
        self._first = int(self._network.network_address) + 1
        self._last = int(self._network.broadcast_address) - 1
        self._next = self._first
        self._free: list[int] = []
        self._address_of: dict[str, str] = {}
        self._taken: set[int] = set()

    def allocate(self, owner: str, known: str = "") -> str:
        """Return the owner's address; ``known`` is the address in its status, if it has one.

        A client may have written any text as ``known``; it is kept even if it is not an address.
        """
        if owner in self._address_of:
            return self._address_of[owner]
        address = known or str(IPv4Address(self._lowest()))
        self._address_of[owner] = address
        if (number := _number(address)) is not None:
            self._taken.add(number)
        return address

    def release(self, owner: str) -> None:
        """Release the address of a deleted owner."""
        number = _number(self._address_of.pop(owner, ""))
        if number is None:
            return
        self._taken.discard(number)
        if self._first <= number < self._next:
            heapq.heappush(self._free, number)

    def _lowest(self) -> int:
        while self._free:
            number = heapq.heappop(self._free)
            if number not in self._taken:
                return number
        while self._next in self._taken:
            self._next += 1
        assert self._next <= self._last, f"all addresses of {self._network} are allocated"
        self._next += 1
        return self._next - 1


def _number(address: str) -> int | None:
    try:
        return int(IPv4Address(address))
    except ValueError:
        return None

"""Offers that wait for room others still have: what they hold on a node, free or not."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.capacity.offer import Offer
from holdfast.columns.interner import PODS


class Waiting:
    """The offers that wait, by node.

    Where they hold more than is free, the rest is what others stand in. It is not taken from what
    other offers there still have: that was promised before, and its owners may draw on it.
    """

    def __init__(self) -> None:
        self._on: dict[str, dict[str, Offer]] = {}

    def __bool__(self) -> bool:
        return bool(self._on)

    def __iter__(self) -> Iterator[str]:
        """The nodes."""
        return iter(self._on)

    def enter(self, offer: Offer) -> None:
        """Note an offer if it waits."""
        if offer.waits:
            self._on.setdefault(offer.node, {})[offer.uid] = offer

    def leave(self, offer: Offer) -> None:
        """Forget an offer."""
        there = self._on.get(offer.node, {})
        there.pop(offer.uid, None)
        if not there:
            self._on.pop(offer.node, None)

    def held(self, node: str, resource: int) -> int:
        """What they hold of a resource on a node."""
        there = self._on.get(node, {}).values()
        if resource == PODS:
            return sum([offer.slots for offer in there])
        return sum([offer.top_up.get(resource, 0) for offer in there])

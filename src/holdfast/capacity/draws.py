"""What pods draw on reservations: (pod, reservation, resource, amount), with running sums.

Kept by reservation *and* node: anybody may write on a pod which reservation it took. On another
node than the reservation's it takes nothing of it, whatever it says. Kept for reservations that
hold no room just now too: a pod may be seen before its reservation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Amounts = Mapping[int, int]
Place = tuple[str, str]
"""A reservation's uid and the node on which somebody draws on it."""
_NOWHERE: tuple[Place, ...] = ()


class Drawn:
    """What each pod draws at one place, by pod uid, and the sums of it by resource."""

    __slots__ = ("by_pod", "sums")

    def __init__(self) -> None:
        self.by_pod: dict[str, Amounts] = {}
        self.sums: dict[int, int] = {}

    def put(self, pod_uid: str, amounts: Amounts | None) -> bool:
        """Enter what a pod draws instead of what it drew, None for nothing; tell if it is news."""
        old = self.by_pod.get(pod_uid)
        if old == amounts:
            return False
        self._add(old or {}, -1)
        if amounts is None:
            del self.by_pod[pod_uid]
        else:
            self.by_pod[pod_uid] = amounts
            self._add(amounts, 1)
        return True

    def _add(self, amounts: Amounts, sign: int) -> None:
        for resource, amount in amounts.items():
            self.sums[resource] = self.sums.get(resource, 0) + sign * amount

    def of(self, pods: Iterable[str], resource: int) -> int:
        """What some of the pods draw of a resource."""
        return sum(self.by_pod[uid].get(resource, 0) for uid in pods)

    def fork(self) -> Drawn:
        """An independent copy."""
        copy = Drawn()
        copy.by_pod, copy.sums = dict(self.by_pod), dict(self.sums)
        return copy


class DrawLedger:
    """Every draw there is."""

    def __init__(self) -> None:
        self._at: dict[Place, Drawn] = {}
        self._places_of: dict[str, tuple[Place, ...]] = {}

    def open(self, place: Place) -> Drawn:
        """The entries at a place, for somebody who will close it again."""
        return self._at.setdefault(place, Drawn())

    def close(self, place: Place) -> None:
        """Nobody looks at a place any more; entries of pods that say so stay."""
        if place in self._at and not self._at[place].by_pod:
            del self._at[place]

    def places_of(self, pod_uid: str) -> tuple[Place, ...]:
        """Where a pod draws."""
        return self._places_of.get(pod_uid, _NOWHERE)

    def assign(self, pod_uid: str, draws: Mapping[Place, Amounts]) -> list[Place]:
        """Enter what a pod draws where, instead of what it drew; answers where that is news."""
        old = self._places_of.pop(pod_uid, _NOWHERE)
        if draws:
            self._places_of[pod_uid] = tuple(draws)
        moved = [p for p in old if p not in draws and self._at[p].put(pod_uid, None)]
        return moved + [p for p, amounts in draws.items() if self.open(p).put(pod_uid, amounts)]

    def fork(self) -> DrawLedger:
        """An independent copy."""
        copy = DrawLedger()
        copy._at = {place: drawn.fork() for place, drawn in self._at.items()}
        copy._places_of = dict(self._places_of)
        return copy

"""Let reservations that hold room grow and shrink when they are edited.

Growing takes room that a pod may want in the same moment, so it is decided here, in the one loop
that gives room away: the larger amount is entered into the ledger first and written afterwards.
Shrinking is written first; the ledger follows the news. Until the news confirms what was written,
the larger of the two amounts is held.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.api import reservation_status as words
from holdfast.api.quantity import AmountText
from holdfast.api.reservation import Reservation
from holdfast.api.scheme import RESERVATIONS
from holdfast.capacity.resizing import larger, same_amounts, shortage, wanted
from holdfast.client.backoff import Retries, retry
from holdfast.client.client import Client
from holdfast.client.events import EventRecorder
from holdfast.clock import Clock
from holdfast.errors import BadRequest, HoldfastError, NotFound, Retryable
from holdfast.framework.world import World

TRIES = 5
Go = Callable[[Coroutine[Any, Any, None]], object]


@dataclass(slots=True)
class Resize:
    """A size being written; ``written`` once the server has it and the news has not said so."""

    amounts: dict[str, AmountText]
    written: bool = False


class Resizer:
    """Follows edits of reservations on nodes; what cannot grow yet is tried again."""

    def __init__(
        self, client: Client, clock: Clock, world: World, recorder: EventRecorder, go: Go
    ) -> None:
        self._client = client
        self._clock = clock
        self._world = world
        self._recorder = recorder
        self._go = go
        self._ready = False
        self._under_way: dict[str, Resize] = {}
        self._newest: dict[str, Reservation] = {}
        """Those under way or waiting to grow, as the API server last had them."""

    def seen(self, news: Reservation) -> Reservation:
        """Read the news as the ledger must: what is being written is held already."""
        size = self._under_way.get(news.uid)
        if size is None:
            return news
        if not news.active or (
            size.written and same_amounts(news.status.allocatable, size.amounts)
        ):
            del self._under_way[news.uid]
            return news
        return _holding(news, larger(news.status.allocatable, size.amounts))

    def gone(self, uid: str) -> None:
        """Forget a reservation that is no more."""
        self._under_way.pop(uid, None)
        self._newest.pop(uid, None)

    def consider(self, reservation: Reservation) -> None:
        """Give a reservation the size it asks for, if its node has the room."""
        uid = reservation.uid
        self._newest[uid] = reservation
        if not self._ready or uid in self._under_way:
            return
        try:
            amounts = wanted(reservation)
        except BadRequest as wrong:
            self._refuse(reservation, words.INVALID, f"spec.template: {wrong}")
            return
        offer = self._world.offers.by_uid.get(uid)
        if amounts is None or offer is None:
            del self._newest[uid]
            self._take_back(reservation)
            return
        if not offer.matchable:
            return  # its one owner is being bound, and may still give it back
        promised = self._world.nominations.on(offer.node).values()
        short = shortage(self._world.nodes, offer, amounts, promised)
        if short:
            lacks = ", ".join(f"Insufficient {name}" for name in short)
            self._refuse(reservation, words.INSUFFICIENT,
                         f"node {offer.node} has no room for it to grow: {lacks}")  # fmt: skip
            return
        self._under_way[uid] = Resize(amounts)
        self._world.upsert(self.seen(reservation))
        self._go(self._write(reservation, amounts))

    def begin(self) -> None:
        """The whole cluster has been read: from here on the picture tells what room there is."""
        self._ready = True
        self.retry()

    def retry(self) -> None:
        """Try those again that had no room to grow; some may have come free."""
        for reservation in tuple(self._newest.values()):
            self.consider(reservation)

    async def _write(self, reservation: Reservation, amounts: dict[str, AmountText]) -> None:
        """Write the new size; give up what another edit, or the end, has overtaken."""
        retries = Retries(self._clock, tries=TRIES)
        while retries.any_left:
            try:
                await self._patch(reservation, _sized(reservation, amounts, self._clock.now()))
                self._written(reservation, amounts)
                return
            except Retryable as failure:
                await retries.wait(failure)
            except HoldfastError as refusal:
                self._refused(reservation, refusal)
                return
            newest = await self._find_out(reservation)
            if newest is None or not newest.active:
                break
            if same_amounts(newest.status.allocatable, amounts):
                self._written(reservation, amounts)
                return
            reservation = newest
        self._undo(reservation.uid)

    def _written(self, reservation: Reservation, amounts: dict[str, AmountText]) -> None:
        size = self._under_way.get(reservation.uid)
        if size is not None:
            size.written = True
        held = ", ".join(f"{name} {amount}" for name, amount in sorted(amounts.items()))
        self._tell(reservation, "Normal", words.RESIZED, f"holds {held} now")
        newest = self._newest.get(reservation.uid)
        if newest is not None and same_amounts(newest.status.allocatable, amounts):
            # The news was faster than the answer.
            self._settle(newest)

    def _refused(self, reservation: Reservation, refusal: HoldfastError) -> None:
        """Keep the size it has: the server would refuse the same write again.

        It is considered again when it changes.
        """
        if not isinstance(refusal, NotFound):
            message = f"its size is not written: {refusal}"
            self._tell(reservation, "Warning", "FailedResize", message)
        self._under_way.pop(reservation.uid, None)
        newest = self._newest.pop(reservation.uid, reservation)
        self._world.upsert(newest)
        if newest.metadata.resource_version != reservation.metadata.resource_version:
            self.consider(newest)

    def _undo(self, uid: str) -> None:
        newest = self._newest.get(uid)
        if newest is not None and uid in self._under_way:
            self._settle(newest)

    def _settle(self, newest: Reservation) -> None:
        self._under_way.pop(newest.uid, None)
        self._world.upsert(newest)
        self.consider(newest)

    async def _find_out(self, reservation: Reservation) -> Reservation | None:
        """Ask until there is an answer: until then nobody knows what is held."""

        async def ask() -> Reservation | None:
            try:
                found = await self._client.get(RESERVATIONS, reservation.name)
                return found if found.uid == reservation.uid else None
            except NotFound:
                return None

        return await retry(ask, self._clock, on=HoldfastError, honor_retry_after=False)

    def _refuse(self, reservation: Reservation, reason: str, message: str) -> None:
        """Say why it keeps its size, once."""
        old = reservation.condition(words.RESIZED)
        if old is not None and (old.status, old.reason, old.message) == ("False", reason, message):
            return
        self._tell(reservation, "Warning", "FailedResize", message)
        conditions = words.with_resized(
            reservation.status.conditions, "False", reason, self._clock.now(), message
        )
        self._go(self._say(reservation, {"conditions": conditions}))

    def _take_back(self, reservation: Reservation) -> None:
        old = reservation.condition(words.RESIZED)
        if old is not None and old.status == "False" and reservation.active:
            conditions = words.without_resized(reservation.status.conditions)
            self._go(self._say(reservation, {"conditions": conditions}))

    async def _say(self, reservation: Reservation, status: dict[str, Any]) -> None:
        try:
            await self._patch(reservation, status)
        except HoldfastError:
            return  # whoever changed it brings news, and it is considered again

    async def _patch(self, reservation: Reservation, status: dict[str, Any]) -> None:
        meta = reservation.metadata
        guard = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        await self._client.patch(
            RESERVATIONS, reservation.name, {"metadata": guard, "status": status},
            subresource="status",
        )  # fmt: skip

    def _tell(self, reservation: Reservation, type_: str, reason: str, message: str) -> None:
        self._recorder.record(
            reservation, type_, reason, message, action="Resizing",
            component=reservation.scheduler_name,
        )  # fmt: skip


def _sized(reservation: Reservation, amounts: dict[str, AmountText], now: float) -> dict[str, Any]:
    status = reservation.status
    gone = dict.fromkeys(status.allocatable.keys() - amounts.keys())
    conditions = words.with_resized(status.conditions, "True", words.RESIZED, now)
    return {"allocatable": {**amounts, **gone}, "conditions": conditions}


def _holding(reservation: Reservation, amounts: dict[str, AmountText]) -> Reservation:
    status = msgspec.structs.replace(reservation.status, allocatable=amounts)
    return msgspec.structs.replace(reservation, status=status)

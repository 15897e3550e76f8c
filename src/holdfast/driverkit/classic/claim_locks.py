"""Locks of claims: two workers never allocate or deallocate the same claim."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from holdfast.api.classic import ClassicClaim
from holdfast.driverkit.classic.handlers import NotYet
from holdfast.driverkit.classic.written_objects import WrittenObjects


class ClaimLocks:
    """One lock for each uid that is worked on."""

    def __init__(self, claims: WrittenObjects[ClassicClaim]) -> None:
        self._claims = claims
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: dict[str, int] = {}

    @asynccontextmanager
    async def hold(self, claims: Sequence[ClassicClaim]) -> AsyncIterator[list[ClassicClaim]]:
        """Lock claims, given in the order of their uids, and yield their newest versions.

        Raises NotYet if one was deleted, or created again, meanwhile.
        """
        taken: list[str] = []
        try:
            for claim in claims:
                await self._take(claim.uid)
                taken.append(claim.uid)
            yield [self._newest(claim) for claim in claims]
        finally:
            for uid in taken:
                self._locks[uid].release()
                self._leave(uid)

    def is_held(self, uid: str) -> bool:
        """Return whether a claim is worked on."""
        return uid in self._users

    async def _take(self, uid: str) -> None:
        self._users[uid] = self._users.get(uid, 0) + 1
        try:
            await self._locks.setdefault(uid, asyncio.Lock()).acquire()
        except BaseException:
            self._leave(uid)
            raise

    def _leave(self, uid: str) -> None:
        self._users[uid] -= 1
        if not self._users[uid]:
            del self._users[uid], self._locks[uid]

    def _newest(self, known: ClassicClaim) -> ClassicClaim:
        now = self._claims.get(known.key)
        if now is None or now.uid != known.uid:
            raise NotYet(f"claim {known.key} is being replaced")
        return now

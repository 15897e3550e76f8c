"""Turns: writes to one object, one after the other."""

from __future__ import annotations

import asyncio
from collections import Counter


class Turns:
    """A lock for each key, in the order in which it was asked for."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: Counter[str] = Counter()

    async def take(self, key: str) -> None:
        """Wait for the turn of a key; it lasts until ``end``."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._users[key] += 1
        try:
            await lock.acquire()
        except BaseException:
            self._forget(key)
            raise

    def end(self, key: str) -> None:
        """Let the next one have its turn."""
        self._locks[key].release()
        self._forget(key)

    def _forget(self, key: str) -> None:
        self._users[key] -= 1
        if not self._users[key]:
            del self._users[key], self._locks[key]


class Turn:
    """The turn that one generator of API calls has, of one key at a time."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._key = ""

    async def change(self, key: str) -> None:
        """End the present turn, and wait for that of another key; "": for none."""
        self.end()
        if key:
            await self._turns.take(key)
            self._key = key

    def end(self) -> None:
        """Let the next one have the present turn, if there is one."""
        if self._key:
            self._turns.end(self._key)
            self._key = ""

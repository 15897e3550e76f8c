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

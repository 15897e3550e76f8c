"""Reject writes after a failed commit, and retry until a trial commit succeeds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from holdfast.runtime import errors
from holdfast.runtime.clock import Clock
from holdfast.runtime.repeated_log import Repeats
from holdfast.server.store.database_file import is_damage

PROBE_SECONDS = 1.0
"""Seconds between two trial commits."""
log = logging.getLogger(__name__)


class ReadOnlyMode:
    """Whether the store in a directory rejects writes, and why.

    ``recover`` makes a trial commit and applies commits that were stored; it raises if the trial
    fails. A damaged file is not retried: writes are rejected until the server is restarted.
    """

    def __init__(self, path: Path, clock: Clock, recover: Callable[[], Awaitable[None]]) -> None:
        self._path = path
        self._clock = clock
        self._recover = recover
        self._error: Exception | None = None
        self._retries: asyncio.Task[None] | None = None
        # A disk may become full, and free again, every few seconds.
        self._repeats = Repeats(now=clock.monotonic)
        self._closed = False

    @property
    def reason(self) -> str:
        """Why writes are rejected at present, "" if they are accepted."""
        return "" if self._error is None else str(self._error)

    def check_writable(self) -> None:
        """Raise Unavailable while writes are rejected."""
        if self._error is not None:
            raise self.unavailable(self._error)

    def enter(self, error: Exception) -> None:
        """Reject writes from now on because of an error."""
        if self._error is None:
            self._repeats.log(log, logging.ERROR, str(self.unavailable(error)))
        self._error = error
        if self._retries is None and not self._closed and not is_damage(error):
            self._retries = asyncio.get_running_loop().create_task(self._retry())

    def unavailable(self, error: Exception) -> errors.Unavailable:
        """Build the error for a write that cannot be committed."""
        if is_damage(error):
            return errors.Unavailable(
                f"the store in {self._path} is damaged ({error}): the write was not acknowledged; "
                "reads go on from memory, writes are refused until the server is started on a "
                "sound file"
            )
        return errors.Unavailable(
            f"the store in {self._path} cannot commit ({error}): the write was not "
            "acknowledged; reads go on, writes are refused until a trial commit succeeds",
            after=PROBE_SECONDS,
        )

    async def close(self) -> None:
        """Stop retrying."""
        self._closed = True
        if self._retries is not None:
            self._retries.cancel()
            with suppress(asyncio.CancelledError):
                await self._retries

    async def _retry(self) -> None:
        while True:
            try:
                await self._recover()
                break
            except Exception as error:  # every rejected write reports it
                if is_damage(error):
                    self._error, self._retries = error, None
                    self._repeats.log(log, logging.ERROR, str(self.unavailable(error)))
                    return
                await self._clock.sleep(PROBE_SECONDS)
        self._error = self._retries = None
        self._repeats.log(log, logging.WARNING, f"the store in {self._path} commits again")

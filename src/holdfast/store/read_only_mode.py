"""Refuse writes after a commit has failed, and try until one succeeds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from holdfast import errors
from holdfast.clock import Clock
from holdfast.repeated_log import Repeats
from holdfast.store.integrity import is_damage

PROBE_SECONDS = 1.0
"""How often a store that cannot commit tries again."""
log = logging.getLogger(__name__)


class ReadOnlyMode:
    """Whether the store in a directory refuses writes, and why.

    ``recover`` commits something for trial and takes in what it finds committed; it raises as long
    as that fails. A damaged file is not tried again: writes are refused for good.
    """

    def __init__(self, path: Path, clock: Clock, recover: Callable[[], Awaitable[None]]) -> None:
        self._path = path
        self._clock = clock
        self._recover = recover
        self._error: Exception | None = None
        self._trials: asyncio.Task[None] | None = None
        # A disk may be full, and have room again, every other second.
        self._repeats = Repeats(now=clock.monotonic)
        self._closed = False

    @property
    def reason(self) -> str:
        """Why writes are refused at present, "" if they are not."""
        return "" if self._error is None else str(self._error)

    def check_writable(self) -> None:
        """Raise Unavailable while writes are refused."""
        if self._error is not None:
            raise self.unavailable(self._error)

    def enter(self, error: Exception) -> None:
        """Refuse writes from now on because of an error."""
        if self._error is None:
            self._repeats.log(log, logging.ERROR, str(self.unavailable(error)))
        self._error = error
        if self._trials is None and not self._closed and not is_damage(error):
            self._trials = asyncio.get_running_loop().create_task(self._try())

    def unavailable(self, error: Exception) -> errors.Unavailable:
        """Build the answer to a write that an error keeps from being committed."""
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
        """Stop trying."""
        self._closed = True
        if self._trials is not None:
            self._trials.cancel()
            with suppress(asyncio.CancelledError):
                await self._trials

    async def _try(self) -> None:
        while True:
            try:
                await self._recover()
                break
            except Exception as error:  # still broken, and every refused write says how
                if is_damage(error):
                    self._error, self._trials = error, None
                    self._repeats.log(log, logging.ERROR, str(self.unavailable(error)))
                    return
                await self._clock.sleep(PROBE_SECONDS)
        self._error = self._trials = None
        self._repeats.log(log, logging.WARNING, f"the store in {self._path} commits again")

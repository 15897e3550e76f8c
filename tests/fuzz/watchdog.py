"""Notice a request that keeps the processor: its stack is kept, and without end it is ended.

Time is the processor's, so that a busy machine is no reason to fail.
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SLOW_SECONDS = 5.0
ENDLESS = 6  # times SLOW_SECONDS


class Hang(BaseException):
    """Raised in the midst of what does not end; no handler for exceptions stops it."""


class Watchdog:
    """Count seconds of processor time since the last ``feed``."""

    def __init__(self, describe: Callable[[], str] = lambda: "") -> None:
        self.stacks: list[str] = []
        self._describe = describe
        self._rounds = 0

    def feed(self) -> None:
        """Begin anew: the request is answered."""
        self._rounds = 0
        signal.setitimer(signal.ITIMER_PROF, SLOW_SECONDS, SLOW_SECONDS)

    @contextmanager
    def watch(self) -> Iterator[None]:
        previous = signal.signal(signal.SIGPROF, self._bark)
        self.feed()
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, previous)

    def _bark(self, _signal: int, frame: FrameType | None) -> None:
        self._rounds += 1
        if self._rounds == 1:
            self.stacks.append("".join(traceback.format_stack(frame)[-12:]))
        elif self._rounds >= ENDLESS:
            raise Hang(f"{self._describe()}\n{''.join(traceback.format_stack(frame)[-12:])}")

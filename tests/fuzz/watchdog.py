"""Detect requests that take too much processor time: record the stack, then abort them.

Processor time is measured, so that a busy machine does not cause failures.
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
    """Raised in code that does not end; a BaseException, so that no handler catches it."""


class Watchdog:
    """Measures the processor time since the last ``reset``."""

    def __init__(self, describe: Callable[[], str] = lambda: "") -> None:
        self.stacks: list[str] = []
        self._describe = describe
        self._rounds = 0

    def reset(self) -> None:
        """Restart the measurement."""
        self._rounds = 0
        signal.setitimer(signal.ITIMER_PROF, SLOW_SECONDS, SLOW_SECONDS)

    @contextmanager
    def watch(self) -> Iterator[None]:
        previous = signal.signal(signal.SIGPROF, self._on_timer)
        self.reset()
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, previous)

    def _on_timer(self, _signal: int, frame: FrameType | None) -> None:
        self._rounds += 1
        if self._rounds == 1:
            self.stacks.append("".join(traceback.format_stack(frame)[-12:]))
        elif self._rounds >= ENDLESS:
            raise Hang(f"{self._describe()}\n{''.join(traceback.format_stack(frame)[-12:])}")

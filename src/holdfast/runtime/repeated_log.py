"""Log a repeated line at most once a minute, with the number of lines left out.

There are two ways to use it. If code logs through its own logger::

    repeats = Repeats()
    repeats.log(log, logging.ERROR, line)

If the lines come from a library (``asyncio``, ``aiohttp.server``) or from many places::

    logging.getLogger("asyncio").addFilter(RepeatFilter())

A filter of a logger applies to lines logged through that logger only, not through its children.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

SECONDS = 60.0
MAX_LINES = 1024
"""The number of lines that are remembered; the least recently logged is dropped first."""


@dataclass(slots=True)
class _Line:
    admitted: float
    left_out: int = 0


class Repeats:
    """Decides whether a line may be logged, and counts the lines that are left out.

    ``now`` returns monotonic seconds.
    """

    def __init__(
        self, seconds: float = SECONDS, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._now = now
        self._lines: OrderedDict[Hashable, _Line] = OrderedDict()

    def admit(self, line: Hashable) -> str | None:
        """Return None if the line was logged less than ``seconds`` ago, else a suffix for it.

        The suffix is "", or says how often the line was left out since it was last logged.
        """
        now = self._now()
        known = self._lines.get(line)
        if known is None:
            self._lines[line] = _Line(now)
            if len(self._lines) > MAX_LINES:
                self._lines.popitem(last=False)
            return ""
        self._lines.move_to_end(line)
        if now - known.admitted < self._seconds:
            known.left_out += 1
            return None
        left_out, known.left_out, known.admitted = known.left_out, 0, now
        times = "time" if left_out == 1 else "times"
        return f" (repeated {left_out} {times} meanwhile)" if left_out else ""

    def log(
        self,
        logger: logging.Logger,
        level: int,
        line: str,
        *,
        same: Hashable | None = None,
        exc_info: BaseException | None = None,
    ) -> None:
        """Log a line with the suffix of ``admit``, or leave it out.

        Lines with equal ``same`` count as repeated even if their texts differ.
        """
        if (note := self.admit(line if same is None else same)) is not None:
            logger.log(level, "%s%s", line, note, exc_info=exc_info)


class RepeatFilter(logging.Filter):
    """Lets each line of a logger pass at most once a minute.

    Lines are equal if their formatted texts and their exceptions are equal.
    """

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._repeats = Repeats(now=now)

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether to log a record; may add the number of lines left out to its message."""
        note = self._repeats.admit((record.name, record.levelno, _line(record)))
        if note:
            record.msg, record.args = f"{record.getMessage()}{note}", ()
        return note is not None


def _line(record: logging.LogRecord) -> str:
    raised = record.exc_info[1] if record.exc_info else None
    return f"{record.getMessage()} {raised!r}" if raised else record.getMessage()

"""Signals of the long-running commands: what stops them, what is only logged, what dumps."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.repeated_log import Repeats

log = logging.getLogger(__name__)
_repeats = Repeats()
STOPPING = (signal.SIGINT, signal.SIGTERM)
IGNORED = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a command to its end on a loop of its own.

    The signals are taken from the loop before it closes. A loop closes the pipe that signals are
    written to before it gives the signals up: one that arrived in between printed
    ``OSError: [Errno 9] Bad file descriptor``.
    """

    async def command() -> None:
        try:
            await main
        finally:
            _release()

    asyncio.run(command())


def stop_signal(*, with_parent: bool = False) -> asyncio.Event:
    """An event that SIGINT and SIGTERM set; the second of them ends the process at once.

    SIGHUP, SIGUSR1 and SIGUSR2 are logged and have no effect. ``with_parent`` sets the event also
    when standard input ends: a parent that holds the other end of it has gone, however it went.
    """
    stop, noticed = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def told(number: int) -> None:
        if noticed.is_set():
            # What was acknowledged is on disk; nothing more is promised.
            os._exit(128 + number)
        stop.set()
        # timeout(1) signals the process and then its group: both arrive at once and count as one.
        loop.call_soon(noticed.set)

    for name in STOPPING:
        loop.add_signal_handler(name, told, name)
    for name in IGNORED:
        loop.add_signal_handler(name, _log_ignored, name)
    if with_parent:
        loop.add_reader(sys.stdin.fileno(), _on_end_of_input, loop, stop)
    return stop


def on_dump_signal(dump: Callable[[], None]) -> None:
    """Call a function whenever SIGUSR2 arrives."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, dump)


def _log_ignored(number: signal.Signals) -> None:
    if number is signal.SIGHUP:
        _leave_closed_terminal()
    line = f"{number.name} has no effect: stop this process with SIGTERM"
    _repeats.log(log, logging.WARNING, line)


def _leave_closed_terminal() -> None:
    """Write to nowhere instead of to a terminal that is gone: each write would fail (EIO)."""
    for stream in (sys.stdout, sys.stderr):
        try:
            os.write(stream.fileno(), b"")
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def _release() -> None:
    """Give all signals back: another SIGTERM ends the process, the rest goes on being ignored."""
    loop = asyncio.get_running_loop()
    for number in (*STOPPING, *IGNORED):
        if loop.remove_signal_handler(number) and number in IGNORED:
            signal.signal(number, signal.SIG_IGN)


def _on_end_of_input(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())
        stop.set()

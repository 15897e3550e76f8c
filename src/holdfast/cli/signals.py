"""Signals of the long-running commands: some stop them, some are logged, one writes a dump."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.runtime.repeated_log import Repeats

log = logging.getLogger(__name__)
_repeats = Repeats()
STOPPING = (signal.SIGINT, signal.SIGTERM)
IGNORED = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a command on a new event loop until it ends.

    The signal handlers are removed before the loop closes. A closing loop closes the pipe that
    signals are written to before it removes its handlers; a signal in between would print
    ``OSError: [Errno 9] Bad file descriptor``.
    """

    async def command() -> None:
        try:
            await main
        finally:
            _release()

    asyncio.run(command())


def stop_event(*, with_parent: bool = False) -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set; a second one ends the process at once.

    SIGHUP, SIGUSR1 and SIGUSR2 are logged and have no other effect. ``with_parent`` also sets the
    event at the end of standard input, which means that the parent process has ended.
    """
    stop, noticed = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_stop_signal(number: int) -> None:
        if noticed.is_set():
            # Every acknowledged write is on disk, so nothing is lost.
            os._exit(128 + number)
        stop.set()
        # timeout(1) signals the process and then its group: both signals arrive at once and count
        # as one.
        loop.call_soon(noticed.set)

    for name in STOPPING:
        loop.add_signal_handler(name, on_stop_signal, name)
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
    """Redirect output to /dev/null if the terminal was closed: every write would fail with EIO."""
    for stream in (sys.stdout, sys.stderr):
        try:
            os.write(stream.fileno(), b"")
        except OSError:
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, stream.fileno())
            os.close(devnull)


def _release() -> None:
    """Remove all handlers: a further SIGTERM ends the process, the other signals stay ignored."""
    loop = asyncio.get_running_loop()
    for number in (*STOPPING, *IGNORED):
        if loop.remove_signal_handler(number) and number in IGNORED:
            signal.signal(number, signal.SIG_IGN)


def _on_end_of_input(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())
        stop.set()

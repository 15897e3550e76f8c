"""Being told to stop."""

from __future__ import annotations

import asyncio
import os
import signal
import sys


def stop_signal(*, with_parent: bool = False) -> asyncio.Event:
    """An event that SIGINT and SIGTERM set; the second of them ends the process at once.

    ``with_parent`` sets it also when standard input ends: a parent that holds the other end of it
    has gone, however it went.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def told(number: int) -> None:
        if stop.is_set():
            # What was acknowledged is on disk; nothing more is promised to somebody in a hurry.
            os._exit(128 + number)
        stop.set()

    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, told, name)
    if with_parent:
        loop.add_reader(sys.stdin.fileno(), _on_end_of_input, loop, stop)
    return stop


def _on_end_of_input(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())
        stop.set()
